"""Pages of quotas and violations over a week of 1,000 OLTs with 8 task types: 1.3 million trackers. Both databases.

Each page is asked for through the app as a browser does, queries and template; goal: 200 ms. `--olts`, `--hours`.
"""

import argparse
import json
import logging
import os
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flask import Flask
from flask_migrate import upgrade
from sqlalchemy import Table, func, insert, literal, select, text
from sqlalchemy.orm import Session

from app import create_app
from config import load_settings
from portal.domain import quota
from portal.domain.quota import Counts
from portal.domain.statuses import EventType, ExecutionStatus, LossCause, NodeKind, QuotaStatus, SkipReason
from portal.extensions import db, transaction
from portal.services.cataloguing import catalogue
from portal.services.people import users
from portal.tables import (
    Brand,
    CoordinatorLog,
    Credential,
    Execution,
    Olt,
    QuotaLoss,
    QuotaTracker,
    QuotaViolation,
    Workflow,
    WorkflowNode,
)
from testing.measuring import grounds
from testing.pages import Visitor

MIGRATIONS = str(Path(__file__).resolve().parents[1] / "migrations")
GOAL_MS = 200
CHUNK = 10_000
TASKS = (
    ("discovery", 4), ("get_rx", 12), ("get_tx", 12), ("get_state", 12), ("get_description", 4), ("walk_traffic", 4),
    ("get_serial", 1), ("get_distance", 1),
)  # fmt: skip
PASSWORD = "a password of the bench"  # noqa: S105  (of a database that goes away)


@contextmanager
def product(folder: Path, url: str) -> Iterator[Flask]:
    """An empty database with the catalogue and a user. No context is pushed: each request needs its own."""
    logging.getLogger("alembic").setLevel(logging.WARNING)
    environment = {"DATABASE_URL": url or f"sqlite:///{folder}/bench.db", "INSTANCE": str(folder), "SECRET_KEY": "x"}
    app = create_app(load_settings(os.environ | environment))
    try:
        with app.app_context():
            upgrade(MIGRATIONS)
            catalogue.sync(catalogue.load_shipped(), datetime.now(UTC))
            users.create("bench", PASSWORD, "viewer", "bench", datetime.now(UTC))
            db.session.remove()
        yield app
    finally:
        with app.app_context():
            db.session.remove()
            db.engine.dispose()


def fill(olts: int, hours: int, now: datetime) -> dict[str, int]:
    """OLTs with a node per task, trackers and what was lost of each hour, executions of this hour and the last."""
    chance, present = random.Random(5), quota.hour_at(now)
    with transaction() as session:
        nodes = _nodes(session, olts, now)
    for back in (1, 0):
        with transaction() as session:
            _fill_hour(session, nodes, present - back * quota.HOUR, now, chance)
    for back in range(hours, 1, -1):
        with transaction() as session:
            copy_hour(session, present - quota.HOUR, present - back * quota.HOUR)
    with transaction() as session:
        session.execute(text("ANALYZE"))
        return {model.__tablename__: _count(session, model) for model in (QuotaTracker, QuotaViolation, Execution)}


def _count(session: Session, model: Any) -> int:
    return session.scalar(select(func.count()).select_from(model)) or 0


def copy_hour(session: Session, known: datetime, hour: datetime) -> None:
    """An older hour like a known one."""
    times = {"period_start": hour, "period_end": hour + quota.HOUR, "created_at": hour + quota.HOUR}
    for model in (QuotaTracker, QuotaLoss, QuotaViolation):
        table: Any = model.__table__
        columns = [column for column in table.columns if column.name != "id"]
        copied = [literal(times[one.name], one.type) if one.name in times else one for one in columns]
        same = select(*copied).where(table.c.period_start == known)
        session.execute(insert(table).from_select([one.name for one in columns], same))


def _nodes(session: Session, olts: int, now: datetime) -> list[tuple[int, str, int, int]]:
    """(OLT id, task type, slots an hour, node id) of each."""
    brand = session.scalars(select(Brand).where(Brand.key == "huawei")).one()
    credential = Credential(name="bench", version="2c", community="public")
    session.add(credential)
    for number in range(olts):
        olt = Olt(name=f"OLT-{number:04}", address=f"10.1.{number // 250}.{number % 250}", brand=brand,
                  credential=credential, created_at=now)  # fmt: skip
        flow = Workflow(olt=olt)
        for task, slots in TASKS:
            kind, _, key = task.partition("_")
            session.add(WorkflowNode(
                workflow=flow, key=key or task, name=key or task, kind=NodeKind(kind), oid="1.3.6.1",
                interval_seconds=3600 // slots, next_run_at=now + timedelta(seconds=3600 // slots), priority=40,
            ))  # fmt: skip
    session.flush()
    rows = session.execute(
        select(Workflow.olt_id, WorkflowNode.kind, WorkflowNode.key, WorkflowNode.id).join(WorkflowNode)
        .order_by(WorkflowNode.id)
    )  # fmt: skip
    each = dict(TASKS)
    tasks = [(row.olt_id, quota.task_type(row.kind, row.key), row.id) for row in rows]
    return [(olt_id, task, each[task], node_id) for olt_id, task, node_id in tasks]


def _fill_hour(session: Session, nodes: Any, hour: datetime, now: datetime, chance: Any) -> None:
    rows: dict[Any, list[dict[str, Any]]] = {
        model: [] for model in (QuotaTracker, QuotaLoss, QuotaViolation, Execution, CoordinatorLog)
    }
    for olt_id, task, required, node_id in nodes:
        _promise(rows, (olt_id, task, required, node_id), hour, now, chance)
    for model, found in rows.items():
        table: Table = model.__table__
        for at in range(0, len(found), CHUNK):
            session.execute(insert(table), found[at : at + CHUNK])


def _promise(rows: Any, one: tuple[int, str, int, int], hour: datetime, now: datetime, chance: Any) -> None:
    olt_id, task, required, node_id = one
    gone = min(1.0, (now - hour) / quota.HOUR)
    passed = int(required * gone)
    failed = sum(chance.random() < (0.4 if olt_id % 40 == 3 else 0.01) for _ in range(passed))
    skipped = min(passed - failed, sum(chance.random() < 0.02 for _ in range(passed)))
    counts = Counts(passed - failed - skipped, failed, skipped, required - passed)
    common = {"olt_id": olt_id, "task_type": task, "period_start": hour}
    basis = [{"node_id": node_id, "key": task.partition("_")[2] or task, "slots": required,
              "interval": 3600 // required}]  # fmt: skip
    rows[QuotaTracker].append(common | {
        "period_end": hour + quota.HOUR, "quota_required": required, "quota_completed": counts.completed,
        "quota_failed": failed, "quota_skipped": skipped, "quota_pending": counts.pending, "basis": basis,
        "status": quota.judge(counts) if gone >= 1 else QuotaStatus.IN_PROGRESS, "total_duration_ms": 9000,
        "avg_duration_ms": 900, "forecast": required - failed - skipped if gone < 1 else None,
        "forecast_details": {"cause": None, "node": "", "seconds": 0} if gone < 1 else None, "created_at": hour,
        "updated_at": hour,
    })  # fmt: skip
    lost = {LossCause.TIMEOUT: (failed, 0), LossCause.OLT_BUSY: (0, skipped)}
    rows[QuotaLoss] += [
        common | {"cause": cause, "failed": parts[0], "skipped": parts[1]}
        for cause, parts in lost.items()
        if sum(parts)
    ]
    bad = quota.severity(counts)
    if bad is not None and gone >= 1:
        report = {"task_type": task, "required": required, "completed": counts.completed, "failed": failed,
                  "skipped": skipped, "pending": 0, "basis": basis,
                  "lost": {cause.value: sum(parts) for cause, parts in lost.items() if sum(parts)}}  # fmt: skip
        rows[QuotaViolation].append(common | {
            "period_end": hour + quota.HOUR, "report": report, "severity": bad, "notified": True,
            "notified_at": hour + quota.HOUR, "created_at": hour + quota.HOUR,
        })  # fmt: skip
    if now - hour < 2 * quota.HOUR:
        _slots(rows, one, counts, hour)


def _slots(rows: Any, one: tuple[int, str, int, int], counts: Counts, hour: datetime) -> None:
    olt_id, task, required, node_id = one
    moments = [hour + number * quota.HOUR / required for number in range(1, required + 1)]
    for number, at in enumerate(moments[: counts.completed + counts.failed]):
        status = ExecutionStatus.SUCCESS if number < counts.completed else ExecutionStatus.FAILED
        rows[Execution].append({
            "node_id": node_id, "olt_id": olt_id, "node_name": task, "task_type": task, "device_key": str(olt_id),
            "status": status, "priority": 40, "scheduled_for": at, "started_at": at, "finished_at": at,
            "duration_ms": 900, "delay_ms": 10, "attempt": 1,
        })  # fmt: skip
    for at in moments[counts.completed + counts.failed : required - counts.pending]:
        rows[CoordinatorLog].append({
            "olt_id": olt_id, "node_id": node_id, "scheduled_for": at, "event_type": EventType.SLOT_SKIPPED,
            "reason": SkipReason.OLT_BUSY, "level": "WARNING", "message": "skipped", "timestamp": at,
            "details": {"slots": 1, "first": at.isoformat(), "last": at.isoformat(), "task_type": task},
        })  # fmt: skip


def pages(now: datetime) -> dict[str, str]:
    """What people look at."""
    hour = quota.hour_at(now)
    broken = select(QuotaTracker.id).where(
        QuotaTracker.period_start == hour - quota.HOUR, QuotaTracker.status == QuotaStatus.QUOTA_NOT_MET
    )
    tracker = db.session.scalars(broken.order_by(QuotaTracker.id).limit(1)).one()
    violation = db.session.scalars(select(QuotaViolation.id).order_by(QuotaViolation.id.desc()).limit(1)).one()
    olt = db.session.scalars(select(Olt.id).order_by(Olt.id).limit(1)).one()
    db.session.rollback()
    past = (hour - 100 * quota.HOUR).isoformat()
    return {
        "quotas": "/quotas/", "quotas at risk": "/quotas/?status=at_risk", "quotas searched": "/quotas/?q=OLT-00",
        "quotas of a task": "/quotas/?task=get_rx", "quotas four days ago": f"/quotas/?hour={past}".replace("+", "%2B"),
        "quota": f"/quotas/{tracker}", "violations": "/violations/",
        "violations CRITICAL": "/violations/?severity=CRITICAL",
        "violations last hour": "/violations/?window=1h", "violations of an OLT": f"/violations/?olt={olt}",
        "violation": f"/violations/{violation}", "home": "/", "OLT": f"/olts/{olt}",
        "API quotas": "/api/v1/quotas/", "API quotas not met": "/api/v1/quotas/?status=QUOTA_NOT_MET",
        "API quotas of a task": "/api/v1/quotas/?task_type=get_rx", "API violations": "/api/v1/violations/",
    }  # fmt: skip


def asked(person: Visitor, path: str) -> tuple[float, float]:
    """Milliseconds of a page, and of them those in which this process computed; medians of seven, one to warm up."""
    spans, busy = [], []
    for _ in range(8):
        begin, computed = time.perf_counter(), time.process_time()
        answer = person.get(path)
        spans.append((time.perf_counter() - begin) * 1000)
        busy.append((time.process_time() - computed) * 1000)
        assert answer.status_code == 200, (path, answer.status_code)  # noqa: S101
    return round(statistics.median(spans[1:]), 1), round(statistics.median(busy[1:]), 1)


def measure(olts: int, hours: int, *, postgres: bool) -> dict[str, Any]:
    """One database, filled and asked."""
    with ExitStack() as exits:
        folder = exits.enter_context(grounds.folder())
        app = exits.enter_context(product(folder, exits.enter_context(grounds.database(postgres=postgres))))
        now = datetime.now(UTC)
        begin = time.perf_counter()
        with app.app_context():
            made, found = fill(olts, hours, now), pages(now)
            db.session.remove()
        took, person = time.perf_counter() - begin, Visitor(app)
        assert person.login("bench", PASSWORD).status_code == 303  # noqa: S101
        both = {name: asked(person, path) for name, path in found.items()}
    figures, computed = ({name: one[at] for name, one in both.items()} for at in (0, 1))
    return {"fill_s": round(took), **made, "ms": figures, "worst_ms": max(figures.values()), "process_ms": computed}


def main() -> None:
    """Print one line of JSON; exit 1 when a page misses the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--olts", type=int, default=1000)
    parser.add_argument("--hours", type=int, default=168)
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    given = parser.parse_args()
    kinds = [given.only] if given.only else ["sqlite", "postgresql"]
    result = {kind: measure(given.olts, given.hours, postgres=kind == "postgresql") for kind in kinds}
    passed = all(one["worst_ms"] <= GOAL_MS for one in result.values())
    print(json.dumps({"bench": "quota_pages", "olts": given.olts, "hours": given.hours, "pass": passed, **result}))
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()
