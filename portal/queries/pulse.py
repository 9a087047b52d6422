"""The pulse of the system for the strip on every page: last tick, pollers, what waits. Reads only."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, case, func, select, true

from portal.domain.pool import SATURATED_ABOVE, UNSEEN_AFTER
from portal.domain.schedule import DELAYED_AFTER
from portal.domain.statuses import ExecutionStatus, PollerStatus
from portal.extensions import db
from portal.tables import Execution, Poller, SchedulerState

SILENT_AFTER = timedelta(seconds=5)  # the scheduler ticks each second


@dataclass(frozen=True)
class Pulse:
    """`oldest_due`: since when the composite that waits longest could have run; None when none waits.

    `trouble`: what the scheduler said of Redis or the database at its last tick, "" when all is well.
    """

    last_tick_at: datetime | None
    stale: bool
    pollers: int
    busy: int
    busy_percent: float
    waiting: int
    oldest_due: datetime | None
    late: bool
    trouble: str = ""

    @property
    def saturated(self) -> bool:
        """True when the pool was busy for more than 75 % of the last minute."""
        return self.busy_percent > SATURATED_ABOVE

    @property
    def free(self) -> int:
        """Pollers that could take work now."""
        return self.pollers - self.busy


def share(busy_seconds: float) -> float:
    """Busy percent of the last minute."""
    return min(100.0, 100 * busy_seconds / 60)


def _statement(now: datetime) -> Select[Any]:
    """All of it in one statement, since every page of everybody asks for it."""
    state = select(SchedulerState.last_tick_at, SchedulerState.error).order_by(SchedulerState.id).limit(1).subquery()
    seconds = case((Poller.busy_last_minute > 60, 60.0), else_=Poller.busy_last_minute)
    pool = (
        select(
            func.count().label("pollers"),
            func.count(case((Poller.status == PollerStatus.BUSY, 1))).label("busy"),
            func.avg(seconds).label("seconds"),
        )
        .where(Poller.seen_at > now - UNSEEN_AFTER)
        .subquery()
    )
    due = func.coalesce(Execution.not_before, Execution.scheduled_for)
    queue = (
        select(func.count().label("waiting"), func.min(due, type_=Execution.scheduled_for.type).label("oldest"))
        .where(Execution.status == ExecutionStatus.PENDING)
        .subquery()
    )
    return select(pool, queue, state).select_from(pool.join(queue, true()).outerjoin(state, true()))


def read(now: datetime) -> Pulse:
    """One small statement."""
    row = db.session.execute(_statement(now)).one()
    tick, oldest = row.last_tick_at, row.oldest if row.oldest and row.oldest <= now else None
    return Pulse(
        last_tick_at=tick,
        stale=tick is None or now - tick > SILENT_AFTER,
        pollers=row.pollers,
        busy=row.busy,
        busy_percent=share(row.seconds or 0.0),
        waiting=row.waiting,
        oldest_due=oldest,
        late=oldest is not None and now - oldest > DELAYED_AFTER,
        trouble=row.error or "",
    )
