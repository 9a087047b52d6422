"""violations of one OLT by severity, for its report

Revision ID: 0010
Revises: 0009
Create Date: 2026-11-29 03:00:00

"""
from alembic import op


revision = '0010'
down_revision = '0009'
branch_labels = None
depends_on = None


def upgrade():
    op.create_index('ix_quota_violations_olt_id_severity', 'quota_violations', ['olt_id', 'severity'])


def downgrade():
    op.drop_index('ix_quota_violations_olt_id_severity', table_name='quota_violations')
