"""Dispatch: how soon the next composite starts, how soon a due one does, what one costs, and with how many OLTs.

* `release_to_start`: one OLT with a long queue; by the agent's log, from the last request of one composite to the first
  of the next, so with writing the result, release, claim, fork and start. Goal: p95 <= 250 ms.
* `due_to_start`: scheduler and free pollers; by SQL, from a slot to its start. Goal: p95 <= 1.5 s.
* `no_op`: composites that read nothing, 4 pollers: composites a second and CPU ms each (pollers with their forks, and
  Redis), with 10 and with 2,000 OLT queues. Goal: ratio of the CPU <= 1.3. `--unrehearsed` forks without prepared
  statements, to see what they save.
Run: `python -m bench.dispatch [--postgres] [--unrehearsed]`, about two minutes; prints one JSON line.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert, select, update

from bench import common
from bench.common import Agents, Ground
from jobs import poller
from jobs.pool import rehearsal
from portal import queueing
from portal.domain.composite import CompositeResult, CompositeWork, StepResult
from portal.domain.statuses import ExecutionStatus, NodeKind, StepStatus, Trigger
from portal.extensions import db, transaction
from portal.models import Execution, Olt, Workflow, WorkflowNode
from portal.queueing import Ticket

POLLERS = 4
CHAIN = 60  # composites in the one OLT's queue
QUEUES = (10, 2000)
QUEUED = 2000  # composites that wait at first, whatever the number of queues
MEASURED = 500  # of them
DUE_OLTS, DUE_SECONDS = 20, 40
TEMPLATE = """
      - {key: uptime, kind: get, oid: generic.sys_up_time, interval: 5m}
"""


def _table(model: Any) -> Any:
    return model.__table__


def _olts(count: int, nodes: int) -> list[tuple[int, int]]:
    """`count` further OLTs like the first one, without an agent, each with `nodes` masters; (node id, OLT id)."""
    with transaction() as session:
        like = session.scalars(select(Olt).order_by(Olt.id)).first()
        start = session.scalar(select(func.max(Olt.id))) or 0
        same = {"brand_id": like.brand_id, "credential_id": like.credential_id, "created_at": like.created_at}
        ids = range(start + 1, start + 1 + count)
        session.execute(insert(_table(Olt)), [
            {"id": n, "name": f"NOOP-{n}", "address": f"10.0.{n // 256}.{n % 256}", "port": 161, **same}
            for n in ids
        ])  # fmt: skip
        session.execute(insert(_table(Workflow)), [{"id": n, "olt_id": n} for n in ids])
        rows = [
            {"workflow_id": n, "key": f"k{k}", "name": f"k{k}", "kind": NodeKind.GET, "oid": "generic.sys_up_time",
             "interval_seconds": 300, "priority": 40}
            for n in ids for k in range(nodes)
        ]  # fmt: skip
        session.execute(insert(_table(WorkflowNode)), rows)
    query = select(WorkflowNode.id, WorkflowNode.workflow_id).where(WorkflowNode.workflow_id > start)
    return [(row.id, row.workflow_id) for row in db.session.execute(query)]


def _queue(nodes: list[tuple[int, int]], now: datetime) -> None:
    """One PENDING execution for each (node, OLT), committed and pushed."""
    with transaction() as session:
        keys = {row.id: row.device_key for row in session.scalars(select(Olt))}
        session.execute(insert(_table(Execution)), [
            {"node_id": node, "olt_id": olt, "node_name": "bench", "device_key": keys[olt], "priority": 40,
             "scheduled_for": now, "queued_at": now, "trigger": Trigger.SCHEDULE}
            for node, olt in nodes
        ])  # fmt: skip
        waiting = select(Execution).where(Execution.status == ExecutionStatus.PENDING)
        tickets = [Ticket(e.id, 1, e.olt_id, e.priority, e.scheduled_for, None) for e in session.scalars(waiting)]
    queueing.push(tickets)


def _done() -> int:
    query = select(func.count()).select_from(Execution).where(Execution.status == ExecutionStatus.SUCCESS)
    return db.session.scalar(query) or 0


# --- release to next start


def _release_to_start(place: Ground) -> dict[str, float]:
    olt = db.session.scalars(select(Olt).order_by(Olt.id)).first()
    with transaction() as session:
        session.execute(insert(_table(WorkflowNode)), [
            {"workflow_id": olt.workflow.id, "key": f"q{k}", "name": f"q{k}", "kind": NodeKind.GET,
             "oid": "generic.sys_up_time", "interval_seconds": 300, "priority": 40}
            for k in range(CHAIN)
        ])  # fmt: skip
    ids = db.session.scalars(select(WorkflowNode.id).where(WorkflowNode.key.like("q%")))
    _queue([(node, olt.id) for node in ids], datetime.now(UTC))
    place.running.start("pollers")
    common.wait_for(lambda: _done() >= CHAIN, 120)
    place.running.stop("pollers")
    return {}


def _gaps(log: Path, until: float) -> list[float]:
    """Seconds between the last request of one socket and the first of the next, at OLT 0."""
    gaps, before, source = [], 0.0, ""
    for line in log.read_text().splitlines():
        seconds, olt, port, *_ = line.split()
        if olt != "0" or float(seconds) > until:
            continue
        if source and port != source:
            gaps.append(float(seconds) - before)
        before, source = float(seconds), port
    return gaps


# --- due to start


def _due_to_start(place: Ground) -> list[float]:
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=6)
    masters = list(db.session.scalars(select(WorkflowNode.id).where(WorkflowNode.key == "uptime")))
    with transaction() as session:
        for at, node in enumerate(masters):
            slot = begin + timedelta(seconds=at * DUE_SECONDS // len(masters))
            values = {"next_run_at": slot, "anchor_at": slot, "interval_seconds": DUE_SECONDS}
            session.execute(update(WorkflowNode).where(WorkflowNode.id == node).values(values))
    for name in ("scheduler", "pollers"):
        place.running.start(name)
    common.sleep_until(begin + timedelta(seconds=DUE_SECONDS + 5))
    for name in ("scheduler", "pollers"):
        place.running.stop(name)
    db.session.rollback()
    query = select(Execution.delay_ms).where(Execution.scheduled_for >= begin, Execution.delay_ms.is_not(None))
    return [delay / 1000 for delay in db.session.scalars(query)]


# --- no-op composites


def _nothing(work: CompositeWork, *_: object) -> CompositeResult:
    now = datetime.now(UTC)
    return CompositeResult(
        tuple(StepResult(s.node_id, StepStatus.SUCCESS, started_at=now, finished_at=now, pdus=1) for s in work.steps)
    )


@contextmanager
def _reading_nothing() -> Iterator[None]:
    """In the pollers that are forked meanwhile."""
    real, poller.run = poller.run, _nothing  # type: ignore[assignment]
    try:
        yield
    finally:
        poller.run = real


def _cpu_ms(pids: list[int]) -> float:
    """CPU of the processes with the children they have waited for."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(int(fields[at]) for at in (11, 12, 13, 14))
    return ticks / os.sysconf("SC_CLK_TCK") * 1000


def _family(pid: int) -> list[int]:
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def _redis_ms() -> float:
    used = queueing.connection().info("cpu")
    return (float(used["used_cpu_user"]) + float(used["used_cpu_sys"])) * 1000


def _no_op(place: Ground, queues: int) -> dict[str, float]:
    with _reading_nothing():
        pool = place.running.start("pollers")
    common.wait_for(lambda: common.fresh_pollers() == POLLERS, 60)
    nodes = _olts(queues, QUEUED // queues)
    before = _done()
    _queue(nodes, datetime.now(UTC))
    common.wait_for(lambda: _done() > before + 20, 60, pause=0.01)
    first, began, cpu, redis = _done(), time.monotonic(), _cpu_ms(_family(pool.pid)), _redis_ms()
    common.wait_for(lambda: _done() >= first + MEASURED, 120, pause=0.05)
    count, took = _done() - first, time.monotonic() - began
    figures = {
        "per_second": round(count / took, 1),
        "cpu_ms": round((_cpu_ms(_family(pool.pid)) - cpu) / count, 1),
        "redis_cpu_ms": round((_redis_ms() - redis) / count, 2),
    }
    place.running.stop("pollers")
    with transaction() as session:
        session.execute(
            update(Execution).where(Execution.status == ExecutionStatus.PENDING)
            .values(status=ExecutionStatus.INTERRUPTED, finished_at=datetime.now(UTC))
        )  # fmt: skip
    queueing.connection().flushall()
    return figures


def run(*, postgres: bool, unrehearsed: bool) -> dict[str, object]:
    """The figures."""
    if unrehearsed:
        rehearsal.rehearse = lambda: None
    with common.folder() as where:
        settings = {"pollers": POLLERS, "quarantine_seconds": 0}
        with common.ground(where, Agents(DUE_OLTS, 8, 0), TEMPLATE, postgres=postgres, **settings) as place:
            _release_to_start(place)
            until = time.time()
            delays = _due_to_start(place)
            no_op = {queues: _no_op(place, queues) for queues in QUEUES}
        gaps = _gaps(where / "requests.log", until)
    few, many = (no_op[queues] for queues in QUEUES)
    return {
        "database": "postgresql" if postgres else "sqlite",
        "rehearsed": not unrehearsed,
        "release_to_start_ms": {name: round(common.quantile(gaps, share) * 1000) for name, share in _SHARES},
        "due_to_start_s": {name: round(common.quantile(delays, share), 3) for name, share in _SHARES},
        "started": len(delays),
        "no_op": {f"{queues}_queues": figures for queues, figures in no_op.items()},
        "cpu_ratio": round((many["cpu_ms"] + many["redis_cpu_ms"]) / (few["cpu_ms"] + few["redis_cpu_ms"]), 2),
    }


_SHARES = (("p50", 0.5), ("p95", 0.95), ("max", 1.0))


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--unrehearsed", action="store_true")
    print(json.dumps(run(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
