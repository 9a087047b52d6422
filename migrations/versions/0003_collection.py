"""what the collection engine needs: ONUs that move, readings by ONU and metric, index families, learned sizes, trials

Revision ID: 0003
Revises: 0002
Create Date: 2026-11-28 08:20:00

"""
from contextlib import contextmanager
import logging
import unicodedata

from alembic import op
import sqlalchemy as sa


revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade():
    _inventory_up()
    _catalogue_up()
    _sizes_up()
    _trials_up()


def downgrade():
    _trials_down()
    _sizes_down()
    _catalogue_down()
    _inventory_down()


BIG_ID = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')
MOMENT = sa.DateTime(timezone=True)


def _inventory_up():
    op.add_column('olts', sa.Column('text_encoding', sa.String(length=20), nullable=False, server_default=''))
    op.add_column('pon_ports', sa.Column('onu_number', sa.Integer(), nullable=True))
    op.add_column('workflow_nodes', sa.Column('progress', sa.JSON(), nullable=True))
    op.add_column('execution_steps', sa.Column('retries', sa.Integer(), nullable=False, server_default='0'))
    op.add_column('execution_steps', sa.Column('octets', sa.BigInteger(), nullable=False, server_default='0'))
    # SQLite makes the table of ONUs anew, which takes with it what refers to it: that waits outside meanwhile.
    with _kept('onu_data', 'onu_history', 'onu_events') as old:
        op.add_column('onus', sa.Column('decoded', sa.Boolean(), nullable=False, server_default=sa.true()))
        op.execute('UPDATE onus SET decoded = (slot IS NOT NULL)')
        op.add_column('onus', sa.Column('found_by', sa.Integer(), nullable=True))
        op.add_column('onus', sa.Column('search', sa.String(length=400), nullable=False, server_default=''))
        _make_searchable()
        op.add_column('onus', sa.Column('presence_since', MOMENT, nullable=True))
        op.execute('UPDATE onus SET presence_since = first_seen')
        with op.batch_alter_table('onus') as batch_op:
            batch_op.alter_column('presence_since', existing_type=MOMENT, nullable=False)
            batch_op.alter_column('search', existing_type=sa.String(length=400), server_default=None)
            batch_op.alter_column('index_key', existing_type=sa.String(length=120), nullable=True)
        _new_onu_data()
        _new_onu_history()
        _onu_events(referring=False)
        op.execute(f"""
            INSERT INTO onu_data (onu_id, metric, number, text, raw, reason, kept, collected_at, execution_id)
            SELECT onu_id, metric, number, text, raw, reason, NULL, collected_at, execution_id FROM {old['onu_data']}
        """)
        op.execute(f"""
            INSERT INTO onu_history (onu_id, metric, collected_at, mean, minimum, maximum, samples, span)
            SELECT onu_id, metric, collected_at, MAX(mean), MIN(minimum), MAX(maximum), MAX(samples),
                   CASE WHEN MAX(samples) > 1 THEN 3600 ELSE 0 END
            FROM {old['onu_history']} GROUP BY onu_id, metric, collected_at
        """)
        op.execute(f"INSERT INTO onu_events SELECT * FROM {old['onu_events']}")
        _count_on('onu_events')
    _index_search()
    op.create_table('olt_reads',
    sa.Column('olt_id', sa.Integer(), nullable=False),
    sa.Column('metric', sa.String(length=60), nullable=False),
    sa.Column('read_at', MOMENT, nullable=False),
    sa.Column('execution_id', sa.BigInteger(), nullable=True),
    sa.ForeignKeyConstraint(['olt_id'], ['olts.id'], name=op.f('fk_olt_reads_olt_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('olt_id', 'metric', name=op.f('pk_olt_reads'))
    )


def _inventory_down():
    op.execute('DROP INDEX IF EXISTS ix_onus_search')
    op.drop_table('olt_reads')
    with _kept('onu_data', 'onu_history', 'onu_events') as old:
        op.execute("DELETE FROM onus WHERE index_key IS NULL")
        with op.batch_alter_table('onus') as batch_op:
            batch_op.drop_column('presence_since')
            batch_op.drop_column('search')
            batch_op.drop_column('found_by')
            batch_op.drop_column('decoded')
            batch_op.alter_column('index_key', existing_type=sa.String(length=120), nullable=False)
        _old_onu_data()
        _old_onu_history()
        _onu_events(referring=True)
        op.execute(f"""
            INSERT INTO onu_data (onu_id, metric, number, text, raw, reason, collected_at)
            SELECT onu_id, metric, number, text, substr(raw, 1, 255), reason, collected_at FROM {old['onu_data']}
            WHERE onu_id IN (SELECT id FROM onus)
        """)
        op.execute(f"""
            INSERT INTO onu_history (onu_id, metric, collected_at, mean, minimum, maximum, samples)
            SELECT onu_id, metric, collected_at, mean, minimum, maximum, samples FROM {old['onu_history']}
            WHERE onu_id IN (SELECT id FROM onus)
        """)
        op.execute(f"""
            INSERT INTO onu_events (onu_id, kind, before, after, happened_at)
            SELECT onu_id, kind, before, after, happened_at FROM {old['onu_events']}
            WHERE onu_id IN (SELECT id FROM onus)
        """)
    with op.batch_alter_table('execution_steps') as batch_op:
        batch_op.drop_column('octets')
        batch_op.drop_column('retries')
    with op.batch_alter_table('workflow_nodes') as batch_op:
        batch_op.drop_column('progress')
    with op.batch_alter_table('pon_ports') as batch_op:
        batch_op.drop_column('onu_number')
    with op.batch_alter_table('olts') as batch_op:
        batch_op.drop_column('text_encoding')


def _index_search():
    """PostgreSQL finds a part of a text by its trigrams, where the owner of the database may use the extension.

    Without it a search reads each ONU: slower from some ten thousand ONUs on, and the same answer.
    """
    bind = op.get_bind()
    if bind.dialect.name != 'postgresql':
        return
    try:
        with bind.begin_nested():
            op.execute('CREATE EXTENSION IF NOT EXISTS pg_trgm')
    except sa.exc.DBAPIError as error:
        logging.getLogger('alembic').warning('event=no_trigrams error=%s', str(error.orig).strip())
        return
    op.execute('CREATE INDEX ix_onus_search ON onus USING gin (search gin_trgm_ops)')


def _make_searchable():
    """As portal.domain.searching.of_onu had it when this was written."""
    onus = sa.table('onus', sa.column('id'), sa.column('description'), sa.column('serial'), sa.column('search'))
    rows = op.get_bind().execute(sa.select(onus.c.id, onus.c.description, onus.c.serial)).all()
    for onu_id, description, serial in rows:
        label = bytes.fromhex(serial[:8]).decode('latin-1') + serial[8:] if serial else ''
        text = unicodedata.normalize('NFKD', f"{description} {serial or ''} {label}")
        text = ''.join(char for char in text if not unicodedata.combining(char)).casefold()
        found = ' '.join(text.replace('\x00', ' ').split())[:400]
        op.get_bind().execute(onus.update().where(onus.c.id == onu_id).values(search=found))


@contextmanager
def _kept(*tables):
    """Drop the tables; inside, their rows stand in copies without keys, whose names are given by the old ones."""
    for table in tables:
        op.execute(f"CREATE TABLE {table}_old AS SELECT * FROM {table}")
        op.drop_table(table)
    yield {table: f"{table}_old" for table in tables}
    for table in tables:
        op.drop_table(f"{table}_old")


def _count_on(table):
    """PostgreSQL's sequence knows nothing of ids that were copied."""
    if op.get_bind().dialect.name == 'postgresql':
        op.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), COALESCE(MAX(id), 0) + 1, false) FROM {table}")


def _of_onu(table):
    return sa.ForeignKeyConstraint(['onu_id'], ['onus.id'], name=op.f(f'fk_{table}_onu_id'), ondelete='CASCADE')


def _new_onu_data():
    op.create_table('onu_data',
    sa.Column('onu_id', BIG_ID, nullable=False),
    sa.Column('metric', sa.String(length=60), nullable=False),
    sa.Column('number', sa.Float(), nullable=True),
    sa.Column('text', sa.String(length=255), nullable=True),
    sa.Column('raw', sa.String(length=512), nullable=False),
    sa.Column('reason', sa.String(length=80), nullable=False),
    sa.Column('kept', sa.Float(), nullable=True),
    sa.Column('collected_at', MOMENT, nullable=False),
    sa.Column('execution_id', sa.BigInteger(), nullable=True),
    _of_onu('onu_data'),
    sa.PrimaryKeyConstraint('onu_id', 'metric', name=op.f('pk_onu_data')),
    sqlite_with_rowid=False
    )
    if op.get_bind().dialect.name == 'postgresql':
        # Room in each page: a new value finds its place beside the old one and leaves the index alone.
        op.execute('ALTER TABLE onu_data SET (fillfactor = 70)')


def _old_onu_data():
    op.create_table('onu_data',
    sa.Column('id', BIG_ID, nullable=False),
    sa.Column('onu_id', BIG_ID, nullable=False),
    sa.Column('metric', sa.String(length=60), nullable=False),
    sa.Column('number', sa.Float(), nullable=True),
    sa.Column('text', sa.String(length=255), nullable=True),
    sa.Column('raw', sa.String(length=255), nullable=False),
    sa.Column('reason', sa.String(length=80), nullable=False),
    sa.Column('collected_at', MOMENT, nullable=False),
    sa.Column('execution_id', BIG_ID, nullable=True),
    sa.ForeignKeyConstraint(['execution_id'], ['executions.id'], name=op.f('fk_onu_data_execution_id'), ondelete='SET NULL'),
    _of_onu('onu_data'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_onu_data')),
    sa.UniqueConstraint('onu_id', 'metric', name=op.f('uq_onu_data_onu_id_metric'))
    )
    op.create_index(op.f('ix_onu_data_execution_id'), 'onu_data', ['execution_id'], unique=False)


def _new_onu_history():
    op.create_table('onu_history',
    sa.Column('onu_id', BIG_ID, nullable=False),
    sa.Column('metric', sa.String(length=60), nullable=False),
    sa.Column('collected_at', MOMENT, nullable=False),
    sa.Column('mean', sa.Float(), nullable=True),
    sa.Column('minimum', sa.Float(), nullable=True),
    sa.Column('maximum', sa.Float(), nullable=True),
    sa.Column('samples', sa.Integer(), nullable=False),
    sa.Column('span', sa.Integer(), nullable=False),
    _of_onu('onu_history'),
    sa.PrimaryKeyConstraint('onu_id', 'metric', 'collected_at', name=op.f('pk_onu_history')),
    sqlite_with_rowid=False
    )
    op.create_index('ix_onu_history_span_collected_at', 'onu_history', ['span', 'collected_at'], unique=False)


def _old_onu_history():
    op.create_table('onu_history',
    sa.Column('id', BIG_ID, nullable=False),
    sa.Column('onu_id', BIG_ID, nullable=False),
    sa.Column('metric', sa.String(length=60), nullable=False),
    sa.Column('collected_at', MOMENT, nullable=False),
    sa.Column('mean', sa.Float(), nullable=True),
    sa.Column('minimum', sa.Float(), nullable=True),
    sa.Column('maximum', sa.Float(), nullable=True),
    sa.Column('samples', sa.Integer(), nullable=False),
    _of_onu('onu_history'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_onu_history'))
    )
    op.create_index('ix_onu_history_series', 'onu_history', ['onu_id', 'metric', 'collected_at'], unique=False)


def _onu_events(referring):
    refers = [sa.ForeignKeyConstraint(['execution_id'], ['executions.id'], name=op.f('fk_onu_events_execution_id'),
                                      ondelete='SET NULL')] if referring else []
    op.create_table('onu_events',
    sa.Column('id', BIG_ID, nullable=False),
    sa.Column('onu_id', BIG_ID, nullable=False),
    sa.Column('kind', sa.String(length=30), nullable=False),
    sa.Column('before', sa.String(length=255), nullable=False),
    sa.Column('after', sa.String(length=255), nullable=False),
    sa.Column('happened_at', MOMENT, nullable=False),
    sa.Column('execution_id', BIG_ID if referring else sa.BigInteger(), nullable=True),
    *refers,
    _of_onu('onu_events'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_onu_events'))
    )
    if referring:
        op.create_index(op.f('ix_onu_events_execution_id'), 'onu_events', ['execution_id'], unique=False)
    op.create_index('ix_onu_events_happened_at', 'onu_events', ['happened_at'], unique=False)
    op.create_index('ix_onu_events_onu_id_happened_at', 'onu_events', ['onu_id', 'happened_at'], unique=False)


def _catalogue_up():
    op.add_column('olt_models', sa.Column('bulk', sa.Boolean(), nullable=False, server_default=sa.true()))
    for column in (
        sa.Column('confidence', sa.String(length=10), nullable=False, server_default='medium'),
        sa.Column('metric', sa.String(length=60), nullable=False, server_default=''),
        sa.Column('by_name', sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column('candidates', sa.JSON(), nullable=False, server_default='[]'),
        sa.Column('dead_band', sa.Float(), nullable=True),
        sa.Column('access', sa.String(length=10), nullable=False, server_default=''),
        sa.Column('zero_unsupported', sa.Boolean(), nullable=False, server_default=sa.false()),
    ):
        op.add_column('oids', column)
    op.create_table('olt_index_families',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('olt_id', sa.Integer(), nullable=False),
    sa.Column('space', sa.String(length=255), nullable=False),
    sa.Column('formula', sa.String(length=60), nullable=False),
    sa.Column('definition', sa.JSON(), nullable=True),
    sa.Column('evidence', sa.JSON(), nullable=False),
    sa.Column('digest', sa.String(length=64), nullable=False),
    sa.Column('decided_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['olt_id'], ['olts.id'], name=op.f('fk_olt_index_families_olt_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_olt_index_families')),
    sa.UniqueConstraint('olt_id', 'space', name=op.f('uq_olt_index_families_olt_id_space'))
    )


def _catalogue_down():
    op.drop_table('olt_index_families')
    with op.batch_alter_table('oids') as batch_op:
        for name in ('zero_unsupported', 'access', 'dead_band', 'candidates', 'by_name', 'metric', 'confidence'):
            batch_op.drop_column(name)
    with op.batch_alter_table('olt_models') as batch_op:
        batch_op.drop_column('bulk')


def _sizes_up():
    op.create_table('table_sizes',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('olt_id', sa.Integer(), nullable=False),
    sa.Column('operation', sa.String(length=4), nullable=False),
    sa.Column('root', sa.String(length=255), nullable=False),
    sa.Column('size', sa.Integer(), nullable=False),
    sa.Column('too_big', sa.Integer(), nullable=True),
    sa.Column('evidence', sa.JSON(), nullable=False),
    sa.Column('learned_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('retry_larger_after', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("operation IN ('get', 'walk')", name=op.f('ck_table_sizes_operation')),
    sa.CheckConstraint('size >= 1', name=op.f('ck_table_sizes_size')),
    sa.ForeignKeyConstraint(['olt_id'], ['olts.id'], name=op.f('fk_table_sizes_olt_id_olts'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_table_sizes')),
    sa.UniqueConstraint('olt_id', 'operation', 'root', name=op.f('uq_table_sizes_olt_id_operation_root'))
    )


def _sizes_down():
    op.drop_table('table_sizes')


def _trials_up():
    op.create_table('trials',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), nullable=False),
    sa.Column('olt_id', sa.Integer(), nullable=False),
    sa.Column('node_id', sa.Integer(), nullable=True),
    sa.Column('node_name', sa.String(length=120), nullable=False),
    sa.Column('oid', sa.String(length=255), nullable=False),
    sa.Column('mode', sa.String(length=10), nullable=False),
    sa.Column('requested_by', sa.String(length=80), nullable=False),
    sa.Column('status', sa.String(length=10), nullable=False),
    sa.Column('result', sa.JSON(), nullable=True),
    sa.Column('error_kind', sa.String(length=30), nullable=True),
    sa.Column('error_message', sa.String(length=500), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
    sa.CheckConstraint("status IN ('PENDING', 'RUNNING', 'SUCCESS', 'FAILED')", name=op.f('ck_trials_status')),
    sa.CheckConstraint("mode IN ('walk', 'get', 'exact')", name=op.f('ck_trials_mode')),
    sa.ForeignKeyConstraint(['node_id'], ['workflow_nodes.id'], name=op.f('fk_trials_node_id'), ondelete='SET NULL'),
    sa.ForeignKeyConstraint(['olt_id'], ['olts.id'], name=op.f('fk_trials_olt_id'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_trials'))
    )
    op.create_index(op.f('ix_trials_created_at'), 'trials', ['created_at'], unique=False)
    op.create_index(op.f('ix_trials_node_id'), 'trials', ['node_id'], unique=False)
    op.create_index(op.f('ix_trials_olt_id'), 'trials', ['olt_id'], unique=False)


def _trials_down():
    op.drop_table('trials')
