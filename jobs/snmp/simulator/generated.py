"""A management tree computed at request time; system and IF-MIB live here, vendors' tables do not."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeAlias

from jobs.snmp.simulator.mib import NO_SUCH_INSTANCE, NO_SUCH_OBJECT, Kind, Oid, Value
from jobs.snmp.simulator.noise import draw

# Reads one cell: the row's number (an ONU, an interface, 0 for a scalar) and the time.
Reader: TypeAlias = Callable[[int, float], Value]

SYSTEM: Oid = (1, 3, 6, 1, 2, 1, 1)
IF_NUMBER: Oid = (1, 3, 6, 1, 2, 1, 2, 1)
IF_TABLE: Oid = (1, 3, 6, 1, 2, 1, 2, 2, 1)
IF_X_TABLE: Oid = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1)
_UPTIME_WRAP = 200 * 86400
_GPON, _ETHERNET = 250, 6


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
    """Rows of members that come and go; keys are rebuilt only when ``members`` hands out another list."""

    def __init__(self, members: Callable[[float], list[int]], key: Callable[[int], Oid]) -> None:
        self._source = members
        self._key = key
        self._members: list[int] | None = None
        self._keys: list[Oid] = []

    def at(self, now: float) -> tuple[Sequence[Oid], Sequence[int]]:
        """See Rows."""
        members = self._source(now)
        if members is not self._members:
            self._members = members
            self._keys = [self._key(member) for member in members]
        return self._keys, members


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


@dataclass(frozen=True, slots=True)
class Identity:
    """The system group of a generated OLT."""

    descr: str
    object_id: Oid
    name: str
    seed: int


class Interface(NamedTuple):
    """One row of IF-MIB: index, the two names as the vendor fills them, PON or uplink, speed in Mbit/s."""

    if_index: int
    name: str
    descr: str
    pon: bool
    speed: int


def system_columns(identity: Identity) -> list[Column]:
    """sysDescr to sysServices; sysUpTime runs and starts again every 200 days."""
    offset = draw(identity.seed, 0, "boot") % _UPTIME_WRAP
    readers: dict[int, Reader] = {
        1: constant(text(identity.descr)),
        2: constant(Value(Kind.OID, identity.object_id)),
        3: lambda _row, now: Value(Kind.TIMETICKS, int((now + offset) % _UPTIME_WRAP * 100)),
        4: constant(text("noc@example.net")),
        5: constant(text(identity.name)),
        6: constant(text("Simulador")),
        7: constant(integer(78)),
    }
    return [Column((*SYSTEM, arc), SCALAR, read) for arc, read in readers.items()]


def interface_columns(interfaces: Sequence[Interface]) -> list[Column]:
    """ifNumber, and the columns of ifTable and ifXTable that pollers read; all ports are up."""
    rows = FixedRows(((interface.if_index,), at) for at, interface in enumerate(interfaces))
    table: dict[int, Callable[[Interface], Value]] = {
        1: lambda one: integer(one.if_index if one.if_index < 2**31 else one.if_index - 2**32),
        2: lambda one: text(one.descr),
        3: lambda one: integer(_GPON if one.pon else _ETHERNET),
        5: lambda one: Value(Kind.GAUGE32, min(one.speed * 1_000_000, 2**32 - 1)),
        7: lambda one: integer(1),
        8: lambda one: integer(1),
        9: lambda one: Value(Kind.TIMETICKS, 12400),
    }
    extended: dict[int, Callable[[Interface], Value]] = {
        1: lambda one: text(one.name),
        15: lambda one: Value(Kind.GAUGE32, one.speed),
        18: lambda one: text(""),
    }
    columns = [Column(IF_NUMBER, SCALAR, constant(integer(len(interfaces))))]
    columns += [Column((*IF_TABLE, arc), rows, _of(interfaces, read)) for arc, read in table.items()]
    columns += [Column((*IF_X_TABLE, arc), rows, _of(interfaces, read)) for arc, read in extended.items()]
    columns += [Column((*IF_X_TABLE, arc), rows, _octets(interfaces, arc)) for arc in (6, 10)]
    return columns


def _of(interfaces: Sequence[Interface], read: Callable[[Interface], Value]) -> Reader:
    return lambda row, _now: read(interfaces[row])


def _octets(interfaces: Sequence[Interface], arc: int) -> Reader:
    """A byte counter at a steady share of the line rate: 4 % in (upstream), 25 % out (downstream)."""
    share = 0.04 if arc == 6 else 0.25
    return lambda row, now: Value(Kind.COUNTER64, int(now * interfaces[row].speed * 125_000 * share) % 2**64)


def constant(value: Value) -> Reader:
    """A reader that always gives this value."""
    return lambda _row, _now: value


def integer(number: int) -> Value:
    """An Integer32."""
    return Value(Kind.INTEGER, number)


def text(words: str) -> Value:
    """An OCTET STRING in UTF-8."""
    return Value(Kind.OCTETS, words.encode())


def octets(data: bytes) -> Value:
    """An OCTET STRING."""
    return Value(Kind.OCTETS, data)


def date_and_time(moment: float | None) -> Value:
    """DateAndTime of 8 octets in UTC (SNMPv2-TC); all zero = never."""
    if moment is None:
        return octets(bytes(8))
    at = datetime.fromtimestamp(moment, UTC)
    return octets(at.year.to_bytes(2, "big") + bytes((at.month, at.day, at.hour, at.minute, at.second, 0)))
