"""Rules of time with the worked example of each. Rule 12, of the chain, is in test_poller.py."""

from datetime import timedelta
from itertools import pairwise

import pytest

from portal.domain import node_fields, schedule
from portal.domain.statuses import DEFAULT_PRIORITY, NodeKind, OltState, SkipReason
from portal.queueing import Ticket
from testing.cast import at


def test_a_node_created_at_ten_every_ten_minutes_runs_at_10_01_10_11_10_21() -> None:
    first = schedule.first_run(at("10:00"), 1, "rx", many_olts=False)
    second = schedule.next_on_grid(first, 600, first)
    assert [first, second, schedule.next_on_grid(first, 600, second)] == [at("10:01"), at("10:11"), at("10:21")]


def test_a_slot_left_ahead_by_a_clock_comes_back_to_its_grid() -> None:
    assert schedule.after_set_back(at("10:04"), at("11:21"), 600, ()) == at("10:11")
    assert schedule.after_set_back(at("10:11"), at("11:21"), 600, ()) == at("10:21")


def test_where_the_grid_was_used_it_moves_on_by_the_fewest_seconds_that_make_new_slots() -> None:
    taken = [at("10:11"), at("10:21"), at("10:31:01")]
    assert schedule.after_set_back(at("10:04"), at("11:21"), 600, taken) == at("10:11:02")
    every_second = [at("10:05") + timedelta(seconds=second) for second in range(600)]
    assert schedule.after_set_back(at("10:04"), at("11:21"), 600, every_second) == at("10:11")


def test_first_runs_of_many_olts_are_spread_over_a_minute_and_fixed() -> None:
    firsts = {olt: schedule.first_run(at("10:00"), olt, "rx", many_olts=True) for olt in range(200)}
    assert all(at("10:01") <= first < at("10:02") for first in firsts.values())
    assert len(set(firsts.values())) > 30
    assert firsts[7] == schedule.first_run(at("10:00"), 7, "rx", many_olts=True)


def test_a_node_enabled_at_10_50_every_ten_minutes_runs_at_11_00_and_11_10() -> None:
    first = schedule.after_enabling(at("10:50"), 600)
    assert [first, schedule.next_on_grid(first, 600, first)] == [at("11:00"), at("11:10")]


def test_lateness_never_shifts_the_grid() -> None:
    assert schedule.next_on_grid(at("10:01"), 600, at("10:13:07")) == at("10:21")


def test_the_next_run_is_strictly_after_now() -> None:
    assert schedule.next_on_grid(at("10:01"), 600, at("10:11")) == at("10:21")


def test_before_the_anchor_the_next_run_is_the_anchor() -> None:
    assert schedule.next_on_grid(at("10:01"), 600, at("10:00")) == at("10:01")


@pytest.mark.parametrize(
    ("now", "latest"), [("10:01", "10:01"), ("10:10:59", "10:01"), ("10:11", "10:11"), ("10:45", "10:41")]
)
def test_the_latest_slot_is_the_last_that_has_come(now: str, latest: str) -> None:
    assert schedule.latest_on_grid(at("10:01"), 600, at(now)) == at(latest)


def test_a_longer_interval_does_not_postpone_a_run_that_was_near() -> None:
    assert schedule.after_interval_change(at("10:00"), at("10:02"), 3600) == at("10:02")


def test_a_shorter_interval_brings_the_next_run_forward() -> None:
    assert schedule.after_interval_change(at("10:00"), at("10:50"), 300) == at("10:05")


def test_a_changed_interval_does_not_call_back_a_slot_that_has_passed() -> None:
    assert schedule.after_interval_change(at("10:00"), at("09:58"), 300) == at("10:05")
    assert schedule.after_interval_change(at("10:00"), None, 300) == at("10:05")


def test_a_slot_missed_by_less_than_half_its_interval_is_still_worth_running() -> None:
    assert schedule.still_worth_running(at("10:00"), 600, at("10:04:59"))
    assert not schedule.still_worth_running(at("10:00"), 600, at("10:05"))


def test_a_run_is_delayed_when_it_starts_more_than_two_seconds_late() -> None:
    assert not schedule.is_delayed(at("10:00"), at("10:00:02"))
    assert schedule.is_delayed(at("10:00"), at("10:00:03"))


def test_a_clock_that_steps_back_gives_no_negative_delay() -> None:
    assert schedule.delay_ms(at("10:00"), at("09:59")) == 0


def test_from_end_the_next_run_comes_an_interval_after_the_end() -> None:
    assert schedule.after_end(at("10:03:20"), 600) == at("10:13:20")


def test_a_failed_device_is_tried_again_after_two_minutes_and_twice_at_most() -> None:
    now, slot = at("10:00:10"), at("10:15")
    assert schedule.next_try(now, 120, failures=1, max_retries=2, next_slot=slot) == at("10:02:10")
    assert schedule.next_try(now, 120, failures=2, max_retries=2, next_slot=slot) == at("10:02:10")
    assert schedule.next_try(now, 120, failures=3, max_retries=2, next_slot=slot) is None


@pytest.mark.parametrize(("failed", "again"), [("10:12:59", "10:14:59"), ("10:13", None), ("10:14", None)])
def test_a_retry_never_comes_at_or_after_the_nodes_next_slot(failed: str, again: str | None) -> None:
    found = schedule.next_try(at(failed), 120, failures=1, max_retries=2, next_slot=at("10:15"))
    assert found == (at(again) if again else None)


@pytest.mark.parametrize(
    ("state", "until", "reason"),
    [
        (OltState.UNREACHABLE, None, SkipReason.OLT_UNREACHABLE),
        (OltState.PAUSED, None, SkipReason.OLT_PAUSED),
        (OltState.PAUSED, "10:01", SkipReason.OLT_PAUSED),
        (OltState.PAUSED, "10:00", None),
        (OltState.UP, None, None),
        (OltState.UNKNOWN, None, None),
    ],
)
def test_slots_of_an_unreachable_or_paused_olt_do_not_run(
    state: OltState, until: str | None, reason: SkipReason | None
) -> None:
    assert schedule.blocked(state, at(until) if until else None, at("10:00")) is reason


def test_a_slot_seen_by_a_late_tick_is_no_slot_that_passed_unseen() -> None:
    assert not schedule.passed_unseen(at("10:00"), at("10:00:05"))
    assert schedule.passed_unseen(at("10:00"), at("10:00:06"))


def test_up_to_twenty_late_runs_start_at_once() -> None:
    assert schedule.spread_starts(at("10:00"), [at("11:00")] * 20) == [at("10:00")] * 20


def test_more_than_twenty_late_runs_are_spread_evenly_over_at_least_a_minute() -> None:
    starts = [start for start in schedule.spread_starts(at("10:00"), [at("11:00")] * 500) if start is not None]
    assert len(starts) == 500 and starts[0] == at("10:00")
    assert at("10:01") <= starts[-1] < at("10:01:10")
    gaps = {round((later - sooner).total_seconds(), 3) for sooner, later in pairwise(starts)}
    assert max(gaps) - min(gaps) < 0.002


def test_whose_next_slot_comes_soonest_starts_first_and_never_as_late_as_that_slot() -> None:
    next_slots = [at("10:00") + timedelta(seconds=90 - n) for n in range(60)]
    starts = schedule.spread_starts(at("10:00"), next_slots)
    turns = [start for start in reversed(starts) if start is not None]
    assert turns == sorted(turns) and turns[0] == at("10:00")
    assert all(start is None or start < slot for start, slot in zip(starts, next_slots, strict=True))


def test_whose_turn_would_come_after_its_next_slot_has_none() -> None:
    starts = schedule.spread_starts(at("10:00"), [at("10:00:10")] * 40 + [at("11:00")])
    assert sum(start is None for start in starts[:-1]) > 30
    assert starts[-1] is not None and starts[-1] >= at("10:01")


def test_a_master_has_an_interval_or_a_cron_line_and_never_both() -> None:
    node = {"key": "rx", "kind": NodeKind.GET, "oid": "huawei.onu_rx_power"}
    clocks: list[dict[str, object]] = [{"interval": 300, "cron": "0 */6 * * *"}, {}, {"cron": "0 */6 * * *"}]
    found = [set(node_fields.complete(node | clock, None, chained=False)[1]) for clock in clocks]
    assert found == [{"cron"}, {"interval"}, set()]


def ticket(execution: int, priority: int, slot: str, *, overdue: str = "23:00", manual: bool = False) -> Ticket:
    return Ticket(execution, 1, 7, priority, at(slot), at(overdue), manual)


def test_inside_an_olt_manual_runs_come_first_then_priority_then_the_older_slot() -> None:
    manual = ticket(1, 10, "10:05", manual=True)
    discovery, get = (DEFAULT_PRIORITY[kind] for kind in (NodeKind.DISCOVERY, NodeKind.GET))
    order = [manual, ticket(2, discovery, "10:04"), ticket(3, get, "10:01"), ticket(4, get, "10:02")]
    assert sorted(reversed(order), key=lambda one: one.order) == order


def test_between_olts_the_larger_delay_comes_first_then_priority() -> None:
    order = [ticket(1, 10, "10:01"), ticket(2, 90, "10:02"), ticket(3, 40, "10:02")]
    assert sorted(reversed(order), key=lambda one: one.urgency) == order
