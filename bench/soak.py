"""Soak: many simulated OLTs, a chain each; is every slot run, alone on its OLT, also when a poller is killed?

The judges are the agents' own request log and SQL, not the code under test.
Run: `python -m bench.soak --olts 20 --minutes 10`.
"""

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flask import Flask
from sqlalchemy import select, update

from app import create_app
from config import load_settings
from portal.domain.statuses import ACTIVE, AttemptStatus, EventType, ExecutionStatus
from portal.extensions import db
from portal.models import CoordinatorLog, Execution, ExecutionAttempt, Olt, Poller, WorkflowNode
from portal.services import catalogue, inventory
from tests.support.oltsim_c import oltsim
from tests.support.postgres import postgres_cluster
from tests.support.stack import Stack, stack

ONUS = 128
REQUEST_MICROSECONDS = 60_000  # service time of one request, as a busy OLT has it
SETTLE_SECONDS = 20


@dataclass(frozen=True)
class Plan:
    """What to run."""

    olts: int
    minutes: float
    interval: int
    pollers: int
    kills: int
    postgres: bool
    seed: int


@dataclass
class Kill:
    """One kill -9 of a busy poller."""

    at: datetime
    execution_id: int


def inventory_text(plan: Plan, port: int) -> str:
    """The import file: one template, one master with two chained GETs, on every OLT."""
    olts = "\n".join(
        f"  - {{name: SIM-{n:03}, address: 127.0.0.1, port: {port + n}, brand: huawei,"
        " credential: sim, template: soak}"
        for n in range(plan.olts)
    )
    return f"""
credentials:
  - {{name: sim, version: 2c, community: public}}
templates:
  - name: soak
    nodes:
      - key: discovery
        kind: discovery
        oid: huawei.onu_state
        interval: {plan.interval}s
        override: soak
        chain:
          - {{key: rx, kind: get, oid: huawei.onu_rx_power}}
          - {{key: description, kind: get, oid: huawei.onu_description}}
olts:
{olts}
"""


@contextmanager
def database(plan: Plan) -> Iterator[str]:
    """URL of PostgreSQL where asked for; "" is SQLite under the stack's own folder."""
    if not plan.postgres:
        yield ""
        return
    with postgres_cluster() as cluster:
        yield cluster.create_database()


def run(plan: Plan) -> dict[str, object]:
    """The whole soak; the figures."""
    with tempfile.TemporaryDirectory(prefix="soak-", dir="/tmp") as name:
        folder = Path(name)
        log = folder / "requests.log"
        options = ("--delay-us", str(REQUEST_MICROSECONDS), "--log", str(log))
        with (
            database(plan) as url,
            oltsim(*options, olts=plan.olts, onus=ONUS) as port,
            stack(folder, url, pollers=plan.pollers) as running,
        ):
            running.run("db", "upgrade")
            app = create_app(load_settings(running.environment))
            with app.app_context():
                kills, until = _drive(plan, app, running, port)
                figures = _judge(plan, kills, until)
        return figures | {"overlaps": overlaps(_requests(log)), "requests": sum(1 for _ in _requests(log))}


def _drive(plan: Plan, app: Flask, running: Stack, port: int) -> tuple[list[Kill], datetime]:
    now = datetime.now(UTC)
    catalogue.sync(catalogue.load_shipped(), now)
    inventory.load(inventory_text(plan, port), dry_run=False, actor="soak", now=now)
    for name in ("scheduler", "pollers", "maintenance"):
        running.start(name)
    running.wait_until(lambda: _pollers() == plan.pollers, "all pollers", 60)
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=5)
    _spread_first_runs(plan, begin)
    until = begin + timedelta(minutes=plan.minutes, seconds=-0.5)  # between two slots
    kills = []
    for number in range(plan.kills):
        _sleep_until(begin + (until - begin) * (number + 1) / (plan.kills + 1))
        kills.append(_kill_busy(running))
    _sleep_until(until)
    _stop_the_clock(running)
    return kills, until


def _pollers() -> int:
    db.session.rollback()
    return db.session.query(Poller).count()


def _spread_first_runs(plan: Plan, begin: datetime) -> None:
    """First slots spread over one interval; a soak need not wait a minute for its first run."""
    masters = list(db.session.scalars(select(WorkflowNode.id).where(WorkflowNode.master_id.is_(None))))
    for at, node in enumerate(masters):
        first = begin + timedelta(seconds=at * plan.interval // len(masters))
        db.session.execute(
            update(WorkflowNode).where(WorkflowNode.id == node).values(next_run_at=first, anchor_at=first)
        )
    db.session.commit()


def _sleep_until(moment: datetime) -> None:
    while (left := (moment - datetime.now(UTC)).total_seconds()) > 0:
        time.sleep(min(left, 1.0))


def _kill_busy(running: Stack) -> Kill:
    """kill -9 of a poller that is in the middle of a composite."""
    victim: list[Poller] = []

    def found() -> bool:
        db.session.rollback()
        victim[:] = db.session.scalars(select(Poller).where(Poller.current_execution_id.is_not(None)))
        return bool(victim)

    running.wait_until(found, "a busy poller", 60)
    poller = random.choice(victim)
    execution_id = poller.current_execution_id or 0
    os.kill(poller.pid, signal.SIGKILL)
    return Kill(datetime.now(UTC), execution_id)


def _stop_the_clock(running: Stack) -> None:
    """No further slots; what is active may end."""
    running.stop("scheduler")
    deadline = time.monotonic() + SETTLE_SECONDS
    active = select(Execution.id).where(Execution.status.in_(ACTIVE))
    while time.monotonic() < deadline:
        db.session.rollback()
        if db.session.scalars(active).first() is None:
            return
        time.sleep(0.2)


def _judge(plan: Plan, kills: list[Kill], until: datetime) -> dict[str, object]:
    db.session.rollback()
    rows = list(db.session.scalars(select(Execution).where(Execution.scheduled_for < until)))
    delays = sorted((row.delay_ms or 0) / 1000 for row in rows if row.delay_ms is not None)
    skipped = sum(
        row.details["slots"]
        for row in db.session.scalars(select(CoordinatorLog).where(CoordinatorLog.event_type == EventType.SLOT_SKIPPED))
    )
    due = _slots_due(plan, rows, until)
    interrupted = AttemptStatus.INTERRUPTED
    return {
        "olts": db.session.query(Olt).count(),
        "minutes": plan.minutes,
        "database": "postgresql" if plan.postgres else "sqlite",
        "slots_due": due,
        "runs_ok": sum(row.status is ExecutionStatus.SUCCESS for row in rows),
        "runs_failed": sum(row.status is ExecutionStatus.FAILED for row in rows),
        "still_active": sum(row.status in ACTIVE for row in rows),
        "skipped": skipped,
        "interrupted": db.session.query(ExecutionAttempt).filter_by(status=interrupted).count(),
        "kills": len(kills),
        "lost": due - len(rows) - skipped,
        "delay_p50_s": round(_quantile(delays, 0.50), 3),
        "delay_p99_s": round(_quantile(delays, 0.99), 3),
        "recovery_max_s": round(max((_recovery(kill) for kill in kills), default=0.0), 2),
    }


def _slots_due(plan: Plan, rows: list[Execution], until: datetime) -> int:
    """By arithmetic: from each node's first slot to the end, one each interval."""
    first: dict[int | None, datetime] = {}
    for row in rows:
        first[row.node_id] = min(first.get(row.node_id, row.scheduled_for), row.scheduled_for)
    return sum(int((until - start).total_seconds() // plan.interval) + 1 for start in first.values())


def _recovery(kill: Kill) -> float:
    """Seconds from the kill to the next try of the same composite."""
    starts = [
        attempt.started_at
        for attempt in db.session.scalars(
            select(ExecutionAttempt).where(ExecutionAttempt.execution_id == kill.execution_id)
        )
        if attempt.started_at > kill.at
    ]
    return min(((start - kill.at).total_seconds() for start in starts), default=float("inf"))


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def _requests(log: Path) -> Iterator[tuple[float, int, int]]:
    """(seconds, OLT, source port) of each request that an agent saw."""
    with log.open() as lines:
        for line in lines:
            seconds, olt, source, *_ = line.split()
            yield float(seconds), int(olt), int(source)


def overlaps(requests: Iterable[tuple[float, int, int]]) -> int:
    """How often two composites met at one OLT. A composite is one socket: A, B, A within a minute is a meeting."""
    met = 0
    seen: dict[int, dict[int, float]] = defaultdict(dict)
    last: dict[int, int] = {}
    for seconds, olt, source in sorted(requests):
        before = seen[olt].get(source)
        if before is not None and last[olt] != source and seconds - before < 60:
            met += 1
        seen[olt][source] = seconds
        last[olt] = source
    return met


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--olts", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--interval", type=int, default=30)
    parser.add_argument("--pollers", type=int, default=10)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    plan = Plan(**vars(parser.parse_args()))
    random.seed(plan.seed)
    print(json.dumps(run(plan)))


if __name__ == "__main__":
    main()
