"""alerts: which go through a channel and when, and an outbox that can be claimed

Revision ID: 0006
Revises: 0005
Create Date: 2026-11-28 15:30:00

"""
from alembic import op
import sqlalchemy as sa


revision = '0006'
down_revision = '0005'
branch_labels = None
depends_on = None

SEVERITIES = "'LOW', 'MEDIUM', 'HIGH', 'CRITICAL'"
KINDS = "'quota_violation', 'olt_unreachable', 'olt_back', 'suspect_table', 'system', 'test'"
STATUSES = "'PENDING', 'SENDING', 'SENT', 'GIVEN_UP'"
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')
MOMENT = sa.DateTime(timezone=True)


def upgrade():
    # Nothing wrote to either table before this release.
    op.drop_table('notifications')
    op.drop_table('channels')
    op.create_table('channels',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('name', sa.String(length=80), nullable=False),
    sa.Column('kind', sa.String(length=20), nullable=False),
    sa.Column('host', sa.String(length=255), nullable=False),
    sa.Column('target', sa.LargeBinary(), nullable=True),
    sa.Column('enabled', sa.Boolean(), nullable=False),
    sa.Column('alert_kinds', sa.JSON(), nullable=False),
    sa.Column('min_severity', sa.String(length=10), nullable=False),
    sa.Column('quiet_start', sa.Integer(), nullable=True),
    sa.Column('quiet_end', sa.Integer(), nullable=True),
    sa.Column('per_hour', sa.Integer(), nullable=False),
    sa.Column('failures', sa.Integer(), nullable=False),
    sa.Column('retry_at', MOMENT, nullable=True),
    sa.CheckConstraint(f'min_severity IN ({SEVERITIES})', name=op.f('ck_channels_min_severity')),
    sa.CheckConstraint('(quiet_start IS NULL) = (quiet_end IS NULL)', name=op.f('ck_channels_quiet')),
    sa.CheckConstraint('quiet_start BETWEEN 0 AND 1439 AND quiet_end BETWEEN 0 AND 1439', name=op.f('ck_channels_quiet_minutes')),
    sa.CheckConstraint('per_hour >= 1', name=op.f('ck_channels_per_hour')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_channels')),
    sa.UniqueConstraint('name', name=op.f('uq_channels_name'))
    )
    op.create_table('notifications',
    sa.Column('id', BIG_ID, nullable=False),
    sa.Column('channel_id', sa.Integer(), nullable=False),
    sa.Column('alert_kind', sa.String(length=30), nullable=False),
    sa.Column('severity', sa.String(length=10), nullable=False),
    sa.Column('subject', sa.String(length=255), nullable=False),
    sa.Column('body', sa.Text(), nullable=False),
    sa.Column('messages', sa.JSON(), nullable=False),
    sa.Column('olt_id', sa.Integer(), nullable=True),
    sa.Column('violation_id', BIG_ID, nullable=True),
    sa.Column('status', sa.String(length=10), nullable=False),
    sa.Column('tries', sa.Integer(), nullable=False),
    sa.Column('created_at', MOMENT, nullable=False),
    sa.Column('queued_at', MOMENT, nullable=False),
    sa.Column('message', sa.String(length=36), nullable=False),
    sa.Column('deadline', MOMENT, nullable=True),
    sa.Column('sent_at', MOMENT, nullable=True),
    sa.Column('error', sa.String(length=255), nullable=False),
    sa.Column('answer', sa.String(length=255), nullable=False),
    sa.CheckConstraint(f'alert_kind IN ({KINDS})', name=op.f('ck_notifications_alert_kind')),
    sa.CheckConstraint(f'severity IN ({SEVERITIES})', name=op.f('ck_notifications_severity')),
    sa.CheckConstraint(f'status IN ({STATUSES})', name=op.f('ck_notifications_status')),
    sa.ForeignKeyConstraint(['channel_id'], ['channels.id'], name=op.f('fk_notifications_channel_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['olt_id'], ['olts.id'], name=op.f('fk_notifications_olt_id'), ondelete='SET NULL'),
    sa.ForeignKeyConstraint(['violation_id'], ['quota_violations.id'], name=op.f('fk_notifications_violation_id'), ondelete='SET NULL'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_notifications'))
    )
    for name, columns in (
        ('ix_notifications_channel_id_sent_at', ['channel_id', 'sent_at']),
        ('ix_notifications_channel_id_status', ['channel_id', 'status']),
        ('ix_notifications_created_at', ['created_at']),
        ('ix_notifications_olt_id', ['olt_id']),
        ('ix_notifications_violation_id', ['violation_id']),
    ):
        op.create_index(name, 'notifications', columns, unique=False)


def downgrade():
    op.drop_table('notifications')
    op.drop_table('channels')
    op.create_table('channels',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('name', sa.String(length=80), nullable=False),
    sa.Column('kind', sa.String(length=20), nullable=False),
    sa.Column('target', sa.LargeBinary(), nullable=True),
    sa.Column('enabled', sa.Boolean(), nullable=False),
    sa.Column('options', sa.JSON(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_channels')),
    sa.UniqueConstraint('name', name=op.f('uq_channels_name'))
    )
    op.create_table('notifications',
    sa.Column('id', BIG_ID, nullable=False),
    sa.Column('channel_id', sa.Integer(), nullable=False),
    sa.Column('subject', sa.String(length=255), nullable=False),
    sa.Column('body', sa.Text(), nullable=False),
    sa.Column('status', sa.String(length=10), nullable=False),
    sa.Column('tries', sa.Integer(), nullable=False),
    sa.Column('created_at', MOMENT, nullable=False),
    sa.Column('next_try_at', MOMENT, nullable=True),
    sa.Column('sent_at', MOMENT, nullable=True),
    sa.Column('error', sa.String(length=255), nullable=False),
    sa.ForeignKeyConstraint(['channel_id'], ['channels.id'], name=op.f('fk_notifications_channel_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_notifications'))
    )
    op.create_index('ix_notifications_channel_id', 'notifications', ['channel_id'], unique=False)
    op.create_index('ix_notifications_status_next_try_at', 'notifications', ['status', 'next_try_at'], unique=False)
