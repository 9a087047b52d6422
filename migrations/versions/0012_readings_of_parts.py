"""readings of ports, cards and of the OLT itself, with their history

Revision ID: 0012
Revises: 0011
Create Date: 2026-11-29 17:00:00

"""
from alembic import op
import sqlalchemy as sa


revision = '0012'
down_revision = '0011'
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade():
    op.create_table('olt_data',
    *_of_part(),
    sa.Column('shape', sa.String(length=10), nullable=False),
    sa.Column('number', sa.Float(), nullable=True),
    sa.Column('text', sa.String(length=255), nullable=True),
    sa.Column('unit', sa.String(length=20), nullable=False),
    sa.Column('raw', sa.String(length=512), nullable=False),
    sa.Column('reason', sa.String(length=80), nullable=False),
    sa.Column('kept', sa.Float(), nullable=True),
    sa.Column('collected_at', MOMENT, nullable=False),
    sa.Column('execution_id', sa.BigInteger(), nullable=True),
    sa.ForeignKeyConstraint(['olt_id'], ['olts.id'], name=op.f('fk_olt_data_olt_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('olt_id', 'metric', 'index_key', name=op.f('pk_olt_data')),
    sqlite_with_rowid=False
    )
    op.create_table('olt_history',
    *_of_part(),
    sa.Column('collected_at', MOMENT, nullable=False),
    sa.Column('mean', sa.Float(), nullable=True),
    sa.Column('minimum', sa.Float(), nullable=True),
    sa.Column('maximum', sa.Float(), nullable=True),
    sa.Column('last', sa.Float(), nullable=True),
    sa.Column('samples', sa.Integer(), nullable=False),
    sa.Column('span', sa.Integer(), nullable=False),
    sa.Column('without', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['olt_id'], ['olts.id'], name=op.f('fk_olt_history_olt_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('olt_id', 'metric', 'index_key', 'collected_at', name=op.f('pk_olt_history')),
    sqlite_with_rowid=False
    )
    op.create_index('ix_olt_history_span_collected_at', 'olt_history', ['span', 'collected_at'])


def _of_part():
    return (
        sa.Column('olt_id', sa.Integer(), nullable=False),
        sa.Column('metric', sa.String(length=60), nullable=False),
        sa.Column('index_key', sa.String(length=60), nullable=False),
    )


def downgrade():
    op.drop_table('olt_history')
    op.drop_table('olt_data')
