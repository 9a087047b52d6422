"""what the coordinator needs: task types, losses by cause, what it saw last, paces, hours, the ledger

Revision ID: 0005
Revises: 0004
Create Date: 2026-11-28 15:08:58.572374

"""
from alembic import op
import sqlalchemy as sa


revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None

STATUSES = "'IN_PROGRESS', 'COMPLETED', 'PARTIAL', 'QUOTA_NOT_MET', 'FAILED', 'INTERRUPTED'"


def upgrade():
    op.create_table('coordinator_hours',
    sa.Column('hour', sa.DateTime(timezone=True), nullable=False),
    sa.Column('opened_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('closed_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('ledger_at', sa.DateTime(timezone=True), nullable=True),
    sa.PrimaryKeyConstraint('hour', name=op.f('pk_coordinator_hours'))
    )
    op.create_table('coordinator_states',
    sa.Column('olt_id', sa.Integer(), nullable=False),
    sa.Column('version', sa.Integer(), nullable=False),
    sa.Column('digest', sa.String(length=64), nullable=False),
    sa.Column('snapshot', sa.Text(), nullable=False),
    sa.Column('hour', sa.DateTime(timezone=True), nullable=True),
    sa.Column('observed_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['olt_id'], ['olts.id'], name=op.f('fk_coordinator_states_olt_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('olt_id', name=op.f('pk_coordinator_states'))
    )
    op.create_table('quota_losses',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('olt_id', sa.Integer(), nullable=False),
    sa.Column('task_type', sa.String(length=70), nullable=False),
    sa.Column('period_start', sa.DateTime(timezone=True), nullable=False),
    sa.Column('cause', sa.String(length=30), nullable=False),
    sa.Column('failed', sa.Integer(), nullable=False),
    sa.Column('skipped', sa.Integer(), nullable=False),
    sa.CheckConstraint("cause IN ('olt_busy', 'pool_full', 'overrun', 'timeout', 'unreachable', 'paused', 'restart', 'disabled', 'cancelled', 'device', 'worker_lost', 'internal', 'pending', 'unknown')", name=op.f('ck_quota_losses_cause')),
    sa.ForeignKeyConstraint(['olt_id'], ['olts.id'], name=op.f('fk_quota_losses_olt_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_quota_losses')),
    sa.UniqueConstraint('olt_id', 'task_type', 'period_start', 'cause', name=op.f('uq_quota_losses_olt_id_task_type_period_start_cause'))
    )
    with op.batch_alter_table('quota_losses') as batch_op:
        batch_op.create_index('ix_quota_losses_period_start', ['period_start'], unique=False)

    op.create_table('node_paces',
    sa.Column('node_id', sa.Integer(), nullable=False),
    sa.Column('durations', sa.JSON(), nullable=False),
    sa.Column('p50_ms', sa.Integer(), nullable=False),
    sa.Column('p95_ms', sa.Integer(), nullable=False),
    sa.Column('predicted', sa.Integer(), nullable=False),
    sa.Column('covered', sa.Integer(), nullable=False),
    sa.Column('error_ms', sa.BigInteger(), nullable=False),
    sa.Column('learned_up_to', sa.BigInteger(), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['node_id'], ['workflow_nodes.id'], name=op.f('fk_node_paces_node_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('node_id', name=op.f('pk_node_paces'))
    )
    with op.batch_alter_table('execution_plans') as batch_op:
        batch_op.create_index('ix_execution_plans_created_at', ['created_at'], unique=False)

    # Not in a batch: SQLite would copy the two largest tables.
    op.add_column('execution_steps', sa.Column('values_read', sa.Integer(), server_default='0', nullable=False))
    op.add_column('execution_steps', sa.Column('values_changed', sa.Integer(), server_default='0', nullable=False))
    op.add_column('executions', sa.Column('task_type', sa.String(length=70), server_default='', nullable=False))
    op.add_column('executions', sa.Column('skip_reason', sa.String(length=30), nullable=True))
    # What waits or runs at this moment is counted when it ends; older ones belong to hours without a tracker.
    op.execute("""
        UPDATE executions SET task_type = COALESCE((
            SELECT CASE WHEN kind = 'discovery' THEN 'discovery' ELSE kind || '_' || key END
            FROM workflow_nodes WHERE workflow_nodes.id = executions.node_id), '')
        WHERE status IN ('PENDING', 'RUNNING')
    """)

    # Nothing wrote to these tables before this release.
    for table in ('node_days', 'quota_trackers', 'quota_violations', 'execution_plans'):
        op.execute(f'DELETE FROM {table}')
    with op.batch_alter_table('node_days') as batch_op:
        batch_op.add_column(sa.Column('olt_id', sa.Integer(), nullable=False))
        batch_op.create_index('ix_node_days_olt_id_day', ['olt_id', 'day'], unique=False)
        batch_op.create_index('ix_node_days_day', ['day'], unique=False)
        batch_op.create_foreign_key(batch_op.f('fk_node_days_olt_id'), 'olts', ['olt_id'], ['id'], ondelete='CASCADE')

    with op.batch_alter_table('quota_trackers') as batch_op:
        batch_op.add_column(sa.Column('basis', sa.JSON(), nullable=False))
        batch_op.add_column(sa.Column('forecast', sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column('forecast_details', sa.JSON(none_as_null=True), nullable=True))
        batch_op.alter_column('task_type',
               existing_type=sa.String(length=50),
               type_=sa.String(length=70),
               existing_nullable=False)
        batch_op.drop_index(batch_op.f('ix_quota_trackers_status'))
        batch_op.create_index('ix_quota_trackers_period_start', ['period_start'], unique=False)
        batch_op.create_index('ix_quota_trackers_status_period_end', ['status', 'period_end'], unique=False)
        batch_op.create_check_constraint('status', f'status IN ({STATUSES})')

    with op.batch_alter_table('quota_violations') as batch_op:
        batch_op.add_column(sa.Column('task_type', sa.String(length=70), nullable=False))
        batch_op.create_index('ix_quota_violations_period_start', ['period_start'], unique=False)
        batch_op.create_unique_constraint(batch_op.f('uq_quota_violations_olt_id_task_type_period_start'), ['olt_id', 'task_type', 'period_start'])



def downgrade():
    with op.batch_alter_table('quota_violations') as batch_op:
        batch_op.drop_index('ix_quota_violations_period_start')
        batch_op.drop_constraint(batch_op.f('uq_quota_violations_olt_id_task_type_period_start'), type_='unique')
        batch_op.drop_column('task_type')

    with op.batch_alter_table('quota_trackers') as batch_op:
        batch_op.drop_constraint('status', type_='check')
        batch_op.drop_index('ix_quota_trackers_status_period_end')
        batch_op.drop_index('ix_quota_trackers_period_start')
        batch_op.create_index(batch_op.f('ix_quota_trackers_status'), ['status'], unique=False)
        batch_op.alter_column('task_type',
               existing_type=sa.String(length=70),
               type_=sa.String(length=50),
               existing_nullable=False)
        batch_op.drop_column('forecast_details')
        batch_op.drop_column('forecast')
        batch_op.drop_column('basis')

    with op.batch_alter_table('node_days') as batch_op:
        batch_op.drop_constraint(batch_op.f('fk_node_days_olt_id'), type_='foreignkey')
        batch_op.drop_index('ix_node_days_day')
        batch_op.drop_index('ix_node_days_olt_id_day')
        batch_op.drop_column('olt_id')

    with op.batch_alter_table('executions') as batch_op:
        batch_op.drop_column('skip_reason')
        batch_op.drop_column('task_type')

    with op.batch_alter_table('execution_steps') as batch_op:
        batch_op.drop_column('values_changed')
        batch_op.drop_column('values_read')

    with op.batch_alter_table('execution_plans') as batch_op:
        batch_op.drop_index('ix_execution_plans_created_at')

    op.drop_table('node_paces')
    with op.batch_alter_table('quota_losses') as batch_op:
        batch_op.drop_index('ix_quota_losses_period_start')

    op.drop_table('quota_losses')
    op.drop_table('coordinator_states')
    op.drop_table('coordinator_hours')
