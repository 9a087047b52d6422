"""Three schedulers at once until 10,000 dispatches, while leaders are frozen, killed and robbed of their lease.

The judges are what came out of the Redis queues and SQL: is any slot dispatched twice, is any missing?
Run: `python -m bench.schedulers` (SQLite) or `python -m bench.schedulers --postgres`. About two minutes, four at most.
"""

import argparse
import json
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from redis import Redis
from sqlalchemy import Table, insert, select, update

from app import create_app
from config import load_settings
from portal import queueing
from portal.domain.statuses import ExecutionStatus, NodeKind
from portal.domain.tempo import NORMAL
from portal.extensions import db, transaction
from portal.tables import Brand, Credential, Execution, Olt, SchedulerState, Workflow, WorkflowNode
from scheduler.process import LEADER_KEY
from testing.measuring.clocks import skips
from testing.measuring.grounds import database, folder
from testing.measuring.quantiles import quantile
from testing.stack import Stack, send, stack

LIMIT_SECONDS = 240
LOOK_SECONDS = 0.1  # between two looks at queues and pulse
FROZEN_SECONDS = 2 * NORMAL.leader_lease


@dataclass(frozen=True)
class Options:
    """What to run."""

    postgres: bool
    dispatches: int
    nodes: int
    olts: int
    schedulers: int
    trouble_seconds: float
    seed: int


@dataclass
class Seen:
    """What was observed while it ran."""

    jobs: Counter[str] = field(default_factory=Counter)
    ticks: set[datetime] = field(default_factory=set)
    leaders: list[str] = field(default_factory=list)
    frozen: int = 0
    killed: int = 0
    robbed: int = 0


def fill(options: Options, begin: datetime) -> dict[int, tuple[datetime, int]]:
    """OLTs and masters of 1 to 10 s; node id → (first slot, interval)."""
    now = datetime.now(UTC)
    nodes, olts = range(1, options.nodes + 1), range(1, options.olts + 1)
    clocks = {n: (begin + timedelta(seconds=n % 10), random.randint(1, 10)) for n in nodes}
    _rows(Brand, [{"id": 1, "key": "bench", "name": "Bench"}])
    _rows(Credential, [{"id": 1, "name": "bench", "version": "2c"}])
    _rows(Olt, [
        {"id": n, "name": f"OLT-{n}", "address": f"10.0.{n // 250}.{n % 250}", "brand_id": 1, "credential_id": 1,
         "created_at": now}
        for n in olts
    ])  # fmt: skip
    _rows(Workflow, [{"id": n, "olt_id": n} for n in olts])
    _rows(WorkflowNode, [
        {"id": n, "workflow_id": n % options.olts + 1, "key": f"n{n}", "name": f"n{n}", "kind": NodeKind.GET,
         "oid": "1.3.6", "interval_seconds": interval, "priority": 40, "next_run_at": first, "anchor_at": first}
        for n, (first, interval) in clocks.items()
    ])  # fmt: skip
    db.session.commit()
    return clocks


def _rows(model: Any, made: list[dict[str, Any]]) -> None:
    db.session.execute(insert(cast(Table, model.__table__)), made)


def drain(redis: Redis, seen: Seen) -> None:
    """Be all pollers at once: take every composite out of the queues, and end it."""
    queues = [key for key in cast(set[bytes], redis.smembers("rq:queues")) if key.startswith(b"rq:queue:olt-")]
    with redis.pipeline(transaction=False) as pipe:
        for key in queues:
            pipe.lrange(key.decode(), 0, -1)
        found = {job.decode(): int(key.split(b"-")[1]) for key, jobs in zip(queues, pipe.execute(), strict=True)
                 for job in jobs}  # fmt: skip
    if not found:
        return
    queueing.withdraw(found)
    seen.jobs.update(found.keys())
    ids = [queueing.execution_of(job) for job in found]
    done = {"status": ExecutionStatus.SUCCESS, "finished_at": datetime.now(UTC)}
    with transaction() as session:
        session.execute(update(Execution).where(Execution.id.in_(ids), Execution.status == "PENDING").values(done))


def look(seen: Seen) -> None:
    """Who ticked last, and when."""
    db.session.rollback()
    row = db.session.execute(select(SchedulerState.leader, SchedulerState.last_tick_at)).first()
    if row is None or row.last_tick_at is None:
        return
    seen.ticks.add(row.last_tick_at)
    if not seen.leaders or seen.leaders[-1] != row.leader:
        seen.leaders.append(row.leader)


def trouble(running: Stack, redis: Redis, seen: Seen, thaw_at: dict[int, float]) -> None:
    """In turn: the lease is taken from the leader, the leader is frozen for two leases, the leader is killed."""
    number = seen.robbed + seen.frozen + seen.killed
    pid = int(seen.leaders[-1].split("-")[-2])
    name = next((name for name, process in running.processes.items() if process.pid == pid), None)
    if number % 3 == 0:
        redis.delete(LEADER_KEY)
        seen.robbed += 1
    elif name is None or pid in thaw_at:
        return
    elif number % 3 == 1:
        send(pid, signal.SIGSTOP)
        thaw_at[pid] = time.monotonic() + FROZEN_SECONDS
        seen.frozen += 1
    else:
        running.stop(name, signal.SIGKILL)
        running.start(f"{name}+", "scheduler", "run")
        seen.killed += 1


def drive(options: Options, running: Stack, redis: Redis) -> Seen:
    """Until there were enough dispatches; then the leaders are stopped and the rest is drained."""
    seen, thaw_at = Seen(), dict[int, float]()
    for number in range(options.schedulers):
        running.start(f"scheduler-{number + 1}", "scheduler", "run")
    began = next_trouble = time.monotonic()
    next_trouble += options.trouble_seconds
    while len(seen.jobs) < options.dispatches and time.monotonic() - began < LIMIT_SECONDS:
        drain(redis, seen)
        look(seen)
        if time.monotonic() >= next_trouble and seen.leaders:
            next_trouble = time.monotonic() + options.trouble_seconds
            trouble(running, redis, seen, thaw_at)
        for pid in [pid for pid, moment in thaw_at.items() if moment <= time.monotonic()]:
            send(pid, signal.SIGCONT)
            thaw_at.pop(pid)
        time.sleep(LOOK_SECONDS)
    for pid in thaw_at:
        send(pid, signal.SIGCONT)
    for name in list(running.processes):
        running.stop(name)
    drain(redis, seen)
    return seen


def judge(options: Options, seen: Seen, clocks: dict[int, tuple[datetime, int]]) -> dict[str, object]:
    """The figures. Lost: slots up to each node's clock that were neither dispatched nor logged as skipped."""
    db.session.rollback()
    columns = (Execution.id, Execution.node_id, Execution.scheduled_for, Execution.not_before)
    rows = list(db.session.execute(select(*columns)))
    taken = Counter((row.node_id, row.scheduled_for) for row in rows)
    skipped = Counter[tuple[int, datetime]]()
    for node, first, last in skips():
        step = timedelta(seconds=clocks[node][1])
        skipped.update((node, first + k * step) for k in range(round((last - first) / step) + 1))
    due = Counter[tuple[int, datetime]]()
    for node, following in db.session.execute(select(WorkflowNode.id, WorkflowNode.next_run_at)):
        first, interval = clocks[node]
        step = timedelta(seconds=interval)
        due.update((node, first + k * step) for k in range(round((following - first) / step)))
    dispatched = {queueing.execution_of(job) for job in seen.jobs}
    waiting = {row.id for row in rows if row.not_before is not None}  # late starts whose turn had not come
    gaps = [(later - sooner).total_seconds() for sooner, later in pairwise(sorted(seen.ticks))]
    return {
        "database": "postgresql" if options.postgres else "sqlite",
        "schedulers": options.schedulers,
        "dispatches": len(seen.jobs),
        "duplicates": sum(count - 1 for count in seen.jobs.values()) + sum((taken + skipped - due).values()),
        "never_dispatched": len({row.id for row in rows} - dispatched - waiting),
        "slots_due": due.total(),
        "skipped": skipped.total(),
        "lost": (due - taken - skipped).total(),
        "leader_changes": len(seen.leaders) - 1,
        "robbed": seen.robbed,
        "frozen": seen.frozen,
        "killed": seen.killed,
        "tick_gap_p50_s": round(quantile(gaps, 0.5), 2),
        "tick_gap_max_s": round(max(gaps, default=0.0), 2),
    }


def run(options: Options) -> dict[str, object]:
    """The whole benchmark."""
    random.seed(options.seed)
    began = time.monotonic()
    with folder() as where, database(postgres=options.postgres) as url, stack(Path(where), url, tempo=1) as running:
        running.run("db", "upgrade")
        app = create_app(load_settings(running.environment))
        with app.app_context():
            clocks = fill(options, datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=5))
            seen = drive(options, running, queueing.connection())
            figures = judge(options, seen, clocks)
            db.session.remove()
            db.engine.dispose()
    return figures | {"seconds": round(time.monotonic() - began)}


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--dispatches", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--olts", type=int, default=100)
    parser.add_argument("--schedulers", type=int, default=3)
    parser.add_argument("--trouble-seconds", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=1)
    print(json.dumps(run(Options(**vars(parser.parse_args())))))


if __name__ == "__main__":
    main()
