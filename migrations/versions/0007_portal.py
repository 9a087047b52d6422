"""portal: revisions of workflows, rollouts of templates, acknowledged violations, what a channel did last, one active plan

Revision ID: 0007
Revises: 0006
Create Date: 2026-11-28 18:50:00

"""
from alembic import op
import sqlalchemy as sa


revision = '0007'
down_revision = '0006'
branch_labels = None
depends_on = None

STATUSES = "'CANARY', 'DONE', 'TAKEN_BACK'"
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')
TOKEN_AS_HOST = ('matrix', 'matrixs', 'rocket', 'rockets', 'ntfy', 'ntfys')
MOMENT = sa.DateTime(timezone=True)


def upgrade():
    for table in ('workflows', 'workflow_templates'):
        op.add_column(table, sa.Column('revision', sa.Integer(), server_default='0', nullable=False))
    op.add_column('quota_violations', sa.Column('acknowledged_at', MOMENT, nullable=True))
    op.add_column('quota_violations', sa.Column('acknowledged_by', sa.String(length=80), server_default='', nullable=False))
    op.add_column('quota_violations', sa.Column('note', sa.String(length=500), server_default='', nullable=False))
    op.add_column('quota_trackers', sa.Column('timed', sa.Integer(), server_default='0', nullable=False))
    op.execute('UPDATE quota_trackers SET timed = quota_completed + quota_failed WHERE total_duration_ms > 0')
    op.create_table('workflow_revisions',
    sa.Column('id', BIG_ID, nullable=False),
    sa.Column('workflow_id', sa.Integer(), nullable=False),
    sa.Column('number', sa.Integer(), nullable=False),
    sa.Column('made_at', MOMENT, nullable=False),
    sa.Column('actor', sa.String(length=80), nullable=False),
    sa.Column('action', sa.String(length=60), nullable=False),
    sa.Column('subject', sa.String(length=120), nullable=False),
    sa.Column('before', sa.JSON(), nullable=False),
    sa.ForeignKeyConstraint(['workflow_id'], ['workflows.id'], name=op.f('fk_workflow_revisions_workflow_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_workflow_revisions')),
    sa.UniqueConstraint('workflow_id', 'number', name=op.f('uq_workflow_revisions_workflow_id_number'))
    )
    op.create_index('ix_workflow_revisions_made_at', 'workflow_revisions', ['made_at'], unique=False)
    op.create_table('template_rollouts',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('template_id', sa.Integer(), nullable=False),
    sa.Column('canary_olt_id', sa.Integer(), nullable=False),
    sa.Column('olt_ids', sa.JSON(), nullable=False),
    sa.Column('status', sa.String(length=12), nullable=False),
    sa.Column('before', sa.JSON(), nullable=False),
    sa.Column('template_before_id', sa.Integer(), nullable=True),
    sa.Column('actor', sa.String(length=80), nullable=False),
    sa.Column('started_at', MOMENT, nullable=False),
    sa.Column('ended_at', MOMENT, nullable=True),
    sa.CheckConstraint(f'status IN ({STATUSES})', name=op.f('ck_template_rollouts_status')),
    sa.ForeignKeyConstraint(['canary_olt_id'], ['olts.id'], name=op.f('fk_template_rollouts_canary_olt_id'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['template_id'], ['workflow_templates.id'], name=op.f('fk_template_rollouts_template_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_template_rollouts'))
    )
    op.create_index('ix_template_rollouts_canary_olt_id', 'template_rollouts', ['canary_olt_id'], unique=False)
    op.create_index('ix_template_rollouts_template_id', 'template_rollouts', ['template_id'], unique=False)
    op.add_column('node_paces', sa.Column('reads', sa.String(length=300), server_default='', nullable=False))
    _follow_channels()
    _hide_tokens()
    _leave_one_active_plan()


def _follow_channels():
    """What a channel did last stands in its own row, instead of being looked for among all that it ever sent."""
    op.add_column('channels', sa.Column('last_sent_at', MOMENT, nullable=True))
    for column in ('last_error', 'last_answer'):
        op.add_column('channels', sa.Column(column, sa.String(length=255), server_default='', nullable=False))
    own = 'FROM notifications WHERE notifications.channel_id = channels.id'
    op.execute(f'UPDATE channels SET last_sent_at = (SELECT max(sent_at) {own})')
    for column in ('error', 'answer'):
        latest = f'SELECT {column} {own} AND tries > 0 ORDER BY id DESC LIMIT 1'
        op.execute(f"UPDATE channels SET last_{column} = coalesce(({latest}), '') WHERE failures > 0")


def _hide_tokens():
    """Of some services the token was taken for the host: it goes from channels and from the audit of their changes.

    What is sent does not change. The host is shown again once the address is entered anew.
    """
    kinds = ', '.join(f"'{kind}'" for kind in TOKEN_AS_HOST)
    op.execute(f"UPDATE channels SET host = '' WHERE kind IN ({kinds})")
    audit = sa.table('audit_log', sa.column('id', sa.Integer), sa.column('action', sa.String), sa.column('changes', sa.JSON))
    mine = sa.select(audit.c.id, audit.c.changes).where(audit.c.action.in_(('channel.create', 'channel.update')))
    for row in op.get_bind().execute(mine).all():
        before = (row.changes or {}).get('address') or []
        after = [_without_host(address) for address in before]
        if after != before:
            changes = {**row.changes, 'address': after}
            op.get_bind().execute(audit.update().where(audit.c.id == row.id).values(changes=changes))


def _without_host(address):
    kind = address.partition('://')[0]
    return f'{kind}://…' if kind in TOKEN_AS_HOST else address


def _leave_one_active_plan():
    """Two writers at once could leave two: the newest is the one that holds."""
    op.execute("UPDATE execution_plans SET status = 'SUPERSEDED' WHERE status = 'ACTIVE' AND EXISTS (SELECT 1 FROM execution_plans AS newer"
               " WHERE newer.olt_id = execution_plans.olt_id AND newer.period_start = execution_plans.period_start"
               " AND newer.status = 'ACTIVE' AND newer.id > execution_plans.id)")
    active = sa.text("status = 'ACTIVE'")
    op.create_index('uq_execution_plans_active', 'execution_plans', ['olt_id', 'period_start'], unique=True, sqlite_where=active,
                    postgresql_where=active)


def downgrade():
    op.drop_index('uq_execution_plans_active', table_name='execution_plans')
    with op.batch_alter_table('node_paces') as batch_op:
        batch_op.drop_column('reads')
    with op.batch_alter_table('channels') as batch_op:
        for column in ('last_answer', 'last_error', 'last_sent_at'):
            batch_op.drop_column(column)
    op.drop_table('template_rollouts')
    op.drop_table('workflow_revisions')
    with op.batch_alter_table('quota_trackers') as batch_op:
        batch_op.drop_column('timed')
    with op.batch_alter_table('quota_violations') as batch_op:
        for column in ('note', 'acknowledged_by', 'acknowledged_at'):
            batch_op.drop_column(column)
    for table in ('workflow_templates', 'workflows'):
        with op.batch_alter_table(table) as batch_op:
            batch_op.drop_column('revision')
