"""the highest time that a tick has used, and the zone in which cron lines were planned

Revision ID: 0017
Revises: 0016
Create Date: 2026-11-29 23:40:00

"""
from alembic import op
import sqlalchemy as sa


revision = '0017'
down_revision = '0016'
branch_labels = None
depends_on = None


def upgrade():
    op.add_column('scheduler_state', sa.Column('furthest_tick_at', sa.DateTime(timezone=True), nullable=True))
    op.add_column('scheduler_state', sa.Column('zone', sa.String(length=64), server_default='', nullable=False))
    op.execute('UPDATE scheduler_state SET furthest_tick_at = last_tick_at')


def downgrade():
    with op.batch_alter_table('scheduler_state') as batch:
        batch.drop_column('zone')
        batch.drop_column('furthest_tick_at')
