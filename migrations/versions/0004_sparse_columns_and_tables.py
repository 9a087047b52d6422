"""columns that hold few values, the node that lists an interface, readings of an OLT with two tables of ONUs

Revision ID: 0004
Revises: 0003
Create Date: 2026-11-28 12:00:00

"""
from alembic import op
import sqlalchemy as sa


revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None


def upgrade():
    op.add_column('execution_steps', sa.Column('sparse', sa.JSON(), nullable=True))
    op.add_column('pon_ports', sa.Column('found_by', sa.Integer(), nullable=True))
    with op.batch_alter_table('olt_reads') as batch_op:
        batch_op.alter_column('metric', existing_type=sa.String(60), type_=sa.String(80), existing_nullable=False)


def downgrade():
    op.execute("DELETE FROM olt_reads WHERE metric LIKE '%@%'")
    with op.batch_alter_table('olt_reads') as batch_op:
        batch_op.alter_column('metric', existing_type=sa.String(80), type_=sa.String(60), existing_nullable=False)
    with op.batch_alter_table('pon_ports') as batch_op:
        batch_op.drop_column('found_by')
    with op.batch_alter_table('execution_steps') as batch_op:
        batch_op.drop_column('sparse')
