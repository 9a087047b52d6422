"""Restart of everything with 500 nodes overdue: are their starts spread, is any started twice, is every slot counted?

Some nodes missed several slots; of one in five the latest slot passed too long ago to run late. Real pollers read
simulated OLTs, a handful of ONUs each.
Run: `python -m bench.restart` (SQLite) or `python -m bench.restart --postgres`. About two minutes, four at most.
"""

import argparse
import json
import random
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select

from portal.domain.statuses import ACTIVE, TERMINAL, ExecutionStatus
from portal.extensions import db, transaction
from portal.tables import Execution, ExecutionAttempt, WorkflowNode
from testing.measuring.clocks import settle, skips
from testing.measuring.grounds import Agents, Ground, folder, fresh_pollers, ground

INTERVALS = (300, 600, 900, 1800, 3600)  # seconds
WORTH = (10, 0.35)  # the latest slot passed at least so many seconds ago, and at most that share of the interval
TOO_LONG_AGO = (0.55, 0.7)  # shares of the interval
WATCH_SECONDS = 75  # the spread, and a little more
SETTLE_SECONDS = 150  # at most; a machine that does nothing else needs none of it

TEMPLATE = "\n".join(
    f"      - {{key: n{n}, kind: walk, oid: huawei.onu_state, interval: {seconds}s, override: bench}}"
    for n, seconds in enumerate(INTERVALS)
)


@dataclass(frozen=True)
class Options:
    """What to run."""

    postgres: bool
    olts: int
    pollers: int
    seed: int


@dataclass(frozen=True)
class Overdue:
    """A node when everything was stopped: its first slot that passed unseen, the one that shall still run (if any),

    and how many shall not.
    """

    first: datetime
    interval: int
    late: datetime | None
    missed: int


def make_overdue(now: datetime) -> dict[int, Overdue]:
    """Every node has missed one to four slots; node id → what it missed."""
    made = {}
    with transaction() as session:
        for node in session.scalars(select(WorkflowNode).order_by(WorkflowNode.id)):
            interval = node.interval_seconds or 0
            runs = random.random() >= 0.2
            low, high = (WORTH[0], WORTH[1] * interval) if runs else (share * interval for share in TOO_LONG_AGO)
            latest = (now - timedelta(seconds=random.uniform(low, high))).replace(microsecond=0)
            before = random.randint(0, 3)
            first = latest - timedelta(seconds=interval * before)
            node.next_run_at = node.anchor_at = first
            made[node.id] = Overdue(first, interval, latest if runs else None, before + (not runs))
    return made


def start(made: Ground, options: Options) -> None:
    """Everything at once."""
    for name in ("pollers", "maintenance", "scheduler"):
        made.running.start(name)
    made.running.wait_until(lambda: fresh_pollers() == options.pollers, "all pollers", 60)


def judge(options: Options, overdue: dict[int, Overdue]) -> dict[str, object]:
    """The figures, from SQL alone."""
    db.session.rollback()
    rows = [row for row in db.session.scalars(select(Execution)) if row.node_id is not None]
    late = [row for row in rows if row.scheduled_for == overdue[row.node_id or 0].late]
    starts = sorted(first_starts([row.id for row in late]))
    taken = Counter((row.node_id or 0, row.scheduled_for) for row in rows)
    skipped = skipped_slots(overdue)
    due = due_slots(overdue)
    return {
        "database": "postgresql" if options.postgres else "sqlite",
        "overdue": len(overdue),
        "started_late": len(late),
        "spread_s": round((starts[-1] - starts[0]).total_seconds(), 1) if starts else 0.0,
        "most_in_a_second": max(Counter(int(one.timestamp()) for one in starts).values(), default=0),
        "started_twice": sum((taken + skipped - due).values()) + sum(row.attempt > 1 for row in rows),
        "early": sum(row.started_at is not None and row.started_at < row.scheduled_for for row in rows),
        "skipped": skipped.total(),
        "skipped_by_arithmetic": sum(one.missed for one in overdue.values()),
        "lost": (due - taken - skipped).total(),
        "unfinished": sum(row.status in ACTIVE for row in rows),
        "failed": sum(row.status in TERMINAL and row.status is not ExecutionStatus.SUCCESS for row in rows),
        "on_time_meanwhile": len(rows) - len(late),
    }


def first_starts(ids: list[int]) -> list[datetime]:
    """When the first try of each began."""
    first = func.min(ExecutionAttempt.started_at)
    query = select(first).where(ExecutionAttempt.execution_id.in_(ids)).group_by(ExecutionAttempt.execution_id)
    return list(db.session.scalars(query))


def skipped_slots(overdue: dict[int, Overdue]) -> Counter[tuple[int, datetime]]:
    """(node, slot) of all that was logged as skipped."""
    found = Counter[tuple[int, datetime]]()
    for node, first, last in skips():
        step = timedelta(seconds=overdue[node].interval)
        found.update((node, first + k * step) for k in range(round((last - first) / step) + 1))
    return found


def due_slots(overdue: dict[int, Overdue]) -> Counter[tuple[int, datetime]]:
    """(node, slot) by arithmetic: from its first to where its clock stands now."""
    found = Counter[tuple[int, datetime]]()
    for node, following in db.session.execute(select(WorkflowNode.id, WorkflowNode.next_run_at)):
        step = timedelta(seconds=overdue[node].interval)
        slots = range(round((following - overdue[node].first) / step))
        found.update((node, overdue[node].first + k * step) for k in slots)
    return found


def run(options: Options) -> dict[str, object]:
    """The whole benchmark."""
    random.seed(options.seed)
    began = time.monotonic()
    agents = Agents(options.olts, onus=4, microseconds=1000)
    with folder() as where, ground(where, agents, TEMPLATE, postgres=options.postgres, pollers=options.pollers) as made:
        overdue = make_overdue(datetime.now(UTC))
        start(made, options)
        time.sleep(WATCH_SECONDS)
        made.running.stop("scheduler")  # no further slots
        settle(SETTLE_SECONDS)
        return judge(options, overdue) | {"seconds": round(time.monotonic() - began)}


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--olts", type=int, default=100, help="with five nodes each")
    parser.add_argument("--pollers", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    print(json.dumps(run(Options(**vars(parser.parse_args())))))


if __name__ == "__main__":
    main()
