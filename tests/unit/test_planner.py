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
from testing.cast import HOUR, MINUTE, SECOND, TEN
from testing.tables import differing


def hourly(line: str, moment: datetime) -> datetime:
    """A cron line that fires at each full hour."""
    return moment.replace(minute=0, second=0, microsecond=0) + HOUR


def master(due: datetime = TEN, interval: int | None = 600, **more: object) -> DueMaster:
    cron = None if interval else "0 * * * *"
    return DueMaster(1, "rx", 7, "192.0.2.1:161", 40, due, interval, cron, **more)  # type: ignore[arg-type]


def planned(one: DueMaster, now: datetime, **more: bool) -> Plan:
    return plan([one], now, hourly, **more)


def told(made: Plan) -> tuple[list[float], list[tuple[SkipReason, int]], float | None]:
    """Slots that run, causes and numbers of skipped ones, the next slot of node 1; moments in minutes after ten."""
    after_ten, following = [(new.scheduled_for - TEN) / MINUTE for new in made.new], made.next_runs[1]
    return after_ten, [(skip.reason, skip.count) for skip in made.skipped], following and (following - TEN) / MINUTE


def test_a_master_that_is_due_runs_or_is_skipped_and_its_clock_moves_along_the_grid() -> None:
    cron, active, down = master(interval=None), master(active_id=5), SkipReason.SCHEDULER_DOWN
    cases = {
        "a slot that has come runs": (told(planned(master(), TEN + SECOND)), ([0], [], 10)),
        "but not while its node is active": (told(planned(active, TEN)), ([], [(SkipReason.STILL_ACTIVE, 1)], 10)),
        "of those missed only the latest runs": (told(planned(master(), TEN + 33 * MINUTE)), ([30], [(down, 3)], 40)),
        "past half its interval none does": (told(planned(master(), TEN + 36 * MINUTE)), ([], [(down, 4)], 40)),
        "a cron master follows its line": (told(planned(cron, TEN + 130 * MINUTE)), ([120], [(down, 2)], 180)),
        "a late tick skips no short node": (told(planned(master(interval=2), TEN + SECOND))[:2], ([0], [])),
        "from_end stops the clock of a node that runs": (told(planned(master(), TEN, from_end=True))[2], None),
        "and keeps that of one that is skipped": (told(planned(active, TEN, from_end=True))[2], 10),
        "from_end a cron line goes on": (told(planned(cron, TEN, from_end=True))[2], 60),
    }
    assert differing(cases) == {}
    assert [skip.hours for skip in planned(cron, TEN + 130 * MINUTE).skipped] == [{TEN - HOUR: 1, TEN: 1}]


def test_an_execution_that_waits_for_a_retry_gives_way_to_the_next_slot() -> None:
    result = planned(master(active_id=5, active_waits_to_retry=True), TEN)
    assert [new.supersedes for new in result.new] == [5]


def test_a_run_waits_one_whole_interval_before_it_goes_first() -> None:
    assert planned(master(), TEN).new[0].overdue_at == TEN + 10 * MINUTE


@pytest.mark.parametrize("reason", [SkipReason.OLT_UNREACHABLE, SkipReason.OLT_PAUSED])
def test_nothing_of_a_blocked_olt_runs_and_its_clock_goes_on_along_the_grid(reason: SkipReason) -> None:
    result = planned(master(blocked=reason), TEN + 33 * MINUTE, from_end=True)
    assert told(result) == ([], [(reason, 4)], 40)
    assert [(skip.first, skip.last) for skip in result.skipped] == [(TEN, TEN + 30 * MINUTE)]


@pytest.mark.parametrize(("fields", "late"), [({"blocked": SkipReason.OLT_PAUSED}, timedelta(0)), ({}, 6 * MINUTE)])
def test_a_retry_ends_when_its_nodes_next_slot_comes_though_that_is_skipped(
    fields: dict[str, Any], late: timedelta
) -> None:
    result = planned(master(active_id=5, active_waits_to_retry=True, **fields), TEN + late)
    assert result.new == ()
    assert [skip.supersedes for skip in result.skipped] == [5]


def many(count: int, due: datetime = TEN, interval: int = 3600, first: int = 1) -> list[DueMaster]:
    nodes = range(first, first + count)
    return [DueMaster(node, "rx", node, f"192.0.2.{node}:161", 40, due, interval, None) for node in nodes]


def test_twenty_late_nodes_start_at_once_and_starts_of_more_are_spread_over_a_minute() -> None:
    now = TEN + 2 * MINUTE
    assert [taken.not_before for taken in plan(many(20), now, hourly).new] == [None] * 20
    new = plan(many(500), now, hourly).new
    starts = sorted(taken.not_before or now for taken in new)
    assert len(new) == 500 and starts[0] == now and starts[-1] - now >= 60 * SECOND
    assert max(starts.count(start) for start in starts) == 1


def test_what_came_on_time_is_never_spread() -> None:
    on_time = many(500, due=TEN + 2 * MINUTE, first=1000)
    new = plan([*many(30), *on_time], TEN + 2 * MINUTE + 5 * SECOND, hourly).new
    assert {taken.master.node_id for taken in new if taken.not_before is not None} < set(range(1, 31))
    assert len(new) == 530


def test_a_late_node_that_gets_no_turn_ends_its_retry_all_the_same() -> None:
    waits = {"active_id": 5, "active_waits_to_retry": True}
    late = [replace(one, **waits) for one in many(30, interval=30)]  # type: ignore[arg-type]
    result = plan([*late, *many(30, first=100)], TEN + 10 * SECOND, hourly)
    turned_down = {skip.supersedes for skip in result.skipped if skip.master.interval_seconds == 30}
    assert turned_down == {5}


def test_a_late_node_whose_turn_comes_after_its_next_slot_is_skipped_with_the_cause() -> None:
    now = TEN + 10 * SECOND
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
