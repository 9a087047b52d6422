"""A generated Huawei GPON OLT: tables 43, 45, 46 and 51 of HUAWEI-XPON-MIB; what the ONUs do is decided in ``onus``.

Columns, enums and sentinels as in the catalogue's reference (HUAWEI-XPON-MIB and the pollers that read it).
"""

from __future__ import annotations

from jobs.snmp.simulator.built import BuiltOlt, Place, Plan, Truth
from jobs.snmp.simulator.generated import Column, FixedRows, GeneratedMib, MovingRows, columns_of
from jobs.snmp.simulator.mib import Oid, Value
from jobs.snmp.simulator.noise import draw
from jobs.snmp.simulator.onus import PORTS_PER_SLOT, Population
from jobs.snmp.simulator.standard import ETHERNET, GPON, Identity, Interface, interface_columns, system_columns
from jobs.snmp.simulator.values import Reader, constant, counter64, date_and_time, integer, octets, scaled, text, when

PRODUCTS: Oid = (1, 3, 6, 1, 4, 1, 2011, 2)
XPON: Oid = (1, 3, 6, 1, 4, 1, 2011, 6, 128, 1, 1, 2)
TRAFFIC: Oid = (1, 3, 6, 1, 4, 1, 2011, 6, 128, 1, 1, 4, 23, 1)
NO_READING = integer(2147483647)
MODELS = {"MA5608T": 248, "MA5680T": 115, "MA5603T": 123, "MA5683T": 133, "MA5801": 381}
_IF_DESCR = "Huawei-MA5600-V800R018"
_SMALL_SLOTS = 2
_UPLINK_SLOT = 18
_ONTS = ("EG8145V5", "HG8245H", "HG8310M", "EG8141A5", "HG8546M")
_VENDOR = b"HWTC"
_MAKER = bytes.fromhex("00259e")
# dying gasp most of all, then LOS, LOFi, reset by command
_CAUSES = (13, 13, 13, 1, 1, 1, 3, 31)


def pon_index(pon: int) -> int:
    """ifIndex of a PON port: type 125 in bits 31..25, slot from bit 13, port from bit 8; slots start at 1."""
    slot, port = divmod(pon, PORTS_PER_SLOT)
    return (125 << 25) | ((slot + 1) << 13) | (port << 8)


def build(plan: Plan) -> BuiltOlt:
    """The whole tree; without a model it is an MA5608T up to 512 ONUs, an MA5680T above."""
    onus = plan.population
    model = plan.model or ("MA5608T" if onus.ports <= _SMALL_SLOTS * PORTS_PER_SLOT else "MA5680T")
    identity = Identity("Huawei Integrated Access Software", (*PRODUCTS, MODELS[model]), plan.name, onus.seed)
    columns = system_columns(identity) + interface_columns(_interfaces(onus.ports)) + _port_columns(onus)
    onts = _Onts(onus)
    truth = Truth(onus, onts.place, steps=100, serial=onts.serial, model=onts.model)
    return BuiltOlt(GeneratedMib(columns + onts.columns()), truth)


def _interfaces(ports: int) -> list[Interface]:
    found = []
    for port in (0, 1):
        index = (7 << 25) | (_UPLINK_SLOT << 13) | (port << 6)
        found.append(Interface(index, f"ethernet0/{_UPLINK_SLOT}/{port}", f"{_IF_DESCR}-ETHERNET", ETHERNET, 10000))
    for pon in range(ports):
        slot, port = divmod(pon, PORTS_PER_SLOT)
        # ifDescr repeats the software, ifName holds the port: as recorded on an MA5603T.
        found.append(Interface(pon_index(pon), f"GPON 0/{slot + 1}/{port}", f"{_IF_DESCR}-GPON_UNI", GPON, 2488))
    return found


def _port_columns(onus: Population) -> list[Column]:
    rows = FixedRows(((pon_index(pon),), pon) for pon in range(onus.ports))
    readers: dict[Oid, Reader] = {
        (21, 1, 9): constant(integer(1)),
        (21, 1, 10): constant(integer(1)),
        (21, 1, 16): lambda pon, now: integer(onus.added(pon, now)),
        (23, 1, 1): lambda pon, now: integer(31 + draw(onus.seed, pon, "port") % 12),
        (23, 1, 2): lambda pon, now: integer(323 + draw(onus.seed, pon, "port volt") % 10),
        (23, 1, 3): lambda pon, now: integer(12 + draw(onus.seed, pon, "port bias") % 10),
        (23, 1, 4): lambda pon, now: integer(350 + draw(onus.seed, pon, "port tx") % 120),
    }
    return columns_of(XPON, rows, readers)


class _Onts:
    """Readers of the ONT tables; each takes an ONU and the time."""

    def __init__(self, population: Population) -> None:
        self._onus = population

    def columns(self) -> list[Column]:
        rows = MovingRows(self._onus.members, self._key)
        readers = self._configured() | self._status() | self._optics()
        return columns_of(XPON, rows, readers) + columns_of(TRAFFIC, rows, self._traffic())

    def place(self, onu: int, _now: float) -> Place:
        pon, number = self._onus.position(onu)
        slot, port = divmod(pon, PORTS_PER_SLOT)
        return Place(f"{pon_index(pon)}.{number}", slot + 1, port, number)

    def serial(self, onu: int) -> bytes:
        return self._onus.serial(onu, _VENDOR)

    def model(self, onu: int) -> str:
        return self._onus.pick(onu, "model", _ONTS)

    def _configured(self) -> dict[Oid, Reader]:
        return {
            (43, 1, 2): constant(integer(1)),
            (43, 1, 3): lambda onu, now: octets(self.serial(onu)),
            (43, 1, 7): constant(text("line-profile_10")),
            (43, 1, 8): constant(text("srv-profile_20")),
            (43, 1, 9): lambda onu, now: octets(self._onus.description(onu)),
            (45, 1, 1): constant(text("168D.A")),
            (45, 1, 4): self._equipment,
            (45, 1, 5): constant(text("V5R020C00S115")),
            (45, 1, 10): lambda onu, now: octets(self._onus.mac(onu, _MAKER)),
        }

    def _status(self) -> dict[Oid, Reader]:
        onus = self._onus
        return {
            (46, 1, 1): constant(integer(1)),
            (46, 1, 15): lambda onu, now: integer(1 if onus.online(onu, now) else 2),
            (46, 1, 16): lambda onu, now: integer(2 if onus.online(onu, now) else 1),
            (46, 1, 18): lambda onu, now: integer(2 if onus.online(onu, now) else 1),
            (46, 1, 20): lambda onu, now: integer(onus.distance(onu, now, -1)),
            (46, 1, 22): lambda onu, now: date_and_time(onus.state(onu, now).up_since),
            (46, 1, 23): lambda onu, now: date_and_time(onus.state(onu, now).down_since),
            (46, 1, 24): self._down_cause,
            (46, 1, 30): lambda onu, now: octets(self.serial(onu)),
        }

    def _optics(self) -> dict[Oid, Reader]:
        onus = self._onus
        lit: dict[Oid, Reader] = {
            (51, 1, 1): lambda onu, now: scaled(onus.temperature(onu, now), 1),
            (51, 1, 2): lambda onu, now: integer(8 + draw(onus.seed, onu, "bias") % 12),
            (51, 1, 5): lambda onu, now: integer(3260 + draw(onus.seed, onu, "volt") % 90),
        }
        powers: dict[Oid, Reader] = {
            (51, 1, 3): lambda onu, now: scaled(onus.tx_power(onu, now), 100),
            (51, 1, 4): lambda onu, now: scaled(onus.rx_power(onu, now), 100),
            # The OLT's side of the same table carries an offset of 100 dB (HUAWEI-XPON-MIB).
            (51, 1, 6): lambda onu, now: integer(round(onus.olt_rx_power(onu, now) * 100) + 10000),
        }
        found = {tail: when(onus.online, read, NO_READING) for tail, read in lit.items()}
        return found | {tail: when(onus.measured, read, NO_READING) for tail, read in powers.items()}

    def _traffic(self) -> dict[Oid, Reader]:
        seed = self._onus.seed
        return {
            (3,): lambda onu, now: counter64(now * (2_000 + draw(seed, onu, "up") % 200_000)),
            (4,): lambda onu, now: counter64(now * (20_000 + draw(seed, onu, "down") % 2_000_000)),
        }

    def _key(self, onu: int) -> Oid:
        pon, number = self._onus.position(onu)
        return pon_index(pon), number

    def _equipment(self, onu: int, _now: float) -> Value:
        name = self.model(onu).encode()
        # Some firmware pads the equipment id with NUL to its full 20 octets.
        padded = draw(self._onus.seed, onu, "model") >> 32 & 1
        return octets(name.ljust(20, b"\0") if padded else name)

    def _down_cause(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return integer(-1 if state.down_since is None else _CAUSES[state.cause % len(_CAUSES)])
