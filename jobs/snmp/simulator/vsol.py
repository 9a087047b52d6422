"""A generated VSOL V1600G (GPON) or V1600D (EPON): plain ``pon.onu`` indexes, numbers as text, names in IF-MIB.

Columns, enums and wording as in the catalogue's reference and as recorded on a V1600D and a V1600GS. Both answer with
the same sysObjectID.
"""

from __future__ import annotations

from jobs.snmp.simulator.built import BuiltOlt, Place, Plan, Truth
from jobs.snmp.simulator.generated import SCALAR, Column, FixedRows, GeneratedMib, MovingRows, columns_of
from jobs.snmp.simulator.mib import Oid, Value
from jobs.snmp.simulator.noise import between, draw
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
from jobs.snmp.simulator.values import Reader, colons, constant, decimal, integer, label, octets, text, text_time, when

TREE: Oid = (1, 3, 6, 1, 4, 1, 37950, 1, 1)
OBJECT_ID: Oid = (*TREE, 5, 10, 14, 1)
GPON, EPON = "V1600G", "V1600D"
# GPON: as recorded where a module is absent. EPON: as a public poller expects it.
NO_GPON_READING = text("0.000")
NO_EPON_READING = text("N/A")
WORKING, LOS, DYING_GASP, OFFLINE = 3, 1, 4, 6
_UPLINKS = 4
_VENDOR = b"VSOL"
_MAKER = bytes.fromhex("e067b3")
_GPON_TYPES = ("V2802GWT", "V2801RGW", "V2802DAC", "HG323RGW")
_EPON_TYPES = ("V2802EWT", "1GE", "V2801E", "HG325")
_CAUSES = (DYING_GASP, DYING_GASP, LOS, LOS, OFFLINE)


def build(plan: Plan) -> BuiltOlt:
    """The whole tree; a V1600G unless the plan says V1600D."""
    onus = plan.population
    model = plan.model or GPON
    tables: _Epon | _Gpon = _Epon(onus) if model == EPON else _Gpon(onus)
    columns = system_columns(Identity(model, OBJECT_ID, plan.name, onus.seed)) + _interfaces(onus, model)
    return BuiltOlt(GeneratedMib(columns + _modules(onus, model) + tables.columns()), tables.truth())


def _interfaces(onus: Population, model: str) -> list[Column]:
    """Running numbers: uplinks, PON ports, then one interface per ONU."""
    ports = [Interface(port, f"GE0/{port}", f"GE0/{port}", ETHERNET, 1000) for port in range(1, _UPLINKS + 1)]
    for pon in range(1, onus.ports + 1):
        # A V1600D names its PON ports in ifName only, a V1600GS in both; neither says that they are GPON or EPON.
        name = f"EPON0/{pon}" if model == EPON else f"GPON0/{pon}"
        ports.append(Interface(_UPLINKS + pon, name, " " if model == EPON else name, OTHER, 1000))
    first = len(ports) + 1

    def face(onu: int, now: float) -> Interface:
        pon, number = onus.position(onu)
        name = f"EPON0/{pon + 1}:{number + 1}" if model == EPON else f"GPON{pon + 1:02d}ONU{number + 1}"
        alias = name if model == EPON else f"GPON0/{pon + 1}:{number + 1}"
        return Interface(first + onu, name, name, OTHER, 1000, alias, onus.online(onu, now))

    return interface_columns(ports, OnuInterfaces(onus.members, lambda onu: first + onu, face))


def _modules(onus: Population, model: str) -> list[Column]:
    """The OLT's own modules: bare numbers on the GPON box, numbers with units on the EPON one."""
    rows = FixedRows(((pon + 1,), pon) for pon in range(onus.ports))
    units = {2: " .C", 3: " V", 4: " mA", 5: " dbm"} if model == EPON else {2: "", 3: "", 4: "", 5: ""}
    spans = {2: (26.0, 52.0), 3: (3.2, 3.4), 4: (6.0, 16.0), 5: (5.5, 9.5)}

    def reader(arc: int) -> Reader:
        low, high = spans[arc]
        return lambda pon, now: text(f"{between(onus.seed, pon, f'module {arc}', low, high):.2f}{units[arc]}")

    readers: dict[Oid, Reader] = {(arc,): reader(arc) for arc in units}
    return [*columns_of((*TREE, 5, 10, 13, 1, 1), rows, readers), Column((*TREE, 5, 10, 12, 3), SCALAR, _load(onus))]


def _load(onus: Population) -> Reader:
    return lambda _row, now: integer(3 + draw(onus.seed, int(now // 60), "cpu") % 30)


class _Gpon:
    """Readers of the V1600G tables; each takes an ONU and the time."""

    def __init__(self, population: Population) -> None:
        self._onus = population

    def truth(self) -> Truth:
        return Truth(self._onus, self._place, steps=100, serial=self._serial, model=self._model)

    def columns(self) -> list[Column]:
        rows = MovingRows(self._onus.members, self._key)
        ports = FixedRows(((pon + 1,), pon) for pon in range(self._onus.ports))
        readers = self._status() | self._inventory() | self._optics()
        return columns_of((*TREE, 6, 1, 1), rows, readers) + columns_of((*TREE, 6, 1, 1, 18, 1), ports, self._counts())

    def _status(self) -> dict[Oid, Reader]:
        return {
            (1, 1, 3): constant(integer(1)),
            (1, 1, 4): lambda onu, now: integer(1 if self._onus.online(onu, now) else 2),
            (1, 1, 5): self._phase,
            (12, 1, 3): lambda onu, now: integer(self._onus.distance(onu, now, 0)),
        }

    def _inventory(self) -> dict[Oid, Reader]:
        return {
            (2, 1, 3): constant(text("default")),
            (2, 1, 5): lambda onu, now: text(label(self._serial(onu))),
            (4, 1, 3): constant(text("VSOL")),
            (4, 1, 5): lambda onu, now: text(label(self._serial(onu))),
            (4, 1, 14): lambda onu, now: text(self._model(onu)),
            (4, 1, 24): lambda onu, now: octets(self._onus.description(onu)),
            (4, 1, 25): constant(text("V2.1.7")),
        }

    def _optics(self) -> dict[Oid, Reader]:
        onus = self._onus
        lit: dict[Oid, Reader] = {
            (3, 1, 3): lambda onu, now: text(decimal(onus.temperature(onu, now))),
            (3, 1, 4): lambda onu, now: text(decimal(between(onus.seed, onu, "volt", 3.2, 3.4))),
            (3, 1, 5): lambda onu, now: text(decimal(between(onus.seed, onu, "bias", 8.0, 20.0))),
        }
        powers: dict[Oid, Reader] = {
            (3, 1, 6): lambda onu, now: text(decimal(onus.tx_power(onu, now))),
            (3, 1, 7): lambda onu, now: text(decimal(onus.rx_power(onu, now))),
        }
        found = {tail: when(onus.online, read, NO_GPON_READING) for tail, read in lit.items()}
        return found | {tail: when(onus.measured, read, NO_GPON_READING) for tail, read in powers.items()}

    def _counts(self) -> dict[Oid, Reader]:
        return {
            (2,): lambda pon, now: integer(self._onus.added(pon, now)),
            (3,): lambda pon, now: integer(self._onus.lit(pon, now)),
        }

    def _phase(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return integer(WORKING if state.online else _CAUSES[state.cause % len(_CAUSES)])

    def _serial(self, onu: int) -> bytes:
        return self._onus.serial(onu, _VENDOR)

    def _model(self, onu: int) -> str:
        return self._onus.pick(onu, "model", _GPON_TYPES)

    def _key(self, onu: int) -> Oid:
        pon, number = self._onus.position(onu)
        return pon + 1, number + 1

    def _place(self, onu: int, _now: float) -> Place:
        pon, number = self._key(onu)
        return Place(f"{pon}.{number}", 0, pon, number)


class _Epon:
    """Readers of the V1600D tables; each takes an ONU and the time."""

    def __init__(self, population: Population) -> None:
        self._onus = population

    def truth(self) -> Truth:
        return Truth(self._onus, self._place, steps=100, mac=self._mac, model=self._model)

    def columns(self) -> list[Column]:
        rows = MovingRows(self._onus.members, self._key)
        return [
            *columns_of((*TREE, 5, 12, 1, 29, 1), rows, self._status()),
            *columns_of((*TREE, 5, 12, 2, 1, 2, 1), rows, self._inventory()),
            *columns_of((*TREE, 5, 12, 2, 1, 8, 1), rows, self._optics()),
        ]

    def _status(self) -> dict[Oid, Reader]:
        onus = self._onus
        return {
            (4,): lambda onu, now: integer(1 if onus.online(onu, now) else 0),
            (5,): lambda onu, now: text(colons(self._mac(onu))),
            (6,): lambda onu, now: text(self._model(onu)),
            (9,): lambda onu, now: octets(onus.description(onu)),
            (15,): lambda onu, now: integer(onus.state(onu, now).cause % 2),
            (17,): lambda onu, now: integer(onus.distance(onu, now, 0)),
            (18,): lambda onu, now: text_time(onus.state(onu, now).up_since),
            (19,): lambda onu, now: text_time(onus.state(onu, now).down_since),
            (20,): self._alive,
        }

    def _inventory(self) -> dict[Oid, Reader]:
        return {
            (3,): constant(text("VSOL")),
            (4,): lambda onu, now: text(self._model(onu)),
            (6,): constant(text("V1.0")),
            (7,): constant(text("V2.0.1")),
        }

    def _optics(self) -> dict[Oid, Reader]:
        onus = self._onus
        lit: dict[Oid, Reader] = {
            (3,): lambda onu, now: text(f"{decimal(onus.temperature(onu, now))} C"),
            (4,): lambda onu, now: text(f"{decimal(between(onus.seed, onu, 'volt', 3.2, 3.4))} V"),
            (5,): lambda onu, now: text(f"{decimal(between(onus.seed, onu, 'bias', 8.0, 20.0))} mA"),
        }
        powers: dict[Oid, Reader] = {
            (6,): lambda onu, now: text(both_units(onus.tx_power(onu, now))),
            (7,): lambda onu, now: text(both_units(onus.rx_power(onu, now))),
        }
        found = {tail: when(onus.online, read, NO_EPON_READING) for tail, read in lit.items()}
        return found | {tail: when(onus.measured, read, NO_EPON_READING) for tail, read in powers.items()}

    def _alive(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        minutes = int(now - state.up_since) // 60 if state.online else 0
        return text(f"{minutes // 1440} {minutes // 60 % 24:02d}:{minutes % 60:02d}:00")

    def _mac(self, onu: int) -> bytes:
        return self._onus.mac(onu, _MAKER)

    def _model(self, onu: int) -> str:
        return self._onus.pick(onu, "model", _EPON_TYPES)

    def _key(self, onu: int) -> Oid:
        pon, number = self._onus.position(onu)
        return pon + 1, number + 1

    def _place(self, onu: int, _now: float) -> Place:
        pon, number = self._key(onu)
        return Place(f"{pon}.{number}", 0, pon, number)


def both_units(dbm: float) -> str:
    """Power as a V1600D writes it: ``0.03 mW (-14.61 dBm)``."""
    return f"{10 ** (dbm / 10):.2f} mW ({decimal(dbm)} dBm)"
