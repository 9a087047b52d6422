"""Whether it is still the same device that answers at an OLT's address, and whether it restarted since. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

TICKS = 100  # of sysUpTime in a second
WRAP = 2**32  # ticks after which sysUpTime begins again: 497 days
DRIFT = 0.01  # by which a device's clock may differ from ours
SLACK = timedelta(seconds=5)  # an answer's way

UNSETTLED = timedelta(minutes=10)  # after a restart, for which no table is believed to be whole
SETTLED = timedelta(hours=1)  # after which it is, whatever comes back

WITNESSES = 5  # instances of serials that each composite asks for
DECISIVE = 3  # so many answered with other serials, and none with its own: another device
KEPT = 20  # witnesses that are known; all are asked before a device is called another one


@dataclass(frozen=True)
class Device:
    """What the device at an OLT's address said of itself when it was last read, and took for the OLT's own.

    `witnesses`: instances (OID → raw value) of ONU serials: what another device would answer otherwise.
    """

    object_id: str = ""
    name: str = ""
    uptime: int | None = None  # ticks
    read_at: datetime | None = None
    restarted_at: datetime | None = None
    witnesses: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a device says of itself at the begin of a composite. Empty where it hides it."""

    object_id: str
    name: str
    uptime: int | None
    at: datetime
    same: int = 0  # witnesses that answered as known
    other: int = 0  # … with another serial

    @property
    def believed(self) -> bool:
        """Whether it says anything."""
        return bool(self.object_id or self.name) or self.uptime is not None


def restart(before: Device, answer: Answer) -> datetime | None:
    """When the device began to run, if that was after it was read last; else None.

    A counter that has wrapped, or that stands still, tells of no restart.
    """
    if before.uptime is None or before.read_at is None or answer.uptime in (None, before.uptime):
        return None
    began = answer.at - timedelta(seconds=answer.uptime / TICKS)
    if began <= before.read_at + SLACK and answer.uptime + TICKS >= before.uptime:
        return None
    passed = (answer.at - before.read_at).total_seconds() * TICKS
    reached, allowed = before.uptime + passed, SLACK.total_seconds() * TICKS + passed * DRIFT
    wrapped = reached + allowed >= WRAP and abs(reached - WRAP - answer.uptime) <= allowed
    return None if wrapped else began


def is_other(before: Device, answer: Answer, *, onus: bool) -> bool:
    """Whether another device answers than the one that was read before.

    ONUs decide, where they are known: one that is at its place proves the device, whatever it is called now, and where
    all are others it is another one, though it bears the same name. Else the names do, but only where there is
    something to lose (`onus`: some are known).
    """
    if answer.same:
        return False
    if answer.other >= DECISIVE:
        return True
    return onus and names_differ(before, answer)


def names_differ(before: Device, answer: Answer) -> bool:
    """Whether it calls itself otherwise than before. What was or is hidden does not count."""
    pairs = ((before.object_id, answer.object_id), (before.name, answer.name))
    return any(old and new and old != new for old, new in pairs)


def unsettled(restarted_at: datetime | None, at: datetime) -> bool:
    """Whether the device had run for so short that a table that lacks rows proves nothing."""
    return restarted_at is not None and timedelta() <= at - restarted_at < UNSETTLED


def may_grow(restarted_at: datetime | None, at: datetime) -> bool:
    """Whether its tables may still be filling: then it is their rows that tell, from walk to walk."""
    return restarted_at is not None and timedelta() <= at - restarted_at < SETTLED


def refreshed(witnesses: Mapping[str, str], read: Mapping[str, str]) -> dict[str, str]:
    """The witnesses after a whole table of serials was read (OID → raw value): those that still hold, and others

    from all over the table. Equal to `witnesses` where nothing is to be changed.
    """
    kept = {oid: raw for oid, raw in witnesses.items() if read.get(oid) == raw}
    wanted = min(KEPT, len(read))
    if len(kept) >= wanted:
        return kept
    spare = [oid for oid in read if oid not in kept]
    step = max(1, len(spare) // (wanted - len(kept)))
    return kept | {oid: read[oid] for oid in spare[::step][: wanted - len(kept)]}
