"""what a reading was at the end of an hour of the history, and how long it had none

Hours that are there already know their mean only: it stands for what held at their end.

Revision ID: 0011
Revises: 0010
Create Date: 2026-11-29 16:00:00

"""
import sqlalchemy as sa
from alembic import op


revision = '0011'
down_revision = '0010'
branch_labels = None
depends_on = None


def upgrade():
    op.add_column('onu_history', sa.Column('last', sa.Float(), nullable=True))
    op.add_column('onu_history', sa.Column('without', sa.Integer(), nullable=False, server_default='0'))
    op.execute("UPDATE onu_history SET last = mean")


def downgrade():
    op.drop_column('onu_history', 'without')
    op.drop_column('onu_history', 'last')
