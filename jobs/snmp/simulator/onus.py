"""The ONUs behind a generated OLT as pure functions of (seed, ONU, time); OIDs and vendor tables are not known here."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from jobs.snmp.simulator.names import description, serial_octets
from jobs.snmp.simulator.noise import between, draw, uniform

T = TypeVar("T")

MAX_ONUS = 16384
PORTS_PER_SLOT = 16
# Rows appear and vanish only at these steps, so that a walk of a minute sees one or two changes, not hundreds.
EPOCH_SECONDS = 30
# A share of customers that any network has: cut off, moved away, switched off for good.
GONE_SHARE = 0.04
# While a sentinel storm lasts, who has no reading is drawn anew after so many seconds of the device's time.
STORM_SECONDS = 300
_LOOK_BACK = 24
_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Layout:
    """How a vendor's OLT is filled: ONUs on a port at least and at most, ports aimed at, ports its index can name.

    ``most`` 80 leads to ONU numbers up to 124 (each fifth place is a spare, each fifth number is free), 64 to 99.
    """

    fewest: int = 16
    most: int = 64
    spread: int = 64
    ports: int = 256

    @property
    def capacity(self) -> int:
        """The most ONUs such an OLT can have."""
        return min(MAX_ONUS, self.ports * self.most)

    def per_port(self, onus: int) -> int:
        """ONUs on each port of an OLT that has so many in all."""
        return min(self.most, max(self.fewest, -(-onus // self.spread)))


# A chassis with many line cards, and a box whose few ports fill up before the simulation adds ports it never had.
CHASSIS = Layout()
BOX = Layout(most=80, spread=16)


@dataclass(frozen=True, slots=True)
class Traits:
    """What never changes about one ONU: powers in dBm, distance in metres, periods in seconds."""

    rx: float
    tx: float
    uplink_loss: float
    temperature: float
    distance: int
    phase: float
    period: float
    installed: float
    gone: bool
    unheard: bool


@dataclass(frozen=True, slots=True)
class State:
    """Whether an ONU is up, when it last came up and went down (unix seconds, None = never), the draw of the cause."""

    online: bool
    up_since: float
    down_since: float | None
    cause: int


# Room for the largest OLT twice: a walk of more ONUs than fit would find none of them again.
@lru_cache(maxsize=2 * MAX_ONUS)
def traits(seed: int, onu: int) -> Traits:
    """The fixed side of one ONU; most receive -16 to -25 dBm, one in sixteen is weak."""
    weak = draw(seed, onu, "weak") % 16 == 0
    return Traits(
        rx=between(seed, onu, "rx", -29.0, -27.0) if weak else between(seed, onu, "rx", -25.0, -16.0),
        tx=between(seed, onu, "tx", 1.8, 3.2),
        uplink_loss=between(seed, onu, "loss", 0.5, 2.5),
        temperature=between(seed, onu, "temperature", 36.0, 52.0),
        distance=int(between(seed, onu, "distance", 300, 12000)),
        phase=between(seed, onu, "phase", 0.0, 2 * math.pi),
        period=between(seed, onu, "period", 2700.0, 4500.0),
        installed=1_700_000_000.0 + draw(seed, onu, "installed") % 20_000_000,
        gone=uniform(seed, onu, "gone") < GONE_SHARE,
        unheard=draw(seed, onu, "unheard") % 20 == 0,
    )


class Population:
    """Which ONUs an OLT has at a time, where they sit and how they do.

    ``onus`` rows when ``churn`` is 0. Else ``churn`` is how many outages an ONU has in an hour on average (0.02: one in
    fifty hours); a fifth as often it is removed for a while, and others appear on spare positions at the same rate.
    ``sentinels`` is the share of ONUs, 0 to 1, whose powers cannot be read although they are lit.
    """

    def __init__(
        self, seed: int, onus: int, churn: float = 0.0, *, layout: Layout = CHASSIS, sentinels: float = 0.0
    ) -> None:
        self.seed = seed
        self.churn = churn
        self.sentinels = sentinels
        self.per_port = layout.per_port(onus)
        self.ports = -(-onus // self.per_port)
        self._onus = onus
        self._spares = self.per_port // 4
        self._capacity = self.per_port + self._spares
        self._epoch: int | None = None
        self._members: list[int] = []

    def members(self, now: float) -> list[int]:
        """The ONUs present, in the order of their positions; the same list object until the next epoch that matters."""
        epoch = int(now // EPOCH_SECONDS) if self.churn else 0
        if epoch != self._epoch:
            at = epoch * EPOCH_SECONDS
            self._members = [onu for onu in range(self.ports * self._capacity) if self._present(onu, at)]
            self._epoch = epoch
        return self._members

    def on_port(self, pon: int, now: float) -> list[int]:
        """The ONUs of one port, lit or not."""
        members = self.members(now)
        return members[bisect_left(members, pon * self._capacity) : bisect_left(members, (pon + 1) * self._capacity)]

    def added(self, pon: int, now: float) -> int:
        """How many ONUs the port has, lit or not."""
        return len(self.on_port(pon, now))

    def lit(self, pon: int, now: float) -> int:
        """How many ONUs of the port are up."""
        return sum(self.online(onu, now) for onu in self.on_port(pon, now))

    def position(self, onu: int) -> tuple[int, int]:
        """PON port (counted from 0 over all slots) and ONU number (from 0, with one free number in every five)."""
        port, place = divmod(onu, self._capacity)
        group, step = divmod(place, 4)
        gap = draw(self.seed, port * 1000 + group, "gap") % 5
        return port, 5 * group + step + (step >= gap)

    @property
    def places(self) -> int:
        """How many ONUs there can ever be: members are numbers from 0 to this, less one."""
        return self.ports * self._capacity

    def traits(self, onu: int) -> Traits:
        """The fixed side of one ONU."""
        return traits(self.seed, onu)

    def serial(self, onu: int, vendor: bytes) -> bytes:
        """The GPON serial, 8 octets: four letters of the vendor, four octets that are the same for every vendor."""
        port, place = divmod(onu, self._capacity)
        return vendor + serial_octets(self.seed, onu, place if port == 0 else None)

    def mac(self, onu: int, maker: bytes) -> bytes:
        """The MAC address, 6 octets: three of the maker, three that are the same for every vendor."""
        return maker + draw(self.seed, onu, "mac").to_bytes(8, "big")[:3]

    def pick(self, onu: int, what: str, choices: Sequence[T]) -> T:
        """One of several, always the same for the same ONU."""
        return choices[draw(self.seed, onu, what) % len(choices)]

    def state(self, onu: int, now: float) -> State:
        """Up or down at a time, and since when."""
        fixed = self.traits(onu)
        cause = draw(self.seed, onu, "cause")
        if fixed.gone:
            return State(False, fixed.installed, fixed.installed + 30 * _DAY, cause)
        last = self._last_outage(onu, now)
        if last is None:
            return State(True, fixed.installed, None, cause)
        start, end = last
        return State(now >= end, end if now >= end else fixed.installed, start, draw(self.seed, int(start), "cause"))

    def online(self, onu: int, now: float) -> bool:
        """Whether the ONU is lit; cheaper than ``state``."""
        if self.traits(onu).gone:
            return False
        window = self._window(onu, now, "outage", self.churn, 0.4)
        return window is None or not window[0] <= now < window[1]

    def measured(self, onu: int, now: float) -> bool:
        """Whether its powers can be read: lit, and not among the ONUs a sentinel storm has taken."""
        if not self.online(onu, now):
            return False
        key = onu * 1_000_003 + int(now // STORM_SECONDS)
        return not self.sentinels or uniform(self.seed, key, "sentinel") >= self.sentinels

    def heard(self, onu: int, now: float) -> bool:
        """Whether the OLT has a reading of its light: of 458 ONUs on a real C320 82 had none, lit ones among them."""
        return self.measured(onu, now) and not self.traits(onu).unheard

    def distance(self, onu: int, now: float, unlit: int) -> int:
        """Metres, or ``unlit`` while it is down."""
        return self.traits(onu).distance if self.online(onu, now) else unlit

    def rx_power(self, onu: int, now: float) -> float:
        """dBm at the ONU: its level, a daily and an hourly swing, and noise of a twentieth of a dB."""
        fixed = self.traits(onu)
        day = 0.35 * math.sin(2 * math.pi * now / _DAY + fixed.phase)
        hour = 0.12 * math.sin(2 * math.pi * now / fixed.period + 2 * fixed.phase)
        return fixed.rx + day + hour + between(self.seed, onu * 1009 + int(now // 10), "noise", -0.05, 0.05)

    def olt_rx_power(self, onu: int, now: float) -> float:
        """dBm at the OLT from this ONU."""
        return self.rx_power(onu, now) - self.traits(onu).uplink_loss

    def tx_power(self, onu: int, now: float) -> float:
        """dBm the ONU sends with."""
        fixed = self.traits(onu)
        return fixed.tx + 0.05 * math.sin(2 * math.pi * now / _DAY + fixed.phase)

    def temperature(self, onu: int, now: float) -> float:
        """Degrees Celsius in the ONU, warmest in the afternoon (UTC-5)."""
        return self.traits(onu).temperature + 4.0 * math.sin(2 * math.pi * (now - 14 * 3600) / _DAY)

    def description(self, onu: int) -> bytes:
        """What the operator wrote about the customer, in the octets the OLT stores."""
        port, place = divmod(onu, self._capacity)
        return description(self.seed, onu, place if port == 0 else None)

    def _present(self, onu: int, at: float) -> bool:
        port, place = divmod(onu, self._capacity)
        regular = place < self._onus * (port + 1) // self.ports - self._onus * port // self.ports
        if not regular and place < self.per_port:
            return False
        # Spare positions are fewer, so each is used more often: rows come as often as they go.
        rate = self.churn / 5 * (1 if regular else self.per_port / self._spares)
        window = self._window(onu, at, "removed", rate, 0.5)
        return regular is not (window is not None and window[0] <= at < window[1])

    def _last_outage(self, onu: int, now: float) -> tuple[float, float] | None:
        if not self.churn:
            return None
        period = self.traits(onu).period
        for back in range(_LOOK_BACK):
            window = self._window(onu, now - back * period, "outage", self.churn, 0.4)
            if window is not None and window[0] <= now:
                return window
        return None

    def _window(self, onu: int, now: float, what: str, rate: float, longest: float) -> tuple[float, float] | None:
        """The one time of trouble within this ONU's current period, if chance gave it one at ``rate`` an hour."""
        if not rate:
            return None
        period = self.traits(onu).period
        turn = math.floor(now / period)
        key = onu * 1_000_003 + turn
        if uniform(self.seed, key, what) >= rate * period / 3600:
            return None
        start = (turn + 0.5 * uniform(self.seed, key, what + " start")) * period
        return start, start + between(self.seed, key, what + " length", 0.05, longest) * period
