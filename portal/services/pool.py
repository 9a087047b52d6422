"""Rows of pollers and of the pool's history. Written by the pools and by the upkeep job."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from portal.domain.pool import SATURATED_ABOVE, busy_seconds
from portal.domain.statuses import ExecutionStatus, PollerStatus
from portal.extensions import transaction
from portal.models import Execution, ExecutionAttempt, Poller, PollerStats

UNSEEN_AFTER = timedelta(seconds=30)
FORGOTTEN_AFTER = timedelta(hours=1)
WINDOW = timedelta(seconds=60)


def register(host: str, number: int, worker: str, pid: int, now: datetime) -> None:
    """A worker process started under this number; its counters start again."""
    with transaction() as session:
        poller = session.query(Poller).filter_by(host=host, poller_id=number).one_or_none()
        if poller is None:
            poller = Poller(host=host, poller_id=number)
            session.add(poller)
        poller.worker, poller.pid, poller.started_at, poller.seen_at = worker, pid, now, now
        poller.status, poller.busy_since = PollerStatus.FREE, None
        poller.current_node_id = poller.current_olt_id = poller.current_execution_id = None
        poller.busy_time = poller.busy_last_minute = 0.0
        poller.tasks_completed = poller.tasks_delayed = 0


def seen(workers: Iterable[str], now: datetime) -> None:
    """These worker processes are alive."""
    with transaction() as session:
        session.execute(update(Poller).where(Poller.worker.in_(list(workers))).values(seen_at=now))


def unregister(host: str, numbers: Iterable[int]) -> None:
    """These numbers are gone for good (the pool ended or was made smaller)."""
    with transaction() as session:
        session.execute(delete(Poller).where(Poller.host == host, Poller.poller_id.in_(list(numbers))))


def running_of(worker: str) -> list[tuple[int, int]]:
    """(execution id, token) of what this worker had RUNNING."""
    with transaction() as session:
        query = select(Execution.id, Execution.token).where(
            Execution.worker == worker, Execution.status == ExecutionStatus.RUNNING
        )
        return [(row.id, row.token or 0) for row in session.execute(query)]


def record_stats(now: datetime) -> PollerStats:
    """One row of the pool's history, and each poller's busy share of the last minute."""
    with transaction() as session:
        session.execute(delete(Poller).where(Poller.seen_at < now - FORGOTTEN_AFTER))
        pollers = list(session.scalars(select(Poller).where(Poller.seen_at >= now - UNSEEN_AFTER)))
        _set_busy(session, pollers, now)
        stats = _stats(session, pollers, now)
        session.add(stats)
        return stats


def _set_busy(session: Session, pollers: list[Poller], now: datetime) -> None:
    since = now - WINDOW
    query = select(ExecutionAttempt.worker, ExecutionAttempt.started_at, ExecutionAttempt.finished_at).where(
        ExecutionAttempt.worker.in_([poller.worker for poller in pollers]),
        (ExecutionAttempt.finished_at >= since) | ExecutionAttempt.finished_at.is_(None),
    )
    busy: dict[str, float] = {}
    for worker, start, end in session.execute(query):
        busy[worker] = busy.get(worker, 0.0) + busy_seconds(start, end or now, since, now)
    for poller in pollers:
        poller.busy_last_minute = min(busy.get(poller.worker, 0.0), WINDOW.total_seconds())


def _stats(session: Session, pollers: list[Poller], now: datetime) -> PollerStats:
    total = len(pollers)
    busy = sum(poller.status is PollerStatus.BUSY for poller in pollers)
    share = sum(p.busy_last_minute for p in pollers) / (total * WINDOW.total_seconds()) * 100 if total else 0.0
    waiting = session.scalar(select(func.count()).where(Execution.status == ExecutionStatus.PENDING)) or 0
    return PollerStats(
        timestamp=now, total_pollers=total, busy_pollers=busy, free_pollers=total - busy, busy_percentage=share,
        queue_size=waiting, is_saturated=share > SATURATED_ABOVE,
        total_tasks_completed=sum(p.tasks_completed for p in pollers),
        total_tasks_delayed=sum(p.tasks_delayed for p in pollers),
    )  # fmt: skip
