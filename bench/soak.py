"""Soak: many simulated OLTs, a chain each; is every slot run, alone on its OLT, also when a poller is killed?

The judges are the agents' own request log and SQL, not the code under test.
Run: `python -m bench.soak --olts 20 --minutes 10`.
"""

import argparse
import json
import random
import signal
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import select

from portal.domain.statuses import ACTIVE, AttemptStatus, ExecutionStatus
from portal.extensions import db
from portal.tables import Execution, ExecutionAttempt, Olt, Poller
from testing.measuring import clocks, grounds, judges
from testing.measuring.grounds import Agents, Ground
from testing.measuring.quantiles import quantile
from testing.stack import Stack, send

ONUS = 128
REQUEST_MICROSECONDS = 60_000  # service time of one request, as a busy OLT has it
SETTLE_SECONDS = 20

TEMPLATE = """
      - key: discovery
        kind: discovery
        oid: huawei.onu_state
        interval: 60s
        override: soak
        chain:
          - {key: rx, kind: get, oid: huawei.onu_rx_power}
          - {key: description, kind: get, oid: huawei.onu_description}
"""


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


def run(plan: Plan) -> dict[str, object]:
    """The whole soak; the figures."""
    agents = Agents(plan.olts, ONUS, REQUEST_MICROSECONDS)
    with grounds.folder() as folder:
        with grounds.ground(folder, agents, TEMPLATE, postgres=plan.postgres, pollers=plan.pollers) as ground:
            first, kills, until = _drive(plan, ground)
            figures = _judge(plan, first, kills, until)
        return figures | _requests(folder / "requests.log")


def _requests(log: Path) -> dict[str, object]:
    seen = list(judges.requests(log))
    return {"overlaps": judges.overlaps(seen, judges.usual_length(seen)), "requests": len(seen)}


def _drive(plan: Plan, ground: Ground) -> tuple[dict[int, datetime], list[Kill], datetime]:
    running = ground.running
    for name in ("scheduler", "pollers", "maintenance"):
        running.start(name)
    running.wait_until(lambda: grounds.fresh_pollers() == plan.pollers, "all pollers", 60)
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=5)
    first = clocks.spread_first_runs(begin, plan.interval)
    until = begin + timedelta(minutes=plan.minutes, seconds=-0.5)  # between two slots
    kills = []
    for number in range(plan.kills):
        clocks.sleep_until(begin + (until - begin) * (number + 1) / (plan.kills + 1))
        kills.append(_kill_busy(running))
    clocks.sleep_until(until)
    clocks.stop(until)
    clocks.settle(SETTLE_SECONDS)
    return first, kills, until


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
    send(poller.pid, signal.SIGKILL)
    return Kill(datetime.now(UTC), execution_id)


def _judge(plan: Plan, first: dict[int, datetime], kills: list[Kill], until: datetime) -> dict[str, object]:
    db.session.rollback()
    rows = list(db.session.scalars(select(Execution).where(Execution.scheduled_for < until)))
    delays = [row.delay_ms / 1000 for row in rows if row.delay_ms is not None]
    slots = judges.account(
        first, plan.interval, until, [(r.node_id or 0, r.scheduled_for) for r in rows], clocks.skips()
    )
    interrupted = AttemptStatus.INTERRUPTED
    return {
        "olts": db.session.query(Olt).count(),
        "minutes": plan.minutes,
        "database": "postgresql" if plan.postgres else "sqlite",
        "slots_due": slots.due,
        "runs_ok": sum(row.status is ExecutionStatus.SUCCESS for row in rows),
        "runs_failed": sum(row.status is ExecutionStatus.FAILED for row in rows),
        "still_active": sum(row.status in ACTIVE for row in rows),
        "skipped": slots.skipped,
        "interrupted": db.session.query(ExecutionAttempt).filter_by(status=interrupted).count(),
        "kills": len(kills),
        "lost": slots.lost,
        "doubled": slots.doubled,
        "delay_p50_s": round(quantile(delays, 0.50), 3),
        "delay_p99_s": round(quantile(delays, 0.99), 3),
        "recovery_max_s": round(max((_recovery(kill) for kill in kills), default=0.0), 2),
    }


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
