"""A generated Ubiquiti UFiber OLT: one table whose index is the ONU's serial as text; nothing numbers an ONU.

Columns and values as in the catalogue's reference and as recorded on a UFiber OLT v4.4.2: while an ONU is down, its PON
port and its powers read 0, and the letters of its serial are lower case.
"""

from __future__ import annotations

from jobs.snmp.simulator.built import BuiltOlt, Place, Plan, Truth
from jobs.snmp.simulator.generated import SCALAR, Column, GeneratedMib, MovingRows, columns_of
from jobs.snmp.simulator.mib import Kind, Oid, Value
from jobs.snmp.simulator.noise import draw
from jobs.snmp.simulator.onus import Population
from jobs.snmp.simulator.standard import ETHERNET, LOOPBACK, Identity, Interface, interface_columns, system_columns
from jobs.snmp.simulator.values import Reader, counter64, integer, octets, scaled, text, ticks, when

TREE: Oid = (1, 3, 6, 1, 4, 1, 41112, 1, 5)
NO_READING = integer(0)
ONLINE, OFFLINE = 1, 2
_VENDOR = b"UBNT"
_TYPES = ("NanoG", "Loco", "WiFi", "WiFi6", "Instant")


def build(plan: Plan) -> BuiltOlt:
    """The whole tree."""
    onus = plan.population
    tables = _Onus(onus)
    columns = system_columns(Identity("EdgeOS v4.4.2.4598.220304.1412", TREE, plan.name, onus.seed))
    columns += interface_columns(_interfaces())
    truth = Truth(onus, tables.place, steps=100, serial=tables.serial, model=tables.model)
    return BuiltOlt(GeneratedMib(columns + tables.columns()), truth)


def _interfaces() -> list[Interface]:
    # No PON port is among them: IF-MIB shows the Linux inside.
    found = [Interface(1, "lo", "lo", LOOPBACK, 10, "lo"), Interface(2, "eth0", "eth0", ETHERNET, 1000, "eth0")]
    for at, vlan in enumerate((4093, 4084, 4085, 4086), start=3):
        found.append(Interface(at, f"eth0.{vlan}", f"eth0.{vlan}", ETHERNET, 1000, f"eth0.{vlan}@eth0"))
    return found


class _Onus:
    """Readers of the ONU table; each takes an ONU and the time."""

    def __init__(self, population: Population) -> None:
        self._onus = population

    def columns(self) -> list[Column]:
        rows = MovingRows(self._onus.members, self._key, sort=True)
        count = Column((*TREE, 6, 1), SCALAR, self._count)
        return [count, *columns_of((*TREE, 6, 2, 1), rows, self._readers() | self._optics())]

    def place(self, onu: int, now: float) -> Place:
        port = self._port(onu, now)
        return Place(".".join(map(str, self._key(onu))), 0 if port else None, port or None, None)

    def serial(self, onu: int) -> bytes:
        return self._onus.serial(onu, _VENDOR)

    def model(self, onu: int) -> str:
        return self._onus.pick(onu, "model", _TYPES)

    def _readers(self) -> dict[Oid, Reader]:
        onus = self._onus
        return {
            (1,): lambda onu, now: octets(self._label(onu)),
            (2,): lambda onu, now: octets(onus.description(onu)),
            (3,): lambda onu, now: integer(ONLINE if onus.online(onu, now) else OFFLINE),
            (4,): lambda onu, now: text(self.model(onu)),
            (5,): lambda onu, now: integer(self._port(onu, now)),
            (6,): self._connected,
            (7,): self._connected,
            (10,): self._traffic("up", 200_000),
            (11,): self._traffic("down", 2_000_000),
        }

    def _optics(self) -> dict[Oid, Reader]:
        onus = self._onus
        powers: dict[Oid, Reader] = {
            (8,): lambda onu, now: scaled(onus.tx_power(onu, now), 100),
            (9,): lambda onu, now: scaled(onus.rx_power(onu, now), 100),
        }
        return {tail: when(onus.measured, read, NO_READING) for tail, read in powers.items()}

    def _count(self, _row: int, now: float) -> Value:
        return Value(Kind.GAUGE32, len(self._onus.members(now)))

    def _label(self, onu: int) -> bytes:
        serial = self.serial(onu)
        return serial[:4] + serial[4:].hex().encode()

    def _key(self, onu: int) -> Oid:
        label = self._label(onu)
        return len(label), *label

    def _port(self, onu: int, now: float) -> int:
        return self._onus.position(onu)[0] + 1 if self._onus.online(onu, now) else 0

    def _connected(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return ticks(now - state.up_since if state.online else 0)

    def _traffic(self, way: str, most: int) -> Reader:
        onus = self._onus

        def read(onu: int, now: float) -> Value:
            return counter64(now * (2_000 + draw(onus.seed, onu, way) % most))

        return when(onus.online, read, Value(Kind.COUNTER64, 0))
