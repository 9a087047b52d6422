"""how many slots of a node in a row ended all their workers, and until when it is held for that

Revision ID: 0016
Revises: 0015
Create Date: 2026-11-29 23:30:00

"""
import sqlalchemy as sa
from alembic import op


revision = '0016'
down_revision = '0015'
branch_labels = None
depends_on = None


def upgrade():
    op.add_column('workflow_nodes', sa.Column('poisoned', sa.Integer(), server_default='0', nullable=False))
    op.add_column('workflow_nodes', sa.Column('held_until', sa.DateTime(timezone=True), nullable=True))


def downgrade():
    with op.batch_alter_table('workflow_nodes') as batch:
        batch.drop_column('held_until')
        batch.drop_column('poisoned')
