"""F15: a tick that lasts as long as fifteen. Nothing piles up, and the ticks that did not come are counted.

By the clock: a tick that lasts longer than it should misses more.
"""

import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from portal import queueing
from portal.domain import tempo
from portal.extensions import db
from portal.tables import Execution, WorkflowNode
from scheduler import periodic, process
from testing.live import Live
from testing.measuring import clocks, judges
from testing.stack import TEMPO
from tests.faults.conftest import Polled

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.clock, pytest.mark.timeout(180)]

TICK_SECONDS = 3
INTERVAL = 1
OLTS = 3
SLOW_TICKS = 3


@pytest.fixture
def slow_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the scheduler that is forked meanwhile."""
    real = process.tick

    def slowly(leader: str, now: datetime, *, redis_trouble: str = "") -> None:
        time.sleep(TICK_SECONDS)
        real(leader, now, redis_trouble=redis_trouble)

    monkeypatch.setattr(process, "tick", slowly)


def skipped_ticks(live: Live) -> list[int]:
    return [int(count) for count in re.findall(r"event=tick_slow .*skipped=(\d+)", live.stack.log("scheduler"))]


@pytest.mark.usefixtures("slow_ticks")
def test_f15_a_tick_of_seconds_piles_nothing_up_and_its_missed_beats_are_counted(site: Polled) -> None:
    with site(olts=OLTS, microseconds=1_000) as live:
        begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
        first = clocks.spread_first_runs(begin, INTERVAL)
        live.start("scheduler", "maintenance")  # nobody takes anything
        live.stack.wait_until(lambda: len(skipped_ticks(live)) >= SLOW_TICKS, "slow ticks", 60)
        assert min(skipped_ticks(live)) >= (TICK_SECONDS - 1) / tempo.at(TEMPO).tick - 1
        assert most_waiting() == 1
        live.start("pollers")
        until = datetime.now(UTC)
        clocks.stop(until)
        assert clocks.settle(60)
        slots = [(row.node_id or 0, row.scheduled_for) for row in live.executions()]
        found = judges.account(first, INTERVAL, until, slots, clocks.skips())
        assert (found.lost, found.doubled, found.off_grid) == (0, 0, 0)
        assert found.ran >= OLTS and found.skipped > found.ran, "of several slots in one tick the latest runs"


def most_waiting() -> int:
    """The most that waits of one node, in the database and in its OLT's queue; no periodic job waits twice."""
    db.session.rollback()
    counts = select(func.count()).select_from(Execution).group_by(Execution.node_id)
    redis = queueing.connection()
    jobs = redis.lrange(f"rq:queue:{queueing.MAINTENANCE_QUEUE}", 0, -1)
    assert len(jobs) == len(set(jobs)) <= len(periodic.JOBS)
    olts = db.session.scalars(select(Execution.olt_id).distinct())
    queued = [redis.zcard(f"{queueing.WAITING_PREFIX}{olt}") for olt in olts]
    nodes = db.session.scalar(select(func.count()).select_from(WorkflowNode))
    assert len(queued) == nodes == OLTS
    return max(*queued, *db.session.scalars(counts))
