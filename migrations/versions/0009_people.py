"""people: the theme is kept in the browser, as it always was

Revision ID: 0009
Revises: 0008
Create Date: 2026-11-28 22:40:00

"""
from alembic import op
import sqlalchemy as sa


revision = '0009'
down_revision = '0008'
branch_labels = None
depends_on = None


def upgrade():
    with op.batch_alter_table('users') as batch_op:
        batch_op.drop_column('theme')


def downgrade():
    op.add_column('users', sa.Column('theme', sa.String(length=5), server_default='', nullable=False))
