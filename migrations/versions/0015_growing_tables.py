"""what periodic work needs instead of reading tables that grow: busy seconds in a poller's row, an index of gone ONUs

Revision ID: 0015
Revises: 0014
Create Date: 2026-11-29 23:10:00

"""
import sqlalchemy as sa
from alembic import op


revision = '0015'
down_revision = '0014'
branch_labels = None
depends_on = None

GONE = sa.text("presence = 'DISABLED'")


def upgrade():
    op.add_column('pollers', sa.Column('busy_samples', sa.JSON(), server_default='[]', nullable=False))
    op.create_index('ix_onus_gone', 'onus', ['presence_since'], sqlite_where=GONE, postgresql_where=GONE)


def downgrade():
    op.drop_index('ix_onus_gone', table_name='onus')
    with op.batch_alter_table('pollers') as batch:
        batch.drop_column('busy_samples')
