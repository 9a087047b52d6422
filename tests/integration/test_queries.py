"""What all queries share: cursors written by hand, answers that may be a minute old, ids of a stretch (PostgreSQL)."""

import base64
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from flask import current_app
from sqlalchemy import case, event, select
from sqlalchemy.orm import Session

from portal.queries import keyset, pollers, quota_slots, remembered
from portal.queries.remembered import LIFE, changes
from portal.services import decision_file
from portal.services.decision_file import Position
from portal.services.network import olts
from portal.tables import Olt
from testing.builders import make_olt
from testing.cast import ACTOR, NOW

BY_TIME = keyset.Order((Olt.created_at, Olt.id))
BY_RANK = keyset.Order((case((Olt.name == "A", 0), else_=1), Olt.id))


def written(order: keyset.Order, *values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps([0, order.name, *values]).encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
        "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "",
    ],
)  # fmt: skip
def test_a_time_that_no_calendar_has_is_no_error(session: Session, text: str) -> None:
    make_olt()
    keyset.fetch(select(Olt), BY_TIME, written(BY_TIME, "\x00t" + text, 1))


@pytest.mark.parametrize("rank", [2**31, 2**40, -(2**40), 2**63, 1.5, True, None, "1", [1], float("nan"), float("inf")])
def test_a_number_that_its_column_cannot_hold_is_the_first_page(session: Session, rank: object) -> None:
    make_olt()
    cursor = written(BY_RANK, rank, 1)
    assert not keyset.fits(cursor, BY_RANK)
    assert len(keyset.fetch(select(Olt), BY_RANK, cursor).rows) == 1


def test_a_cursor_of_another_order_is_the_first_page(session: Session) -> None:
    make_olt()
    up, down = keyset.Order((Olt.id,)), keyset.Order((Olt.id,), descending=True)
    assert keyset.fits(written(up, 9), up) and not keyset.fits(written(up, 9), down)
    assert keyset.fetch(select(Olt), up, written(up, 9)).rows == ()
    assert len(keyset.fetch(select(Olt), up, written(down, 9)).rows) == 1
    assert len(keyset.fetch(select(Olt), up, written(keyset.Order((Olt.id + 0,)), 9)).rows) == 1


def test_a_cursor_of_open_brackets_is_the_first_page() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 740).decode()
    assert keyset.decode(deep, 1) is None and not keyset.fits(deep, BY_RANK)


def answers(*moments: datetime) -> list[int]:
    """What was found at these moments: how often it had been looked for."""
    made: list[int] = []

    def look() -> int:
        made.append(1)
        return len(made)

    return [remembered.remembered("a question", moment, look, changes) for moment in moments]


def test_an_answer_is_found_once_a_minute(session: Session) -> None:
    assert answers(NOW, NOW + LIFE / 2, NOW + LIFE, NOW + LIFE * 1.5) == [1, 1, 2, 2]


def test_a_clock_that_was_set_back_keeps_no_answer_for_longer(session: Session) -> None:
    assert answers(NOW, NOW - timedelta(hours=1)) == [1, 2]


def test_each_question_has_its_own_answer(session: Session) -> None:
    asked = [("a", 1), ("b", 2), ("a", 3), ("b", 4)]
    assert [remembered.remembered(name, NOW, partial(int, number)) for name, number in asked] == [1, 2, 1, 2]


def test_whoever_changed_something_sees_it_at_once(session: Session) -> None:
    olt = make_olt()
    first = remembered.remembered("olts", NOW, lambda: "as it was", changes)
    olts.set_enabled(olt.id, False, ACTOR, NOW)
    assert (first, remembered.remembered("olts", NOW, lambda: "as it is", changes)) == ("as it was", "as it is")


def test_what_is_remembered_never_grows_beyond_its_room(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST", 3)
    for number in range(10):
        assert remembered.remembered(number, NOW, partial(int, number)) == number
    assert 0 < len(current_app.extensions["facho-remembered"]) <= 3


STRETCH: Any = SimpleNamespace(olt_id=1, task_type="get_rx", hour=NOW - timedelta(hours=1), end=NOW)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    "ask",
    [
        lambda: quota_slots._executions(STRETCH),
        lambda: pollers.history(NOW - timedelta(hours=1), 10),
        lambda: decision_file._renumbered(Position(id=5, newest=NOW.timestamp(), at=NOW.timestamp())),
    ],
    ids=["slots of an hour", "history of the pool", "log that was renumbered"],
)
def test_where_only_some_rows_count_no_index_of_ids_is_walked(session: Session, ask: Callable[[], object]) -> None:
    asked: list[tuple[str, Any]] = []
    engine = session.get_bind()
    listener = lambda _c, _cursor, statement, given, *_rest: asked.append((statement, given))  # noqa: E731
    event.listen(engine, "before_cursor_execute", listener)
    ask()
    event.remove(engine, "before_cursor_execute", listener)
    (searched,) = ((text, given) for text, given in asked if "min(" in text)
    connection = session.connection()
    connection.exec_driver_sql("SET LOCAL enable_seqscan = off")  # there are too few rows here for any index to pay
    plan = "\n".join(str(row[0]) for row in connection.exec_driver_sql("EXPLAIN " + searched[0], searched[1]))
    assert " + " in searched[0] and "pk_" not in plan, plan
