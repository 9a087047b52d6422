"""A generated Fiberhome AN5516: the tables of GEPON-OLT-COMMON-MIB; what the ONUs do is decided in ``onus``.

Columns, enums and index as in the catalogue's reference. No source names the value of a power that cannot be read;
public pollers take 0 for it, and 0 it is here.
"""

from __future__ import annotations

from jobs.snmp.simulator.built import BuiltOlt, Place, Plan, Truth
from jobs.snmp.simulator.generated import SCALAR, Column, FixedRows, GeneratedMib, MovingRows, columns_of
from jobs.snmp.simulator.mib import Oid, Value
from jobs.snmp.simulator.noise import draw
from jobs.snmp.simulator.onus import PORTS_PER_SLOT, Population
from jobs.snmp.simulator.standard import ETHERNET, GPON, Identity, Interface, interface_columns, system_columns
from jobs.snmp.simulator.values import Reader, constant, integer, label, octets, scaled, text, text_time, when

TREE: Oid = (1, 3, 6, 1, 4, 1, 5875, 800, 3)
MODELS = {"AN5516-01": 11, "AN5516-06": 11, "AN5516-04": 12}
NO_READING = integer(0)
FIBRE_CUT, ONLINE, POWER_CUT, OFFLINE = 0, 1, 2, 3
_CORE_SLOTS = (9, 10)
_SLOTS_BEFORE_CORE = 8
_UPLINK_SLOT = 19
_TYPES = ("AN5506-01-A", "AN5506-04-F", "HG6145F", "AN5506-02-B")
_VENDOR = b"FHTT"
_CAUSES = (POWER_CUT, POWER_CUT, FIBRE_CUT, FIBRE_CUT, OFFLINE)


def slot_port(pon: int) -> tuple[int, int]:
    """Slot and PON from 1; slots 9 and 10 hold the core cards."""
    slot, port = divmod(pon, PORTS_PER_SLOT)
    return slot + 1 + (len(_CORE_SLOTS) if slot >= _SLOTS_BEFORE_CORE else 0), port + 1


def pon_index(pon: int) -> int:
    """Index of a PON port: slot from bit 25, PON from bit 19."""
    slot, port = slot_port(pon)
    return (slot << 25) | (port << 19)


def build(plan: Plan) -> BuiltOlt:
    """The whole tree; an AN5516-01 unless the plan says another."""
    onus = plan.population
    model = plan.model or "AN5516-01"
    object_id = (1, 3, 6, 1, 4, 1, 5875, 800, 1001, MODELS[model])
    columns = system_columns(Identity(model, object_id, plan.name, onus.seed))
    columns += interface_columns(_interfaces(onus.ports)) + _cards(onus) + _ports(onus)
    tables = _Onus(onus)
    truth = Truth(onus, tables.place, steps=100, serial=tables.serial)
    return BuiltOlt(GeneratedMib(columns + tables.columns()), truth)


def _interfaces(ports: int) -> list[Interface]:
    found = []
    for pon in range(ports):
        name = "PON {}/{}".format(*slot_port(pon))
        found.append(Interface(pon_index(pon), name, name, GPON, 2488))
    for port in (1, 2):
        name = f"XGE {_UPLINK_SLOT}/{port}"
        found.append(Interface((_UPLINK_SLOT << 25) | (port << 19), name, name, ETHERNET, 10000))
    return found


def _cards(onus: Population) -> list[Column]:
    slots = sorted({slot_port(pon)[0] for pon in range(onus.ports)})
    cards = FixedRows(((slot,), slot) for slot in slots)
    core = FixedRows(((slot,), slot) for slot in _CORE_SLOTS)
    line: dict[Oid, Reader] = {
        (2,): constant(integer(527)),
        (5,): constant(integer(1)),
        (8,): lambda slot, now: integer(400 + draw(onus.seed, slot, f"cpu {now // 60}") % 1500),
        (9,): lambda slot, now: integer(3800 + draw(onus.seed, slot, "memory") % 900),
    }
    management: dict[Oid, Reader] = {
        (5,): lambda slot, now: integer(100 + draw(onus.seed, slot, f"cpu {now // 60}") % 900),
        (6,): lambda slot, now: integer(5800 + draw(onus.seed, slot, "memory") % 300),
    }
    found = columns_of((*TREE, 9, 2, 1, 1), cards, line) + columns_of((*TREE, 9, 8, 1, 1), core, management)
    return [*found, Column((*TREE, 9, 4, 5), SCALAR, constant(integer(45)))]


def _ports(onus: Population) -> list[Column]:
    rows = FixedRows(((pon_index(pon),), pon) for pon in range(onus.ports))
    readers: dict[Oid, Reader] = {
        (2,): lambda pon, now: text("PON {}/{}".format(*slot_port(pon))),
        (5,): constant(integer(1)),
        (8,): lambda pon, now: integer(350 + draw(onus.seed, pon, "port tx") % 120),
        (11,): lambda pon, now: integer(3100 + draw(onus.seed, pon, "port") % 1200),
        (12,): lambda pon, now: integer(onus.added(pon, now)),
    }
    return columns_of((*TREE, 9, 3, 4, 1), rows, readers)


class _Onus:
    """Readers of the ONU tables; each takes an ONU and the time."""

    def __init__(self, population: Population) -> None:
        self._onus = population

    def columns(self) -> list[Column]:
        rows = MovingRows(self._onus.members, lambda onu: (self._index(onu),))
        # The OLT's own reading has another index: the PON port and the ONU as two numbers.
        by_port = MovingRows(self._onus.members, self._port_key)
        olt_rx = when(self._onus.heard, lambda onu, now: scaled(self._onus.olt_rx_power(onu, now), 100), NO_READING)
        return [
            *columns_of((*TREE, 10, 1, 1), rows, self._roster() | self._details()),
            *columns_of((*TREE, 9, 3, 3, 1), rows, self._optics()),
            *columns_of((*TREE, 9, 3, 7, 1), by_port, {(2,): olt_rx}),
        ]

    def place(self, onu: int, _now: float) -> Place:
        pon, number = self._onus.position(onu)
        return Place(str(self._index(onu)), *slot_port(pon), number + 1)

    def serial(self, onu: int) -> bytes:
        return self._onus.serial(onu, _VENDOR)

    def _roster(self) -> dict[Oid, Reader]:
        return {
            (2,): lambda onu, now: integer(self.place(onu, now).slot or 0),
            (3,): lambda onu, now: integer(self.place(onu, now).port or 0),
            (4,): lambda onu, now: integer(self.place(onu, now).number or 0),
            (5,): lambda onu, now: integer(700 + draw(self._onus.seed, onu, "model") % len(_TYPES)),
            (7,): lambda onu, now: octets(self._onus.description(onu)),
            (8,): constant(text("")),
            # Named a physical address, holds the serial as text on GPON.
            (10,): lambda onu, now: text(label(self.serial(onu))),
            (11,): self._state,
        }

    def _details(self) -> dict[Oid, Reader]:
        onus = self._onus
        return {
            (12,): constant(text("RP2631")),
            (13,): constant(text("WKE2.094.277A01")),
            (14,): constant(text("RP0101")),
            (16,): lambda onu, now: integer(5 + draw(onus.seed, onu, f"cpu {now // 60}") % 40),
            (30,): lambda onu, now: text_time(onus.state(onu, now).up_since),
            (31,): lambda onu, now: text_time(onus.state(onu, now).down_since),
        }

    def _optics(self) -> dict[Oid, Reader]:
        onus = self._onus
        lit: dict[Oid, Reader] = {
            (8,): lambda onu, now: integer(326 + draw(onus.seed, onu, "volt") % 9),
            (9,): lambda onu, now: integer(800 + draw(onus.seed, onu, "bias") % 1200),
            (10,): lambda onu, now: scaled(onus.temperature(onu, now), 100),
        }
        powers: dict[Oid, Reader] = {
            (6,): lambda onu, now: scaled(onus.rx_power(onu, now), 100),
            (7,): lambda onu, now: scaled(onus.tx_power(onu, now), 100),
        }
        found: dict[Oid, Reader] = {(2,): self._optical_name}
        found |= {tail: when(onus.online, read, NO_READING) for tail, read in lit.items()}
        return found | {tail: when(onus.measured, read, NO_READING) for tail, read in powers.items()}

    def _index(self, onu: int) -> int:
        pon, number = self._onus.position(onu)
        return pon_index(pon) | ((number + 1) << 8)

    def _port_key(self, onu: int) -> Oid:
        pon, number = self._onus.position(onu)
        return pon_index(pon), number + 1

    def _optical_name(self, onu: int, now: float) -> Value:
        place = self.place(onu, now)
        return text(f"PON {place.slot}/{place.port}/{place.number}")

    def _state(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return integer(ONLINE if state.online else _CAUSES[state.cause % len(_CAUSES)])
