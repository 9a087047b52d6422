"""The pulse of the system for the strip on every page: last tick, pollers, what waits. Reads only."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select

from portal.domain.pool import SATURATED_ABOVE
from portal.domain.statuses import ExecutionStatus, PollerStatus
from portal.extensions import db
from portal.models import Execution, Poller, SchedulerState

SILENT_AFTER = timedelta(seconds=5)  # the scheduler ticks each second
UNSEEN_AFTER = timedelta(seconds=30)  # a poller writes its row at least every 10 s
LATE_AFTER = timedelta(seconds=2)  # design §5.7


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


def read(now: datetime) -> Pulse:
    """Three small statements: one row, the pollers seen lately, one count."""
    state = select(SchedulerState.last_tick_at, SchedulerState.error).order_by(SchedulerState.id).limit(1)
    tick, trouble = db.session.execute(state).one_or_none() or (None, "")
    rows = db.session.execute(
        select(Poller.status, Poller.busy_last_minute).where(Poller.seen_at > now - UNSEEN_AFTER)
    ).all()
    due = func.coalesce(Execution.not_before, Execution.scheduled_for)
    waiting, oldest = db.session.execute(
        select(func.count(), func.min(due, type_=Execution.scheduled_for.type)).where(
            Execution.status == ExecutionStatus.PENDING
        )
    ).one()
    shares = [share(busy) for _, busy in rows]
    oldest = oldest if oldest and oldest <= now else None
    return Pulse(
        last_tick_at=tick,
        stale=tick is None or now - tick > SILENT_AFTER,
        pollers=len(rows),
        busy=sum(status is PollerStatus.BUSY for status, _ in rows),
        busy_percent=sum(shares) / len(shares) if shares else 0.0,
        waiting=waiting,
        oldest_due=oldest,
        late=oldest is not None and now - oldest > LATE_AFTER,
        trouble=trouble,
    )
