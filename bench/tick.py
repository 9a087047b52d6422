"""Cost of one tick: 1,000 due masters of 1,000, 10,000 and 100,000 nodes on 5,000 OLTs, with the push to a real Redis.

Run: `python -m bench.tick` (SQLite) or `python -m bench.tick --postgres`. About a minute; prints one line of JSON.
"""

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from redis import Redis
from sqlalchemy import Table, bindparam, func, insert, select, text, update

from app import create_app
from config import load_settings
from portal.domain.statuses import ExecutionStatus, NodeKind
from portal.extensions import db, transaction
from portal.tables import Brand, Credential, Execution, Olt, Workflow, WorkflowNode
from scheduler.tick import tick
from testing.measuring.grounds import database, folder
from testing.redis_server import redis_server

SIZES = (1_000, 10_000, 100_000)
PAUSE = 10  # seconds between two ticks with something due


@dataclass(frozen=True)
class Options:
    """What to measure."""

    postgres: bool
    olts: int
    due: int
    history: int
    ticks: int
    seed: int


def rows(model: Any, made: list[dict[str, Any]]) -> None:
    """Insert many rows at once."""
    table = cast(Table, model.__table__)
    for start in range(0, len(made), 5_000):
        db.session.connection().execute(insert(table), made[start : start + 5_000])
    db.session.commit()


def make_olts(count: int, now: datetime) -> None:
    """OLTs with an empty workflow each; ids from 1 in both tables."""
    rows(Brand, [{"id": 1, "key": "huawei", "name": "Huawei"}])
    rows(Credential, [{"id": 1, "name": "lab", "version": "2c"}])
    rows(Olt, [
        {"id": n, "name": f"OLT-{n:05}", "address": f"10.{n // 62_500}.{n // 250 % 250}.{n % 250 + 1}", "brand_id": 1,
         "credential_id": 1, "site": ("", "lima", "cusco")[n % 3], "created_at": now}
        for n in range(1, count + 1)
    ])  # fmt: skip
    rows(Workflow, [{"id": n, "olt_id": n} for n in range(1, count + 1)])


def add_nodes(first: int, last: int, options: Options, now: datetime) -> None:
    """Masters first..last, dealt out to the OLTs, without a clock yet; and executions that have ended."""
    rows(WorkflowNode, [
        {"id": n, "workflow_id": n % options.olts + 1, "key": f"node-{n}", "name": f"Node {n}",
         "kind": NodeKind.GET, "oid": "huawei.onu_rx_power", "interval_seconds": PAUSE, "priority": 40,
         "anchor_at": now}
        for n in range(first, last + 1)
    ])  # fmt: skip
    share = options.history * (last - first + 1) // SIZES[-1]
    rows(Execution, [
        {"node_id": first + k % (last - first + 1), "node_name": "Node", "olt_id": k % options.olts + 1,
         "device_key": "x", "status": ExecutionStatus.SUCCESS, "priority": 40,
         "scheduled_for": now - timedelta(days=1, seconds=k), "finished_at": now - timedelta(days=1), "attempt": 1}
        for k in range(share)
    ])  # fmt: skip


def deal_slots(nodes: int, options: Options, begin: datetime) -> None:
    """Each PAUSE seconds from `begin` on, `options.due` of the nodes have a slot: others each time, until all have."""
    shuffled = random.sample(range(1, nodes + 1), nodes)
    turns = nodes // options.due
    table = cast(Table, WorkflowNode.__table__)
    set_clock = update(table).where(table.c.id == bindparam("node")).values(next_run_at=bindparam("moment"))
    for turn in range(turns):
        moment = begin + timedelta(seconds=PAUSE * turn)
        mine = shuffled[turn * options.due : (turn + 1) * options.due]
        db.session.connection().execute(set_clock, [{"node": node, "moment": moment} for node in mine])
    db.session.execute(update(WorkflowNode).values(interval_seconds=PAUSE * turns))
    db.session.commit()


def end_executions() -> None:
    """As pollers would: what waits ends."""
    with transaction() as session:
        session.execute(update(Execution).where(Execution.status == "PENDING").values(status=ExecutionStatus.SUCCESS))


def settle(postgres: bool) -> None:
    """As autovacuum leaves it after a while."""
    db.session.commit()
    if postgres:
        with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))


def timed(now: datetime, expected: int) -> tuple[float, float]:
    """Milliseconds of one tick that has so much to do: by the clock, and of this process' CPU."""
    began, worked = time.perf_counter(), time.process_time()
    plan = tick("bench", now)
    took, cpu = (time.perf_counter() - began) * 1000, (time.process_time() - worked) * 1000
    if len(plan.new) != expected:
        raise RuntimeError(f"a tick took {len(plan.new)} slots instead of {expected}")
    db.session.remove()
    return took, cpu


def measure(nodes: int, options: Options, redis: Redis, begin: datetime) -> dict[str, object]:
    """Figures of one size, in ms."""
    busy, idle = [], []
    for number in range(options.ticks + 1):  # the first one warms up
        moment = begin + timedelta(seconds=PAUSE * number)
        redis.flushall()
        busy.append(timed(moment, options.due))
        if redis.scard("rq:queues") == 0:
            raise RuntimeError("nothing was pushed")
        end_executions()
        idle += [timed(moment + timedelta(seconds=1 + more), 0)[0] for more in range(3)]
    took = [wall for wall, _ in busy[1:]]
    return {
        "due_median": round(statistics.median(took), 1),
        "due_best": round(min(took), 1),
        "due_worst": round(max(took), 1),
        "due_cpu_median": round(statistics.median(cpu for _, cpu in busy[1:]), 1),
        "idle_median": round(statistics.median(idle), 2),
        "idle_worst": round(max(idle), 2),
    }


@contextmanager
def application(options: Options) -> Iterator[Redis]:
    """The product on a new database and Redis, with an app context pushed."""
    with folder() as where, database(postgres=options.postgres) as url, redis_server() as server:
        places = {"INSTANCE": str(where), "DATABASE_URL": url or f"sqlite:///{where}/facho.db", "REDIS_URL": server.url}
        app = create_app(load_settings(places))
        with app.app_context():
            db.create_all()
            yield server.client()
            db.session.remove()
            db.engine.dispose()


def run(options: Options) -> dict[str, object]:
    """The whole benchmark; the figures."""
    random.seed(options.seed)
    now = datetime.now(UTC).replace(microsecond=0)
    sizes: dict[int, dict[str, Any]] = {}
    with application(options) as redis:
        make_olts(options.olts, now)
        before = 0
        for size in SIZES:
            add_nodes(before + 1, size, options, now)
            begin = now + timedelta(days=size)
            deal_slots(size, options, begin)
            settle(options.postgres)
            sizes[size] = measure(size, options, redis, begin)
            before = size
        executions = db.session.scalar(select(func.count()).select_from(Execution))
    medians = [figures["due_median"] for figures in sizes.values()]
    return {
        "database": "postgresql" if options.postgres else "sqlite",
        "olts": options.olts,
        "due": options.due,
        "executions": executions,
        "ms": {str(size): figures for size, figures in sizes.items()},
        "ratio": round(max(medians) / min(medians), 2),
        "load": round(os.getloadavg()[0], 1),  # of the machine: what else ran meanwhile
    }


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--olts", type=int, default=5_000)
    parser.add_argument("--due", type=int, default=1_000)
    parser.add_argument("--history", type=int, default=200_000, help="executions that have ended, at the largest size")
    parser.add_argument("--ticks", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    print(json.dumps(run(Options(**vars(parser.parse_args())))))


if __name__ == "__main__":
    main()
