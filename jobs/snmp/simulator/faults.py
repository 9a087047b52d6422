"""What a simulated OLT does wrong, as settings and as small deciders; sockets and messages are not handled here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from jobs.snmp.simulator.clock import Clock
from jobs.snmp.simulator.mib import MAX_ARC, NO_SUCH_INSTANCE, SYS_UPTIME, MibSource, Oid, Value
from jobs.snmp.simulator.noise import uniform
from jobs.snmp.simulator.values import ticks

DEFAULT_MAX_BYTES = 8000
MIN_MAX_BYTES = 484
MAX_UDP_BYTES = 65507


class DeviceMuteError(Exception):
    """The device swallows this request: no answer goes out."""


class DeviceGenError(Exception):
    """The device fails on one instance: genErr with its index."""


class Boot(NamedTuple):
    """Which life the device is in (0 = the first), when in real seconds it began to answer, whether it answers yet."""

    number: int
    began: float
    up: bool


FIRST_BOOT = Boot(0, 0.0, True)


@dataclass(frozen=True, slots=True)
class Faults:
    """Misbehaviour of one agent; times in real seconds, shares 0..1, 0 and None = the device behaves.

    Slow: ``delay`` and ``jitter`` per answer, ``rowdelay`` per varbind in it, ``sag`` for each request of the last
    second (a CPU that sags under load). Silent: ``drop`` a share of requests, ``dead`` always, ``deadfile`` as long as
    that file exists (``%p`` in its name: the port). Size: ``toobig`` octets, ``maxvars`` varbinds and ``maxrep`` rows
    a column are what it can answer; ``truncate`` is how many varbinds of a GET it answers, silent about the rest.
    ``reboot``: every so many seconds it is silent for ``rebootfor`` and starts anew, with ``frozenboots`` without
    counting its SNMPv3 boots on. ``vanish``: a subtree empty from second ``vanishat`` for ``vanishfor``.

    ``loop``, ``mute`` and ``generr`` are subtrees: GETNEXT answers with the OID it was asked for (seen on HSGQ
    12170.2.3.1.2), silence, genErr. ``die``: requests that start there or after it below the same parent get no answer
    (a C600 whose walks die halfway).
    """

    delay: float = 0.0
    jitter: float = 0.0
    rowdelay: float = 0.0
    sag: float = 0.0
    drop: float = 0.0
    dead: bool = False
    deadfile: Path | None = None
    toobig: int = DEFAULT_MAX_BYTES
    maxvars: int = 0
    maxrep: int = 0
    truncate: int = 0
    reboot: float = 0.0
    rebootfor: float = 10.0
    frozenboots: bool = False
    vanish: Oid | None = None
    vanishat: float = 0.0
    vanishfor: float = 120.0
    loop: Oid | None = None
    mute: Oid | None = None
    generr: Oid | None = None
    die: Oid | None = None

    def __post_init__(self) -> None:
        if self.reboot and self.rebootfor >= self.reboot:
            raise ValueError(f"rebootfor={self.rebootfor:g} must be shorter than reboot={self.reboot:g}")

    def at_port(self, port: int) -> Faults:
        """The same faults for the agent on this port."""
        if self.deadfile is None:
            return self
        return replace(self, deadfile=Path(str(self.deadfile).replace("%p", str(port))))

    def boot(self, elapsed: float) -> Boot:
        """The life the device is in so many real seconds after it was started."""
        if not self.reboot or elapsed < self.reboot:
            return FIRST_BOOT
        number = int(elapsed // self.reboot)
        began = number * self.reboot + self.rebootfor
        return Boot(number, began, elapsed >= began)

    def vanished(self, elapsed: float) -> bool:
        """Whether the subtree ``vanish`` is empty at this time."""
        return self.vanish is not None and self.vanishat <= elapsed < self.vanishat + self.vanishfor

    def silent(self, seed: int, serial: int, elapsed: float = 0.0) -> bool:
        """Whether the request with this running number gets no answer at all."""
        if self.dead or (self.deadfile is not None and self.deadfile.exists()) or not self.boot(elapsed).up:
            return True
        return self.drop > 0 and uniform(seed, serial, "drop") < self.drop

    def pause(self, seed: int, serial: int, rows: int = 0, load: int = 0) -> float:
        """Seconds the answer to a request waits: its running number, varbinds in the answer, requests of late."""
        jitter = self.jitter * uniform(seed, serial, "jitter") if self.jitter else 0.0
        return self.delay + jitter + self.rowdelay * rows + self.sag * load


class Load:
    """Requests of the last second, by which a slow CPU sags."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def add(self, at: float) -> int:
        """Note a request at a time in seconds; how many came in the second up to it, itself included."""
        self._times.append(at)
        while self._times[0] <= at - 1:
            self._times.popleft()
        return len(self._times)


class FaultyMib:
    """A MIB in front of which some subtrees loop, vanish, stay mute or fail, and sysUpTime starts again at a reboot."""

    def __init__(self, inner: MibSource, faults: Faults, clock: Clock) -> None:
        self._inner = inner
        self._faults = faults
        self._clock = clock

    def get(self, oid: Oid, now: float) -> Value:
        """See MibSource; DeviceMuteError or DeviceGenError inside such a subtree."""
        self._check_start(oid)
        self._check(oid)
        if self._gone(oid):
            return NO_SUCH_INSTANCE
        return self._shown(oid, self._inner.get(oid, now), now)

    def next(self, oid: Oid, now: float) -> tuple[Oid, Value] | None:
        """See MibSource; DeviceMuteError or DeviceGenError when the row found lies in such a subtree."""
        self._check_start(oid)
        loop = self._faults.loop
        if loop is not None and inside(oid, loop) and oid != loop:
            return oid, self._inner.get(oid, now)
        found = self._inner.next(oid, now)
        if found is not None and self._gone(found[0]) and self._faults.vanish is not None:
            found = self._inner.next((*self._faults.vanish, MAX_ARC + 1), now)
        if found is None:
            return None
        self._check(found[0])
        return found[0], self._shown(found[0], found[1], now)

    def _check_start(self, oid: Oid) -> None:
        die = self._faults.die
        if die is not None and oid >= die and inside(oid, die[:-1]):
            raise DeviceMuteError

    def _check(self, oid: Oid) -> None:
        if self._faults.mute is not None and inside(oid, self._faults.mute):
            raise DeviceMuteError
        if self._faults.generr is not None and inside(oid, self._faults.generr):
            raise DeviceGenError

    def _gone(self, oid: Oid) -> bool:
        vanish = self._faults.vanish
        return vanish is not None and inside(oid, vanish) and self._faults.vanished(self._clock.elapsed())

    def _shown(self, oid: Oid, value: Value, now: float) -> Value:
        if oid != SYS_UPTIME or not self._faults.reboot:
            return value
        boot = self._faults.boot(self._clock.elapsed())
        return value if boot == FIRST_BOOT else ticks(max(0.0, now - self._clock.moment(boot.began)))


def inside(oid: Oid, subtree: Oid) -> bool:
    """Whether an OID is this subtree's root or below it."""
    return oid[: len(subtree)] == subtree


def with_faults(mib: MibSource, faults: Faults, clock: Clock) -> MibSource:
    """The MIB as its agent shows it; untouched when nothing in it misbehaves."""
    subtrees = (faults.loop, faults.mute, faults.generr, faults.die, faults.vanish)
    return FaultyMib(mib, faults, clock) if faults.reboot or any(subtrees) else mib


def number_between(low: float, high: float) -> Callable[[str], float]:
    """A reader of decimal numbers within bounds; ValueError names them."""

    def read(text: str) -> float:
        number = float(text)
        if not low <= number <= high:
            raise ValueError(f"must lie between {low:g} and {high:g}")
        return number

    return read


def whole_between(low: int, high: int) -> Callable[[str], int]:
    """A reader of whole numbers within bounds; ValueError names them."""

    def read(text: str) -> int:
        number = int(text)
        if not low <= number <= high:
            raise ValueError(f"must lie between {low} and {high}")
        return number

    return read
