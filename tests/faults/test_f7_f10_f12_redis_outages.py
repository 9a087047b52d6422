"""F7, F10, F12: a Redis that is away, full, or frozen.

By the clock: what is loud or over within so many seconds, and a freeze that is shorter than the lease.
"""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from portal.domain.statuses import AttemptStatus, ErrorKind, ExecutionStatus
from portal.domain.tempo import NORMAL
from portal.extensions import db
from portal.queries import pulse
from portal.tables import SchedulerState
from testing.live import LOG, Live
from testing.measuring import judges
from testing.stack import TEMPO
from tests.faults.conftest import Polled

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.clock, pytest.mark.timeout(180)]

LEASE = 4
SLACK = 2.0  # seconds that no tempo makes fewer: forks, and a composite
SUCCESS = ExecutionStatus.SUCCESS


def within(seconds: float) -> float:
    """What the product does in so many seconds of its own takes this long here."""
    return seconds / TEMPO + SLACK


def polling(live: Live) -> dict[str, object]:
    """Everything runs and has done one round; the processes, to see later that they are the same."""
    live.start()
    live.due_now()
    live.wait_for(SUCCESS, count=2)
    return processes(live)


def processes(live: Live) -> dict[str, object]:
    alive = {name: process.poll() is None for name, process in live.stack.processes.items()}
    return alive | {"workers": sorted(live.workers())}


def ended_by(live: Live) -> list[ErrorKind | None]:
    return [attempt.error_kind for attempt in live.attempts()]


def away(live: Live, seconds: float) -> None:
    """By the product's own paces."""
    before = polling(live)
    live.stack.redis.kill()
    live.due_now()
    live.stack.wait_until(lambda: len(live.executions()) == 4, "slots taken without Redis")
    live.let_pass(seconds / TEMPO)
    live.stack.redis.start()
    live.wait_for(SUCCESS, count=4, timeout=LEASE + within(30))
    assert processes(live) == before


def test_f7_redis_away_for_five_seconds_ends_no_process_and_all_goes_on(site: Polled) -> None:
    with site(olts=2) as live:
        away(live, 5)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_f7_redis_away_for_twenty_seconds_ends_no_process_and_all_goes_on_within_thirty(site: Polled) -> None:
    with site(olts=2) as live:
        away(live, 20)


def full(live: Live) -> None:
    with live.stack.redis.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1")


def with_room(live: Live) -> None:
    with live.stack.redis.client() as client:
        client.config_set("maxmemory", "0")


def alarm() -> str:
    db.session.rollback()
    state = db.session.get(SchedulerState, 1)
    return state.error if state is not None else ""


def test_f10_a_full_redis_is_loud_within_ten_seconds_and_recovers_by_itself(site: Polled) -> None:
    with site(olts=2) as live:
        before = polling(live)
        full(live)
        live.due_now()
        live.stack.wait_until(lambda: "OutOfMemory" in live.stack.log("pollers"), "a word in the log", within(10))
        live.stack.wait_until(alarm, "the alarm on the scheduler's row", within(10))
        live.stack.wait_until(lambda: len(live.executions()) == 4, "slots taken all the same")
        live.stack.wait_until(
            lambda: pulse.read(datetime.now(UTC)).late, "the strip says that something is late", within(10)
        )
        with_room(live)
        live.wait_for(SUCCESS, count=4, timeout=LEASE + within(30))
        live.stack.wait_until(lambda: not alarm(), "the alarm is over", within(10))
        assert processes(live) == before


def test_f10_what_is_being_read_while_redis_fills_up_ends_well(site: Polled) -> None:
    with site(olts=2, microseconds=150_000) as live:
        live.start()
        live.due_now()
        live.wait_for(ExecutionStatus.RUNNING, count=2)
        full(live)
        live.wait_for(SUCCESS, count=2)
        with_room(live)
        assert [attempt.status for attempt in live.attempts()] == [AttemptStatus.SUCCESS] * 2


def frozen(live: Live, seconds: float) -> tuple[float, float]:
    """Redis stands still in the middle of two composites; from when to when."""
    live.start()
    live.due_now()
    live.wait_for(ExecutionStatus.RUNNING, count=2)
    live.stack.redis.freeze()
    began = time.time()
    live.let_pass(seconds)
    live.stack.redis.thaw()
    back = time.time()
    live.wait_for(SUCCESS, count=2)
    return began, back


def test_f12_a_redis_frozen_for_less_than_the_lease_costs_no_holder_its_composite(site: Polled) -> None:
    with site(olts=2, microseconds=150_000, lease_seconds=LEASE) as live:
        frozen(live, 1.5)
        assert [attempt.status for attempt in live.attempts()] == [AttemptStatus.SUCCESS] * 2


def test_f12_a_redis_frozen_for_two_leases_stops_its_holders_and_nobody_meets(site: Polled, tmp_path: Path) -> None:
    with site(olts=2, microseconds=150_000, lease_seconds=LEASE) as live:
        began, back = frozen(live, 2 * LEASE)
        assert ended_by(live)[:2] == [ErrorKind.LEASE_LOST] * 2
        assert {execution.attempt for execution in live.executions()} == {2}
    judged(tmp_path, began + LEASE, back)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_f12_a_redis_frozen_for_longer_than_anybody_waits_for_an_answer(site: Polled, tmp_path: Path) -> None:
    with site(olts=2, microseconds=150_000, lease_seconds=LEASE) as live:
        assert 20 > NORMAL.redis_answer
        began, back = frozen(live, LEASE + 20 / TEMPO)
        assert all(process.poll() is None for process in live.stack.processes.values())
    judged(tmp_path, began + LEASE, back)


def judged(folder: Path, proven_until: float, back: float) -> None:
    """No two met, and no request was sent under a lease that nobody could prove."""
    seen = list(judges.requests(folder / LOG))
    assert judges.overlaps(seen, complete=17) == 0
    assert [moment for moment, _, _ in seen if proven_until < moment < back] == []
