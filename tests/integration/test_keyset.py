"""Cursors on both databases: one written by hand, or that belongs to another list, is the first page and no error."""

import base64
import json
from datetime import datetime

import pytest
from sqlalchemy import case, select
from sqlalchemy.orm import Session

from portal.queries import keyset
from portal.tables import Olt
from testing.builders import make_olt

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
def test_a_time_that_no_calendar_has_is_no_error(session: Session, now: datetime, text: str) -> None:
    make_olt()
    keyset.fetch(select(Olt), BY_TIME, written(BY_TIME, "\x00t" + text, 1))


@pytest.mark.parametrize("rank", [2**31, 2**40, -(2**40), 2**63, 1.5, True, None, "1", [1], float("nan"), float("inf")])
def test_a_number_that_its_column_cannot_hold_is_the_first_page(session: Session, now: datetime, rank: object) -> None:
    make_olt()
    cursor = written(BY_RANK, rank, 1)
    assert not keyset.fits(cursor, BY_RANK)
    assert len(keyset.fetch(select(Olt), BY_RANK, cursor).rows) == 1


def test_a_cursor_of_another_order_is_the_first_page(session: Session, now: datetime) -> None:
    make_olt()
    up, down = keyset.Order((Olt.id,)), keyset.Order((Olt.id,), descending=True)
    assert keyset.fits(written(up, 9), up) and not keyset.fits(written(up, 9), down)
    assert keyset.fetch(select(Olt), up, written(up, 9)).rows == ()
    assert len(keyset.fetch(select(Olt), up, written(down, 9)).rows) == 1
    assert len(keyset.fetch(select(Olt), up, written(keyset.Order((Olt.id + 0,)), 9)).rows) == 1


def test_a_cursor_of_open_brackets_is_the_first_page() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 740).decode()
    assert keyset.decode(deep, 1) is None and not keyset.fits(deep, BY_RANK)
