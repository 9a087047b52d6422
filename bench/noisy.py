"""Noisy neighbours (F18): one OLT answers 100 times slower, one has 250 urgent jobs queued; how long do others wait?

All others are asked for one composite each, one after the other, evenly over `--seconds`. The wait is from the moment
at which it was queued to the start of its first try, by SQL. `alone`: without the two. Goal: p95 under 0.5 s.
Run: `python -m bench.noisy [--olts 38] [--pollers 6] [--jobs 250] [--seconds 40] [--postgres]`; prints one JSON line.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select

from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from portal.services.dispatch import run_requests
from portal.services.network import olts
from portal.tables import Execution, ExecutionAttempt, WorkflowNode
from testing.measuring import clocks, grounds, urgent
from testing.measuring.grounds import Agents, Ground
from testing.measuring.quantiles import quantile
from testing.oltsim_c import oltsim

REQUEST_MICROSECONDS = 5_000
TIMES_SLOWER = 100
TEMPLATE = """
      - {key: discovery, kind: discovery, oid: huawei.onu_state, interval: 5m}
"""
GOAL_SECONDS = 0.5


@dataclass(frozen=True)
class Options:
    """What to run."""

    olts: int
    pollers: int
    jobs: int
    seconds: float
    postgres: bool


def _ask_in_turn(masters: list[int], seconds: float) -> list[int]:
    """One run of each, evenly spread; ids of the executions."""
    begin, asked = time.monotonic(), []
    for number, master in enumerate(masters):
        time.sleep(max(0.0, begin + number * seconds / len(masters) - time.monotonic()))
        asked.append(run_requests.run_now(master, "bench", datetime.now(UTC))[0])
    return asked


def _waits(asked: list[int], seconds: float) -> list[float]:
    """Seconds from queueing to start, once all have started; of those that have not after so long there is none."""
    started = (
        select(Execution.scheduled_for, ExecutionAttempt.started_at)
        .join(ExecutionAttempt, ExecutionAttempt.execution_id == Execution.id)
        .where(Execution.id.in_(asked), ExecutionAttempt.number == 1)
    )
    clocks.wait_for(lambda: len(db.session.execute(started).all()) == len(asked), seconds)
    return [(row.started_at - row.scheduled_for).total_seconds() for row in db.session.execute(started)]


def _measured(masters: list[int], options: Options) -> dict[str, object]:
    asked = _ask_in_turn(masters, options.seconds)
    waits = _waits(asked, 60)
    shares = (("p50", 0.5), ("p95", 0.95), ("max", 1.0))
    figures: dict[str, object] = {name: round(quantile(waits, share), 3) for name, share in shares}
    return figures | {"asked": len(asked), "started": len(waits)}


def _disturb(place: Ground, slow_port: int, number: int, jobs: int) -> tuple[int, int]:
    """A slow OLT and a noisy one (of this number in the agents' log), both with as many urgent jobs; their ids."""
    now = datetime.now(UTC)
    fields = {"address": "127.0.0.1", "brand": "huawei", "credential": "sim", "timeout": 3, "retries": 0}
    noisy = place.olt_ids()[number]
    slow = olts.create(fields | {"name": "SIM-SLOW", "port": slow_port}, "bench", now)
    for olt_id in (slow, noisy):
        urgent.give_nodes(olt_id, jobs)
        urgent.queue_manual(olt_id, now)
    return slow, noisy


def _done(olt_id: int) -> int:
    success = (Execution.olt_id == olt_id) & (Execution.status == ExecutionStatus.SUCCESS)
    db.session.rollback()
    return db.session.scalar(select(func.count()).select_from(Execution).where(success)) or 0


def run(options: Options) -> dict[str, object]:
    """The figures."""
    slow_agent = oltsim("--delay-us", str(TIMES_SLOWER * REQUEST_MICROSECONDS), onus=8)
    agents = Agents(options.olts + 1, 8, REQUEST_MICROSECONDS)  # the last one is the noisy one
    settings: dict[str, Any] = {"postgres": options.postgres, "pollers": options.pollers, "quarantine_seconds": 0}
    with (
        grounds.folder() as where,
        slow_agent as slow_port,
        grounds.ground(where, agents, TEMPLATE, **settings) as place,
    ):
        place.running.start("pollers")
        place.running.wait_until(lambda: grounds.fresh_pollers() == options.pollers, "all pollers", 60)
        discoveries = select(WorkflowNode.id).where(WorkflowNode.key == "discovery").order_by(WorkflowNode.id)
        masters = list(db.session.scalars(discoveries))[: options.olts]
        alone = _measured(masters, options)
        slow, noisy = _disturb(place, slow_port, options.olts, options.jobs)
        disturbed = _measured(masters, options)
        done = {"slow_done": _done(slow), "noisy_done": _done(noisy)}
    return {
        "database": "postgresql" if options.postgres else "sqlite",
        **{name: value for name, value in asdict(options).items() if name != "postgres"},
        "alone_s": alone, "disturbed_s": disturbed, **done,
        "goal_met": float(str(disturbed["p95"])) < GOAL_SECONDS and disturbed["started"] == disturbed["asked"],
    }  # fmt: skip


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--olts", type=int, default=38, help="other OLTs")
    parser.add_argument("--pollers", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=250)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--postgres", action="store_true")
    print(json.dumps(run(Options(**vars(parser.parse_args())))))


if __name__ == "__main__":
    main()
