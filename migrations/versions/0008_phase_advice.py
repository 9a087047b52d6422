"""phase advice: reckoned by a job, kept for the page

Revision ID: 0008
Revises: 0007
Create Date: 2026-11-28 22:30:00

"""
from alembic import op
import sqlalchemy as sa


revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None


def upgrade():
    op.create_table('phase_advice',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('reckoned_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('advice', sa.JSON(), nullable=False),
    sa.Column('pool', sa.JSON(), nullable=False),
    sa.Column('first', sa.JSON(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_phase_advice'))
    )


def downgrade():
    op.drop_table('phase_advice')
