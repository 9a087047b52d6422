"""Path: what one composite costs between its slot and its end, in SQL statements and Redis round trips, by phase.

Everything runs in this process, one after the other, so that each statement can be laid to its phase.
Run: `python -m bench.path [--postgres] [--show]`; prints one JSON line, with --show also every statement.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Flask, current_app
from redis.connection import AbstractConnection
from sqlalchemy import event, update

from jobs import claim as claims
from jobs import poller, tasks
from jobs.claim import Lease
from jobs.drivers import open_session
from portal import queueing
from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from portal.services.dispatch import executions
from portal.tables import WorkflowNode
from scheduler.tick import tick
from testing.measuring.grounds import Agents, folder, ground

TEMPLATE = """
      - key: discovery
        kind: discovery
        oid: huawei.onu_state
        interval: 5m
        chain:
          - {key: rx, kind: get, oid: huawei.onu_rx_power}
          - {key: description, kind: get, oid: huawei.onu_description}
"""
ONUS = 128
RUNS = 20


@dataclass
class Counts:
    """What happened since the phase began."""

    sql: list[str] = field(default_factory=list)
    redis: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Meter:
    """Counts by phase; every later run of a phase replaces the one before it (the first ones warm caches)."""

    def __init__(self) -> None:
        self.phases: dict[str, Counts] = {}
        self._now = Counts()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._now = Counts()
        began = time.perf_counter()
        yield
        self._now.seconds = time.perf_counter() - began
        self.phases[name] = self._now

    def rest(self) -> None:
        """What follows belongs to no phase."""
        self._now = Counts()

    def listen(self, app: Flask) -> None:
        """Hear every statement of the app's engine and everything that is sent to Redis."""
        event.listen(db.engine, "before_cursor_execute", self._statement)
        for kind in ("commit", "rollback"):
            event.listen(db.engine, kind, lambda _connection, word=kind: self._now.sql.append(word.upper()))
        send: Any = AbstractConnection.send_packed_command

        def counted(connection: Any, command: Any, *rest: Any, **named: Any) -> Any:
            self._now.redis.append(repr(command)[:100])
            return send(connection, command, *rest, **named)

        AbstractConnection.send_packed_command = counted  # type: ignore[method-assign,assignment]

    def _statement(self, _connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        self._now.sql.append(" ".join(statement.split())[:150])


def _one_run(meter: Meter, number: int) -> None:
    now = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=RUNS - number)  # each run its own slot
    db.session.execute(update(WorkflowNode).where(WorkflowNode.master_id.is_(None)).values(next_run_at=now))
    db.session.commit()
    with meter.phase("tick"):
        tick("bench", now)
    redis, config = queueing.connection(), current_app.config
    with meter.phase("claim"):
        mine = claims.claim(redis, "bench", config["LEASE_SECONDS"], 0)
    if mine is None:
        raise RuntimeError("nothing to claim")
    _compose_and_run(meter, mine)
    with meter.phase("release"):
        claims.release(redis, mine)
    meter.rest()


def _compose_and_run(meter: Meter, mine: claims.Claim) -> None:
    """jobs.tasks.run_composite, its parts told apart."""
    execution_id, now = queueing.execution_of(mine.job_id), datetime.now(UTC)
    ttl = float(current_app.config["LEASE_SECONDS"])
    lease = Lease(queueing.connection(), mine, ttl)
    with meter.phase("start"):
        lease.checkpoint()
        work = executions.start(
            execution_id, mine.token, mine.owner, now, now + timedelta(seconds=ttl), lease.checkpoint
        )
    if work is None:
        raise RuntimeError("not started")
    lease.cover(work.target.longest_request)
    checkpoint = tasks.checkpoint_of(work, lease)
    with meter.phase("read"):
        result = poller.run(work, open_session, checkpoint, lambda: datetime.now(UTC), time.monotonic)
    with meter.phase("finish"):
        status = executions.finish(work.execution_id, work.token, result, datetime.now(UTC))
    if status is not ExecutionStatus.SUCCESS:
        raise RuntimeError(f"the composite ended {status}")


def run(*, postgres: bool, show: bool) -> dict[str, object]:
    """The figures."""
    meter = Meter()
    with folder() as where, ground(where, Agents(1, ONUS, 0), TEMPLATE, postgres=postgres) as place:
        meter.listen(place.app)
        for number in range(RUNS):
            _one_run(meter, number)
    if show:
        for name, counts in meter.phases.items():
            print(f"--- {name}", *counts.sql, *counts.redis, sep="\n  ", file=sys.stderr)
    own = [name for name in meter.phases if name != "tick"]
    return {
        "database": "postgresql" if postgres else "sqlite",
        "onus": ONUS,
        "sql": {name: len(counts.sql) for name, counts in meter.phases.items()},
        "redis": {name: len(counts.redis) for name, counts in meter.phases.items()},
        "ms": {name: round(counts.seconds * 1000, 2) for name, counts in meter.phases.items()},
        "sql_per_composite": sum(len(meter.phases[name].sql) for name in own),
        "redis_per_composite": sum(len(meter.phases[name].redis) for name in own),
    }


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--show", action="store_true", help="every statement on stderr")
    print(json.dumps(run(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
