"""What a simulated OLT does wrong, as settings and as small deciders; sockets and messages are not handled here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from jobs.snmp.simulator.mib import MibSource, Oid, Value
from jobs.snmp.simulator.noise import uniform

DEFAULT_MAX_BYTES = 8000
MIN_MAX_BYTES = 484
MAX_UDP_BYTES = 65507


class DeviceMuteError(Exception):
    """The device swallows this request: no answer goes out."""


class DeviceGenError(Exception):
    """The device fails on one instance: genErr with its index."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Misbehaviour of one agent: ``delay`` and ``jitter`` in seconds, ``drop`` a share 0..1, ``toobig`` in octets.

    ``maxrep`` bounds the rows per column of a GETBULK answer (0 = as asked). ``dead`` never answers; ``deadfile`` is
    dead as long as that file exists, ``%p`` in its name stands for the port. ``loop``, ``mute`` and ``generr`` are
    subtrees: GETNEXT answers with the OID it was asked for (seen on HSGQ 12170.2.3.1.2), silence (a C600 whose walks
    die halfway), genErr.
    """

    delay: float = 0.0
    jitter: float = 0.0
    drop: float = 0.0
    dead: bool = False
    deadfile: Path | None = None
    toobig: int = DEFAULT_MAX_BYTES
    maxrep: int = 0
    loop: Oid | None = None
    mute: Oid | None = None
    generr: Oid | None = None

    def at_port(self, port: int) -> Faults:
        """The same faults for the agent on this port."""
        if self.deadfile is None:
            return self
        return replace(self, deadfile=Path(str(self.deadfile).replace("%p", str(port))))

    def silent(self, seed: int, serial: int) -> bool:
        """Whether the request with this running number gets no answer at all."""
        if self.dead or (self.deadfile is not None and self.deadfile.exists()):
            return True
        return self.drop > 0 and uniform(seed, serial, "drop") < self.drop

    def pause(self, seed: int, serial: int) -> float:
        """Seconds that the answer to the request with this running number waits."""
        return self.delay + (self.jitter * uniform(seed, serial, "jitter") if self.jitter else 0.0)


class FaultyMib:
    """A MIB in front of which some subtrees loop, stay mute or fail."""

    def __init__(self, inner: MibSource, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def get(self, oid: Oid, now: float) -> Value:
        """See MibSource; DeviceMuteError or DeviceGenError inside such a subtree."""
        self._check(oid)
        return self._inner.get(oid, now)

    def next(self, oid: Oid, now: float) -> tuple[Oid, Value] | None:
        """See MibSource; DeviceMuteError or DeviceGenError when the row found lies in such a subtree."""
        loop = self._faults.loop
        if loop is not None and inside(oid, loop) and oid != loop:
            return oid, self._inner.get(oid, now)
        found = self._inner.next(oid, now)
        if found is not None:
            self._check(found[0])
        return found

    def _check(self, oid: Oid) -> None:
        if self._faults.mute is not None and inside(oid, self._faults.mute):
            raise DeviceMuteError
        if self._faults.generr is not None and inside(oid, self._faults.generr):
            raise DeviceGenError


def inside(oid: Oid, subtree: Oid) -> bool:
    """Whether an OID is this subtree's root or below it."""
    return oid[: len(subtree)] == subtree


def with_faults(mib: MibSource, faults: Faults) -> MibSource:
    """The MIB as its agent shows it; untouched when no subtree misbehaves."""
    faulty = faults.loop or faults.mute or faults.generr
    return FaultyMib(mib, faults) if faulty else mib


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
