"""A large database for bench/web.py: the rows of testing/seed.py many times over, the past by INSERT … SELECT."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast
from unittest.mock import patch

from sqlalchemy import Table, func, insert, select, text
from sqlalchemy.orm import Session

from bench.quota_pages import copy_hour
from portal.domain import quota
from portal.extensions import db, transaction
from portal.services.coordinating import phases
from portal.tables import (
    CoordinatorLog,
    Execution,
    ExecutionAttempt,
    ExecutionStep,
    Onu,
    PollerStats,
    QuotaTracker,
    QuotaViolation,
)
from testing import routes, seed, seed_quotas

DAYS = 14
SEEDED_HOURS = 3  # of quotas; older hours are copies
BIG: tuple[type[Any], ...] = (Execution, ExecutionAttempt, ExecutionStep, CoordinatorLog)
_SERIES = {
    "sqlite": "WITH RECURSIVE numbers(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i < {last}) ",
    "postgresql": "WITH numbers AS (SELECT generate_series(0::bigint, {last}) AS i) ",
}
_MOMENT = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%S', {at}, 'unixepoch') || '.000000'",
    "postgresql": "to_timestamp({at})",
}
_BAD, _SLOW = "i % 25 = 3", "i % 40 = 7"
_FROM = "FROM numbers JOIN bench_masters b ON b.n = i % {masters}"

_EXECUTIONS = f"""
INSERT INTO executions (id, node_id, olt_id, node_name, task_type, device_key, status, trigger, requested_by, priority,
  scheduled_for, queued_at, started_at, finished_at, duration_ms, delay_ms, attempt, failures, losses, worker,
  error_kind, error_message)
SELECT {{first}} + i, b.node_id, b.olt_id, b.name, '', b.device, CASE WHEN {_BAD} THEN 'FAILED' ELSE 'SUCCESS' END,
  CASE WHEN i % 97 = 5 THEN 'manual' ELSE 'schedule' END, '', 40, {{at}}, {{at}}, {{start}}, {{end}}, 20000,
  CASE WHEN {_SLOW} THEN 31000 ELSE 900 END, 1, 0, 0, 'poller-vm1-1',
  CASE WHEN {_BAD} THEN 'timeout' END, CASE WHEN {_BAD} THEN 'no answer in 4.0 s' ELSE '' END {_FROM}
"""  # noqa: S608  (our own text)
_ATTEMPTS = f"""
INSERT INTO execution_attempts (id, execution_id, number, worker, token, status, started_at, finished_at, duration_ms,
  error_message)
SELECT {{attempt}} + i, {{first}} + i, 1, 'poller-vm1-1', i, CASE WHEN {_BAD} THEN 'FAILED' ELSE 'SUCCESS' END,
  {{start}}, {{end}}, 20000, '' {_FROM}
"""  # noqa: S608
_STEPS = f"""
INSERT INTO execution_steps (attempt_id, position, node_id, node_key, status, started_at, duration_ms, pdus, timeouts,
  rows, error_message)
SELECT {{attempt}} + i, {{place}}, b.node_id, b.name, CASE WHEN {_BAD} THEN 'FAILED' ELSE 'SUCCESS' END, {{start}},
  9000, 20, 0, 100, '' {_FROM}
"""  # noqa: S608
_DECISIONS = f"""
INSERT INTO coordinator_logs (olt_id, node_id, scheduled_for, event_type, reason, level, message, details, timestamp)
SELECT b.olt_id, b.node_id, {{at}}, CASE WHEN i % 1000 = 7 THEN 'WORKER_LOST' ELSE 'SLOT_SKIPPED' END, 'olt_paused',
  CASE WHEN i % 1000 = 7 THEN 'ERROR' WHEN i % 20 = 3 THEN 'INFO' ELSE 'WARNING' END,
  'node ' || b.name || ': skipped, the OLT is paused', {{details}}, {{at}} {_FROM}
"""  # noqa: S608


@dataclass(frozen=True)
class Plan:
    """How much there is. `onus`: of all OLTs together."""

    olts: int
    onus: int
    executions: int
    decisions: int
    hours: int  # of quotas


def fill(plan: Plan, now: datetime) -> dict[str, int]:
    """Rows by table of what was made. Needs the tables, in an app context."""
    size = seed.Size(plan.olts, 6000, max(1, plan.onus // plan.olts), pollers=10, busy=9, pending=140)
    seed.add_users(now)
    with patch.object(seed_quotas, "HOURS", SEEDED_HOURS):
        seed.fill(size, now)
    with transaction() as session:
        routes.furnish(session, now)
    _past(plan, now)
    for back in range(SEEDED_HOURS + 1, plan.hours + 1):
        with transaction() as session:
            copy_hour(session, quota.hour_at(now) - 2 * quota.HOUR, quota.hour_at(now) - back * quota.HOUR)
    with transaction() as session:
        _pool_history(session, now)
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
    phases.reckon(now)  # as the job does each ten minutes
    counted: tuple[type[Any], ...] = (*BIG, Onu, QuotaTracker, QuotaViolation)
    return {model.__tablename__: count(model) for model in counted}


def count(model: Any) -> int:
    """Rows of a table."""
    found = db.session.scalar(select(func.count()).select_from(model)) or 0
    db.session.rollback()
    return found


def _past(plan: Plan, now: datetime) -> None:
    """Executions with their attempts and steps, and decisions, of the last two weeks; indexes are made afterwards."""
    indexes = [index for model in BIG for index in cast(Table, model.__table__).indexes if not index.unique]
    for index in indexes:
        index.drop(db.engine)
    highest = {model: db.session.scalar(select(func.max(model.id))) or 0 for model in (Execution, ExecutionAttempt)}
    db.session.remove()
    own = {"first": highest[Execution] + 1, "attempt": highest[ExecutionAttempt] + 1}
    with db.engine.begin() as connection:
        masters = _masters(connection)
        for template, rows, values in (
            (_EXECUTIONS, plan.executions, own), (_ATTEMPTS, plan.executions, own),
            (_STEPS, plan.executions, own | {"place": 0}), (_STEPS, plan.executions, own | {"place": 1}),
            (_DECISIONS, plan.decisions, own),
        ):  # fmt: skip
            _insert(connection, template, rows, now, values | {"masters": masters})
    for index in indexes:
        index.create(db.engine)


def _masters(connection: Any) -> int:
    connection.exec_driver_sql("CREATE TEMPORARY TABLE bench_masters (n integer primary key, node_id integer,"
                               " olt_id integer, name varchar(120), device varchar(300))")  # fmt: skip
    return int(connection.exec_driver_sql(
        "INSERT INTO bench_masters SELECT row_number() OVER (ORDER BY n.id) - 1, n.id, w.olt_id, n.name,"
        " o.address || ':161' FROM workflow_nodes n JOIN workflows w ON w.id = n.workflow_id"
        " JOIN olts o ON o.id = w.olt_id WHERE n.master_id IS NULL"
    ).rowcount)  # fmt: skip


def _insert(connection: Any, template: str, rows: int, now: datetime, values: dict[str, int]) -> None:
    """`rows` rows spread over DAYS, the last an hour ago."""
    dialect = connection.dialect.name
    begin, step = now - timedelta(days=DAYS), (DAYS * 86_400 - 3600) / max(1, rows)
    at = f"({int(begin.timestamp())} + CAST(i * {step} AS integer))"
    moment = _MOMENT[dialect]
    details = f"""'{{"slots": 1, "first": "' || {moment.format(at=at)} || '"}}'"""
    if dialect == "postgresql":
        details = f"json_build_object('slots', 1, 'first', {moment.format(at=at)})"
    filled = template.format(at=moment.format(at=at), start=moment.format(at=f"({at} + 1)"), details=details,
                             end=moment.format(at=f"({at} + 21)"), **values).strip()  # fmt: skip
    head, _select, rest = filled.partition("SELECT")
    query = f"{head}{_SERIES[dialect].format(last=rows - 1)}SELECT{rest}"
    connection.exec_driver_sql(query.replace("%", "%%") if dialect == "postgresql" else query)


def _pool_history(session: Session, now: datetime) -> None:
    """A week of the pool's points, one each ten seconds."""
    points = [
        {"total_pollers": 10, "busy_pollers": 6, "busy_percentage": 40.0 + n % 50, "queue_size": n % 17,
         "timestamp": now - timedelta(seconds=3700 + 10 * n)}
        for n in range(60_000)
    ]  # fmt: skip
    session.execute(insert(cast(Table, PollerStats.__table__)), points)
