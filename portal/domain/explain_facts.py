"""What an explanation is made of, what it comes to, and which slot a moment means. Pure."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from portal.domain import schedule
from portal.domain.messages import Message
from portal.domain.saying import Took
from portal.domain.statuses import (
    ErrorKind,
    EventType,
    ExecutionStatus,
    LossCause,
    OltState,
    SkipReason,
    StepStatus,
)


class Verdict(StrEnum):
    """What became of the slot."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    RUNNING = "running"
    WAITING = "waiting"  # for its turn, or for the scheduler
    SKIPPED = "skipped"
    TO_COME = "to_come"
    NO_SLOT = "no_slot"  # there was none: the node or its OLT was off
    UNRECORDED = "unrecorded"


class LinkKind(StrEnum):
    """Where a link of an explanation leads."""

    EXECUTION = "execution"
    HOLDER = "holder"  # an execution that had the OLT meanwhile
    LOG = "log"  # the decision log of that OLT and time


@dataclass(frozen=True)
class Link:
    """`id`: of an execution, or of the OLT whose log from `since` to `until` is meant."""

    kind: LinkKind
    id: int
    name: str
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class NodeFacts:
    """The node asked about. Where it is chained, `id`, clock and runs are its master's and `chained` is its name.

    `runs`: it, its workflow, template and OLT are enabled now. `grid_slot`: its clock's latest slot at or before the
    moment asked about, as the clock is set now; None where that is not known.
    """

    id: int
    name: str
    olt_id: int
    olt_name: str
    runs: bool
    next_run_at: datetime | None = None
    grid_slot: datetime | None = None
    chained: str = ""


@dataclass(frozen=True)
class StepFacts:
    """What became of a chained node inside the run of its master."""

    status: StepStatus
    skip_reason: SkipReason | None
    error_kind: ErrorKind | None


@dataclass(frozen=True)
class RunFacts:
    """An execution. `first_started_at`: of its first try; `tries`: begun so far."""

    id: int
    slot: datetime
    status: ExecutionStatus
    first_started_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_ms: int | None = None
    tries: int = 0
    not_before: datetime | None = None
    error_kind: ErrorKind | None = None
    error_message: str = ""
    skip_reason: SkipReason | None = None
    cancelled_by: str = ""
    step: StepFacts | None = None


@dataclass(frozen=True)
class SkipFacts:
    """`count` slots from `first` to `last` that were skipped for one reason, decided at `decided_at`.

    `own`: the node's execution that was in the way; `free_pollers`: as seen then, None where it was not looked at.
    `nearest`: of uneven slots (a cron line's) the latest at or before the moment asked about; None = they are even.
    """

    reason: SkipReason | None
    first: datetime
    last: datetime
    count: int
    decided_at: datetime
    own: RunFacts | None = None
    free_pollers: int | None = None
    nearest: datetime | None = None

    def slot(self, at: datetime) -> datetime | None:
        """Its latest slot at or before `at`."""
        if at < self.first:
            return None
        if at >= self.last or self.count < 2:
            return self.last if at >= self.last else self.first
        if self.nearest is not None:
            return self.nearest
        step = (self.last - self.first) / (self.count - 1)
        return self.first + int((at - self.first) / step) * step


@dataclass(frozen=True)
class Hold:
    """A stretch for which an execution had the OLT; `until` None: it still has it. `usual_ms`: None = not known."""

    execution_id: int
    node_name: str
    since: datetime
    until: datetime | None
    usual_ms: int | None = None

    def took(self, now: datetime) -> Took:
        """How long, up to now where it goes on."""
        return self.within(self.since, self.until or now)

    def within(self, since: datetime, until: datetime) -> Took:
        """How much of that time it was."""
        span = min(self.until or until, until) - max(self.since, since)
        return Took(max(0, round(span / timedelta(milliseconds=1))))


@dataclass(frozen=True)
class PoolFacts:
    """Samples of the pool of pollers while the run waited, and in how many of them none was free."""

    samples: int = 0
    full: int = 0


@dataclass(frozen=True)
class Switch:
    """The event of the log since which the node, its master or its OLT was off at the moment asked about.

    `name`: of the node that was switched off; "" = its OLT was.
    """

    event: EventType
    at: datetime
    name: str = ""


@dataclass(frozen=True)
class Facts:
    """All that is recorded. `holds`: of other runs on the OLT while it waited, in their order. `own_hold`: of the

    node's own run that was going on when the slot came.

    `state`: the OLT's last recorded change of state before the slot, and when. `log_since`: of the oldest decision that
    is still kept. `ticked_at`: the scheduler's last sign of life.
    """

    asked: datetime
    now: datetime
    node: NodeFacts
    run: RunFacts | None = None
    skip: SkipFacts | None = None
    holds: tuple[Hold, ...] = ()
    own_hold: Hold | None = None
    pool: PoolFacts = field(default_factory=PoolFacts)
    switch: Switch | None = None
    state: tuple[OltState, datetime] | None = None
    log_since: datetime | None = None
    ticked_at: datetime | None = None


@dataclass(frozen=True)
class Explanation:
    """`slot`: the one that is meant, None where there is none. `cause`: what a lost slot was lost to."""

    verdict: Verdict
    slot: datetime | None
    cause: LossCause | None
    sentences: tuple[Message, ...]
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Meant:
    """The slot that a moment means, and which record tells of it: at most one of run and skip."""

    slot: datetime | None
    run: RunFacts | None = None
    skip: SkipFacts | None = None


def meant(asked: datetime, run: RunFacts | None, skip: SkipFacts | None, node: NodeFacts) -> Meant:
    """The latest slot at or before `asked` that is recorded or on the clock's grid; else the first to come.

    `run`: of the latest slot at or before `asked`, or of the first one after it.
    """
    found = []
    if run is not None and run.slot <= asked:
        found.append((run.slot, 3, Meant(run.slot, run=run)))
    slot = skip.slot(asked) if skip is not None else None
    if slot is not None:
        found.append((slot, 2, Meant(slot, skip=skip)))
    if node.grid_slot is not None:
        found.append((node.grid_slot, 1, Meant(node.grid_slot)))
    if not found and run is not None:
        return Meant(run.slot, run=run)
    if not found:
        return Meant(node.next_run_at if node.runs else None)
    return max(found, key=lambda one: one[:2])[2]


def waiting_span(one: Meant, now: datetime) -> tuple[datetime, datetime] | None:
    """From when to when what the slot tells of waited to start; None where nothing waited for more than 2 s."""
    run = one.run or (one.skip.own if one.skip is not None else None)
    if run is None:
        return None
    ends = [moment for moment in (run.first_started_at, None if run.tries else run.finished_at, now) if moment]
    until = min(ends[0], one.slot) if one.skip is not None and one.slot is not None else ends[0]
    return (run.slot, until) if schedule.is_delayed(run.slot, until) else None
