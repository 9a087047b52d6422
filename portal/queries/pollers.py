"""Pollers for people: who runs, what each holds, how busy it is; and the scheduler's own row. Reads only."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from portal.domain.statuses import PollerStatus
from portal.extensions import db
from portal.models import Execution, Olt, Poller, SchedulerState
from portal.queries.pulse import UNSEEN_AFTER, share


@dataclass(frozen=True)
class PollerRow:
    """One poller. Percentages are of the last minute and of its life so far."""

    number: int
    host: str
    worker: str
    pid: int
    status: PollerStatus
    seen: bool
    seen_at: datetime
    started_at: datetime
    busy_since: datetime | None
    execution_id: int | None
    node_name: str
    olt_id: int | None
    olt_name: str
    minute_percent: float
    life_percent: float
    completed: int
    delayed: int


def _life_percent(poller: Poller, now: datetime) -> float:
    running = (now - poller.busy_since).total_seconds() if poller.busy_since else 0.0
    life = max(1.0, (now - poller.started_at).total_seconds())
    return min(100.0, 100 * (poller.busy_time + max(0.0, running)) / life)


def _row(poller: Poller, olt_name: str | None, node_name: str | None, now: datetime) -> PollerRow:
    return PollerRow(
        number=poller.poller_id,
        host=poller.host,
        worker=poller.worker,
        pid=poller.pid,
        status=poller.status,
        seen=poller.seen_at > now - UNSEEN_AFTER,
        seen_at=poller.seen_at,
        started_at=poller.started_at,
        busy_since=poller.busy_since,
        execution_id=poller.current_execution_id,
        node_name=node_name or "",
        olt_id=poller.current_olt_id,
        olt_name=olt_name or "",
        minute_percent=share(poller.busy_last_minute),
        life_percent=_life_percent(poller, now),
        completed=poller.tasks_completed,
        delayed=poller.tasks_delayed,
    )


def rows(now: datetime) -> list[PollerRow]:
    """All pollers in the order of host and number; the upkeep job forgets those unseen for long. One SQL statement."""
    query = (
        select(Poller, Olt.name, Execution.node_name)
        .outerjoin(Olt, Olt.id == Poller.current_olt_id)
        .outerjoin(Execution, Execution.id == Poller.current_execution_id)
        .order_by(Poller.host, Poller.poller_id)
    )
    return [_row(poller, olt, node, now) for poller, olt, node in db.session.execute(query)]


def scheduler() -> SchedulerState | None:
    """What the scheduler's leader last did; None when none ever ran."""
    return db.session.scalar(select(SchedulerState).order_by(SchedulerState.id).limit(1))
