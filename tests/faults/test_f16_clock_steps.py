"""F16: the clock of one host is set (of the scheduler's, the pollers' or Redis'), and set right again.

Both changes of summer time are no steps: every process counts in UTC. What a cron line makes of them is in
tests/integration/test_ticks.py.

By the clock: a tick comes within a second of its time, and every OLT is read again soon.
"""

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from portal.domain import tempo
from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from testing.live import LOG, Live
from testing.measuring import clocks, judges, stale_writes
from testing.stack import TEMPO
from tests.faults.conftest import Polled

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.clock, pytest.mark.timeout(240)]

OLTS = 3
INTERVAL = 2
TICKS = 3
TICK_SECONDS = tempo.at(TEMPO).tick + 1.0  # the machine may need a second of its own
PATIENCE = 8.0 + 7.0 / TEMPO  # a lease, an interval and composites take as long at any tempo, the reaper does not
SUCCESS = ExecutionStatus.SUCCESS

CASES = [
    *(("sqlite", host, seconds) for host in ("scheduler", "pollers", "redis") for seconds in (-3600, 3600)),
    # A small step back is waited for: longer than a lease, a tick and an interval; and less than a second's worth.
    *(("sqlite", host, seconds) for host, seconds in (("scheduler", -6), ("pollers", -6), ("redis", -6))),
    ("sqlite", "scheduler", -1),
    *(("postgresql", "scheduler", seconds) for seconds in (-3600, 3600)),
]


@pytest.mark.parametrize(("database_url", "host", "seconds"), CASES, indirect=["database_url"])
def test_f16_a_step_of_a_hosts_clock_stops_no_tick_brings_no_burst_and_ends_nothing_for_long(
    site: Polled, tmp_path: Path, host: str, seconds: int
) -> None:
    settings = {"microseconds": 15_000, "quarantine_seconds": 1}
    with site(olts=OLTS, clocks=(host,), **settings) as live, stale_writes.installed(db.session()):
        began = time.monotonic()
        clocks.spread_first_runs(datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1), INTERVAL)
        live.start()
        live.wait_for(SUCCESS, count=OLTS)
        clock = live.stack.clocks[host]
        for step in (seconds, 0):
            clock.step(step)
            live.stack.wait_until(lambda ahead=step: abs(seen_ahead(live, host) - ahead) < 0.9, "the step to be seen")
            goes_on(live, abs(seconds))
        clocks.stop(datetime.now(UTC) + timedelta(seconds=INTERVAL))
        assert clocks.settle(30)
        runs = Counter(row.node_id for row in live.executions())
        slots = (time.monotonic() - began) / INTERVAL
        assert max(runs.values()) <= slots + 3, "a burst"
        assert stale_writes.counts(db.session()) == {}
    met = judges.overlaps(judges.requests(tmp_path / LOG), complete=17)
    assert met <= (OLTS if host == "redis" else 0)


def seen_ahead(live: Live, host: str) -> float:
    """Seconds by which that host's clock is ahead, by the last thing it stamped."""
    now = datetime.now(UTC).timestamp()
    if host == "redis":
        with live.stack.redis.client() as client:
            seconds, micros = client.time()
        return float(seconds + micros / 1e6 - now)
    stamped = clocks.last_tick() if host == "scheduler" else live.attempts()[-1].started_at
    return stamped.timestamp() - now if stamped else 0.0


def goes_on(live: Live, away: int) -> None:
    """Ticks come on time, and every OLT is read again: at most so many seconds later as a small step took."""
    for _ in range(TICKS):
        assert clocks.wait_for_tick(TICK_SECONDS), "a tick"
    patience = PATIENCE + (away if away < 60 else 0)
    done = Counter(row.olt_id for row in live.executions() if row.status is SUCCESS)
    live.stack.wait_until(lambda: all_read_since(live, done), "all OLTs read again", patience)


def all_read_since(live: Live, done: Counter[int]) -> bool:
    now_done = Counter(row.olt_id for row in live.executions() if row.status is SUCCESS)
    return all(now_done[olt] > count for olt, count in done.items())
