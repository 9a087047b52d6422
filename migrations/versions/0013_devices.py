"""the device that answers at an OLT's address; runs that had no ONU to ask for; alerts of other devices

Revision ID: 0013
Revises: 0012
Create Date: 2026-11-29 19:20:00

"""
from datetime import UTC, datetime, timedelta

from alembic import op
import sqlalchemy as sa


revision = '0013'
down_revision = '0012'
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
CAUSES = ('olt_busy', 'pool_full', 'overrun', 'timeout', 'unreachable', 'paused', 'restart', 'disabled', 'cancelled',
          'no_onus', 'device', 'worker_lost', 'internal', 'pending', 'unknown')
KINDS = ('quota_violation', 'olt_unreachable', 'olt_back', 'suspect_table', 'other_device', 'system', 'test')


def upgrade():
    op.create_table('olt_devices',
    sa.Column('olt_id', sa.Integer(), nullable=False),
    sa.Column('object_id', sa.String(length=255), nullable=False),
    sa.Column('name', sa.String(length=255), nullable=False),
    sa.Column('uptime', sa.BigInteger(), nullable=True),
    sa.Column('read_at', MOMENT, nullable=True),
    sa.Column('restarted_at', MOMENT, nullable=True),
    sa.Column('witnesses', sa.JSON(), nullable=False),
    sa.Column('other', sa.JSON(none_as_null=True), nullable=True),
    sa.ForeignKeyConstraint(['olt_id'], ['olts.id'], name=op.f('fk_olt_devices_olt_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('olt_id', name=op.f('pk_olt_devices'))
    )
    _allow('quota_losses', 'cause', CAUSES)
    _allow('notifications', 'alert_kind', KINDS)
    with op.batch_alter_table('olts') as batch_op:
        batch_op.add_column(sa.Column('stale_at', MOMENT, nullable=True))
        batch_op.add_column(sa.Column('refused', sa.Boolean(), nullable=False, server_default=sa.false()))
    # What answers will be read long before that; what does not is not known now either.
    olts = sa.table('olts', sa.column('stale_at', MOMENT), sa.column('state', sa.String))
    soon = datetime.now(UTC) + timedelta(hours=1)
    op.execute(olts.update().where(olts.c.state != 'unreachable').values(stale_at=soon))

    # Who wants to hear of doubtful tables wants to hear of another device too.
    channels = sa.table('channels', sa.column('id', sa.Integer), sa.column('alert_kinds', sa.JSON))
    for row in op.get_bind().execute(sa.select(channels)).all():
        if 'suspect_table' in row.alert_kinds:
            kinds = [*row.alert_kinds, 'other_device']
            op.execute(channels.update().where(channels.c.id == row.id).values(alert_kinds=kinds))


def _allow(table, column, words):
    listed = ', '.join(f"'{word}'" for word in words)
    with op.batch_alter_table(table) as batch_op:
        batch_op.drop_constraint(column, type_='check')
        batch_op.create_check_constraint(column, f'{column} IN ({listed})')


def downgrade():
    op.execute(
        "INSERT INTO quota_losses AS kept (olt_id, task_type, period_start, cause, failed, skipped) "
        "SELECT olt_id, task_type, period_start, 'unknown', failed, skipped FROM quota_losses "
        "WHERE cause = 'no_onus' "
        "ON CONFLICT (olt_id, task_type, period_start, cause) DO UPDATE SET "
        "failed = kept.failed + excluded.failed, skipped = kept.skipped + excluded.skipped"
    )
    op.execute("DELETE FROM quota_losses WHERE cause = 'no_onus'")
    channels = sa.table('channels', sa.column('id', sa.Integer), sa.column('alert_kinds', sa.JSON))
    for row in op.get_bind().execute(sa.select(channels)).all():
        kinds = [kind for kind in row.alert_kinds if kind != 'other_device']
        op.execute(channels.update().where(channels.c.id == row.id).values(alert_kinds=kinds))
    op.execute("DELETE FROM notifications WHERE alert_kind = 'other_device'")
    _allow('notifications', 'alert_kind', [kind for kind in KINDS if kind != 'other_device'])
    _allow('quota_losses', 'cause', [cause for cause in CAUSES if cause != 'no_onus'])
    with op.batch_alter_table('olts') as batch_op:
        batch_op.drop_column('refused')
        batch_op.drop_column('stale_at')
    op.drop_table('olt_devices')
