"""A generated C-Data OLT of the 17409 tree: FD1208S (EPON), FD1608S (GPON) with the MIB's index, FD1608S-B1 (GPON) as

in the field. What the ONUs do is decided in ``onus``. Columns, enums and index as in the catalogue's reference
(NSCRTV-FTTX MIBs, recorded FD1208S for IF-MIB). sysObjectID is the same for all and sysDescr is whatever the operator
typed: which subtree answers tells them apart, and on an FD1608S-B1 the name of its model.
"""

from __future__ import annotations

from jobs.snmp.simulator.built import BuiltOlt, Place, Plan, Truth
from jobs.snmp.simulator.generated import Column, FixedRows, GeneratedMib, MovingRows, columns_of
from jobs.snmp.simulator.mib import Oid, Value
from jobs.snmp.simulator.noise import draw
from jobs.snmp.simulator.onus import Population
from jobs.snmp.simulator.standard import GIGABIT, Identity, Interface, interface_columns, system_columns
from jobs.snmp.simulator.values import Reader, constant, integer, octets, scaled, text, text_time, when

OBJECT_ID: Oid = (1, 3, 6, 1, 4, 1, 17409)
EPON_TREE: Oid = (*OBJECT_ID, 2, 3)
GPON_TREE: Oid = (*OBJECT_ID, 2, 8)
EVENTS: Oid = (1, 3, 6, 1, 4, 1, 34592, 1, 3, 100, 12, 3, 1, 1)
MODEL_NAME: Oid = (*EPON_TREE, 1, 2, 1, 1, 3)
GPON, GPON_V3, EPON = "FD1608S", "FD1608S-B1", "FD1208S"
# Uplinks come first in the port field, so the first PON port has another number on each model.
FIRST_PON = {GPON: 7, EPON: 13}
# The port field has eight bits.
MOST_PORTS = 255 - max(FIRST_PON.values())
MOST_PORTS_V3 = 64
NO_READING = integer(0)
_GIGABIT_UPLINKS = {GPON: 4, EPON: 8}
_VENDOR = b"CDTC"
_MAKER = bytes.fromhex("80149a")
_GPON_TYPES = ("FD502GW-X-R310", "FD511G-X", "FD514GD", "FD702XW-X")
_EPON_TYPES = ("FD600-311", "FD602GW", "FD511", "FD504GW")
_CAUSES = ("dying-gasp", "dying-gasp", "LOS", "LOS", "losi")
_SITE = "cabecera-norte"


def build(plan: Plan) -> BuiltOlt:
    """The whole tree; an FD1608S unless the plan says another model."""
    onus = plan.population
    model = plan.model or GPON
    if model == GPON_V3 and onus.ports > MOST_PORTS_V3:
        raise ValueError(f"{model} has at most {MOST_PORTS_V3} PON ports: use fewer ONUs or more per port")
    tables: _Epon | _Gpon = _TABLES[model](onus)
    columns = system_columns(Identity(_SITE, OBJECT_ID, plan.name, onus.seed))
    columns += interface_columns(_interfaces_v3(onus.ports) if model == GPON_V3 else _interfaces(onus.ports, model))
    return BuiltOlt(GeneratedMib(columns + tables.columns()), tables.truth())


def index(port: int, onu: int = 0) -> int:
    """Device 1, card 0, port field, ONU, one octet each."""
    return (1 << 24) | (port << 8) | onu


def _interfaces(ports: int, model: str) -> list[Interface]:
    found = []
    gigabit, first = _GIGABIT_UPLINKS[model], FIRST_PON[model]
    for field in range(1, first):
        ten = field > gigabit
        name = f"xge0/0/{field - gigabit}" if ten else f"ge0/0/{field}"
        found.append(Interface(index(field), name, name, GIGABIT, 10000 if ten else 1000))
    for pon in range(ports):
        name = f"pon0/0/{pon + 1}"
        found.append(Interface(index(first + pon), name, name, GIGABIT, 1000))
    return found


def index_v3(pon: int, onu: int) -> int:
    """PON from 0 and ONU of an FD1608S-B1 in six and twelve bits below a mark."""
    return 0x480000 | (pon << 12) | onu


def _interfaces_v3(ports: int) -> list[Interface]:
    uplinks = [Interface(0x80001 + port, f"ge0/0/{port + 1}", "", GIGABIT, 1000) for port in range(4)]
    return uplinks + [Interface(0x140001 + pon, f"gpon0/0/{pon + 1}", "", GIGABIT, 2488) for pon in range(ports)]


class _Tables:
    """What both families have: the index, the powers and the words for the last outage."""

    model = ""

    def __init__(self, population: Population) -> None:
        self._onus = population

    def _rows(self) -> MovingRows:
        return MovingRows(self._onus.members, lambda onu: (self._index(onu),))

    def _optic_rows(self) -> MovingRows:
        # Card and port of the ONU's own PON interface follow, both 0.
        return MovingRows(self._onus.members, lambda onu: (self._index(onu), 0, 0))

    def _index(self, onu: int) -> int:
        pon, number = self._onus.position(onu)
        return index(FIRST_PON[self.model] + pon, number + 1)

    def _place(self, onu: int, _now: float) -> Place:
        pon, number = self._onus.position(onu)
        return Place(str(self._index(onu)), 0, pon + 1, number + 1)

    def _optics(self) -> dict[Oid, Reader]:
        onus = self._onus
        lit: dict[Oid, Reader] = {
            (6,): lambda onu, now: integer(800 + draw(onus.seed, onu, "bias") % 1200),
            (7,): lambda onu, now: integer(326000 + draw(onus.seed, onu, "volt") % 9000),
            (8,): lambda onu, now: scaled(onus.temperature(onu, now), 100),
        }
        powers: dict[Oid, Reader] = {
            (4,): lambda onu, now: scaled(onus.rx_power(onu, now), 100),
            (5,): lambda onu, now: scaled(onus.tx_power(onu, now), 100),
        }
        found = {tail: when(onus.online, read, NO_READING) for tail, read in lit.items()}
        return found | {tail: when(onus.measured, read, NO_READING) for tail, read in powers.items()}

    def _state(self, onu: int, now: float) -> Value:
        return integer(1 if self._onus.online(onu, now) else 2)

    def _distance(self, onu: int, now: float) -> Value:
        return integer(self._onus.distance(onu, now, 0))

    def _online_seconds(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return integer(int(now - state.up_since) if state.online else 0)

    def _down_time(self, onu: int, now: float) -> Value:
        return text_time(self._onus.state(onu, now).down_since, "--")

    def _down_cause(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return text("--" if state.down_since is None else _CAUSES[state.cause % len(_CAUSES)])


class _Gpon(_Tables):
    """Readers of NSCRTV-FTTX-GPON-MIB; each takes an ONU and the time."""

    model = GPON

    def truth(self) -> Truth:
        return Truth(self._onus, self._place, steps=100, serial=self._serial, model=self._equipment)

    def columns(self) -> list[Column]:
        rows = self._rows()
        more: dict[Oid, Reader] = {
            (4, 2, 1, 6): constant(text("V2.1.8_X")),
            (4, 6, 1, 1, 6): constant(integer(10)),
            (4, 6, 1, 1, 7): constant(integer(20)),
        }
        optics = {tail: read for tail, read in self._optics().items() if tail != (6,)}
        return [
            *columns_of((*GPON_TREE, 4, 1, 1), rows, self._roster()),
            *columns_of(GPON_TREE, rows, more),
            *columns_of((*GPON_TREE, 4, 4, 1), self._optic_rows(), optics),
        ]

    def _roster(self) -> dict[Oid, Reader]:
        return {
            (2,): lambda onu, now: octets(self._onus.description(onu)),
            (3,): lambda onu, now: octets(self._serial(onu)),
            (5,): constant(octets(_VENDOR)),
            (6,): lambda onu, now: text(self._equipment(onu)),
            (7,): self._state,
            (8,): constant(integer(1)),
            (9,): self._distance,
            (12,): self._online_seconds,
            (102,): self._down_time,
            (103,): self._down_cause,
        }

    def _serial(self, onu: int) -> bytes:
        return self._onus.serial(onu, _VENDOR)

    def _equipment(self, onu: int) -> str:
        return self._onus.pick(onu, "model", _GPON_TYPES)


class _GponV3(_Gpon):
    """The same tables as V3 firmware keys and fills them."""

    def columns(self) -> list[Column]:
        name = columns_of(MODEL_NAME, FixedRows([((1,), 0)]), {(): constant(text("FD1608S-B1-NDA0"))})
        return [*name, *super().columns()]

    def _index(self, onu: int) -> int:
        pon, number = self._onus.position(onu)
        return index_v3(pon, number + 1)

    def _optics(self) -> dict[Oid, Reader]:
        onus, dark = self._onus, {(4,): integer(-1), (5,): integer(-3000)}
        found = super()._optics()
        return found | {tail: when(onus.measured, found[tail], value) for tail, value in dark.items()}


class _Epon(_Tables):
    """Readers of NSCRTV-FTTX-EPON-MIB; each takes an ONU and the time."""

    model = EPON

    def truth(self) -> Truth:
        return Truth(self._onus, self._place, steps=100, mac=self._mac, model=self._equipment)

    def columns(self) -> list[Column]:
        rows = self._rows()
        ports = FixedRows(((1, 0, FIRST_PON[EPON] + pon), pon) for pon in range(self._onus.ports))
        return [
            *columns_of((*EPON_TREE, 4, 1, 1), rows, self._roster()),
            *columns_of((*EPON_TREE, 4, 2, 1), self._optic_rows(), self._optics()),
            *columns_of((*EPON_TREE, 3), ports, self._ports()),
            *columns_of(EVENTS, rows, {(6,): self._down_time, (7,): self._down_cause}),
        ]

    def _roster(self) -> dict[Oid, Reader]:
        return {
            (2,): lambda onu, now: octets(self._onus.description(onu)),
            (7,): lambda onu, now: octets(self._mac(onu)),
            (8,): self._state,
            (9,): constant(integer(1)),
            (13,): constant(text("V2.1.4")),
            (15,): self._distance,
            (18,): self._online_seconds,
            (25,): constant(text("CDTC")),
            (26,): lambda onu, now: text(self._equipment(onu)),
            (27,): constant(text("V1.0")),
        }

    def _ports(self) -> dict[Oid, Reader]:
        seed = self._onus.seed
        return {
            (1, 1, 5): constant(integer(1)),
            (5, 1, 4): lambda pon, now: integer(326000 + draw(seed, pon, "port volt") % 9000),
            (5, 1, 5): lambda pon, now: integer(1500 + draw(seed, pon, "port bias") % 800),
            (5, 1, 6): lambda pon, now: integer(350 + draw(seed, pon, "port tx") % 120),
        }

    def _mac(self, onu: int) -> bytes:
        return self._onus.mac(onu, _MAKER)

    def _equipment(self, onu: int) -> str:
        return self._onus.pick(onu, "model", _EPON_TYPES)


_TABLES: dict[str, type[_Epon | _Gpon]] = {EPON: _Epon, GPON: _Gpon, GPON_V3: _GponV3}
