"""Explanations, the decision log and the timeline with 1 M executions and 5 M decisions in the database.

Run: `python -m bench.explain` (SQLite) or `python -m bench.explain --postgres`. Some minutes; prints one line of JSON:
milliseconds, median and worst, of explaining random slots, of pages of the log by filter, and of timelines.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from sqlalchemy import Table, insert, text

from app import create_app
from config import load_settings
from portal.domain.statuses import EventType, NodeKind
from portal.extensions import Base, db
from portal.queries import decision_log, explain, timeline
from portal.tables import (
    Brand,
    CoordinatorLog,
    Credential,
    Execution,
    ExecutionAttempt,
    NodePace,
    Olt,
    PollerStats,
    Workflow,
    WorkflowNode,
)
from testing.measuring.grounds import database, folder

PER_OLT = 4
STEP = 300  # seconds between two slots of a node
BIG: tuple[type[Any], ...] = (Execution, ExecutionAttempt, CoordinatorLog, PollerStats)

# Of six slots in a row one became an execution and five were skipped. Thousandths of the decisions are errors.
_EXECUTIONS = """
INSERT INTO executions (id, node_id, olt_id, node_name, device_key, status, trigger, requested_by, priority,
  scheduled_for, started_at, finished_at, duration_ms, delay_ms, attempt, failures, losses, worker, error_message)
SELECT i + 1, {node}, {olt}, 'node', 'device', CASE WHEN i % 50 = 0 THEN 'FAILED' ELSE 'SUCCESS' END, 'schedule', '',
  40, {slot}, {start}, {end}, 20000, 40000, 1, 0, 0, 'w', '' FROM numbers
"""
_ATTEMPTS = """
INSERT INTO execution_attempts (id, execution_id, number, worker, token, status, started_at, finished_at, error_message)
SELECT i + 1, i + 1, 1, 'w', 1, 'SUCCESS', {start}, {end}, '' FROM numbers
"""
_DECISIONS = """
INSERT INTO coordinator_logs (id, olt_id, node_id, scheduled_for, event_type, reason, level, message, details,
  timestamp)
SELECT i + 1, {olt}, {node}, {slot}, CASE WHEN i % 1000 = 7 THEN 'WORKER_LOST' ELSE 'SLOT_SKIPPED' END, 'olt_paused',
  CASE WHEN i % 1000 = 7 THEN 'ERROR' WHEN i % 20 = 3 THEN 'INFO' ELSE 'WARNING' END,
  'node ' || {node} || ': skipped, the OLT is paused', {details}, {slot} FROM numbers
"""
_STATS = """
INSERT INTO poller_stats (id, total_pollers, free_pollers, busy_pollers, busy_percentage, queue_size, is_saturated,
  total_tasks_completed, total_tasks_delayed, timestamp)
SELECT i + 1, 10, i % 3, 8, 80.0, 5, {true}, 0, 0, {slot} FROM numbers
"""
_SERIES = {
    "sqlite": "WITH RECURSIVE numbers(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i < {last}) ",
    "postgresql": "WITH numbers AS (SELECT generate_series(0::bigint, {last}) AS i) ",
}
_MOMENT = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%S', {at}, 'unixepoch') || '.000000'",
    "postgresql": "to_timestamp({at})",
}


@dataclass(frozen=True)
class Options:
    """What to make and to ask."""

    postgres: bool
    executions: int
    decisions: int
    asked: int
    seed: int

    @property
    def nodes(self) -> int:
        """As many as give each about 1,500 slots, so that all lie in the last days."""
        return max(PER_OLT, (self.executions + self.decisions) // 1500 // PER_OLT * PER_OLT)


def fill(options: Options, first: datetime) -> None:
    """OLTs, nodes, and their past by `INSERT … SELECT`; the indexes are made when the rows are there."""
    Base.metadata.create_all(db.engine)
    _people(options, first)
    for model in BIG:
        for index in cast(Table, model.__table__).indexes:
            index.drop(db.engine)
    nodes = options.nodes
    # Slot k of a node: k % 6 = 0 is an execution, the others are decisions. Rows go up with time, as in the product.
    run, skip = f"((i / {nodes}) * 6)", f"((i / {nodes}) / 5 * 6 + (i / {nodes}) % 5 + 1)"
    _insert(_EXECUTIONS, options.executions, first, run, nodes)
    _insert(_ATTEMPTS, options.executions, first, run, nodes)
    _insert(_DECISIONS, options.decisions, first, skip, nodes)
    _insert(_STATS, 60_000, first, f"(i * 10.0 / {STEP})", nodes)
    for model in BIG:
        for index in cast(Table, model.__table__).indexes:
            index.create(db.engine)
    if options.postgres:
        with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ANALYZE"))
            connection.execute(text("CHECKPOINT"))  # what is measured is reading, not the end of the filling


def _insert(template: str, count: int, first: datetime, slot: str, nodes: int) -> None:
    dialect = db.engine.dialect.name
    at = f"({int(first.timestamp())} + {slot} * {STEP} + (i % {nodes}) % 300)"
    moment = _MOMENT[dialect]
    details = f"""'{{"slots": 1, "first": "' || {moment.format(at=at)} || '"}}'"""
    if dialect == "postgresql":
        details = f"json_build_object('slots', 1, 'first', {moment.format(at=at)})"
    filled = template.format(
        node=f"(i % {nodes} + 1)", olt=f"((i % {nodes}) / {PER_OLT} + 1)", slot=moment.format(at=at),
        start=moment.format(at=f"({at} + 40)"), end=moment.format(at=f"({at} + 60)"), details=details,
        true="1" if dialect == "sqlite" else "true",
    ).strip()  # fmt: skip
    head, _select, rest = filled.partition("SELECT")
    query = f"{head}{_SERIES[dialect].format(last=count - 1)}SELECT{rest}"
    with db.engine.begin() as connection:
        connection.exec_driver_sql(query.replace("%", "%%") if dialect == "postgresql" else query)


def _people(options: Options, first: datetime) -> None:
    """What the rows belong to."""
    olts = range(1, options.nodes // PER_OLT + 1)
    coming = datetime.now(UTC) + timedelta(seconds=60)
    rows: list[tuple[Any, list[dict[str, Any]]]] = [
        (Brand, [{"id": 1, "key": "huawei", "name": "Huawei"}]),
        (Credential, [{"id": 1, "name": "lab", "version": "2c"}]),
        (Olt, [{"id": n, "name": f"OLT-{n:05}", "address": f"10.{n // 250}.{n % 250}.1", "brand_id": 1,
                "credential_id": 1, "created_at": first} for n in olts]),
        (Workflow, [{"id": n, "olt_id": n} for n in olts]),
        (WorkflowNode, [{"id": n + 1, "workflow_id": n // PER_OLT + 1, "key": f"n{n % PER_OLT}", "name": f"node {n}",
                         "kind": NodeKind.GET, "oid": "1.3", "interval_seconds": STEP, "priority": 40,
                         "anchor_at": first, "next_run_at": coming} for n in range(options.nodes)]),
        (NodePace, [{"node_id": n + 1, "durations": [], "p50_ms": 20_000, "p95_ms": 30_000, "updated_at": first}
                    for n in range(0, options.nodes, 2)]),
    ]  # fmt: skip
    with db.engine.begin() as connection:
        for model, made in rows:
            connection.execute(insert(cast(Table, model.__table__)), made)


def measured(works: Iterator[Callable[[], Any]]) -> dict[str, float]:
    """Milliseconds: median, 95 of 100 and worst; and the median of this process' own CPU, for busy machines."""
    taken, own = [], []
    for work in works:
        db.session.rollback()
        begun, cpu = time.perf_counter(), time.process_time()
        work()
        taken.append((time.perf_counter() - begun) * 1000)
        own.append((time.process_time() - cpu) * 1000)
    taken.sort()
    p95 = taken[-(-len(taken) * 95 // 100) - 1]
    found = {"median": statistics.median(taken), "p95": p95, "worst": taken[-1], "cpu": statistics.median(own)}
    return {name: round(value, 1) for name, value in found.items()}


def log_filters(now: datetime, olt: int) -> dict[str, decision_log.Filter]:
    """The filters of the page, by name."""
    make = decision_log.Filter
    return {
        "none": make(), "warning": make("WARNING"), "error": make("ERROR"), "type": make("", EventType.SLOT_SKIPPED),
        "rare type": make("", EventType.WORKER_LOST), "absent type": make("", EventType.POISONED),
        "olt": make(olt_id=olt), "olt, error": make("ERROR", olt_id=olt), "olt, text": make(olt_id=olt, text="absent"),
        "type, level": make("INFO", EventType.SLOT_SKIPPED), "type, absent level": make("DEBUG", EventType.WORKER_LOST),
        "type, wrong level": make("INFO", EventType.WORKER_LOST), "text": make(text="paused"),
        "absent text": make(text="absent"), "node": make(node_id=olt * PER_OLT),
        "time": make(since=now - timedelta(days=3), until=now - timedelta(days=2)),
    }  # fmt: skip


def figures(options: Options, now: datetime) -> dict[str, Any]:
    """All that is measured."""
    chance = random.Random(options.seed)

    def somewhere() -> datetime:
        return now - timedelta(seconds=chance.uniform(60, 4.5 * 86_400))

    def slot() -> Callable[[], Any]:
        node, at = chance.randint(1, options.nodes), somewhere()
        return lambda: explain.explain(node, at, now)

    def hour() -> Callable[[], Any]:
        olt = chance.randint(1, options.nodes // PER_OLT)
        start = somewhere().replace(minute=0, second=0, microsecond=0)
        return lambda: timeline.of_olt(cast(Olt, db.session.get(Olt, olt)), start, now)

    def page(wanted: decision_log.Filter) -> Callable[[], Any]:
        return lambda: decision_log.page(wanted.bounded(now))

    olt = options.nodes // PER_OLT // 2
    return {
        "explain": measured(slot() for _ in range(options.asked)),
        "timeline": measured(hour() for _ in range(options.asked // 4)),
        "log": {name: measured(page(one) for _ in range(3)) for name, one in log_filters(now, olt).items()},
    }


def main() -> None:
    """Fill and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--decisions", type=int, default=5_000_000)
    parser.add_argument("--asked", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    options = Options(**vars(parser.parse_args()))
    now = datetime.now(UTC).replace(microsecond=0)
    with folder() as where, database(postgres=options.postgres) as url:
        given = {"INSTANCE": str(where), "DATABASE_URL": url, "TIMEZONE": "America/Lima"}
        with create_app(load_settings(given)).app_context():
            begun = time.monotonic()
            fill(options, now - timedelta(seconds=1500 * STEP))
            filled = round(time.monotonic() - begun)
            found = figures(options, now)
            db.session.remove()
            db.engine.dispose()
    print(json.dumps({"bench": "explain", **asdict(options), "fill_seconds": filled, "ms": found}))


if __name__ == "__main__":
    main()
