"""networks that a credential may be sent to; where OLTs have one already it stays approved

Revision ID: 0014
Revises: 0013
Create Date: 2026-11-29 19:40:00

"""
from alembic import op
import sqlalchemy as sa


revision = '0014'
down_revision = '0013'
branch_labels = None
depends_on = None


def upgrade():
    op.add_column('credentials', sa.Column('networks', sa.String(length=1000), server_default='', nullable=False))
    for table in ('olts', 'probes'):
        op.add_column(table, sa.Column('credential_approved', sa.Boolean(), server_default=sa.false(), nullable=False))
    op.execute(sa.text('UPDATE olts SET credential_approved = :yes').bindparams(sa.bindparam('yes', True, sa.Boolean())))


def downgrade():
    for table in ('probes', 'olts'):
        with op.batch_alter_table(table) as batch:
            batch.drop_column('credential_approved')
    with op.batch_alter_table('credentials') as batch:
        batch.drop_column('networks')
