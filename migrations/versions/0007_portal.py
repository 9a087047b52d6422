"""portal: revisions of workflows, rollouts of templates, acknowledged violations

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
MOMENT = sa.DateTime(timezone=True)


def upgrade():
    for table in ('workflows', 'workflow_templates'):
        op.add_column(table, sa.Column('revision', sa.Integer(), server_default='0', nullable=False))
    op.add_column('quota_violations', sa.Column('acknowledged_at', MOMENT, nullable=True))
    op.add_column('quota_violations', sa.Column('acknowledged_by', sa.String(length=80), server_default='', nullable=False))
    op.add_column('quota_violations', sa.Column('note', sa.String(length=500), server_default='', nullable=False))
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


def downgrade():
    op.drop_table('template_rollouts')
    op.drop_table('workflow_revisions')
    with op.batch_alter_table('quota_violations') as batch_op:
        for column in ('note', 'acknowledged_by', 'acknowledged_at'):
            batch_op.drop_column(column)
    for table in ('workflow_templates', 'workflows'):
        with op.batch_alter_table(table) as batch_op:
            batch_op.drop_column('revision')
