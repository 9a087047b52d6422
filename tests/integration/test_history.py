"""Thinning of the stored history: what charts show of it, before and after, on both databases."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from portal.domain.series import HOUR, SETTLED
from portal.queries import onu_power
from portal.services.collecting import history
from portal.tables import Onu, OnuData, OnuHistory
from testing.builders import make_olt
from testing.cast import DAY, MINUTE, NOW
from testing.rows import thinned

RX = "onu_rx_power"
START = NOW - 5 * DAY

pytestmark = pytest.mark.integration


@pytest.fixture
def tell(session: Session) -> Callable[..., int]:
    """tell((moment, value), …) → id of a new ONU with this history of its power."""
    olt = make_olt()

    def make(*changes: tuple[datetime, float | None], metric: str = RX) -> int:
        number = session.scalar(select(func.count()).select_from(Onu)) or 0
        onu = Onu(olt_id=olt.id, index_key=f"4194304000.{number}", first_seen=START, last_seen=NOW)
        session.add(onu)
        session.flush()
        for at, value in changes:
            session.add(OnuHistory(onu_id=onu.id, metric=metric, collected_at=at, mean=value, minimum=value,
                                   maximum=value, last=value))  # fmt: skip
        session.add(OnuData(onu_id=onu.id, metric=metric, number=changes[-1][1], collected_at=NOW))
        session.commit()
        return onu.id

    return make


def shown(onu_id: int, moment: datetime, now: datetime = NOW, metric: str = RX) -> float | None:
    """What the month's chart shows at a moment."""
    power = onu_power.history(onu_id, now - 30 * DAY, now)
    assert power is not None
    return next((step.value for step in reversed(power.samples[metric]) if step.at <= moment), None)


def rows(session: Session) -> list[tuple[object, ...]]:
    query = select(OnuHistory).order_by(OnuHistory.onu_id, OnuHistory.collected_at)
    return [(row.collected_at, row.mean, row.minimum, row.maximum, row.last, row.samples, row.span, row.without)
            for row in session.scalars(query.execution_options(populate_existing=True))]  # fmt: skip


def test_three_days_after_a_drop_the_chart_shows_where_it_fell_to(tell: Callable[..., int], session: Session) -> None:
    hour = START
    onu = tell((hour - DAY, -18.0), (hour + 15 * MINUTE, -20.0), (hour + 50 * MINUTE, -26.0))
    assert thinned(NOW) == 1
    assert [shown(onu, hour + after) for after in (DAY, 3 * DAY)] == [-26.0, -26.0]
    mean = pytest.approx((-18 * 15 - 20 * 35 - 26 * 10) / 60)
    assert rows(session)[1] == (hour, mean, -26.0, -18.0, -26.0, 2, HOUR, 0)
    assert thinned(NOW) == 0


@pytest.mark.parametrize("fell_to", [-27.0, None], ids=["to less light", "to none"])
def test_a_change_late_in_an_hour_says_nothing_of_the_time_before_it(
    tell: Callable[..., int], session: Session, fell_to: float | None
) -> None:
    onu = tell((START - DAY, -18.0), (START + 55 * MINUTE, fell_to))
    thinned(NOW)
    moments = (START + 2 * MINUTE, START + 54 * MINUTE, START + 55 * MINUTE, START + DAY, START + 3 * DAY)
    assert [shown(onu, moment) for moment in moments] == [-18.0, -18.0, fell_to, fell_to, fell_to]
    assert rows(session)[1][-2:] == (SETTLED, 0)


def test_a_steady_reading_is_on_the_chart_after_a_hundred_days(tell: Callable[..., int]) -> None:
    onu = tell((NOW - 100 * DAY, -20.0))
    for days in (-10, 0, 92):
        thinned(NOW + days * DAY)
        assert shown(onu, NOW + days * DAY, NOW + days * DAY) == -20.0


def test_after_ninety_days_hours_end_but_the_newest_of_them_which_says_what_held_then(
    tell: Callable[..., int], session: Session
) -> None:
    edge = NOW - 90 * DAY
    onu = tell((edge - 3 * DAY, -18.0), (edge - 2 * DAY, -19.0), (edge + DAY, -20.0), (edge + 2 * DAY, -21.0))
    assert thinned(NOW) == 1
    assert [row[1] for row in rows(session)] == [-19.0, -20.0, -21.0]
    assert shown(onu, edge + 12 * 60 * MINUTE, edge + 12 * 60 * MINUTE) == -19.0
    assert thinned(NOW) == 0
    assert thinned(NOW + DAY + MINUTE) == 1


def test_what_is_younger_than_two_days_stays_as_it_was_read(tell: Callable[..., int], session: Session) -> None:
    tell(*((NOW - 47 * 60 * MINUTE + step * MINUTE, -20.0 - step) for step in range(5)))
    assert thinned(NOW) == 0
    assert len(rows(session)) == 5


def test_a_thousand_series_are_thinned_in_parts_without_a_change_on_any_chart(
    tell: Callable[..., int], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "BATCH", 7)
    chance, minutes = random.Random(15), [at * 11 for at in range(5 * 24 * 60 // 11)]
    onus = [
        tell(
            *(
                (START + at * MINUTE, chance.choice([None, -18.0, -20.5, -27.0]))
                for at in sorted(chance.sample(range(6000), 40))
            )
        )
        for _ in range(8)
    ]
    before = [[shown(onu, START + at * MINUTE) for at in minutes[::9]] for onu in onus]
    assert thinned(NOW) > 0
    assert [[shown(onu, START + at * MINUTE) for at in minutes[::9]] for onu in onus] == before
    left = [row for row in rows(session) if row[6] == 0]
    assert min(row[0] for row in left) >= NOW - timedelta(hours=48)  # type: ignore[type-var]
