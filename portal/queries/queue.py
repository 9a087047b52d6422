"""What waits and why, from the database alone: PENDING executions, the longest delay first. Reads only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import case, func, select

from portal.domain.statuses import ExecutionStatus, OltState, Trigger
from portal.extensions import db
from portal.models import Execution, Olt
from portal.queries.pulse import Pulse

SHOWN = 50


class Cause(StrEnum):
    """Why an execution has not started; the first that holds."""

    OLT_DISABLED = "olt_disabled"
    RETRY = "retry"
    OLT_BUSY = "olt_busy"
    OLT_PAUSED = "olt_paused"
    BEHIND = "behind"
    NOT_QUEUED = "not_queued"
    NO_POLLERS = "no_pollers"
    NO_FREE_POLLER = "no_free_poller"
    NEXT = "next"


class Lane(StrEnum):
    """Which of its OLT's queues holds it (design §6)."""

    HIGH = "high"
    NORMAL = "normal"
    RETRY = "retry"


@dataclass(frozen=True)
class Holder:
    """The execution that has the OLT now."""

    id: int
    node_name: str
    started_at: datetime | None
    worker: str


@dataclass(frozen=True)
class Waiting:
    """One PENDING execution with what decides when it starts."""

    id: int
    olt_id: int
    olt_name: str
    olt_enabled: bool
    olt_state: OltState
    paused_until: datetime | None
    node_name: str
    trigger: Trigger
    priority: int
    scheduled_for: datetime
    overdue_at: datetime | None
    not_before: datetime | None
    queued_at: datetime | None
    attempt: int

    @property
    def lane(self) -> Lane:
        """Manual runs go first; further tries of a failed one have their own queue."""
        if self.trigger is Trigger.MANUAL:
            return Lane.HIGH
        return Lane.RETRY if self.attempt else Lane.NORMAL

    @property
    def due(self) -> datetime:
        """Since when it could have run."""
        return self.not_before or self.scheduled_for


@dataclass(frozen=True)
class Explained:
    """A waiting execution and its cause. `other`: what it waits for, where that is another execution."""

    waiting: Waiting
    cause: Cause
    holder: Holder | None = None
    other: Waiting | None = None


def _rank(one: Waiting, now: datetime) -> tuple[bool, bool, bool, int, datetime, int]:
    overdue = one.overdue_at is not None and one.overdue_at <= now
    return (one.due > now, one.trigger is not Trigger.MANUAL, not overdue, -one.priority, one.scheduled_for, one.id)


def _cause(one: Waiting, holder: Holder | None, ahead: Waiting | None, now: datetime) -> Cause | None:
    """What keeps it from being taken, its OLT's own affairs first; None when only a free poller is missing."""
    tests = (
        (not one.olt_enabled, Cause.OLT_DISABLED),
        (one.due > now, Cause.RETRY),
        (holder is not None, Cause.OLT_BUSY),
        (one.olt_state is OltState.PAUSED and one.trigger is not Trigger.MANUAL, Cause.OLT_PAUSED),
        (ahead is not None, Cause.BEHIND),
        (one.queued_at is None, Cause.NOT_QUEUED),
    )
    return next((cause for holds, cause in tests if holds), None)


def explain(rows: Sequence[Waiting], holders: dict[int, Holder], pulse: Pulse, now: datetime) -> list[Explained]:
    """The cause of each row. Inside one OLT the order is that of design §5.8; between OLTs it is that of `rows`."""
    first: dict[int, Waiting] = {}
    for one in sorted(rows, key=lambda row: _rank(row, now)):
        first.setdefault(one.olt_id, one)
    free, found = pulse.free, []
    for one in rows:
        holder = holders.get(one.olt_id)
        other = first[one.olt_id] if first[one.olt_id] is not one else None
        cause = _cause(one, holder, other, now)
        if cause is None:
            cause = Cause.NEXT if free > 0 else Cause.NO_FREE_POLLER if pulse.pollers else Cause.NO_POLLERS
            free -= 1
        found.append(Explained(one, cause, holder, other))
    return found


def waiting(now: datetime, limit: int = SHOWN) -> list[Waiting]:
    """The next `limit`: due ones first, the longest delay before the shorter, then priority. One SQL statement."""
    due = func.coalesce(Execution.not_before, Execution.scheduled_for, type_=Execution.scheduled_for.type)
    query = (
        select(
            Execution.id, Execution.olt_id, Olt.name, Olt.enabled, Olt.state, Olt.paused_until, Execution.node_name,
            Execution.trigger, Execution.priority, Execution.scheduled_for, Execution.overdue_at,
            Execution.not_before, Execution.queued_at, Execution.attempt,
        )
        .join(Olt, Olt.id == Execution.olt_id)
        .where(Execution.status == ExecutionStatus.PENDING)
        .order_by(case((due > now, 1), else_=0), due, Execution.priority.desc(), Execution.id)
        .limit(limit)
    )  # fmt: skip
    return [Waiting(*row) for row in db.session.execute(query)]


def holders(olt_ids: Iterable[int]) -> dict[int, Holder]:
    """OLT id → the execution that has it. No more rows than pollers. One SQL statement."""
    wanted = set(olt_ids)
    query = select(
        Execution.olt_id, Execution.id, Execution.node_name, Execution.started_at, Execution.worker
    ).where(Execution.status == ExecutionStatus.RUNNING)  # fmt: skip
    return {row[0]: Holder(*row[1:]) for row in db.session.execute(query) if row[0] in wanted}


def next_up(pulse: Pulse, now: datetime, limit: int = SHOWN) -> list[Explained]:
    """What waits and why, ready for a page. Two SQL statements."""
    rows = waiting(now, limit)
    return explain(rows, holders(row.olt_id for row in rows), pulse, now)
