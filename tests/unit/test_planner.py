"""What a tick decides of each due master: run, run late, or skip with a cause."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain.slots import DueMaster, Plan
from portal.domain.statuses import SkipReason
from scheduler.planner import plan
from testing.cast import TEN


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
    assert [(skip.count, skip.hours) for skip in result.skipped] == [(2, {TEN - timedelta(hours=1): 1, TEN: 1})]
    assert result.next_runs == {1: TEN + timedelta(hours=3)}


def test_from_end_stops_the_clock_of_a_node_that_runs() -> None:
    assert planned(master(), TEN, from_end=True).next_runs == {1: None}


def test_from_end_keeps_the_clock_of_a_node_that_is_skipped() -> None:
    assert planned(master(active_id=5), TEN, from_end=True).next_runs == {1: TEN + timedelta(minutes=10)}


def test_a_run_waits_one_whole_interval_before_it_goes_first() -> None:
    assert planned(master(), TEN).new[0].overdue_at == TEN + timedelta(minutes=10)


def test_from_end_a_cron_line_goes_on() -> None:
    assert planned(master(interval=None), TEN, from_end=True).next_runs == {1: TEN + timedelta(hours=1)}


@pytest.mark.parametrize("reason", [SkipReason.OLT_UNREACHABLE, SkipReason.OLT_PAUSED])
def test_nothing_of_a_blocked_olt_runs_and_its_clock_goes_on_along_the_grid(reason: SkipReason) -> None:
    result = planned(master(blocked=reason), TEN + timedelta(minutes=33), from_end=True)
    assert result.new == ()
    assert [(skip.reason, skip.count, skip.first, skip.last) for skip in result.skipped] == [
        (reason, 4, TEN, TEN + timedelta(minutes=30))
    ]
    assert result.next_runs == {1: TEN + timedelta(minutes=40)}


@pytest.mark.parametrize(
    ("fields", "late"), [({"blocked": SkipReason.OLT_PAUSED}, timedelta(0)), ({}, timedelta(minutes=6))]
)
def test_a_retry_ends_when_its_nodes_next_slot_comes_though_that_is_skipped(
    fields: dict[str, Any], late: timedelta
) -> None:
    result = planned(master(active_id=5, active_waits_to_retry=True, **fields), TEN + late)
    assert result.new == ()
    assert [skip.supersedes for skip in result.skipped] == [5]


def test_a_node_of_a_few_seconds_is_not_skipped_by_a_tick_that_is_a_second_late() -> None:
    result = planned(master(interval=2), TEN + timedelta(seconds=1))
    assert [new.scheduled_for for new in result.new] == [TEN]


def many(count: int, due: datetime = TEN, interval: int = 3600, first: int = 1) -> list[DueMaster]:
    nodes = range(first, first + count)
    return [DueMaster(node, "rx", node, f"192.0.2.{node}:161", 40, due, interval, None) for node in nodes]


def test_starts_of_many_late_nodes_are_spread_over_a_minute() -> None:
    now = TEN + timedelta(minutes=2)
    new = plan(many(500), now, hourly).new
    starts = sorted(taken.not_before or now for taken in new)
    assert len(new) == 500 and starts[0] == now and starts[-1] - now >= timedelta(seconds=60)
    assert max(starts.count(start) for start in starts) == 1


def test_twenty_late_nodes_start_at_once() -> None:
    new = plan(many(20), TEN + timedelta(minutes=2), hourly).new
    assert [taken.not_before for taken in new] == [None] * 20


def test_what_came_on_time_is_never_spread() -> None:
    on_time = many(500, due=TEN + timedelta(minutes=2), first=1000)
    new = plan([*many(30), *on_time], TEN + timedelta(minutes=2, seconds=5), hourly).new
    assert {taken.master.node_id for taken in new if taken.not_before is not None} < set(range(1, 31))
    assert len(new) == 530


def test_a_late_node_that_gets_no_turn_ends_its_retry_all_the_same() -> None:
    waits = {"active_id": 5, "active_waits_to_retry": True}
    late = [replace(one, **waits) for one in many(30, interval=30)]  # type: ignore[arg-type]
    result = plan([*late, *many(30, first=100)], TEN + timedelta(seconds=10), hourly)
    turned_down = {skip.supersedes for skip in result.skipped if skip.master.interval_seconds == 30}
    assert turned_down == {5}


def test_a_late_node_whose_turn_comes_after_its_next_slot_is_skipped_with_the_cause() -> None:
    now = TEN + timedelta(seconds=10)
    result = plan([*many(30, interval=30), *many(30, first=100)], now, hourly)
    assert all(taken.not_before is None or taken.not_before < taken.overdue_at for taken in result.new)
    assert {skip.reason for skip in result.skipped} == {SkipReason.SCHEDULER_DOWN}
    assert len(result.new) + sum(skip.count for skip in result.skipped) == 60
    assert 0 < len(result.skipped) < 30


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
