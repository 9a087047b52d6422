"""The part of a generated OLT that is the same for all vendors: the system group and IF-MIB; no private tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jobs.snmp.simulator.generated import SCALAR, Column, Rows
from jobs.snmp.simulator.mib import Kind, Oid, Value
from jobs.snmp.simulator.noise import draw
from jobs.snmp.simulator.values import Reader, constant, counter64, integer, text, ticks

SYSTEM: Oid = (1, 3, 6, 1, 2, 1, 1)
IF_NUMBER: Oid = (1, 3, 6, 1, 2, 1, 2, 1)
IF_TABLE: Oid = (1, 3, 6, 1, 2, 1, 2, 2, 1)
IF_X_TABLE: Oid = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1)
# ifType as the recorded devices fill it.
OTHER, ETHERNET, LOOPBACK, GIGABIT, GPON = 1, 6, 24, 117, 250
_UPTIME_WRAP = 200 * 86400
_NOBODY: list[int] = []


@dataclass(frozen=True, slots=True)
class Identity:
    """The system group of a generated OLT."""

    descr: str
    object_id: Oid
    name: str
    seed: int


class Interface(NamedTuple):
    """One row of IF-MIB: index, the two names as the vendor fills them, ifType, speed in Mbit/s, ifAlias, up or not."""

    if_index: int
    name: str
    descr: str
    kind: int
    speed: int
    alias: str = ""
    up: bool = True


class OnuInterfaces(NamedTuple):
    """The ONUs of an OLT that lists each as an interface of its own (BDCOM, Nokia, VSOL)."""

    members: Callable[[float], list[int]]
    if_index: Callable[[int], int]
    face: Callable[[int, float], Interface]


class InterfaceRows:
    """Ports that are always there and ONUs that come and go, by ifIndex; a port has a negative row number."""

    def __init__(self, ports: Sequence[Interface], onus: OnuInterfaces | None) -> None:
        self._ports = ports
        self._onus = onus
        self._members: list[int] | None = None
        self._keys: list[Oid] = []
        self._numbers: list[int] = []

    def at(self, now: float) -> tuple[Sequence[Oid], Sequence[int]]:
        """See Rows."""
        members = self._onus.members(now) if self._onus else _NOBODY
        if members is not self._members:
            self._members = members
            keyed = [(port.if_index, ~at) for at, port in enumerate(self._ports)]
            if self._onus:
                keyed += [(self._onus.if_index(onu), onu) for onu in members]
            keyed.sort()
            self._keys = [(if_index,) for if_index, _ in keyed]
            self._numbers = [number for _, number in keyed]
        return self._keys, self._numbers

    def face(self, row: int, now: float) -> Interface:
        """The interface of one row number."""
        if row < 0 or self._onus is None:
            return self._ports[~row]
        return self._onus.face(row, now)


def system_columns(identity: Identity) -> list[Column]:
    """sysDescr to sysServices; sysUpTime runs and starts again every 200 days."""
    offset = draw(identity.seed, 0, "boot") % _UPTIME_WRAP
    readers: dict[int, Reader] = {
        1: constant(text(identity.descr)),
        2: constant(Value(Kind.OID, identity.object_id)),
        3: lambda _row, now: ticks((now + offset) % _UPTIME_WRAP),
        4: constant(text("noc@example.net")),
        5: constant(text(identity.name)),
        6: constant(text("Simulador")),
        7: constant(integer(78)),
    }
    return [Column((*SYSTEM, arc), SCALAR, read) for arc, read in readers.items()]


def interface_columns(ports: Sequence[Interface], onus: OnuInterfaces | None = None) -> list[Column]:
    """ifNumber, and the columns of ifTable and ifXTable that pollers read; all ports are up."""
    rows = InterfaceRows(ports, onus)
    table: dict[int, Callable[[Interface], Value]] = {
        1: lambda one: integer(one.if_index if one.if_index < 2**31 else one.if_index - 2**32),
        2: lambda one: text(one.descr),
        3: lambda one: integer(one.kind),
        5: lambda one: Value(Kind.GAUGE32, min(one.speed * 1_000_000, 2**32 - 1)),
        7: lambda one: integer(1),
        8: lambda one: integer(1 if one.up else 2),
        9: lambda one: ticks(124),
    }
    extended: dict[int, Callable[[Interface], Value]] = {
        1: lambda one: text(one.name),
        15: lambda one: Value(Kind.GAUGE32, one.speed),
        18: lambda one: text(one.alias),
    }
    columns = [Column(IF_NUMBER, SCALAR, lambda _row, now: integer(_count(rows, now)))]
    columns += [Column((*IF_TABLE, arc), rows, _of(rows, read)) for arc, read in table.items()]
    columns += [Column((*IF_X_TABLE, arc), rows, _of(rows, read)) for arc, read in extended.items()]
    columns += [Column((*IF_X_TABLE, arc), rows, _octets(rows, arc)) for arc in (6, 10)]
    return columns


def _count(rows: Rows, now: float) -> int:
    return len(rows.at(now)[0])


def _of(rows: InterfaceRows, read: Callable[[Interface], Value]) -> Reader:
    return lambda row, now: read(rows.face(row, now))


def _octets(rows: InterfaceRows, arc: int) -> Reader:
    """A byte counter at a steady share of the line rate: 4 % in (upstream), 25 % out (downstream)."""
    share = 0.04 if arc == 6 else 0.25
    return lambda row, now: counter64(now * rows.face(row, now).speed * 125_000 * share)
