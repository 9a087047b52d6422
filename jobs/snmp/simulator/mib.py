"""Values and ordered views of a management tree, recorded ones too; no sockets, encoding or vendor knowledge here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeAlias

Oid: TypeAlias = tuple[int, ...]

SYS_UPTIME: Oid = (1, 3, 6, 1, 2, 1, 1, 3, 0)
MAX_ARC = 0xFFFFFFFF


class Kind(IntEnum):
    """SMI types by their BER tag (RFC 2578, RFC 3416)."""

    INTEGER = 0x02
    OCTETS = 0x04
    NULL = 0x05
    OID = 0x06
    IP_ADDRESS = 0x40
    COUNTER32 = 0x41
    GAUGE32 = 0x42
    TIMETICKS = 0x43
    COUNTER64 = 0x46
    NO_SUCH_OBJECT = 0x80
    NO_SUCH_INSTANCE = 0x81
    END_OF_MIB_VIEW = 0x82


class Value(NamedTuple):
    """One SMI value: ``data`` is an int, octets, an OID, or None for NULL and the three exceptions."""

    kind: Kind
    data: int | bytes | Oid | None


NO_SUCH_OBJECT = Value(Kind.NO_SUCH_OBJECT, None)
NO_SUCH_INSTANCE = Value(Kind.NO_SUCH_INSTANCE, None)
END_OF_MIB_VIEW = Value(Kind.END_OF_MIB_VIEW, None)


class MibSource(Protocol):
    """What an agent can tell; ``now`` is the device's clock in unix seconds and stays fixed within one request."""

    def get(self, oid: Oid, now: float) -> Value:
        """The value at ``oid``, or NO_SUCH_OBJECT / NO_SUCH_INSTANCE."""

    def next(self, oid: Oid, now: float) -> tuple[Oid, Value] | None:
        """The first row after ``oid``, or None at the end of the tree."""


def parse_oid(text: str) -> Oid:
    """Read a dotted OID, with or without a leading dot; ValueError says what is wrong with it."""
    parts = text.strip().removeprefix(".").split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"{text!r} is not an OID (numbers with dots between, two at least)")
    oid = tuple(int(part) for part in parts)
    if oid[0] > 2 or (oid[0] < 2 and oid[1] > 39) or max(oid) > MAX_ARC:
        raise ValueError(f"{text!r} is not an OID (first number 0 to 2, none above {MAX_ARC})")
    return oid


def object_prefix(oid: Oid) -> Oid:
    """The object of an instance, guessed from its shape: ``x.0`` is a scalar, else a column follows an entry arc 1."""
    # Huawei numbers ONUs from 0: behind an ifIndex, which is large, a last 0 belongs to the row.
    if oid[-1] != 0 or oid[-2] > 0xFFFF:
        for cut in range(len(oid) - 1, 8, -1):
            if oid[cut - 2] == 1:
                return oid[:cut]
    return oid[:-1]


class RecordedMib:
    """A recorded walk; only sysUpTime moves, counted on from the recorded value."""

    def __init__(self, rows: Mapping[Oid, Value], started: float) -> None:
        self._oids = sorted(rows)
        self._values = [rows[oid] for oid in self._oids]
        self._objects = {object_prefix(oid) for oid in self._oids}
        self._started = started

    def __len__(self) -> int:
        return len(self._oids)

    def get(self, oid: Oid, now: float) -> Value:
        """See MibSource."""
        at = bisect_left(self._oids, oid)
        if at < len(self._oids) and self._oids[at] == oid:
            return self._read(at, now)
        known = any(oid[:cut] in self._objects for cut in range(len(oid), 1, -1))
        return NO_SUCH_INSTANCE if known else NO_SUCH_OBJECT

    def next(self, oid: Oid, now: float) -> tuple[Oid, Value] | None:
        """See MibSource."""
        at = bisect_right(self._oids, oid)
        return (self._oids[at], self._read(at, now)) if at < len(self._oids) else None

    def _read(self, at: int, now: float) -> Value:
        value = self._values[at]
        if self._oids[at] == SYS_UPTIME and isinstance(value.data, int):
            return Value(value.kind, (value.data + int((now - self._started) * 100)) % 2**32)
        return value
