"""what the dispatch engine needs: probing of unreachable OLTs, pools of pollers, cancelling, disabled templates

Revision ID: 0002
Revises: 0001
Create Date: 2026-11-28 01:20:00

"""
from alembic import op
import sqlalchemy as sa


revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None

PENDING = sa.text("status = 'PENDING'")


def upgrade():
    with op.batch_alter_table('olts') as batch_op:
        batch_op.add_column(sa.Column('probe_at', sa.DateTime(timezone=True), nullable=True))
        batch_op.add_column(sa.Column('probes_sent', sa.Integer(), nullable=False, server_default='0'))
        batch_op.create_index(batch_op.f('ix_olts_probe_at'), ['probe_at'], unique=False)

    with op.batch_alter_table('workflow_templates') as batch_op:
        batch_op.add_column(sa.Column('enabled', sa.Boolean(), nullable=False, server_default=sa.true()))

    op.add_column('executions', sa.Column('cancelled_by', sa.String(length=80), nullable=False, server_default=''))
    op.create_index('ix_executions_not_before', 'executions', ['not_before'], unique=False,
                    sqlite_where=PENDING, postgresql_where=PENDING)
    op.create_index('ix_executions_scheduled_for_id', 'executions', ['scheduled_for', 'id'], unique=False)

    op.create_table('pools',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('name', sa.String(length=180), nullable=False),
    sa.Column('host', sa.String(length=120), nullable=False),
    sa.Column('site', sa.String(length=60), nullable=True),
    sa.Column('pid', sa.Integer(), nullable=False),
    sa.Column('size', sa.Integer(), nullable=False),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('seen_at', sa.DateTime(timezone=True), nullable=False),
    sa.CheckConstraint('size BETWEEN 0 AND 200', name=op.f('ck_pools_size')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_pools')),
    sa.UniqueConstraint('name', name=op.f('uq_pools_name'))
    )

    # Only what runs has a next run, so that the tick's index holds nothing else; enabling gives one again.
    op.execute("""
        UPDATE workflow_nodes SET next_run_at = NULL WHERE next_run_at IS NOT NULL AND (NOT enabled OR EXISTS (
            SELECT 1 FROM workflows JOIN olts ON olts.id = workflows.olt_id
            WHERE workflows.id = workflow_nodes.workflow_id
            AND (NOT workflows.enabled OR NOT olts.enabled OR olts.deleted_at IS NOT NULL)))
    """)

    # Rows of pollers describe living processes only: those that start after the upgrade write theirs anew.
    op.execute('DELETE FROM pollers')
    with op.batch_alter_table('pollers') as batch_op:
        batch_op.add_column(sa.Column('pool_id', sa.Integer(), nullable=False))
        batch_op.add_column(sa.Column('restart_requested', sa.Boolean(), nullable=False, server_default=sa.false()))
        batch_op.drop_constraint(batch_op.f('uq_pollers_host_poller_id'), type_='unique')
        batch_op.create_unique_constraint(batch_op.f('uq_pollers_pool_id_poller_id'), ['pool_id', 'poller_id'])
        batch_op.create_foreign_key(batch_op.f('fk_pollers_pool_id'), 'pools', ['pool_id'], ['id'], ondelete='CASCADE')


def downgrade():
    op.execute('DELETE FROM pollers')
    with op.batch_alter_table('pollers') as batch_op:
        batch_op.drop_constraint(batch_op.f('fk_pollers_pool_id'), type_='foreignkey')
        batch_op.drop_constraint(batch_op.f('uq_pollers_pool_id_poller_id'), type_='unique')
        batch_op.create_unique_constraint(batch_op.f('uq_pollers_host_poller_id'), ['host', 'poller_id'])
        batch_op.drop_column('restart_requested')
        batch_op.drop_column('pool_id')
    op.drop_table('pools')
    op.drop_index('ix_executions_scheduled_for_id', table_name='executions')
    op.drop_index('ix_executions_not_before', table_name='executions', sqlite_where=PENDING, postgresql_where=PENDING)
    op.drop_column('executions', 'cancelled_by')
    with op.batch_alter_table('workflow_templates') as batch_op:
        batch_op.drop_column('enabled')
    with op.batch_alter_table('olts') as batch_op:
        batch_op.drop_index(batch_op.f('ix_olts_probe_at'))
        batch_op.drop_column('probes_sent')
        batch_op.drop_column('probe_at')
