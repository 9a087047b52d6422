"""a step remembers the columns that hold a value of a few ONUs only, an interface the node that lists it

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


def downgrade():
    with op.batch_alter_table('pon_ports') as batch_op:
        batch_op.drop_column('found_by')
    with op.batch_alter_table('execution_steps') as batch_op:
        batch_op.drop_column('sparse')
