"""Cost of a pass of the coordinator over 1,000 and 5,000 OLTs of 20 nodes: nothing changed, 10 changed, a new hour.

Run: `python -m bench.coordinator` (SQLite) or `python -m bench.coordinator --postgres`. Two minutes; one line of JSON.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, select, update

from bench.tick import Options as TickOptions
from bench.tick import application, rows, settle
from portal.domain import quota
from portal.domain.statuses import NodeKind
from portal.extensions import db, transaction
from portal.services.coordinating import closing
from portal.tables import Brand, Credential, Olt, QuotaTracker, QuotaViolation, Workflow, WorkflowNode
from scheduler.coordinator import loop, observe
from testing.cast import HOUR

SIZES = (1_000, 5_000)
CHANGED = 10  # OLTs


@dataclass(frozen=True)
class Options:
    """What to measure."""

    postgres: bool
    nodes: int
    passes: int


def add_olts(first: int, last: int, now: datetime) -> None:
    """OLTs with an empty workflow each; equal ids in both tables."""
    if first == 1:
        rows(Brand, [{"id": 1, "key": "huawei", "name": "Huawei"}])
        rows(Credential, [{"id": 1, "name": "lab", "version": "2c"}])
    numbers = range(first, last + 1)
    rows(Olt, [
        {"id": n, "name": f"OLT-{n:05}", "address": f"10.{n // 62_500}.{n // 250 % 250}.{n % 250 + 1}", "brand_id": 1,
         "credential_id": 1, "created_at": now}
        for n in numbers
    ])  # fmt: skip
    rows(Workflow, [{"id": n, "olt_id": n} for n in numbers])


def add_nodes(first_olt: int, last_olt: int, options: Options, now: datetime) -> None:
    """A discovery and GETs on each of these OLTs, with clocks that strike within five minutes of the next hour."""
    rows(WorkflowNode, [
        {"id": (olt - 1) * options.nodes + number + 1, "workflow_id": olt, "key": f"node_{number}",
         "name": f"Node {number}", "kind": NodeKind.GET if number else NodeKind.DISCOVERY,
         "oid": "huawei.onu_rx_power", "interval_seconds": 300 if number % 4 else 900,
         "priority": 40 if number else 90, "anchor_at": now, "enabled": True,
         "next_run_at": now + timedelta(seconds=(olt * 7 + number * 13) % 300 + 1)}
        for olt in range(first_olt, last_olt + 1) for number in range(options.nodes)
    ])  # fmt: skip


def timed(work: Callable[[], Any]) -> float:
    """Milliseconds, by the clock, on a session without anything remembered."""
    db.session.remove()
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def pace_of(olts: int, turn: int) -> None:
    """Another interval for one node of each of CHANGED OLTs, and its clock with it."""
    with transaction() as session:
        chosen = [olt * (olts // CHANGED) + 1 for olt in range(CHANGED)]
        changed = update(WorkflowNode).where(WorkflowNode.workflow_id.in_(chosen), WorkflowNode.key == "node_1")
        session.execute(changed.values(interval_seconds=360 + turn * 60))


def until_opened(moment: datetime) -> None:
    """Passes until the promises of every OLT are open."""
    while any(observe.differing(db.session(), quota.hour_at(moment))):
        loop.run(moment)


def measure(olts: int, options: Options, begin: datetime) -> dict[str, float]:
    """Figures of one size, in ms."""
    opening = timed(lambda: until_opened(begin))
    settle(options.postgres)
    idle, changed = [], []
    for turn in range(options.passes):
        moment = begin + timedelta(seconds=10 + 5 * turn)
        idle.append(timed(lambda at=moment: _expect(loop.run(at), 0)))  # type: ignore[misc]
        pace_of(olts, turn)
        changed.append(timed(lambda at=moment: _expect(loop.run(at), CHANGED)))  # type: ignore[misc]
    following = timed(lambda: until_opened(begin + HOUR))
    closing_ms = timed(lambda: closing.close_due(begin + HOUR + closing.PATIENCE + timedelta(minutes=1)))
    return {
        "unchanged_median": round(statistics.median(idle), 1), "unchanged_worst": round(max(idle), 1),
        "changed_median": round(statistics.median(changed), 1), "changed_worst": round(max(changed), 1),
        "first_sight": round(opening), "opening_an_hour": round(following), "closing_all_violated": round(closing_ms),
    }  # fmt: skip


def _expect(found: int, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"a pass found {found} changes instead of {wanted}")


def run(options: Options) -> dict[str, object]:
    """The whole benchmark; the figures."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    sizes: dict[str, dict[str, float]] = {}
    tick_options = TickOptions(options.postgres, SIZES[-1], 0, 0, 0, 1)
    with application(tick_options):
        before = 0
        for size in SIZES:
            begin = now + timedelta(days=1 + size)
            add_olts(before + 1, size, now)
            add_nodes(before + 1, size, options, begin)
            with transaction() as session:  # the OLTs of the size before go on from here
                shift = update(WorkflowNode).where(WorkflowNode.next_run_at < begin)
                session.execute(shift.values(next_run_at=begin + timedelta(seconds=90)))
            settle(options.postgres)
            sizes[str(size)] = measure(size, options, begin)
            before = size
        trackers = db.session.scalar(select(func.count()).select_from(QuotaTracker))
        violations = db.session.scalar(select(func.count()).select_from(QuotaViolation))
    small, large = (sizes[str(size)]["unchanged_median"] for size in SIZES)
    return {
        "database": "postgresql" if options.postgres else "sqlite", "nodes": options.nodes, "ms": sizes,
        "ratio": round(large / small, 2), "trackers": trackers, "violations": violations,
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--passes", type=int, default=9)
    print(json.dumps(run(Options(**vars(parser.parse_args())))))


if __name__ == "__main__":
    main()
