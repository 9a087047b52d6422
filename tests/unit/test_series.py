"""History as steps: what an hour of changes becomes, and that a chart says the same before and after."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain import series
from portal.domain.series import HOUR, SETTLED, Row, Step, single
from testing.cast import DAY, MINUTE, TEN, at
from testing.cast import HOUR as HOUR_LONG

LATER = TEN + 3 * DAY


def changes(*told: tuple[str, float | None]) -> list[Row]:
    return [single(at(moment), value) for moment, value in told]


def value_at(steps: list[Step], moment: datetime) -> float | None:
    """What a chart that draws these steps shows then."""
    return next((step.value for step in reversed(steps) if step.at <= moment), None)


def test_an_hour_of_changes_has_the_mean_by_time_with_what_was_carried_in_and_what_held_at_its_end() -> None:
    hour = series.gathered(changes(("10:15", -20.0), ("10:50", -26.0)), -18.0)
    assert hour == [Row(TEN, pytest.approx((-18 * 15 - 20 * 35 - 26 * 10) / 60), -26.0, -18.0, -26.0, 2, HOUR)]


def test_seconds_without_a_value_are_no_part_of_the_mean_and_are_counted() -> None:
    dark = changes(("10:15", -20.0), ("10:20", None), ("10:50", -21.0))
    assert series.gathered(dark, None) == [
        Row(TEN, pytest.approx((-20 * 5 - 21 * 10) / 15), -21.0, -20.0, -21.0, 3, HOUR, 45 * 60)
    ]
    assert series.gathered(changes(("10:15", None), ("10:20", None)), None) == [
        Row(TEN, None, None, None, None, 2, HOUR, HOUR)
    ]


@pytest.mark.parametrize("value", [-27.0, None])
def test_the_only_change_of_an_hour_stays_at_its_moment(value: float | None) -> None:
    (row,) = series.gathered(changes(("10:55", value)), -18.0)
    assert row == single(at("10:55"), value)._replace(span=SETTLED)
    steps = list(series.steps([single(at("09:00"), -18.0), row], LATER))
    assert [value_at(steps, at(moment)) for moment in ("10:02", "10:50", "10:55")] == [-18.0, -18.0, value]


def test_after_an_hour_its_last_value_holds_and_not_its_mean() -> None:
    rows = series.gathered(changes(("10:15", -20.0), ("10:50", -26.0)), -18.0)
    steps = list(series.steps(rows, LATER))
    assert [value_at(steps, moment) for moment in (at("11:00"), TEN + DAY, LATER)] == [-26.0] * 3


def test_a_reading_that_comes_late_into_a_gathered_hour_joins_it() -> None:
    (hour,) = series.gathered(changes(("10:15", -20.0), ("10:50", -26.0)), -18.0)
    (joined,) = series.gathered([hour, *changes(("10:55", -30.0))], -18.0)
    assert (joined.minimum, joined.maximum, joined.last, joined.samples) == (-30.0, -18.0, -30.0, 3)


POWERS = st.one_of(st.none(), st.integers(-400, -80).map(lambda tenths: tenths / 10))
HISTORIES = st.dictionaries(st.integers(0, 4 * 24 * 60 - 1), POWERS, min_size=1, max_size=60)


@pytest.mark.slow
@given(HISTORIES, st.integers(0, 96))
def test_a_chart_says_the_same_before_and_after_an_hour_is_gathered_and_nothing_that_was_not_true(
    history: dict[int, float | None], gathered_hours: int
) -> None:
    edge, gathered_until = TEN + 4 * DAY, TEN + gathered_hours * HOUR_LONG
    rows = [single(TEN + minute * MINUTE, value) for minute, value in sorted(history.items())]
    whole = list(series.settled(rows, edge))
    partly = [*series.settled([row for row in rows if row.at < gathered_until], edge),
              *(row for row in rows if row.at >= gathered_until)]  # fmt: skip
    before, after = list(series.steps(rows, edge)), list(series.steps(partly, edge))
    hours = {row.at: row for row in whole if row.span == HOUR}
    for minute in range(0, 4 * 24 * 60, 13):
        moment = TEN + minute * MINUTE
        shown, true = value_at(after, moment), value_at([Step(row.at, row.last) for row in rows], moment)
        assert shown == value_at(before, moment)
        hour = hours.get(series.hour_of(moment))
        if hour is None:
            assert shown == true
        else:
            low, high = hour.minimum or 0.0, hour.maximum or 0.0
            assert all(value is None or low - 1e-9 <= value <= high + 1e-9 for value in (shown, true))


def test_steps_of_one_moment_keep_their_order_when_they_are_thinned() -> None:
    """An hour that ends and the next that begins stand at one moment: what comes later holds, a gap above all."""
    hours = 3000
    all_steps = [
        step
        for hour in range(hours)
        for step in (
            Step(TEN + hour * HOUR_LONG, None if hour % 40 > 30 else float(hour % 7), 0.0, 7.0),
            Step(TEN + (hour + 1) * HOUR_LONG, None if hour % 40 > 30 else 3.5),
        )
    ]
    places = {id(step): place for place, step in enumerate(all_steps)}
    kept = [places[id(step)] for step in series.thinned(all_steps)]
    assert kept == sorted(kept)
    assert len(kept) < len(all_steps) / 3
