"""Keyset paging: a page starts after a row's sort values, never at an offset. Knows no table and no page."""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Select, String, func, literal, tuple_
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.types import TypeDecorator

from portal.domain import moments
from portal.extensions import db

PAGE_SIZE = 50
BATCH = 1000  # rows that are in memory at once while a file is written
_MAX_CURSOR = 1000
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # NUL, and halves of characters
_TIME = "\x00t"  # no text of ours holds a NUL

Key = ColumnElement[Any] | InstrumentedAttribute[Any]
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Order:
    """Sort by `keys` (expressions that are never NULL and, together, unique), all in the same direction.

    `word`: names the order where its expressions are not the same from one page to the next.
    """

    keys: tuple[Key, ...]
    descending: bool = False
    word: str = ""

    @property
    def name(self) -> str:
        """Stands in its cursors: one of another order leads nowhere."""
        text = self.word or "\n".join(map(str, self.keys))
        return f"{zlib.crc32(text.encode()):x}{'d' if self.descending else 'a'}"


@dataclass(frozen=True)
class Page(Generic[T]):
    """Rows of one page; `next` and `previous` are cursors, "" where there is no such page."""

    rows: tuple[T, ...]
    next: str = ""
    previous: str = ""

    def map(self, make: Callable[[T], U]) -> "Page[U]":
        """The same page with each row replaced by `make(row)`."""
        return Page(tuple(make(row) for row in self.rows), self.next, self.previous)


def lower(column: Key) -> ColumnElement[str]:
    """The column in lower case, as a sort key: SQLAlchemy does not know the type of LOWER by itself."""
    return func.lower(column, type_=String())


def cursor(args: Mapping[str, str]) -> str:
    """The cursor in a URL: ?before= leads on to the next page, ?after= back; which way is inside the cursor."""
    return args.get("before") or args.get("after") or ""


def encode(values: Sequence[Any], name: str = "", *, backward: bool = False) -> str:
    """A cursor: the sort values of the row a page starts after (or, backward, ends before), in the order `name`."""
    plain = [_TIME + value.isoformat() if isinstance(value, datetime) else value for value in values]
    text = json.dumps([int(backward), name, *plain], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(cursor: str, length: int) -> tuple[list[Any], bool] | None:
    """(sort values, backward), or None for a cursor that is empty or was tampered with. Of which order is not asked."""
    found = _parts(cursor, length)
    return found[1:] if found else None


def is_cursor(text: str) -> bool:
    """True for the cursor of a list that has no way back, by id or by a time and an id."""
    found = decode(text, 2) or decode(text, 1)
    if found is None or found[1]:
        return False
    *first, ident = found[0]
    timed = not first or (isinstance(first[0], datetime) and first[0].tzinfo is not None)
    return timed and type(ident) is int and 0 <= ident < 2**63


def fits(cursor: str, order: Order) -> bool:
    """True for a cursor of a list in this order."""
    return _position(cursor, order) is not None


def _parts(cursor: str, length: int) -> tuple[Any, list[Any], bool] | None:
    """The order's name, sort values, backward."""
    if not cursor or len(cursor) > _MAX_CURSOR:
        return None
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        whole = isinstance(parts, list) and len(parts) == length + 2 and parts[0] in (0, 1)
        return (parts[1], [_plain(part) for part in parts[2:]], bool(parts[0])) if whole else None
    except (binascii.Error, ValueError, RecursionError):
        return None


def _plain(part: Any) -> Any:
    """A sort value as it went into a cursor. ValueError for what no cursor of ours holds."""
    if isinstance(part, str) and part.startswith(_TIME):
        return moments.parse(part.removeprefix(_TIME))
    if not isinstance(part, str | int | float):
        raise ValueError("not a sort value")
    return part


def _position(cursor: str, order: Order) -> tuple[list[Any], bool] | None:
    """The decoded cursor if it is of this order, and its values can be compared with the keys: PostgreSQL would refuse

    text for a number.
    """
    found = _parts(cursor, len(order.keys))
    if found is None or found[0] != order.name or not all(map(_comparable, found[1], order.keys)):
        return None
    return found[1:]


def _comparable(value: Any, key: Key) -> bool:
    kind = key.type.impl_instance if isinstance(key.type, TypeDecorator) else key.type
    wanted = kind.python_type
    if wanted is int:
        return type(value) is int and abs(value) < (2**63 if isinstance(kind, BigInteger) else 2**31)
    if wanted is float:
        return type(value) in (int, float) and abs(value) < 2**63
    return isinstance(value, wanted) and _storable(value)


def _storable(value: Any) -> bool:
    """False for what no row of ours can hold, and what a driver therefore refuses to send."""
    return not isinstance(value, str) or not _UNSTORABLE.search(value)


def fetch(query: Select[Any], order: Order, cursor: str, size: int = PAGE_SIZE) -> Page[Any]:
    """One page of `query` (entities or columns): one SQL statement whatever the size of the table."""
    keys = order.keys
    position = _position(cursor, order)
    values, backward = position or ([], False)
    upward = order.descending == backward  # ascending forward, or descending read backward
    query = query.add_columns(*(key.label(f"_key{n}") for n, key in enumerate(keys)))
    if position:
        here = tuple_(*keys)
        edge = tuple_(*(literal(value, key.type) for key, value in zip(keys, values, strict=True)))
        query = query.where(here > edge if upward else here < edge)
    query = query.order_by(*(key.asc() if upward else key.desc() for key in keys)).limit(size + 1)
    found = list(db.session.execute(query).all())
    return _page(found, order, size, backward=backward, inside=position is not None)


def stream(query: Select[Any], order: Order, most: int) -> Iterator[Any]:
    """The first `most` rows of `query`, fetched bit by bit: for files. One SQL statement, when the first is taken."""
    ordered = query.order_by(*(key.desc() if order.descending else key.asc() for key in order.keys))
    yield from db.session.execute(ordered.limit(most).execution_options(yield_per=BATCH))


def _page(found: list[Any], order: Order, size: int, *, backward: bool, inside: bool) -> Page[Any]:
    keys, name = len(order.keys), order.name
    more, found = len(found) > size, found[:size]
    if backward:
        found.reverse()
    if not found:
        return Page(())
    first, last = tuple(found[0][-keys:]), tuple(found[-1][-keys:])
    return Page(
        tuple(row[:-keys] for row in found),
        next=encode(last, name) if (backward or more) else "",
        previous=encode(first, name, backward=True) if (more if backward else inside) else "",
    )
