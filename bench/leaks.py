"""Leaks (F22): many composites that read nothing; do the pollers grow, leave zombies, descriptors or keys behind?

They are queued in waves; between two waves, when all is idle, memory, descriptors, children and Redis keys are counted.
`rss_mib_per_10k` is the slope of the line through the counts after the first fifth, for the pool and for the poller
that grows most. Goal: under 1 MiB per 10,000, no zombies, descriptors and keys as they were.
Run: `python -m bench.leaks [--composites 2000] [--postgres]` (50,000 for the whole goal); prints one JSON line.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from portal import queueing
from portal.domain.statuses import ACTIVE
from portal.extensions import db
from portal.tables import Execution
from testing.measuring import clocks, grounds, no_op
from testing.measuring.grounds import Agents, Ground
from testing.measuring.leaks import Count, count
from testing.stack import children

POLLERS = 4
OLTS, NODES = 50, 4  # a wave is one composite of each node
WAVE = OLTS * NODES
WARM_UP = 5  # one of so many counts is not looked at
GOAL_MIB = 1.0
SECONDS_EACH = 1.0  # a wave that takes longer than this for each composite has got stuck


def slope(counts: Sequence[Count], pid: int) -> float:
    """MiB for 10,000 composites, by least squares."""
    steady = counts[len(counts) // WARM_UP :]
    line = statistics.linear_regression([one.composites for one in steady], [one.rss[pid] / 1024 for one in steady])
    return line.slope * 10_000


def _idle(pool: int) -> bool:
    """Nothing waits or runs, no poller has a horse and none holds an OLT."""
    active = db.session.scalar(select(func.count()).select_from(Execution).where(Execution.status.in_(ACTIVE)))
    held = queueing.connection().exists(*(f"{queueing.LEASE_PREFIX}{olt}" for olt in range(1, OLTS + 10)))
    return not active and not held and not any(children(worker) for worker in children(pool))


def _waves(place: Ground, composites: int) -> list[Count]:
    with no_op.reading_nothing():
        pool = place.running.start("pollers").pid
    place.running.wait_until(lambda: grounds.fresh_pollers() == POLLERS, "all pollers", 60)
    nodes = no_op.olts(OLTS, NODES)
    begin = datetime.now(UTC).replace(microsecond=0)
    counts = []
    for wave in range(-(-composites // WAVE)):
        no_op.queue(nodes, begin + timedelta(seconds=wave))  # another slot each time
        if not clocks.wait_for(lambda: _idle(pool), WAVE * SECONDS_EACH):
            raise RuntimeError(f"wave {wave} did not end:\n{place.running.log_tail('pollers')}")
        counts.append(count((wave + 1) * WAVE, pool))
    return counts


def _figures(counts: Sequence[Count]) -> dict[str, object]:
    first, last = counts[len(counts) // WARM_UP], counts[-1]
    pool, *workers = last.rss
    slopes = {pid: slope(counts, pid) for pid in last.rss}
    grown = {pid: last.descriptors[pid] - first.descriptors.get(pid, 0) for pid in last.rss}
    worst = max(slopes[pid] for pid in workers)
    figures = {
        "composites": last.composites,
        "rss_mib": {"pool": last.rss[pool] // 1024, "poller_max": max(last.rss[pid] for pid in workers) // 1024},
        "rss_mib_per_10k": {"pool": round(slopes[pool], 2), "poller_max": round(worst, 2)},
        "zombies": max(one.zombies for one in counts),
        "descriptors_grown": max(grown.values()),
        "keys": {"first": first.keys, "last": last.keys},
        "pollers_replaced": len(set(last.rss) - set(counts[0].rss)),
    }
    lean = max(slopes[pool], worst) < GOAL_MIB
    return figures | {"goal_met": lean and not figures["zombies"] and not any(grown.values()) and
                      first.keys == last.keys}  # fmt: skip


def run(composites: int, *, postgres: bool) -> dict[str, object]:
    """The figures."""
    settings: dict[str, Any] = {"pollers": POLLERS, "quarantine_seconds": 0}
    began = time.monotonic()
    with grounds.folder() as where:
        with grounds.ground(where, Agents(1, 8, 0), no_op.TEMPLATE, postgres=postgres, **settings) as place:
            figures = _figures(_waves(place, composites))
    return {"database": "postgresql" if postgres else "sqlite", **figures, "seconds": round(time.monotonic() - began)}


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--composites", type=int, default=2000)
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    print(json.dumps(run(options.composites, postgres=options.postgres)))


if __name__ == "__main__":
    main()
