"""A generated BDCOM GP3600 (GPON) or P3310C (EPON): ONUs are interfaces, numbered in the order they were created.

Columns, enums and names as in the catalogue's reference and as recorded on a GP3600-16B. Its powers are in tenths of a
dBm and its distances in decimetres, as the pollers in use divide them; the MIB's text claims steps of 0.002 dB.
"""

from __future__ import annotations

from collections.abc import Callable

from jobs.snmp.simulator.built import BuiltOlt, Place, Plan, Truth
from jobs.snmp.simulator.generated import Column, FixedRows, GeneratedMib, MovingRows, columns_of
from jobs.snmp.simulator.mib import Oid, Value
from jobs.snmp.simulator.noise import draw
from jobs.snmp.simulator.onus import Population
from jobs.snmp.simulator.standard import (
    ETHERNET,
    OTHER,
    Identity,
    Interface,
    OnuInterfaces,
    interface_columns,
    system_columns,
)
from jobs.snmp.simulator.values import Reader, constant, integer, label, octets, scaled, text, ticks, when

TREE: Oid = (1, 3, 6, 1, 4, 1, 3320)
GPON, EPON = "GP3600-16B", "P3310C"
MODELS = {GPON: 390, EPON: 294}
NO_READING = integer(-65535)
# The recorded roster of a PON port is cut at this size: 51 numbers of four digits.
ROSTER_OCTETS = 255
_FIRST_UPLINK, _FIRST_PON, _FIRST_ONU = 97, 110, 1179
_UPLINKS = 8
_VENDOR = b"BDCM"
_MAKER = bytes.fromhex("fcfaf7")
_GPON_TYPES = ("GP1501D", "GP1702-1G", "GP1704-4F", "GP1705")
_EPON_TYPES = ("1501", "1504", "1702", "P1504B")
# dying gasp, line cut, reboot
_GPON_CAUSES = (1, 1, 8, 8, 12)
_EPON_DEREGISTERED, _EPON_LOST = 2, 4


def build(plan: Plan) -> BuiltOlt:
    """The whole tree; a GP3600-16B unless the plan says P3310C."""
    onus = plan.population
    model = plan.model or GPON
    descr = f"BDCOM(tm) {model} Software, Version 74104\nhardware version: A"
    identity = Identity(descr, (*TREE, 1, MODELS[model], 0), plan.name, onus.seed)
    numbers = created(onus)
    tables: _Epon | _Gpon = _Epon(onus, numbers) if model == EPON else _Gpon(onus, numbers)
    columns = system_columns(identity) + _interfaces(onus, numbers, model)
    return BuiltOlt(GeneratedMib(columns + tables.ports() + tables.columns()), tables.truth())


def created(onus: Population) -> list[int]:
    """ifIndex of each ONU: they were added in no order of their ports, and some numbers are used up."""
    order = sorted(range(onus.places), key=lambda onu: draw(onus.seed, onu, "created"))
    numbers = [0] * onus.places
    running = _FIRST_ONU
    for onu in order:
        numbers[onu] = running
        running += 1 + (draw(onus.seed, onu, "gap") % 5 == 0)
    return numbers


def _interfaces(onus: Population, numbers: list[int], model: str) -> list[Column]:
    word = "EPON" if model == EPON else "GPON"
    ports = []
    for port in range(_UPLINKS):
        name = f"GigaEthernet0/{port + 1}"
        ports.append(Interface(_FIRST_UPLINK + port, name, name, ETHERNET, 1000))
    for pon in range(onus.ports):
        ports.append(Interface(_FIRST_PON + pon, f"{word}0/{pon + 1}", f"{word}0/{pon + 1}", OTHER, 2488))

    def face(onu: int, now: float) -> Interface:
        pon, number = onus.position(onu)
        name = f"{word}0/{pon + 1}:{number + 1}"
        return Interface(numbers[onu], name, name, OTHER, 1000, "", onus.online(onu, now))

    return interface_columns(ports, OnuInterfaces(onus.members, numbers.__getitem__, face))


class _Tables:
    """What both families have: an interface number per ONU, powers in tenths."""

    def __init__(self, population: Population, numbers: list[int]) -> None:
        self._onus = population
        self._numbers = numbers

    def _rows(self) -> MovingRows:
        return MovingRows(self._onus.members, lambda onu: (self._numbers[onu],), sort=True)

    def _port_rows(self) -> FixedRows:
        return FixedRows(((_FIRST_PON + pon,), pon) for pon in range(self._onus.ports))

    def _port_draw(self, what: str, least: int, span: int) -> Reader:
        return lambda pon, now: integer(least + draw(self._onus.seed, pon, what) % span)

    def _place(self, onu: int, _now: float) -> Place:
        pon, number = self._onus.position(onu)
        return Place(str(self._numbers[onu]), 0, pon + 1, number + 1)

    def _power(self, read: Callable[[int, float], float]) -> Reader:
        return when(self._onus.measured, lambda onu, now: scaled(read(onu, now), 10), NO_READING)

    def _olt_rx(self) -> Reader:
        onus = self._onus
        return when(onus.heard, lambda onu, now: scaled(onus.olt_rx_power(onu, now), 10), NO_READING)

    def _alive(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return ticks(now - state.up_since if state.online else 0)


class _Gpon(_Tables):
    """Readers of NMS-GPON-MIB; each takes an ONU and the time."""

    def truth(self) -> Truth:
        return Truth(self._onus, self._place, steps=10, serial=self._serial, mac=self._mac, model=self._model)

    def ports(self) -> list[Column]:
        onus, numbers = self._onus, self._numbers
        # Indexed by the ifIndex alone on the recorded GP3600-16B, whatever the MIB says.
        rows = self._port_rows()
        counts: dict[Oid, Reader] = {
            (4,): lambda pon, now: integer(onus.lit(pon, now)),
            (5,): lambda pon, now: integer(onus.added(pon, now) - onus.lit(pon, now)),
            (6,): lambda pon, now: text(",".join(str(numbers[onu]) for onu in onus.on_port(pon, now))[:ROSTER_OCTETS]),
        }
        module: dict[Oid, Reader] = {
            (2,): self._port_draw("port", 31 * 256, 12 * 256),
            (3,): self._port_draw("port volt", 32600, 900),
            (4,): self._port_draw("port bias", 6000, 3000),
            (5,): self._port_draw("port tx", 35, 12),
        }
        return columns_of((*TREE, 10, 2, 1, 1), rows, counts) + columns_of((*TREE, 10, 2, 2, 1), rows, module)

    def columns(self) -> list[Column]:
        rows = self._rows()
        readers = self._inventory() | self._status()
        return columns_of((*TREE, 10, 3), rows, readers) + columns_of(
            (*TREE, 10, 2, 3, 1), rows, {(3,): self._olt_rx()}
        )

    def _inventory(self) -> dict[Oid, Reader]:
        return {
            (1, 1, 2): constant(text("BDCM")),
            (1, 1, 3): constant(text("V1.0")),
            (1, 1, 4): lambda onu, now: text(label(self._serial(onu))),
            (1, 1, 7): constant(integer(1)),
            (1, 1, 9): lambda onu, now: text(self._model(onu)),
            (1, 1, 19): self._alive,
            (1, 1, 20): constant(text("10.0.22A.554")),
            (1, 1, 28): lambda onu, now: octets(self._mac(onu)),
            (2, 1, 21): lambda onu, now: octets(self._onus.description(onu)),
        }

    def _status(self) -> dict[Oid, Reader]:
        onus = self._onus
        return {
            (1, 1, 33): lambda onu, now: integer(onus.distance(onu, now, 0) * 10),
            (1, 1, 35): self._down_cause,
            (3, 1, 2): lambda onu, now: text(label(self._serial(onu))),
            (3, 1, 4): lambda onu, now: integer(3 if onus.online(onu, now) else 0),
            (4, 1, 2): self._power(onus.rx_power),
            (4, 1, 3): self._power(onus.tx_power),
        }

    def _serial(self, onu: int) -> bytes:
        return self._onus.serial(onu, _VENDOR)

    def _mac(self, onu: int) -> bytes:
        return self._onus.mac(onu, _MAKER)

    def _model(self, onu: int) -> str:
        return self._onus.pick(onu, "model", _GPON_TYPES)

    def _down_cause(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return integer(0 if state.down_since is None else _GPON_CAUSES[state.cause % len(_GPON_CAUSES)])


class _Epon(_Tables):
    """Readers of NMS-EPON-ONU and its sisters, none of which holds a description; each takes an ONU and the time."""

    def truth(self) -> Truth:
        return Truth(self._onus, self._place, steps=10, mac=self._mac, model=self._model, described=False)

    def ports(self) -> list[Column]:
        rows = self._port_rows()
        module: dict[Oid, Reader] = {
            (3,): self._port_draw("port tx", 35, 12),
            (6,): self._port_draw("port", 31 * 256, 12 * 256),
            (7,): self._port_draw("port volt", 32600, 900),
        }
        counts: dict[Oid, Reader] = {(21,): lambda pon, now: integer(self._onus.lit(pon, now))}
        return columns_of((*TREE, 101, 107, 1), rows, module) + columns_of((*TREE, 101, 6, 1, 1), rows, counts)

    def columns(self) -> list[Column]:
        rows = self._rows()
        onus = self._onus
        optics: dict[Oid, Reader] = {
            (2,): when(onus.online, lambda onu, now: scaled(onus.temperature(onu, now), 256), NO_READING),
            (3,): when(onus.online, lambda onu, now: integer(32600 + draw(onus.seed, onu, "volt") % 900), NO_READING),
            (5,): self._power(onus.rx_power),
            (6,): self._power(onus.tx_power),
        }
        return [
            *columns_of((*TREE, 101, 10, 1, 1), rows, self._roster()),
            *columns_of((*TREE, 101, 10, 5, 1), rows, optics),
            *columns_of((*TREE, 101, 108, 1), rows, {(3,): self._olt_rx()}),
        ]

    def _roster(self) -> dict[Oid, Reader]:
        return {
            (1,): constant(text("BDCM")),
            (2,): lambda onu, now: text(self._model(onu)),
            (3,): lambda onu, now: octets(self._mac(onu)),
            (4,): constant(text("V1.0")),
            (5,): constant(text("10.0.22A.554")),
            (26,): self._state,
            (27,): lambda onu, now: integer(self._onus.distance(onu, now, 0)),
            (80,): self._alive,
        }

    def _state(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        if not state.online:
            return integer((_EPON_DEREGISTERED, _EPON_LOST)[state.cause % 2])
        # Two of the states mean online: authenticated by hand, and configured by itself.
        return integer(3 if draw(self._onus.seed, onu, "auth") % 4 == 0 else 0)

    def _mac(self, onu: int) -> bytes:
        return self._onus.mac(onu, _MAKER)

    def _model(self, onu: int) -> str:
        return self._onus.pick(onu, "model", _EPON_TYPES)
