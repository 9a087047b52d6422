"""A past as an installation has it after weeks: rows that the database makes by itself, in seconds."""

# ruff: noqa: S608  (our own words, no values)

from datetime import datetime, timedelta

from sqlalchemy import Dialect, text

from portal.domain.statuses import Presence
from portal.extensions import db
from portal.tables import Onu, WorkflowNode

GROWS_WITH_WHAT_PEOPLE_SET_UP = frozenset(
    "api_tokens brands channels coordinator_hours coordinator_states credentials index_formulas node_paces oids"
    " olt_data olt_devices olt_index_families olt_models olt_reads olts phase_advice poller_stats pollers pools"
    " pon_ports scheduler_state settings state_maps table_sizes template_nodes template_rollouts users workflow_nodes"
    " workflow_revisions workflow_templates workflows".split()
)
"""Tables of which a periodic job may read every row. All others grow with time, or with the customers."""


def make_past(runs: int, now: datetime, days: float = 14.0) -> None:
    """`runs` executions of the nodes that there are, evenly over the `days` before now, each with a try and a step;

    half as many decisions, hours of history and tables of promises. Present ONUs must be there.
    """
    connection = db.session.connection()
    nodes = db.session.query(WorkflowNode).count()
    onus = db.session.query(Onu).filter_by(presence=Presence.ENABLED).count()
    given = {"nodes": nodes, "onus": onus, "base": (now - timedelta(days=days)).timestamp(),
             "step": days * 86_400 * nodes / runs, "gap": days * 86_400 * 2 * onus / runs}  # fmt: skip
    for statement in _statements(connection.dialect, runs):
        connection.execute(text(statement), {key: given[key] for key in given if f":{key}" in statement})
    db.session.commit()


def _statements(dialect: Dialect, runs: int) -> list[str]:
    sqlite = dialect.name == "sqlite"

    def numbers(count: int) -> str:
        if not sqlite:
            return f"generate_series(0, {count - 1}) AS n(i)"
        grown = f"WITH RECURSIVE n(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1})"
        return f"({grown} SELECT i FROM n) AS n"

    def moment(seconds: str) -> str:
        whole = f"CAST(:base + {seconds} AS INTEGER)"
        return f"strftime('%Y-%m-%d %H:%M:%S.000000', {whole}, 'unixepoch')" if sqlite else f"to_timestamp({whole})"

    return [
        f"""INSERT INTO executions (node_id, olt_id, node_name, task_type, device_key, status, trigger, requested_by,
                priority, scheduled_for, queued_at, started_at, finished_at, duration_ms, delay_ms, attempt, failures,
                losses, worker, token, error_message)
            SELECT w.id, f.olt_id, w.name, 'past', 'past', CASE i % 100 WHEN 7 THEN 'FAILED' WHEN 8 THEN 'INTERRUPTED'
                ELSE 'SUCCESS' END, 'schedule', '', 40, {moment("i / :nodes * :step")}, {moment("i / :nodes * :step")},
                {moment("i / :nodes * :step + 1")}, {moment("i / :nodes * :step + 3")}, 2000, 1000, 1, 0, 0, 'past', i,
                ''
            FROM {numbers(runs)} JOIN (SELECT w.*, row_number() OVER (ORDER BY id) - 1 AS place FROM workflow_nodes w) w
                ON w.place = i % :nodes JOIN workflows f ON f.id = w.workflow_id ORDER BY i""",
        """INSERT INTO execution_attempts (execution_id, number, worker, token, status, started_at, finished_at,
                duration_ms, error_message)
            SELECT id, 1, worker, token, status, started_at, finished_at, duration_ms, ''
            FROM executions WHERE worker = 'past' ORDER BY id""",
        """INSERT INTO execution_steps (attempt_id, position, node_id, node_key, status, started_at, duration_ms, pdus,
                timeouts, rows, error_message)
            SELECT a.id, 0, e.node_id, 'past', CASE a.status WHEN 'INTERRUPTED' THEN 'SKIPPED' ELSE a.status END,
                a.started_at, 2000, 9, 0, 64, ''
            FROM execution_attempts a JOIN executions e ON e.id = a.execution_id WHERE a.worker = 'past'""",
        """INSERT INTO coordinator_logs (olt_id, node_id, execution_id, scheduled_for, event_type, level, message,
                details, timestamp)
            SELECT olt_id, node_id, id, scheduled_for, 'REQUEUED', 'INFO', 'past', '{}', finished_at
            FROM executions WHERE worker = 'past' AND id % 2 = 0 ORDER BY id""",
        f"""INSERT INTO onu_history (onu_id, metric, collected_at, mean, minimum, maximum, last, samples, span, without)
            SELECT o.id, 'past', {moment("i / :onus * :gap")}, 1, 1, 1, 1, 4, 3600, 0
            FROM {numbers(runs // 2)} JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM onus
                WHERE presence = 'ENABLED') o
                ON o.place = i % :onus""",
        f"""INSERT INTO quota_trackers (olt_id, task_type, period_start, period_end, quota_required, quota_completed,
                quota_failed, quota_skipped, quota_pending, total_duration_ms, avg_duration_ms, status, basis,
                created_at, updated_at)
            SELECT o.olt_id, 'past ' || o.place, {moment("i / :onus * :gap")}, {moment("i / :onus * :gap + 3600")}, 1,
                1, 0, 0, 0, 2000, 2000, 'COMPLETED', '[]', {moment("i / :onus * :gap")}, {moment("i / :onus * :gap")}
            FROM {numbers(runs // 2)} JOIN (SELECT olt_id, row_number() OVER (ORDER BY id) - 1 AS place FROM onus
                WHERE presence = 'ENABLED') o
                ON o.place = i % :onus""",
    ]  # fmt: skip


def as_if_analysed(rows: int) -> None:
    """PostgreSQL gets its statistics, and takes each table of thousands for one of `rows` rows. Nothing on SQLite."""
    connection = db.session.connection()
    if connection.dialect.name == "postgresql":
        connection.execute(text("ANALYZE"))
        many = "relkind = 'r' AND relnamespace = 'public'::regnamespace AND reltuples BETWEEN 5000 AND :rows"
        scaled = text(f"UPDATE pg_class SET reltuples = :rows WHERE {many}")
        connection.execute(scaled, {"rows": rows})
    db.session.commit()
