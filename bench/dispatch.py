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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select, update

from portal import queueing
from portal.domain.statuses import ExecutionStatus, NodeKind
from portal.extensions import db, transaction
from portal.services.dispatch import rehearsal
from portal.tables import Execution, Olt, Workflow, WorkflowNode
from testing.measuring import clocks, grounds, no_op
from testing.measuring.grounds import Agents, Ground
from testing.measuring.quantiles import quantile

POLLERS = 4
CHAIN = 60  # composites in the one OLT's queue
QUEUES = (10, 2000)
QUEUED = 2000  # composites that wait at first, whatever the number of queues
MEASURED = 500  # of them
DUE_OLTS, DUE_SECONDS = 20, 40


# --- release to next start


def _release_to_start(place: Ground) -> dict[str, float]:
    first = select(Olt.id, Workflow.id).join(Workflow).order_by(Olt.id).limit(1)
    olt_id, workflow_id = db.session.execute(first).one()
    with transaction() as session:
        session.execute(insert(no_op.table(WorkflowNode)), [
            {"workflow_id": workflow_id, "key": f"q{k}", "name": f"q{k}", "kind": NodeKind.GET,
             "oid": "generic.sys_up_time", "interval_seconds": 300, "priority": 40}
            for k in range(CHAIN)
        ])  # fmt: skip
    ids = db.session.scalars(select(WorkflowNode.id).where(WorkflowNode.key.like("q%")))
    no_op.queue([(node, olt_id) for node in ids], datetime.now(UTC))
    place.running.start("pollers")
    clocks.wait_for(lambda: no_op.done() >= CHAIN, 120)
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
    clocks.sleep_until(begin + timedelta(seconds=DUE_SECONDS + 5))
    for name in ("scheduler", "pollers"):
        place.running.stop(name)
    db.session.rollback()
    query = select(Execution.delay_ms).where(Execution.scheduled_for >= begin, Execution.delay_ms.is_not(None))
    return [delay / 1000 for delay in db.session.scalars(query) if delay is not None]


# --- no-op composites


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
    with no_op.reading_nothing():
        pool = place.running.start("pollers")
    clocks.wait_for(lambda: grounds.fresh_pollers() == POLLERS, 60)
    nodes = no_op.olts(queues, QUEUED // queues)
    before = no_op.done()
    no_op.queue(nodes, datetime.now(UTC))
    clocks.wait_for(lambda: no_op.done() > before + 20, 60, pause=0.01)
    first, began, cpu, redis = no_op.done(), time.monotonic(), _cpu_ms(_family(pool.pid)), _redis_ms()
    clocks.wait_for(lambda: no_op.done() >= first + MEASURED, 120, pause=0.05)
    count, took = no_op.done() - first, time.monotonic() - began
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
    with grounds.folder() as where:
        settings: dict[str, Any] = {"pollers": POLLERS, "quarantine_seconds": 0}
        with grounds.ground(where, Agents(DUE_OLTS, 8, 0), no_op.TEMPLATE, postgres=postgres, **settings) as place:
            _release_to_start(place)
            until = time.time()
            delays = _due_to_start(place)
            costs = {queues: _no_op(place, queues) for queues in QUEUES}
        gaps = _gaps(where / "requests.log", until)
    few, many = (costs[queues] for queues in QUEUES)
    return {
        "database": "postgresql" if postgres else "sqlite",
        "rehearsed": not unrehearsed,
        "release_to_start_ms": {name: round(quantile(gaps, share) * 1000) for name, share in _SHARES},
        "due_to_start_s": {name: round(quantile(delays, share), 3) for name, share in _SHARES},
        "started": len(delays),
        "no_op": {f"{queues}_queues": figures for queues, figures in costs.items()},
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
