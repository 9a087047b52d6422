"""Answers that may be a minute old: made once, and anew when a minute has passed or somebody changed something."""

from datetime import datetime, timedelta
from functools import partial

import pytest
from flask import current_app
from sqlalchemy.orm import Session

from portal.queries import remembered
from portal.queries.remembered import LIFE, changes
from portal.services.network import olts
from testing import builders
from testing.cast import ACTOR, NOW


def answers(*moments: datetime) -> list[int]:
    """What was found at these moments: how often it had been looked for."""
    made: list[int] = []

    def look() -> int:
        made.append(1)
        return len(made)

    return [remembered.remembered("a question", moment, look, changes) for moment in moments]


def test_it_is_found_once_a_minute(session: Session) -> None:
    assert answers(NOW, NOW + LIFE / 2, NOW + LIFE, NOW + LIFE * 1.5) == [1, 1, 2, 2]


def test_a_clock_that_was_set_back_does_not_keep_it_for_longer(session: Session) -> None:
    assert answers(NOW, NOW - timedelta(hours=1)) == [1, 2]


def test_each_question_has_its_own_answer(session: Session) -> None:
    asked = [("a", 1), ("b", 2), ("a", 3), ("b", 4)]
    assert [remembered.remembered(name, NOW, partial(int, number)) for name, number in asked] == [1, 2, 1, 2]


def test_whoever_changed_something_sees_it_at_once(session: Session) -> None:
    olt = builders.make_olt()
    first = remembered.remembered("olts", NOW, lambda: "as it was", changes)
    olts.set_enabled(olt.id, False, ACTOR, NOW)
    second = remembered.remembered("olts", NOW, lambda: "as it is", changes)
    assert (first, second) == ("as it was", "as it is")


def test_what_is_kept_never_grows_beyond_its_room(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST", 3)
    for number in range(10):
        assert remembered.remembered(number, NOW, partial(int, number)) == number
    assert 0 < len(current_app.extensions["facho-remembered"]) <= 3
