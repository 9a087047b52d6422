"""What waits and why, from the database alone: PENDING executions, the longest delay first. Reads only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import case, func, select

from portal.domain.statuses import ExecutionStatus, OltState, Trigger
from portal.extensions import db
from portal.queries import pollers
from portal.queries.pollers import PoolRow
from portal.tables import Execution, Olt

SHOWN = 50


class Cause(StrEnum):
    """Why an execution has not started; the first that holds."""

    CANCELLED = "cancelled"
    OLT_DISABLED = "olt_disabled"
    OLT_PAUSED = "olt_paused"
    OLT_UNREACHABLE = "olt_unreachable"
    RETRY = "retry"
    SPREAD = "spread"
    OLT_BUSY = "olt_busy"
    BEHIND = "behind"
    NOT_QUEUED = "not_queued"
    NO_POLLERS = "no_pollers"
    NO_POLLERS_AT_SITE = "no_pollers_at_site"
    NO_FREE_POLLER = "no_free_poller"
    NEXT = "next"


class Lane(StrEnum):
    """Which of its OLT's queues holds it."""

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
    cancelled_by: str


@dataclass(frozen=True)
class Waiting:
    """One PENDING execution with what decides when it starts."""

    id: int
    olt_id: int
    olt_name: str
    olt_enabled: bool
    olt_state: OltState
    paused_reason: str
    paused_until: datetime | None
    probe_at: datetime | None
    site: str
    node_name: str
    trigger: Trigger
    priority: int
    scheduled_for: datetime
    overdue_at: datetime | None
    not_before: datetime | None
    queued_at: datetime | None
    attempt: int
    requested_by: str
    cancelled_by: str
    node_id: int | None = None

    @property
    def wished(self) -> bool:
        """True when a person wants it now: a run by hand, or one of the schedule that was moved to the front."""
        return self.trigger is Trigger.MANUAL or bool(self.requested_by)

    @property
    def lane(self) -> Lane:
        """What a person wants goes first; further tries of a failed one have their own queue."""
        if self.wished:
            return Lane.HIGH
        return Lane.RETRY if self.attempt else Lane.NORMAL

    @property
    def due(self) -> datetime:
        """Since when it could have run."""
        return self.not_before or self.scheduled_for


@dataclass(frozen=True)
class Explained:
    """A waiting execution and its cause. `other`: what it waits for, where that is another execution.

    `busy` of `pollers`: those that serve its OLT's site, where the cause is that none of them is free.
    """

    waiting: Waiting
    cause: Cause
    holder: Holder | None = None
    other: Waiting | None = None
    busy: int = 0
    pollers: int = 0


def _rank(one: Waiting, now: datetime) -> tuple[bool, bool, bool, int, datetime, int]:
    overdue = one.overdue_at is not None and one.overdue_at <= now
    return (one.due > now, not one.wished, not overdue, -one.priority, one.scheduled_for, one.id)


class _Room:
    """Free pollers, counted down as one waiting composite after the other takes its own."""

    def __init__(self, pools: Iterable[PoolRow]) -> None:
        # A pool of one site first: those that serve every OLT stay for the others.
        self.pools = sorted((pool for pool in pools if pool.alive), key=lambda pool: pool.site is None)
        self.free = {pool.id: pool.free for pool in self.pools}

    def take(self, site: str) -> tuple[Cause, int, int]:
        """(cause, busy pollers, all pollers) for an OLT of `site`; a free one is taken."""
        if not self.pools:
            return Cause.NO_POLLERS, 0, 0
        serving = [pool for pool in self.pools if pool.site is None or pool.site == site]
        if not serving:
            return Cause.NO_POLLERS_AT_SITE, 0, 0
        for pool in serving:
            if self.free[pool.id] > 0:
                self.free[pool.id] -= 1
                return Cause.NEXT, 0, 0
        return Cause.NO_FREE_POLLER, sum(pool.busy for pool in serving), sum(pool.alive for pool in serving)


def _cause(one: Waiting, holder: Holder | None, ahead: Waiting | None, now: datetime) -> Cause | None:
    """What keeps it from being taken, its OLT's own affairs first; None when only a free poller is missing.

    What a person wants is also run on an OLT that is paused or unreachable.
    """
    tests = (
        (bool(one.cancelled_by), Cause.CANCELLED),
        (not one.olt_enabled, Cause.OLT_DISABLED),
        (not one.wished and one.olt_state is OltState.PAUSED, Cause.OLT_PAUSED),
        (not one.wished and one.olt_state is OltState.UNREACHABLE, Cause.OLT_UNREACHABLE),
        (one.due > now, Cause.RETRY if one.attempt else Cause.SPREAD),
        (holder is not None, Cause.OLT_BUSY),
        (ahead is not None, Cause.BEHIND),
        (one.queued_at is None, Cause.NOT_QUEUED),
    )
    return next((cause for holds, cause in tests if holds), None)


def explain(
    rows: Sequence[Waiting], holders: dict[int, Holder], pools: Iterable[PoolRow], now: datetime
) -> list[Explained]:
    """The cause of each row. Inside one OLT the order is that of domain.tickets; between OLTs it is that of `rows`."""
    first: dict[int, Waiting] = {}
    for one in sorted(rows, key=lambda row: _rank(row, now)):
        first.setdefault(one.olt_id, one)
    room, found = _Room(pools), []
    for one in rows:
        holder = holders.get(one.olt_id)
        other = first[one.olt_id] if first[one.olt_id] is not one else None
        cause = _cause(one, holder, other, now)
        if cause is None:
            cause, busy, pollers = room.take(one.site)
            found.append(Explained(one, cause, busy=busy, pollers=pollers))
        else:
            found.append(Explained(one, cause, holder, other))
    return found


def waiting(now: datetime, limit: int = SHOWN) -> list[Waiting]:
    """The next `limit`: due ones first, the longest delay before the shorter, then priority. One SQL statement."""
    due = func.coalesce(Execution.not_before, Execution.scheduled_for, type_=Execution.scheduled_for.type)
    query = (
        select(
            Execution.id, Execution.olt_id, Olt.name, Olt.enabled, Olt.state, Olt.paused_reason, Olt.paused_until,
            Olt.probe_at, Olt.site, Execution.node_name, Execution.trigger, Execution.priority,
            Execution.scheduled_for, Execution.overdue_at, Execution.not_before, Execution.queued_at,
            Execution.attempt, Execution.requested_by, Execution.cancelled_by, Execution.node_id,
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
        Execution.olt_id, Execution.id, Execution.node_name, Execution.started_at, Execution.worker,
        Execution.cancelled_by,
    ).where(Execution.status == ExecutionStatus.RUNNING)  # fmt: skip
    return {row[0]: Holder(*row[1:]) for row in db.session.execute(query) if row[0] in wanted}


def next_up(now: datetime, limit: int = SHOWN) -> list[Explained]:
    """What waits and why, ready for a page. Three SQL statements."""
    rows = waiting(now, limit)
    return explain(rows, holders(row.olt_id for row in rows), pollers.pools(now), now)
