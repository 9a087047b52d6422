"""A generated ZTE C320 or C300: the 1012 tree in family A, IF-MIB in B or C; what ONUs do is decided in ``onus``.

Columns, enums and sentinels as in the catalogue (ZXGPON-SERVICE-MIB, ZXGPON-ONTMGMT-MIB, recorded C320 V2.1.0).
"""

from __future__ import annotations

from collections.abc import Callable

from jobs.snmp.simulator.generated import (
    Column,
    FixedRows,
    GeneratedMib,
    Identity,
    Interface,
    MovingRows,
    constant,
    date_and_time,
    integer,
    interface_columns,
    octets,
    system_columns,
    text,
)
from jobs.snmp.simulator.mib import Kind, Oid, Value
from jobs.snmp.simulator.noise import draw
from jobs.snmp.simulator.onus import PORTS_PER_SLOT, Population

GPON: Oid = (1, 3, 6, 1, 4, 1, 3902, 1012, 3)
OLT_RX: Oid = (1, 3, 6, 1, 4, 1, 3902, 1015, 1010, 11, 2, 1, 2)
NO_ONU_READING = integer(65535)
NO_OLT_READING = integer(-80000)
WORKING, LOS, DYING_GASP, OFFLINE = 3, 1, 4, 6
_MODEL: Oid = (1, 3, 6, 1, 4, 1, 3902, 1082, 1001)
_SMALL_SLOTS = 2
_UPLINK_SLOT = 19
_TYPES = ("F660", "F601", "F670L", "F680", "F609")
# (phase while down, last-down code afterwards): power off most of all, then fibre, then silence
_CAUSES = ((DYING_GASP, 9), (DYING_GASP, 9), (LOS, 2), (LOS, 2), (OFFLINE, 12))


def index_a(pon: int) -> int:
    """Index of a PON port in 1012 and 1015.1010 tables; slot and port from 1."""
    slot, port = divmod(pon, PORTS_PER_SLOT)
    return 0x10000000 | ((slot + 1) << 16) | ((port + 1) << 8)


def index_if(family: str, slot: int, port: int) -> int:
    """ifIndex of a port (slot and port from 1) in family B or C."""
    if family == "B":
        return 0x11010000 | (slot << 8) | port
    return 0x10000000 | ((slot - 1) << 16) | ((port - 1) << 8)


def build(seed: int, name: str, population: Population, family: str = "C") -> GeneratedMib:
    """The whole tree; up to 512 ONUs it is a C320, above a C300."""
    model = 320 if population.ports <= _SMALL_SLOTS * PORTS_PER_SLOT else 300
    descr = f"C{model} Version V2.1.0 Software, Copyright (c) by ZTE Corporation Compiled"
    identity = Identity(descr, (*_MODEL, model, 2, 1), name, seed)
    columns = system_columns(identity) + interface_columns(_interfaces(population.ports, family))
    return GeneratedMib(columns + _port_columns(population.ports) + _Onus(seed, population).columns())


def _interfaces(ports: int, family: str) -> list[Interface]:
    found = []
    for pon in range(ports):
        slot, port = (number + 1 for number in divmod(pon, PORTS_PER_SLOT))
        found.append(Interface(index_if(family, slot, port), f"gpon_1/{slot}/{port}", "", True, 2488))
    for port in (1, 2):
        found.append(Interface(index_if(family, _UPLINK_SLOT, port), f"xgei_1/{_UPLINK_SLOT}/{port}", "", False, 10000))
    return found


def _port_columns(ports: int) -> list[Column]:
    rows = FixedRows(((index_a(pon),), pon) for pon in range(ports))
    readers: dict[Oid, Callable[[int, float], Value]] = {
        (13, 1, 1, 1): lambda pon, now: text(f"OLT-{pon + 1}"),
        (13, 1, 1, 10): constant(integer(1)),
        # The legal-ONU counter stands at 0 on a recorded C320 that lists 125 ONUs.
        (13, 1, 1, 13): constant(integer(0)),
    }
    return [Column(GPON + tail, rows, read) for tail, read in readers.items()]


class _Onus:
    """Readers of the ONU tables; each takes an ONU and the time."""

    def __init__(self, seed: int, population: Population) -> None:
        self._seed = seed
        self._onus = population

    def columns(self) -> list[Column]:
        rows = MovingRows(self._onus.members, self._key)
        # Optical tables add the ONU's PON port, always 1.
        optic = MovingRows(self._onus.members, lambda onu: (*self._key(onu), 1))
        plain = self._configured() | self._status() | self._inventory()
        columns = [Column(GPON + tail, rows, read) for tail, read in plain.items()]
        columns += [Column(GPON + tail, optic, read) for tail, read in self._optics().items()]
        return [*columns, Column(OLT_RX, rows, self._olt_rx)]

    def _configured(self) -> dict[Oid, Callable[[int, float], Value]]:
        return {
            (28, 1, 1, 1): lambda onu, now: text("ZTE-" + self._type(onu)),
            (28, 1, 1, 2): self._name,
            (28, 1, 1, 3): lambda onu, now: octets(self._onus.description(onu)),
            (28, 1, 1, 5): self._serial,
            (28, 1, 1, 8): constant(integer(2)),
            (28, 1, 1, 11): constant(integer(1)),
        }

    def _status(self) -> dict[Oid, Callable[[int, float], Value]]:
        return {
            (11, 4, 1, 1): lambda onu, now: integer(240000 + self._distance(onu, now) * 12),
            (11, 4, 1, 2): lambda onu, now: integer(self._distance(onu, now)),
            (28, 2, 1, 1): constant(integer(1)),
            (28, 2, 1, 2): lambda onu, now: integer(1 if self._onus.online(onu, now) else 2),
            (28, 2, 1, 3): lambda onu, now: integer(6 if self._onus.online(onu, now) else 1),
            (28, 2, 1, 4): self._phase,
            (28, 2, 1, 5): lambda onu, now: date_and_time(self._onus.state(onu, now).up_since),
            (28, 2, 1, 6): lambda onu, now: date_and_time(self._onus.state(onu, now).down_since),
            (28, 2, 1, 7): self._down_cause,
        }

    def _inventory(self) -> dict[Oid, Callable[[int, float], Value]]:
        return {
            (50, 11, 2, 1, 1): constant(text("ZTEG")),
            (50, 11, 2, 1, 2): constant(octets(b"V6.0".ljust(14, b"\0"))),
            (50, 11, 2, 1, 3): self._serial,
            (50, 11, 2, 1, 9): lambda onu, now: octets(self._type(onu).encode().ljust(20, b"\0")),
            (50, 11, 2, 1, 17): lambda onu, now: text(self._type(onu)),
            (50, 11, 2, 1, 20): self._uptime,
        }

    def _optics(self) -> dict[Oid, Callable[[int, float], Value]]:
        onus = self._onus
        return {
            (50, 12, 1, 1, 10): self._lit(lambda onu, now: coded(onus.rx_power(onu, now))),
            (50, 12, 1, 1, 14): self._lit(lambda onu, now: coded(onus.tx_power(onu, now))),
            (50, 12, 1, 1, 17): self._lit(lambda onu, now: 163 + draw(self._seed, onu, "volt") % 5),
            (50, 12, 1, 1, 18): self._lit(lambda onu, now: 4000 + draw(self._seed, onu, "bias") % 6000),
            (50, 12, 1, 1, 19): self._lit(lambda onu, now: round(onus.temperature(onu, now) * 256)),
        }

    def _key(self, onu: int) -> Oid:
        pon, number = self._onus.position(onu)
        return index_a(pon), number + 1

    def _type(self, onu: int) -> str:
        return _TYPES[draw(self._seed, onu, "model") % len(_TYPES)]

    def _name(self, onu: int, _now: float) -> Value:
        pon, number = self._onus.position(onu)
        slot, port = divmod(pon, PORTS_PER_SLOT)
        return text(f"ONU-{slot + 1}:{port + 1}:{number + 1}")

    def _serial(self, onu: int, _now: float) -> Value:
        return octets(b"ZTEG" + draw(self._seed, onu, "serial").to_bytes(8, "big")[:4])

    def _distance(self, onu: int, now: float) -> int:
        return self._onus.traits(onu).distance if self._onus.online(onu, now) else 0

    def _phase(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return integer(WORKING if state.online else _CAUSES[state.cause % len(_CAUSES)][0])

    def _down_cause(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return integer(1 if state.down_since is None else _CAUSES[state.cause % len(_CAUSES)][1])

    def _uptime(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return Value(Kind.TIMETICKS, int((now - state.up_since) * 100) % 2**32 if state.online else 0)

    def _olt_rx(self, onu: int, now: float) -> Value:
        # Of 458 ONUs on a real C320, 82 had no reading here, lit ones among them.
        if self._onus.traits(onu).unheard or not self._onus.online(onu, now):
            return NO_OLT_READING
        return integer(round(self._onus.olt_rx_power(onu, now) * 1000))

    def _lit(self, read: Callable[[int, float], int]) -> Callable[[int, float], Value]:
        return lambda onu, now: integer(read(onu, now)) if self._onus.online(onu, now) else NO_ONU_READING


def coded(dbm: float) -> int:
    """Power in the 16-bit coding of ZTE: steps of 0.002 dB above -30 dBm, below that as a negative 16-bit number."""
    return round((dbm + 30) / 0.002) % 65536
