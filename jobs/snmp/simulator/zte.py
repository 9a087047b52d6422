"""A generated ZTE C320 or C300: the 1012 tree in family A, IF-MIB in B or C; what ONUs do is decided in ``onus``.

Columns, enums and sentinels as in the catalogue (ZXGPON-SERVICE-MIB, ZXGPON-ONTMGMT-MIB, recorded C320 V2.1.0).
"""

from __future__ import annotations

from jobs.snmp.simulator.built import BuiltOlt, Place, Plan, Truth
from jobs.snmp.simulator.generated import Column, FixedRows, GeneratedMib, MovingRows, columns_of
from jobs.snmp.simulator.mib import Oid, Value
from jobs.snmp.simulator.noise import draw
from jobs.snmp.simulator.onus import PORTS_PER_SLOT, Population
from jobs.snmp.simulator.standard import ETHERNET, GPON, Identity, Interface, interface_columns, system_columns
from jobs.snmp.simulator.values import (
    Reader,
    constant,
    date_and_time,
    integer,
    octets,
    scaled,
    sixteen_bit_power,
    text,
    ticks,
    when,
)

XGPON: Oid = (1, 3, 6, 1, 4, 1, 3902, 1012, 3)
OLT_RX: Oid = (1, 3, 6, 1, 4, 1, 3902, 1015, 1010, 11, 2, 1)
NO_ONU_READING = integer(65535)
NO_OLT_READING = integer(-80000)
MODELS = {"C320": 320, "C300": 300}
WORKING, LOS, DYING_GASP, OFFLINE = 3, 1, 4, 6
_PRODUCTS: Oid = (1, 3, 6, 1, 4, 1, 3902, 1082, 1001)
_SMALL_SLOTS = 2
_UPLINK_SLOT = 19
_TYPES = ("F660", "F601", "F670L", "F680", "F609")
_VENDOR = b"ZTEG"
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


def build(plan: Plan) -> BuiltOlt:
    """The whole tree; without a model it is a C320 up to 512 ONUs, a C300 above."""
    onus = plan.population
    model = plan.model or ("C320" if onus.ports <= _SMALL_SLOTS * PORTS_PER_SLOT else "C300")
    descr = f"{model} Version V2.1.0 Software, Copyright (c) by ZTE Corporation Compiled"
    identity = Identity(descr, (*_PRODUCTS, MODELS[model], 2, 1), plan.name, onus.seed)
    columns = system_columns(identity) + interface_columns(_interfaces(onus.ports, plan.family))
    tables = _Onus(onus)
    truth = Truth(onus, tables.place, steps=500, serial=tables.serial, model=tables.model)
    return BuiltOlt(GeneratedMib(columns + _port_columns(onus.ports) + tables.columns()), truth)


def _interfaces(ports: int, family: str) -> list[Interface]:
    found = []
    for pon in range(ports):
        slot, port = (number + 1 for number in divmod(pon, PORTS_PER_SLOT))
        found.append(Interface(index_if(family, slot, port), f"gpon_1/{slot}/{port}", "", GPON, 2488))
    for port in (1, 2):
        index = index_if(family, _UPLINK_SLOT, port)
        found.append(Interface(index, f"xgei_1/{_UPLINK_SLOT}/{port}", "", ETHERNET, 10000))
    return found


def _port_columns(ports: int) -> list[Column]:
    rows = FixedRows(((index_a(pon),), pon) for pon in range(ports))
    readers: dict[Oid, Reader] = {
        (13, 1, 1, 1): lambda pon, now: text(f"OLT-{pon + 1}"),
        (13, 1, 1, 10): constant(integer(1)),
        # The legal-ONU counter stands at 0 on a recorded C320 that lists 125 ONUs.
        (13, 1, 1, 13): constant(integer(0)),
    }
    return columns_of(XGPON, rows, readers)


class _Onus:
    """Readers of the ONU tables; each takes an ONU and the time."""

    def __init__(self, population: Population) -> None:
        self._onus = population

    def columns(self) -> list[Column]:
        rows = MovingRows(self._onus.members, self._key)
        # Optical tables add the ONU's PON port, always 1.
        optic = MovingRows(self._onus.members, lambda onu: (*self._key(onu), 1))
        olt_rx = when(
            self._onus.heard, lambda onu, now: scaled(self._onus.olt_rx_power(onu, now), 1000), NO_OLT_READING
        )
        return [
            *columns_of(XGPON, rows, self._configured() | self._status() | self._inventory()),
            *columns_of(XGPON, optic, self._optics()),
            *columns_of(OLT_RX, rows, {(2,): olt_rx}),
        ]

    def place(self, onu: int, _now: float) -> Place:
        pon, number = self._onus.position(onu)
        slot, port = divmod(pon, PORTS_PER_SLOT)
        return Place(f"{index_a(pon)}.{number + 1}", slot + 1, port + 1, number + 1)

    def serial(self, onu: int) -> bytes:
        return self._onus.serial(onu, _VENDOR)

    def model(self, onu: int) -> str:
        return self._onus.pick(onu, "model", _TYPES)

    def _configured(self) -> dict[Oid, Reader]:
        return {
            (28, 1, 1, 1): lambda onu, now: text("ZTE-" + self.model(onu)),
            (28, 1, 1, 2): self._name,
            (28, 1, 1, 3): lambda onu, now: octets(self._onus.description(onu)),
            (28, 1, 1, 5): lambda onu, now: octets(self.serial(onu)),
            (28, 1, 1, 8): constant(integer(2)),
            (28, 1, 1, 11): constant(integer(1)),
        }

    def _status(self) -> dict[Oid, Reader]:
        onus = self._onus
        return {
            (11, 4, 1, 1): lambda onu, now: integer(240000 + onus.distance(onu, now, 0) * 12),
            (11, 4, 1, 2): lambda onu, now: integer(onus.distance(onu, now, 0)),
            (28, 2, 1, 1): constant(integer(1)),
            (28, 2, 1, 2): lambda onu, now: integer(1 if onus.online(onu, now) else 2),
            (28, 2, 1, 3): lambda onu, now: integer(6 if onus.online(onu, now) else 1),
            (28, 2, 1, 4): self._phase,
            (28, 2, 1, 5): lambda onu, now: date_and_time(onus.state(onu, now).up_since),
            (28, 2, 1, 6): lambda onu, now: date_and_time(onus.state(onu, now).down_since),
            (28, 2, 1, 7): self._down_cause,
        }

    def _inventory(self) -> dict[Oid, Reader]:
        return {
            (50, 11, 2, 1, 1): constant(text("ZTEG")),
            (50, 11, 2, 1, 2): constant(octets(b"V6.0".ljust(14, b"\0"))),
            (50, 11, 2, 1, 3): lambda onu, now: octets(self.serial(onu)),
            (50, 11, 2, 1, 9): lambda onu, now: octets(self.model(onu).encode().ljust(20, b"\0")),
            (50, 11, 2, 1, 17): lambda onu, now: text(self.model(onu)),
            (50, 11, 2, 1, 20): self._uptime,
        }

    def _optics(self) -> dict[Oid, Reader]:
        onus = self._onus
        lit: dict[Oid, Reader] = {
            (50, 12, 1, 1, 17): lambda onu, now: integer(163 + draw(onus.seed, onu, "volt") % 5),
            (50, 12, 1, 1, 18): lambda onu, now: integer(4000 + draw(onus.seed, onu, "bias") % 6000),
            (50, 12, 1, 1, 19): lambda onu, now: scaled(onus.temperature(onu, now), 256),
        }
        powers: dict[Oid, Reader] = {
            (50, 12, 1, 1, 10): lambda onu, now: integer(sixteen_bit_power(onus.rx_power(onu, now))),
            (50, 12, 1, 1, 14): lambda onu, now: integer(sixteen_bit_power(onus.tx_power(onu, now))),
        }
        found = {tail: when(onus.online, read, NO_ONU_READING) for tail, read in lit.items()}
        return found | {tail: when(onus.measured, read, NO_ONU_READING) for tail, read in powers.items()}

    def _key(self, onu: int) -> Oid:
        pon, number = self._onus.position(onu)
        return index_a(pon), number + 1

    def _name(self, onu: int, now: float) -> Value:
        place = self.place(onu, now)
        return text(f"ONU-{place.slot}:{place.port}:{place.number}")

    def _phase(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return integer(WORKING if state.online else _CAUSES[state.cause % len(_CAUSES)][0])

    def _down_cause(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return integer(1 if state.down_since is None else _CAUSES[state.cause % len(_CAUSES)][1])

    def _uptime(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return ticks(now - state.up_since if state.online else 0)
