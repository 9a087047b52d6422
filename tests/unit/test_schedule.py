"""Rules of time with the worked example of each. Rule 12, of the chain, is in test_poller.py."""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain import node_fields, schedule
from portal.domain.reachability import FIRST_PROBE, LONGEST_GAP, next_probe
from portal.domain.statuses import DEFAULT_PRIORITY, NodeKind, OltState, SkipReason
from portal.queueing import Ticket
from testing.cast import HOUR, MINUTE, SECOND, TEN, at
from testing.tables import differing


def test_a_slot_comes_at_its_place_on_the_grid() -> None:
    first, enabled = (
        schedule.first_run(at("10:00"), 1, "rx", many_olts=False),
        schedule.after_enabling(at("10:50"), 600),
    )
    on_grid, changed, back = schedule.next_on_grid, schedule.after_interval_change, schedule.after_set_back
    cases = {
        "created at ten, every ten minutes: first": (first, at("10:01")),
        "created at ten, every ten minutes: second": (on_grid(first, 600, first), at("10:11")),
        "created at ten, every ten minutes: third": (on_grid(first, 600, at("10:11")), at("10:21")),
        "enabled at 10:50, every ten minutes: first": (enabled, at("11:00")),
        "enabled at 10:50, every ten minutes: second": (on_grid(enabled, 600, enabled), at("11:10")),
        "lateness never shifts the grid": (on_grid(at("10:01"), 600, at("10:13:07")), at("10:21")),
        "the next run is strictly after now": (on_grid(at("10:01"), 600, at("10:11")), at("10:21")),
        "before the anchor the next run is the anchor": (on_grid(at("10:01"), 600, at("10:00")), at("10:01")),
        "left ahead by a clock, it comes back": (back(at("10:04"), at("11:21"), 600, ()), at("10:11")),
        "and after a slot to the next": (back(at("10:11"), at("11:21"), 600, ()), at("10:21")),
        "a longer interval postpones no near run": (changed(at("10:00"), at("10:02"), 3600), at("10:02")),
        "a shorter interval brings the next run forward": (changed(at("10:00"), at("10:50"), 300), at("10:05")),
        "a change calls back no slot that has passed": (changed(at("10:00"), at("09:58"), 300), at("10:05")),
        "nor one that there was not": (changed(at("10:00"), None, 300), at("10:05")),
        "from_end: an interval after the end": (schedule.after_end(at("10:03:20"), 600), at("10:13:20")),
    }
    assert differing(cases) == {}


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


def test_the_latest_slot_is_the_last_that_has_come() -> None:
    latest = {"10:01": "10:01", "10:10:59": "10:01", "10:11": "10:11", "10:45": "10:41"}
    found = {now: schedule.latest_on_grid(at("10:01"), 600, at(now)) for now in latest}
    assert found == {now: at(slot) for now, slot in latest.items()}


def test_what_is_late_is_measured_from_its_slot() -> None:
    slot = at("10:00")
    cases = {
        "missed by less than half its interval": (schedule.still_worth_running(slot, 600, at("10:04:59")), True),
        "missed by half its interval": (schedule.still_worth_running(slot, 600, at("10:05")), False),
        "two seconds are no delay": (schedule.is_delayed(slot, at("10:00:02")), False),
        "three are": (schedule.is_delayed(slot, at("10:00:03")), True),
        "a clock that steps back gives no negative delay": (schedule.delay_ms(slot, at("09:59")), 0),
        "a slot seen by a late tick": (schedule.passed_unseen(slot, at("10:00:05")), False),
        "a slot that passed unseen": (schedule.passed_unseen(slot, at("10:00:06")), True),
    }
    assert differing(cases) == {}


def test_a_failed_device_is_tried_again_after_two_minutes_and_twice_at_most_and_before_the_nodes_next_slot() -> None:
    again = {
        ("10:00:10", 1): "10:02:10",
        ("10:00:10", 2): "10:02:10",
        ("10:00:10", 3): None,
        ("10:12:59", 1): "10:14:59",
        ("10:13", 1): None,
        ("10:14", 1): None,
    }
    found = {
        (failed, failures): schedule.next_try(at(failed), 120, failures, max_retries=2, next_slot=at("10:15"))
        for failed, failures in again
    }
    assert found == {failed: slot and at(slot) for failed, slot in again.items()}


def test_slots_of_an_unreachable_or_paused_olt_do_not_run() -> None:
    reasons = {
        (OltState.UNREACHABLE, None): SkipReason.OLT_UNREACHABLE,
        (OltState.PAUSED, None): SkipReason.OLT_PAUSED,
        (OltState.PAUSED, at("10:01")): SkipReason.OLT_PAUSED,
        (OltState.PAUSED, at("10:00")): None,
        (OltState.UP, None): None,
        (OltState.UNKNOWN, None): None,
    }
    assert {(state, until): schedule.blocked(state, until, at("10:00")) for state, until in reasons} == reasons


def test_up_to_twenty_late_runs_start_at_once_and_more_are_spread_evenly_over_at_least_a_minute() -> None:
    assert schedule.spread_starts(at("10:00"), [at("11:00")] * 20) == [at("10:00")] * 20
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


ROUND = 5 * SECOND  # how often somebody looks whose time has come


def probes(outage: timedelta) -> list[datetime]:
    """When an OLT is asked that stays silent for `outage`, by rounds of 5 s."""
    asked, due, now = [], next_probe(TEN, TEN), TEN
    while now < TEN + outage:
        now += ROUND
        if due <= now:
            asked.append(now)
            due = next_probe(TEN, now)
    return asked


def test_the_first_questions_come_each_half_minute() -> None:
    assert [one - TEN for one in probes(3 * MINUTE)] == [n * 30 * SECOND for n in range(1, 7)]


@pytest.mark.parametrize("minutes", range(1, 11))
def test_an_olt_that_was_away_up_to_ten_minutes_is_found_within_a_minute(minutes: int) -> None:
    for second in range(60):
        back = TEN + minutes * MINUTE - second * SECOND
        assert next(one for one in probes(20 * MINUTE) if one >= back) - back <= MINUTE


def test_an_olt_that_is_away_for_days_costs_four_datagrams_an_hour() -> None:
    day = [one for one in probes(48 * HOUR) if one >= TEN + 24 * HOUR]
    assert len(day) == 96


def test_ten_minutes_of_silence_cost_less_than_twenty_datagrams() -> None:
    assert len(probes(10 * MINUTE)) < 20


@given(st.timedeltas(min_value=-HOUR, max_value=30 * 24 * HOUR))
def test_the_gap_is_a_twelfth_of_the_outage_within_its_bounds(outage: timedelta) -> None:
    gap = next_probe(TEN, TEN + outage) - (TEN + outage)
    assert FIRST_PROBE <= gap <= LONGEST_GAP
    assert FIRST_PROBE < gap < LONGEST_GAP or gap == min(max(outage / 12, FIRST_PROBE), LONGEST_GAP)
