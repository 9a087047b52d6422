"""What a tick decides of each due master: run, run late, or skip with a cause."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from portal.domain.slots import DueMaster, Plan
from portal.domain.statuses import SkipReason
from scheduler.planner import plan

TEN = datetime(2026, 11, 27, 10, 0, tzinfo=UTC)


def hourly(line: str, moment: datetime) -> datetime:
    """A cron line that fires at each full hour."""
    return moment.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)


def master(due: datetime = TEN, interval: int | None = 600, **more: object) -> DueMaster:
    cron = None if interval else "0 * * * *"
    return DueMaster(1, "rx", 7, "192.0.2.1:161", 40, due, interval, cron, **more)  # type: ignore[arg-type]


def planned(one: DueMaster, now: datetime, **more: bool) -> Plan:
    return plan([one], now, hourly, **more)


def test_a_slot_that_has_come_runs_and_the_clock_moves_along_the_grid() -> None:
    result = planned(master(), TEN + timedelta(seconds=1))
    assert [new.scheduled_for for new in result.new] == [TEN]
    assert result.next_runs == {1: TEN + timedelta(minutes=10)}
    assert result.skipped == ()


def test_a_slot_that_finds_its_node_active_is_skipped_with_that_cause() -> None:
    result = planned(master(active_id=5), TEN)
    assert result.new == ()
    assert [skip.reason for skip in result.skipped] == [SkipReason.STILL_ACTIVE]
    assert result.next_runs == {1: TEN + timedelta(minutes=10)}


def test_an_execution_that_waits_for_a_retry_gives_way_to_the_next_slot() -> None:
    result = planned(master(active_id=5, active_waits_to_retry=True), TEN)
    assert [new.supersedes for new in result.new] == [5]


def test_of_the_slots_missed_in_an_outage_only_the_latest_runs_late() -> None:
    result = planned(master(), TEN + timedelta(minutes=33))
    assert [new.scheduled_for for new in result.new] == [TEN + timedelta(minutes=30)]
    assert [(skip.count, skip.reason) for skip in result.skipped] == [(3, SkipReason.SCHEDULER_DOWN)]
    assert result.next_runs == {1: TEN + timedelta(minutes=40)}


def test_a_missed_slot_past_half_its_interval_is_not_caught_up() -> None:
    result = planned(master(), TEN + timedelta(minutes=36))
    assert result.new == ()
    assert [skip.count for skip in result.skipped] == [4]


def test_a_cron_master_follows_its_line() -> None:
    result = planned(master(interval=None), TEN + timedelta(hours=2, minutes=10))
    assert [new.scheduled_for for new in result.new] == [TEN + timedelta(hours=2)]
    assert [skip.count for skip in result.skipped] == [2]
    assert result.next_runs == {1: TEN + timedelta(hours=3)}


def test_from_end_stops_the_clock_of_a_node_that_runs() -> None:
    assert planned(master(), TEN, from_end=True).next_runs == {1: None}


def test_from_end_keeps_the_clock_of_a_node_that_is_skipped() -> None:
    assert planned(master(active_id=5), TEN, from_end=True).next_runs == {1: TEN + timedelta(minutes=10)}


def test_a_run_waits_one_whole_interval_before_it_goes_first() -> None:
    assert planned(master(), TEN).new[0].overdue_at == TEN + timedelta(minutes=10)


@given(
    interval=st.integers(30, 86_400),
    late=st.integers(0, 10_000_000),
    active=st.sampled_from([None, 5]),
    waits=st.booleans(),
)
def test_every_slot_that_has_come_is_run_or_skipped_exactly_once(
    interval: int, late: int, active: int | None, waits: bool
) -> None:
    now = TEN + timedelta(seconds=late)
    result = planned(
        master(interval=interval, active_id=active, active_waits_to_retry=waits and active is not None), now
    )
    assert len(result.new) + sum(skip.count for skip in result.skipped) == late // interval + 1
    following = result.next_runs[1]
    assert following is not None and now < following <= now + timedelta(seconds=interval)
    assert all(new.scheduled_for <= now for new in result.new)
