"""Rules of time with the worked example of each (design §5)."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.domain import schedule

MINUTE = timedelta(minutes=1)


def at(text: str) -> datetime:
    hours, minutes, *seconds = map(int, text.split(":"))
    return datetime(2026, 11, 27, hours, minutes, *seconds, tzinfo=UTC)


def test_a_node_created_at_ten_every_ten_minutes_runs_at_10_01_10_11_10_21() -> None:
    first = schedule.first_run(at("10:00"), 1, "rx", many_olts=False)
    second = schedule.next_on_grid(first, 600, first)
    assert [first, second, schedule.next_on_grid(first, 600, second)] == [at("10:01"), at("10:11"), at("10:21")]


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


def test_a_slot_missed_by_less_than_half_its_interval_is_still_worth_running() -> None:
    assert schedule.still_worth_running(at("10:00"), 600, at("10:04:59"))
    assert not schedule.still_worth_running(at("10:00"), 600, at("10:05"))


def test_a_run_is_delayed_when_it_starts_more_than_two_seconds_late() -> None:
    assert not schedule.is_delayed(at("10:00"), at("10:00:02"))
    assert schedule.is_delayed(at("10:00"), at("10:00:03"))


def test_a_clock_that_steps_back_gives_no_negative_delay() -> None:
    assert schedule.delay_ms(at("10:00"), at("09:59")) == 0
