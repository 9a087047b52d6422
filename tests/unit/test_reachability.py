"""When an OLT that does not answer is asked again: the rule, and what it costs over an outage."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain.reachability import FIRST_PROBE, LONGEST_GAP, next_probe
from testing.cast import HOUR, MINUTE, SECOND, TEN

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
