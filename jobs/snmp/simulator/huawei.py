"""A generated Huawei GPON OLT: tables 43, 45, 46 and 51 of HUAWEI-XPON-MIB; what the ONUs do is decided in ``onus``.

Columns, enums and sentinels as in the catalogue's reference (HUAWEI-XPON-MIB and the pollers that read it).
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
from jobs.snmp.simulator.mib import Oid, Value
from jobs.snmp.simulator.noise import draw
from jobs.snmp.simulator.onus import PORTS_PER_SLOT, Population

XPON: Oid = (1, 3, 6, 1, 4, 1, 2011, 6, 128, 1, 1, 2)
NO_READING = integer(2147483647)
_MA5608T: Oid = (1, 3, 6, 1, 4, 1, 2011, 2, 248)
_MA5680T: Oid = (1, 3, 6, 1, 4, 1, 2011, 2, 115)
_IF_DESCR = "Huawei-MA5600-V800R018"
_SMALL_SLOTS = 2
_UPLINK_SLOT = 18
_MODELS = ("EG8145V5", "HG8245H", "HG8310M", "EG8141A5", "HG8546M")
# dying gasp most of all, then LOS, LOFi, reset by command
_CAUSES = (13, 13, 13, 1, 1, 1, 3, 31)


def pon_index(pon: int) -> int:
    """ifIndex of a PON port: type 125 in bits 31..25, slot from bit 13, port from bit 8; slots start at 1."""
    slot, port = divmod(pon, PORTS_PER_SLOT)
    return (125 << 25) | ((slot + 1) << 13) | (port << 8)


def build(seed: int, name: str, population: Population) -> GeneratedMib:
    """The whole tree; up to 512 ONUs it is an MA5608T, above an MA5680T."""
    small = population.ports <= _SMALL_SLOTS * PORTS_PER_SLOT
    identity = Identity("Huawei Integrated Access Software", _MA5608T if small else _MA5680T, name, seed)
    columns = system_columns(identity) + interface_columns(_interfaces(population.ports))
    return GeneratedMib(columns + _port_columns(population) + _Onts(seed, population).columns())


def _interfaces(ports: int) -> list[Interface]:
    found = []
    for port in (0, 1):
        index = (7 << 25) | (_UPLINK_SLOT << 13) | (port << 6)
        found.append(Interface(index, f"ethernet0/{_UPLINK_SLOT}/{port}", f"{_IF_DESCR}-ETHERNET", False, 10000))
    for pon in range(ports):
        slot, port = divmod(pon, PORTS_PER_SLOT)
        # ifDescr repeats the software, ifName holds the port: as recorded on an MA5603T.
        found.append(Interface(pon_index(pon), f"GPON 0/{slot + 1}/{port}", f"{_IF_DESCR}-GPON_UNI", True, 2488))
    return found


def _port_columns(population: Population) -> list[Column]:
    rows = FixedRows(((pon_index(pon),), pon) for pon in range(population.ports))
    readers: dict[Oid, Callable[[int, float], Value]] = {
        (21, 1, 9): constant(integer(1)),
        (21, 1, 10): constant(integer(1)),
        (21, 1, 16): lambda pon, now: integer(population.added(pon, now)),
        (23, 1, 1): lambda pon, now: integer(31 + draw(population.seed, pon, "port") % 12),
        (23, 1, 4): lambda pon, now: integer(350 + draw(population.seed, pon, "port tx") % 120),
    }
    return [Column(XPON + tail, rows, read) for tail, read in readers.items()]


class _Onts:
    """Readers of the ONT tables; each takes an ONU and the time."""

    def __init__(self, seed: int, population: Population) -> None:
        self._seed = seed
        self._onus = population

    def columns(self) -> list[Column]:
        rows = MovingRows(self._onus.members, self._key)
        readers = self._configured() | self._status() | self._optics()
        return [Column(XPON + tail, rows, read) for tail, read in readers.items()]

    def _configured(self) -> dict[Oid, Callable[[int, float], Value]]:
        return {
            (43, 1, 2): constant(integer(1)),
            (43, 1, 3): self._serial,
            (43, 1, 7): constant(text("line-profile_10")),
            (43, 1, 8): constant(text("srv-profile_20")),
            (43, 1, 9): lambda onu, now: octets(self._onus.description(onu)),
            (45, 1, 1): constant(text("168D.A")),
            (45, 1, 4): self._model,
            (45, 1, 5): constant(text("V5R020C00S115")),
        }

    def _status(self) -> dict[Oid, Callable[[int, float], Value]]:
        return {
            (46, 1, 1): constant(integer(1)),
            (46, 1, 15): lambda onu, now: integer(1 if self._onus.online(onu, now) else 2),
            (46, 1, 16): lambda onu, now: integer(2 if self._onus.online(onu, now) else 1),
            (46, 1, 18): lambda onu, now: integer(2 if self._onus.online(onu, now) else 1),
            (46, 1, 20): self._distance,
            (46, 1, 22): lambda onu, now: date_and_time(self._onus.state(onu, now).up_since),
            (46, 1, 23): lambda onu, now: date_and_time(self._onus.state(onu, now).down_since),
            (46, 1, 24): self._down_cause,
        }

    def _optics(self) -> dict[Oid, Callable[[int, float], Value]]:
        onus = self._onus
        return {
            (51, 1, 1): self._lit(lambda onu, now: round(onus.temperature(onu, now))),
            (51, 1, 2): self._lit(lambda onu, now: 8 + draw(self._seed, onu, "bias") % 12),
            (51, 1, 3): self._lit(lambda onu, now: round(onus.tx_power(onu, now) * 100)),
            (51, 1, 4): self._lit(lambda onu, now: round(onus.rx_power(onu, now) * 100)),
            (51, 1, 5): self._lit(lambda onu, now: 3260 + draw(self._seed, onu, "volt") % 90),
            (51, 1, 6): self._lit(lambda onu, now: round(onus.olt_rx_power(onu, now) * 100) + 10000),
        }

    def _key(self, onu: int) -> Oid:
        pon, number = self._onus.position(onu)
        return pon_index(pon), number

    def _serial(self, onu: int, _now: float) -> Value:
        return octets(b"HWTC" + draw(self._seed, onu, "serial").to_bytes(8, "big")[:4])

    def _model(self, onu: int, _now: float) -> Value:
        lot = draw(self._seed, onu, "model")
        name = _MODELS[lot % len(_MODELS)].encode()
        # Some firmware pads the equipment id with NUL to its full 20 octets.
        return octets(name.ljust(20, b"\0") if lot >> 32 & 1 else name)

    def _distance(self, onu: int, now: float) -> Value:
        return integer(self._onus.traits(onu).distance if self._onus.online(onu, now) else -1)

    def _down_cause(self, onu: int, now: float) -> Value:
        state = self._onus.state(onu, now)
        return integer(-1 if state.down_since is None else _CAUSES[state.cause % len(_CAUSES)])

    def _lit(self, read: Callable[[int, float], int]) -> Callable[[int, float], Value]:
        return lambda onu, now: integer(read(onu, now)) if self._onus.online(onu, now) else NO_READING
