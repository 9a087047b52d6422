"""The arithmetic of promises: which hour a slot belongs to, what becomes of it, how an hour is judged."""

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain import quota
from portal.domain.quota import Clock, Counts, Settlement, TrackerKey
from portal.domain.statuses import ErrorKind, ExecutionStatus, LossCause, NodeKind, QuotaStatus, Severity, SkipReason
from testing.cast import HOUR, MINUTE, SANTIAGO, SECOND, TEN

KEY = TrackerKey(1, "discovery", TEN)


def test_a_slot_belongs_to_the_hour_that_it_ends_or_lies_in() -> None:
    hours = {
        TEN: TEN - HOUR,
        TEN + SECOND: TEN,
        TEN + 30 * MINUTE: TEN,
        TEN + HOUR: TEN,
        TEN + HOUR + SECOND: TEN + HOUR,
    }
    assert {slot: quota.hour_of(slot) for slot in hours} == hours


def test_enabled_at_ten_to_eleven_each_five_minutes_promises_two_runs_and_then_twelve() -> None:
    clock = Clock("discovery", TEN + 55 * MINUTE, 300)
    assert [clock.slots(TEN), clock.slots(TEN + HOUR), clock.slots(TEN - HOUR)] == [2, 12, 0]


def test_a_cron_line_promises_the_times_at_which_it_fires() -> None:
    fires = [TEN + minutes * MINUTE for minutes in (15, 30, 60, 90)]
    assert Clock("get_rx", TEN + 30 * MINUTE, None, tuple(fires)).slots(TEN) == 2  # 10:15 has gone by


@given(st.integers(1, 7200), st.integers(-7200, 7200), st.integers(1, 6))
def test_the_slots_of_all_hours_are_the_slots_of_the_grid(interval: int, first: int, hours: int) -> None:
    start = TEN + first * SECOND
    counted = sum(quota.slots_in(start, interval, TEN + n * HOUR, TEN + (n + 1) * HOUR) for n in range(hours))
    slots = (start + k * interval * SECOND for k in range(hours * 3600 + 7201))
    expected = 0
    for slot in slots:
        if slot > TEN + hours * HOUR:
            break
        expected += slot > TEN
    assert counted == expected


@given(st.integers(1, 500), st.integers(1, 900), st.integers(0, 3599))
def test_a_range_of_slots_falls_into_hours_without_loss(count: int, interval: int, offset: int) -> None:
    first = TEN + offset * SECOND
    last = first + (count - 1) * interval * SECOND
    hours = quota.slots_by_hour(first, last, count)
    assert sum(hours.values()) == count
    for hour, slots in hours.items():
        assert quota.slots_in(first, interval, hour, min(hour + HOUR, last)) == slots


def test_each_end_counts_in_one_column() -> None:
    counts = {
        ExecutionStatus.SUCCESS: Counts(completed=3),
        ExecutionStatus.FAILED: Counts(failed=3),
        ExecutionStatus.INTERRUPTED: Counts(skipped=3),
        None: Counts(skipped=3),
    }
    assert {status: Settlement(KEY, status, None, slots=3).counts for status in counts} == counts
    assert {one.required for one in counts.values()} == {3}


def test_an_hour_is_judged_by_the_share_that_was_completed() -> None:
    missed = QuotaStatus.QUOTA_NOT_MET
    judged = {
        Counts(4, 0, 0): (QuotaStatus.COMPLETED, None),
        Counts(0, 0, 0): (QuotaStatus.COMPLETED, None),
        Counts(8, 2, 0): (QuotaStatus.PARTIAL, None),
        Counts(79, 21, 0): (missed, Severity.LOW),
        Counts(70, 30, 0): (missed, Severity.LOW),
        Counts(69, 31, 0): (missed, Severity.MEDIUM),
        Counts(51, 49, 0): (missed, Severity.MEDIUM),
        Counts(2, 2, 0): (missed, Severity.HIGH),
        Counts(21, 0, 79): (missed, Severity.HIGH),
        Counts(20, 0, 80): (missed, Severity.CRITICAL),
        Counts(0, 0, 12): (QuotaStatus.FAILED, Severity.CRITICAL),
        Counts(9, 0, 0, pending=3): (missed, Severity.LOW),
    }
    assert {counts: (quota.judge(counts), quota.severity(counts)) for counts in judged} == judged
    assert quota.judge(Counts(1, 0, 3), interrupted=True) is QuotaStatus.INTERRUPTED


def first_risk(counts: Counts, begin: datetime | None = None) -> int | None:
    """The first minute of the hour at which the promise is at risk."""
    return next((n for n in range(62) if quota.at_risk(counts, TEN, TEN + n * MINUTE, begin)), None)


def test_a_promise_is_at_risk_when_more_than_twenty_points_of_its_slots_were_due_and_are_not_completed() -> None:
    counts = [Counts(completed=4, pending=6), Counts(pending=12), Counts(completed=10, pending=2), Counts()]
    assert [first_risk(one) for one in counts] == [42, 15, None, None]  # at 10:42 7 of 10 were due


def test_a_slot_that_waits_or_runs_puts_no_promise_at_risk_and_an_hourly_one_not_either() -> None:
    assert first_risk(Counts(pending=1)) is None
    assert [first_risk(Counts(completed=done, pending=4 - done)) for done in range(4)] == [30, 45, 60, None]


def test_a_promise_that_begins_late_in_its_hour_is_measured_from_there() -> None:
    late = [(2, TEN + 50 * MINUTE), (6, TEN + 30 * MINUTE), (6, TEN + HOUR)]
    assert [first_risk(Counts(pending=pending), begin) for pending, begin in late] == [60, 40, 60]


def test_a_promise_that_cannot_be_kept_any_more_is_at_risk_from_then_on() -> None:
    assert first_risk(Counts(completed=9, failed=3)) == 0
    assert first_risk(Counts(completed=1, skipped=2, pending=9)) == 20
    assert quota.doomed(Counts(failed=1, pending=3)) and not quota.doomed(Counts(failed=1, pending=4))


@given(st.integers(2, 60), st.integers(30, 1800), st.integers(0, 1799))
def test_slots_by_hour_counts_as_one_who_counts_each(count: int, interval: int, offset: int) -> None:
    slots = [TEN + offset * SECOND + number * interval * SECOND for number in range(count)]
    by_hand = Counter(quota.hour_of(slot) for slot in slots)
    assert quota.slots_by_hour(slots[0], slots[-1], count) == by_hand


def test_a_stop_of_one_slot_or_of_ten_years_is_counted_hour_by_hour_and_not_slot_by_slot() -> None:
    assert quota.slots_by_hour(TEN + MINUTE, TEN + MINUTE, 1) == {TEN: 1}
    hours = quota.slots_by_hour(TEN, TEN + 87_600 * HOUR, 87_600 * 120 + 1)
    assert len(hours) == 87_601 and set(list(hours.values())[1:]) == {120}


def test_every_reason_and_error_has_a_cause_and_only_a_success_has_none() -> None:
    assert quota.cause_of_end(ExecutionStatus.SUCCESS, None, None) is None
    for kind in [*ErrorKind, None]:
        assert quota.cause_of_end(ExecutionStatus.FAILED, kind, None) in LossCause
    for reason in SkipReason:
        assert quota.cause_of_end(ExecutionStatus.INTERRUPTED, ErrorKind.ABORTED, reason) is quota.cause_of_skip(reason)
    assert quota.cause_of_skip(SkipReason.SCHEDULER_DOWN) is LossCause.RESTART
    assert quota.cause_of_skip(None) is LossCause.UNKNOWN


@pytest.mark.parametrize("day", [(4, 4), (9, 5), (2, 28)])
def test_a_day_has_twenty_four_hours_of_promises_whatever_the_clocks_on_the_wall_do(day: tuple[int, int]) -> None:
    start = datetime(2026, *day, tzinfo=SANTIAGO).astimezone(UTC)
    slots = [start + n * 5 * MINUTE for n in range(1, 289)]
    assert len({quota.hour_of(slot) for slot in slots}) == 24


def test_task_types_are_discovery_and_kind_with_key() -> None:
    assert quota.task_type(NodeKind.DISCOVERY, "onus") == "discovery"
    assert quota.task_type(NodeKind.GET, "descripcion") == "get_descripcion"
