"""A generated ZTE C600 or C620: only the 1082 tree, all of it in index family B, phases numbered one higher than 1012.

And the C320 V2.1.0 that keeps its ONUs there, under the sysObjectID and sysDescr of those that keep them in 1012.

Columns, enums and sentinels as in the catalogue's reference (public pollers checked against a live C600; recorded C620
V1.2.2 for IF-MIB, cards and modules). Nothing below 3902.1012 exists, which a poller must not read as "no ONUs".
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
    label,
    octets,
    scaled,
    sixteen_bit_power,
    text,
    when,
)

TREE: Oid = (1, 3, 6, 1, 4, 1, 3902, 1082)
C320 = "C320-1082"
MODELS = {"C600": (600, 1, 1), "C620": (620, 1, 1), C320: (320, 2, 1)}
NO_ONU_READING = integer(65535)
NO_OLT_READING = integer(-80000)
NO_MODULE_READING = integer(2147483647)
WORKING, LOS, DYING_GASP, OFFLINE = 4, 2, 5, 7
C320_DESCR = "C320 Version V2.1.0 Software, Copyright (c) by ZTE Corporation Compiled"
_UPLINK_SLOT = 20
_TYPES = ("ZXHN F670L", "ZXHN F6600P", "ZXHN F601", "ZXHN F680", "ZXHN F660")
_VENDOR = b"ZTEG"
_CAUSES = ((DYING_GASP, 9), (DYING_GASP, 9), (LOS, 2), (LOS, 2), (OFFLINE, 12))


def index_b(slot: int, port: int) -> int:
    """Index of a port, both from 1, in IF-MIB and in every 1082 table."""
    return 0x11010000 | (slot << 8) | port


def build(plan: Plan) -> BuiltOlt:
    """The whole tree; a C600 unless the plan says another model."""
    onus = plan.population
    model = plan.model or "C600"
    older = model == C320
    descr = C320_DESCR if older else f"ZXA10 {model}, ZTE ZXA10 Software Version: V1.2.2"
    identity = Identity(descr, (*TREE, 1001, *MODELS[model]), plan.name, onus.seed)
    columns = system_columns(identity) + interface_columns(_interfaces(onus.ports, "gpon_" if older else "gpon_olt-"))
    tables = _Onus(onus)
    truth = Truth(onus, tables.place, steps=500, serial=tables.serial, model=tables.model)
    return BuiltOlt(GeneratedMib(columns + _cards(onus.ports) + _ports(onus) + tables.columns()), truth)


def _slot_port(pon: int) -> tuple[int, int]:
    slot, port = divmod(pon, PORTS_PER_SLOT)
    return slot + 1, port + 1


def _interfaces(ports: int, name: str) -> list[Interface]:
    found = []
    for pon in range(ports):
        slot, port = _slot_port(pon)
        # ifName holds the port and ifDescr the operator's note, empty on most: as recorded on a C620.
        found.append(Interface(index_b(slot, port), f"{name}1/{slot}/{port}", "", GPON, 2488))
    for port in (1, 2):
        uplink = f"xgei-1/{_UPLINK_SLOT}/{port}"
        found.append(Interface(index_b(_UPLINK_SLOT, port), uplink, f"to-core/XG{port:02d}", ETHERNET, 10000))
    return found


def _cards(ports: int) -> list[Column]:
    slots = -(-ports // PORTS_PER_SLOT)
    rows = FixedRows(((1, 1, slot), slot) for slot in range(1, slots + 1))
    readers: dict[Oid, Reader] = {
        (4,): constant(text("GFGH")),
        (5,): constant(integer(1)),
        (7,): constant(integer(PORTS_PER_SLOT)),
        # Load and memory stand at 0 on all six cards of the recorded C620: unsupported there, not idle.
        (9,): constant(integer(0)),
        (11,): constant(integer(0)),
    }
    return columns_of((*TREE, 10, 1, 2, 4, 1), rows, readers)


def _ports(onus: Population) -> list[Column]:
    rows = FixedRows(((index_b(*_slot_port(pon)),), pon) for pon in range(onus.ports))
    module: dict[Oid, Reader] = {
        # The OLT's own module receives bursts of many ONUs and reports no power, on every recorded PON port.
        (2,): constant(NO_MODULE_READING),
        (3,): lambda pon, now: integer(3500 + draw(onus.seed, pon, "port tx") % 1200),
        (5,): lambda pon, now: integer(15000 + draw(onus.seed, pon, "port bias") % 6000),
        (6,): lambda pon, now: integer(3260 + draw(onus.seed, pon, "port volt") % 90),
        (7,): constant(integer(1490)),
        (8,): lambda pon, now: integer(31000 + draw(onus.seed, pon, "port") % 12000),
    }
    names: dict[Oid, Reader] = {(1,): lambda pon, now: text("gpon_olt-1/{}/{}".format(*_slot_port(pon)))}
    found = columns_of((*TREE, 30, 40, 2, 4, 1), rows, module)
    return found + columns_of((*TREE, 500, 10, 2, 2, 3, 1), rows, names)


class _Onus:
    """Readers of the ONU tables; each takes an ONU and the time."""

    def __init__(self, population: Population) -> None:
        self._onus = population

    def columns(self) -> list[Column]:
        rows = MovingRows(self._onus.members, self._key)
        optic = MovingRows(self._onus.members, lambda onu: (*self._key(onu), 1))
        olt_rx = when(
            self._onus.heard, lambda onu, now: scaled(self._onus.olt_rx_power(onu, now), 1000), NO_OLT_READING
        )
        return [
            *columns_of((*TREE, 500, 10, 2, 3), rows, self._configured() | self._status()),
            *columns_of((*TREE, 500, 20, 2, 1, 2, 1), rows, self._inventory()),
            *columns_of((*TREE, 500, 20, 2, 2, 2, 1), optic, self._optics()),
            *columns_of((*TREE, 500, 1, 2, 4, 2, 1), rows, {(2,): olt_rx}),
        ]

    def place(self, onu: int, _now: float) -> Place:
        pon, number = self._onus.position(onu)
        slot, port = _slot_port(pon)
        return Place(f"{index_b(slot, port)}.{number + 1}", slot, port, number + 1)

    def serial(self, onu: int) -> bytes:
        return self._onus.serial(onu, _VENDOR)

    def model(self, onu: int) -> str:
        return self._onus.pick(onu, "model", _TYPES)

    def _configured(self) -> dict[Oid, Reader]:
        return {
            (3, 1, 1): lambda onu, now: text(self.model(onu)),
            (3, 1, 2): self._name,
            (3, 1, 3): lambda onu, now: octets(self._onus.description(onu)),
            (3, 1, 5): constant(integer(1)),
            (3, 1, 6): lambda onu, now: octets(self.serial(onu)),
            # The registration mode and a comma stand before the serial.
            (3, 1, 18): lambda onu, now: text(f"1,{label(self.serial(onu))}"),
        }

    def _status(self) -> dict[Oid, Reader]:
        onus = self._onus
        return {
            (8, 1, 1): constant(integer(1)),
            (8, 1, 4): self._phase,
            (8, 1, 5): lambda onu, now: date_and_time(onus.state(onu, now).up_since),
            (8, 1, 6): lambda onu, now: date_and_time(onus.state(onu, now).down_since),
            (8, 1, 7): self._down_cause,
            (10, 1, 2): lambda onu, now: integer(onus.distance(onu, now, 0)),
        }

    def _inventory(self) -> dict[Oid, Reader]:
        return {
            (1,): constant(text("ZTEG")),
            (2,): constant(octets(b"V9.0".ljust(14, b"\0"))),
            (3,): lambda onu, now: octets(self.serial(onu)),
            (7,): lambda onu, now: integer(1 if self._onus.online(onu, now) else 2),
            (8,): lambda onu, now: octets(self.model(onu).encode().ljust(20, b"\0")),
        }

    def _optics(self) -> dict[Oid, Reader]:
        onus = self._onus
        lit: dict[Oid, Reader] = {
            (17,): lambda onu, now: integer(163 + draw(onus.seed, onu, "volt") % 5),
            (19,): lambda onu, now: scaled(onus.temperature(onu, now), 256),
        }
        powers: dict[Oid, Reader] = {
            (10,): lambda onu, now: integer(sixteen_bit_power(onus.rx_power(onu, now))),
            (14,): lambda onu, now: integer(sixteen_bit_power(onus.tx_power(onu, now))),
        }
        found = {tail: when(onus.online, read, NO_ONU_READING) for tail, read in lit.items()}
        return found | {tail: self._power(read) for tail, read in powers.items()}

    def _power(self, read: Reader) -> Reader:
        onus = self._onus

        def shown(onu: int, now: float) -> Value:
            if onus.measured(onu, now):
                return read(onu, now)
            # Seen beside 65535 on live C600: 0, which would decode to a believable -30 dBm.
            return integer(0) if draw(onus.seed, onu, "silence") % 4 == 0 else NO_ONU_READING

        return shown

    def _key(self, onu: int) -> Oid:
        pon, number = self._onus.position(onu)
        return index_b(*_slot_port(pon)), number + 1

    def _name(self, onu: int, now: float) -> Value:
        place = self.place(onu, now)
        return text(f"ONU-{place.slot}:{place.port}:{place.number}")

    def _phase(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return integer(WORKING if state.online else _CAUSES[state.cause % len(_CAUSES)][0])

    def _down_cause(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return integer(1 if state.down_since is None else _CAUSES[state.cause % len(_CAUSES)][1])
