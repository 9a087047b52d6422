"""A management tree computed at request time: columns, rows, lookup; what stands in the columns does not live here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from jobs.snmp.simulator.mib import NO_SUCH_INSTANCE, NO_SUCH_OBJECT, Oid, Value
from jobs.snmp.simulator.values import Reader


class Rows(Protocol):
    """The rows of a table at one time: sorted index parts and, in the same order, the number of each row."""

    def at(self, now: float) -> tuple[Sequence[Oid], Sequence[int]]:
        """Keys and row numbers as of ``now``."""


class Column(NamedTuple):
    """One object: its OID, the rows it has, and how a cell is read."""

    prefix: Oid
    rows: Rows
    read: Reader


class FixedRows:
    """Rows that never change, such as interfaces or the one row of scalars."""

    def __init__(self, keyed: Iterable[tuple[Oid, int]]) -> None:
        ordered = sorted(keyed)
        self._keys = [key for key, _ in ordered]
        self._numbers = [number for _, number in ordered]

    def at(self, now: float) -> tuple[Sequence[Oid], Sequence[int]]:
        """See Rows."""
        return self._keys, self._numbers


SCALAR = FixedRows([((0,), 0)])


class MovingRows:
    """Rows of members that come and go; keys are rebuilt only when ``members`` hands out another list.

    Members come in the order of their positions; ``sort`` is for indexes that follow another order.
    """

    def __init__(self, members: Callable[[float], list[int]], key: Callable[[int], Oid], *, sort: bool = False) -> None:
        self._source = members
        self._key = key
        self._sort = sort
        self._members: list[int] | None = None
        self._keys: list[Oid] = []
        self._numbers: list[int] = []

    def at(self, now: float) -> tuple[Sequence[Oid], Sequence[int]]:
        """See Rows."""
        members = self._source(now)
        if members is not self._members:
            self._members = members
            keyed = [(self._key(member), member) for member in members]
            if self._sort:
                keyed.sort()
            self._keys = [key for key, _ in keyed]
            self._numbers = [member for _, member in keyed]
        return self._keys, self._numbers


def columns_of(prefix: Oid, rows: Rows, readers: Mapping[Oid, Reader]) -> list[Column]:
    """The columns of one table (or of several with the same rows): OID below ``prefix`` → how a cell is read."""
    return [Column(prefix + tail, rows, read) for tail, read in readers.items()]


class GeneratedMib:
    """Columns in OID order; nothing is stored but keys."""

    def __init__(self, columns: Iterable[Column]) -> None:
        self._columns = sorted(columns, key=lambda column: column.prefix)
        self._prefixes = [column.prefix for column in self._columns]

    def get(self, oid: Oid, now: float) -> Value:
        """See MibSource."""
        place = self._place(oid)
        if place is None:
            return NO_SUCH_OBJECT
        column, index = place
        keys, numbers = column.rows.at(now)
        at = bisect_left(keys, index)
        if at == len(keys) or keys[at] != index:
            return NO_SUCH_INSTANCE
        return column.read(numbers[at], now)

    def next(self, oid: Oid, now: float) -> tuple[Oid, Value] | None:
        """See MibSource."""
        place = self._place(oid)
        start = bisect_right(self._prefixes, oid)
        if place is not None:
            column, index = place
            keys, numbers = column.rows.at(now)
            at = bisect_right(keys, index)
            if at < len(keys):
                return column.prefix + keys[at], column.read(numbers[at], now)
        return self._first_from(start, now)

    def _first_from(self, start: int, now: float) -> tuple[Oid, Value] | None:
        for column in self._columns[start:]:
            keys, numbers = column.rows.at(now)
            if keys:
                return column.prefix + keys[0], column.read(numbers[0], now)
        return None

    def _place(self, oid: Oid) -> tuple[Column, Oid] | None:
        at = bisect_right(self._prefixes, oid) - 1
        if at < 0:
            return None
        column = self._columns[at]
        size = len(column.prefix)
        return (column, oid[size:]) if oid[:size] == column.prefix else None
