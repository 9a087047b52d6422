"""The arithmetic of promises: slots of an hour, what became of them, how an hour is judged. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from portal.domain.statuses import ErrorKind, ExecutionStatus, LossCause, NodeKind, QuotaStatus, Severity, SkipReason

HOUR = timedelta(hours=1)
MET = 0.80  # completed / required below which an hour is a violation
AT_RISK_POINTS = 20  # percentage points that the hour may be ahead of the completion
TASK_TYPE_LENGTH = 70

# Lower bounds of completed / required: LOW from, MEDIUM above, HIGH above; CRITICAL below.
SEVERITY_BOUNDS = (0.70, 0.50, 0.20)
TAKEN_AWAY = frozenset({LossCause.PAUSED, LossCause.DISABLED, LossCause.CANCELLED})  # by people, on purpose


def hour_of(slot: datetime) -> datetime:
    """Start of the hour (start, end] that a slot belongs to: 11:00:00 is the last slot of the hour from 10:00."""
    start = hour_at(slot)
    return start - HOUR if slot == start else start


def hour_at(moment: datetime) -> datetime:
    """Start of the hour that it is at `moment`: 11:00:00 is the beginning of the hour from 11:00."""
    return moment.replace(minute=0, second=0, microsecond=0)


def task_type(kind: NodeKind, key: str) -> str:
    """`discovery`, `get_<key>`, `walk_<key>` …: what quotas are counted by."""
    return "discovery" if kind is NodeKind.DISCOVERY else f"{kind.value}_{key}"


def slots_in(first: datetime, interval_seconds: int, start: datetime, end: datetime) -> int:
    """How many of the grid's slots `first`, `first` + interval, … lie in (start, end]."""
    return max(0, _up_to(first, interval_seconds, end) - _up_to(first, interval_seconds, start))


def _up_to(first: datetime, interval_seconds: int, moment: datetime) -> int:
    return 0 if moment < first else int((moment - first).total_seconds() // interval_seconds) + 1


def slots_by_hour(first: datetime, last: datetime, count: int) -> dict[datetime, int]:
    """Hour → how many of `count` evenly spaced slots from `first` to `last` belong to it.

    By arithmetic: a stop of a month is 700 hours, not 8,600 slots.
    """
    if count == 1 or first == last:
        return {hour_of(first): count}
    step = (last - first) / (count - 1)
    hours: dict[datetime, int] = {}
    hour, before = hour_of(first), 0
    while before < count:
        upto = min(count, (hour + HOUR - first) // step + 1)
        if upto > before:
            hours[hour] = upto - before
        hour, before = hour + HOUR, upto
    return hours


def hours_as_json(hours: Mapping[datetime, int] | None) -> dict[str, int] | None:
    """How many slots of a skipped range belong to which hour, as the log keeps it; None = they are evenly spaced."""
    return None if hours is None else {hour.isoformat(): slots for hour, slots in hours.items()}


def skipped_by_hour(details: Mapping[str, Any]) -> dict[datetime, int]:
    """Hour → slots, from the details of a row SLOT_SKIPPED: slots, first, last, and hours where they are not even."""
    if details.get("hours"):
        return {datetime.fromisoformat(hour): int(slots) for hour, slots in details["hours"].items()}
    first, last = datetime.fromisoformat(details["first"]), datetime.fromisoformat(details["last"])
    return slots_by_hour(first, last, int(details["slots"]))


@dataclass(frozen=True)
class TrackerKey:
    """Whose promise: an OLT, a task type, an hour (its start)."""

    olt_id: int
    task_type: str
    hour: datetime


@dataclass(frozen=True)
class Counts:
    """What became of the slots of one tracker. `required` is their sum, always."""

    completed: int = 0
    failed: int = 0
    skipped: int = 0
    pending: int = 0

    @property
    def required(self) -> int:
        """Slots promised."""
        return self.completed + self.failed + self.skipped + self.pending

    @property
    def share(self) -> float:
        """Completed of required, 0 to 1; 1 when nothing was promised."""
        return self.completed / self.required if self.required else 1.0


@dataclass(frozen=True)
class Settlement:
    """One or several slots of a tracker that have come to their end in the same way. Milliseconds of OLT time.

    `timed`: how many of the slots have a duration; who was cancelled before it ran has none.
    """

    key: TrackerKey
    status: ExecutionStatus | None  # None: never became an execution
    cause: LossCause | None  # None only when completed
    slots: int = 1
    duration_ms: int = 0
    timed: int = 0

    @property
    def counts(self) -> Counts:
        """The slots, in the column where they belong. INTERRUPTED is a slot that somebody or something took away."""
        if self.status is ExecutionStatus.SUCCESS:
            return Counts(completed=self.slots)
        if self.status is ExecutionStatus.FAILED:
            return Counts(failed=self.slots)
        return Counts(skipped=self.slots)


def judge(counts: Counts, *, interrupted: bool = False) -> QuotaStatus:
    """Status at the close. `interrupted`: its OLT was disabled in this hour."""
    if interrupted:
        return QuotaStatus.INTERRUPTED
    if counts.completed >= counts.required:
        return QuotaStatus.COMPLETED
    if counts.completed == 0:
        return QuotaStatus.FAILED
    return QuotaStatus.PARTIAL if counts.share >= MET else QuotaStatus.QUOTA_NOT_MET


def severity(counts: Counts, bounds: tuple[float, float, float] = SEVERITY_BOUNDS) -> Severity | None:
    """How bad the hour was; None when enough was completed. 2 of 4 = HIGH."""
    low, medium, high = bounds
    if counts.share >= MET:
        return None
    if counts.share >= low:
        return Severity.LOW
    if counts.share > medium:
        return Severity.MEDIUM
    return Severity.HIGH if counts.share > high else Severity.CRITICAL


def owed(counts: Counts, lost: Mapping[LossCause, int]) -> Counts:
    """The counts without what people took away: they paused, disabled or cancelled it, and nobody broke a promise."""
    taken = sum(lost.get(cause, 0) for cause in TAKEN_AWAY)
    return replace(counts, skipped=max(0, counts.skipped - taken))


def judge_owed(counts: Counts, lost: Mapping[LossCause, int], *, interrupted: bool = False) -> QuotaStatus:
    """Status at the close, by what was owed; INTERRUPTED where people took all of it away."""
    rest = owed(counts, lost)
    return judge(rest, interrupted=interrupted or (counts.required > 0 and not rest.required))


def told_already(lost: Mapping[LossCause, int]) -> bool:
    """True where all that was owed was lost to an OLT that could not be reached: that has an alert of its own."""
    causes = {cause for cause, slots in lost.items() if slots} - TAKEN_AWAY
    return LossCause.UNREACHABLE in causes <= {LossCause.UNREACHABLE, LossCause.TIMEOUT}


def doomed(counts: Counts) -> bool:
    """True when so many slots are lost already that the hour will be a violation whatever comes."""
    return bool(counts.required) and counts.completed + counts.pending < MET * counts.required


def at_risk(counts: Counts, hour: datetime, now: datetime, begin: datetime | None = None) -> bool:
    """True when the hour has gone further than the completion by more than 20 points, or the promise cannot be kept.

    How far it has gone is reckoned in whole slots: of a promise of one run nothing is due before its hour is over. One
    slot that has not ended is no risk, since each waits and runs for a while. `begin`: when the promise was made, where
    that was not at the beginning of its hour.
    """
    start = min(max(hour, begin or hour), hour + HOUR - timedelta(seconds=1))
    gone = min(1.0, max(0.0, (now - start) / (hour + HOUR - start)))
    behind = int(counts.required * gone) - counts.completed
    return doomed(counts) or (behind > 1 and behind * 100 > AT_RISK_POINTS * counts.required)


_OF_SKIPS: Mapping[SkipReason, LossCause] = {
    SkipReason.STILL_ACTIVE: LossCause.UNKNOWN,
    SkipReason.OVERRUN: LossCause.OVERRUN,
    SkipReason.OLT_BUSY: LossCause.OLT_BUSY,
    SkipReason.POOL_FULL: LossCause.POOL_FULL,
    SkipReason.SCHEDULER_DOWN: LossCause.RESTART,
    SkipReason.OLT_PAUSED: LossCause.PAUSED,
    SkipReason.OLT_UNREACHABLE: LossCause.UNREACHABLE,
    SkipReason.OLT_DISABLED: LossCause.DISABLED,
    SkipReason.NODE_DISABLED: LossCause.DISABLED,
    SkipReason.CANCELLED: LossCause.CANCELLED,
    SkipReason.NO_ONUS: LossCause.NO_ONUS,
    SkipReason.NODE_HELD: LossCause.WORKER_LOST,
}

_OF_ERRORS: Mapping[ErrorKind, LossCause] = {
    ErrorKind.TIMEOUT: LossCause.TIMEOUT,
    ErrorKind.UNREACHABLE: LossCause.UNREACHABLE,
    ErrorKind.WORKER_LOST: LossCause.WORKER_LOST,
    ErrorKind.LEASE_LOST: LossCause.WORKER_LOST,
    ErrorKind.POISON: LossCause.WORKER_LOST,
    ErrorKind.SHUTDOWN: LossCause.WORKER_LOST,
    ErrorKind.INTERNAL: LossCause.INTERNAL,
    ErrorKind.SUPERSEDED: LossCause.UNKNOWN,
}


def cause_of_skip(reason: SkipReason | None) -> LossCause:
    """To what a slot that did not run was lost."""
    return _OF_SKIPS.get(reason, LossCause.UNKNOWN) if reason is not None else LossCause.UNKNOWN


def cause_of_end(status: ExecutionStatus, kind: ErrorKind | None, reason: SkipReason | None) -> LossCause | None:
    """To what the slot of an ended execution was lost; None for a success."""
    if status is ExecutionStatus.SUCCESS:
        return None
    if status is ExecutionStatus.INTERRUPTED:
        return cause_of_skip(reason)
    return _OF_ERRORS.get(kind, LossCause.DEVICE) if kind is not None else LossCause.DEVICE


@dataclass(frozen=True)
class Clock:
    """The part of a master's clock that tells its slots to come. `times`: of a cron line, in the hour asked about."""

    task_type: str
    next_run_at: datetime
    interval_seconds: int | None
    times: tuple[datetime, ...] = ()

    def slots(self, hour: datetime) -> int:
        """Slots to come in the hour (start, end]."""
        end = hour + HOUR
        if self.interval_seconds is not None:
            return slots_in(self.next_run_at, self.interval_seconds, hour, end)
        return sum(hour < at <= end and at >= self.next_run_at for at in self.times)


def total(settlements: Iterable[Settlement]) -> dict[TrackerKey, Counts]:
    """The settlements of each tracker added up; their `pending` stays 0."""
    sums: dict[TrackerKey, Counts] = {}
    for one in settlements:
        before, more = sums.get(one.key, Counts()), one.counts
        sums[one.key] = Counts(
            before.completed + more.completed, before.failed + more.failed, before.skipped + more.skipped
        )
    return sums
