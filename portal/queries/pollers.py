"""Pollers for people: pools and who runs in them, what each holds, how busy it is, the pool's history. Reads only."""

from dataclasses import dataclass
from datetime import datetime
from math import floor

from sqlalchemy import and_, case, func, select

from portal.domain.pool import SATURATED_ABOVE, UNSEEN_AFTER
from portal.domain.statuses import PollerStatus
from portal.extensions import db
from portal.models.types import off_its_index
from portal.queries.pulse import share
from portal.tables import Execution, Olt, Poller, PollerStats, Pool, SchedulerState

ROOMY_BELOW = 60.0  # percent busy at which a pool still has room for a bad minute
HISTORY_POINTS = 200


@dataclass(frozen=True)
class PollerRow:
    """One poller. Percentages are of the last minute and of its life so far."""

    id: int
    pool_id: int
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
    restart_requested: bool


@dataclass(frozen=True)
class PoolRow:
    """The pollers that one process keeps alive. `site`: None = serves every OLT, "" = only OLTs without a site.

    `size` is how many there shall be, `alive` how many were seen lately; `busy_percent` is of their last minute.
    """

    id: int
    name: str
    host: str
    site: str | None
    size: int
    alive: int
    busy: int
    busy_percent: float
    saturated: bool
    seen: bool
    pid: int
    started_at: datetime
    seen_at: datetime

    @property
    def free(self) -> int:
        """Pollers that could take work now."""
        return self.alive - self.busy

    @property
    def enough(self) -> int:
        """How many pollers would have been less than ROOMY_BELOW busy with the last minute's work."""
        return floor(self.busy_percent * self.alive / ROOMY_BELOW) + 1


@dataclass(frozen=True)
class StatsPoint:
    """A stretch of the history: its end, mean busy percent, and the most composites that waited."""

    at: datetime
    busy_percent: float
    waiting: int


def _life_percent(poller: Poller, now: datetime) -> float:
    running = (now - poller.busy_since).total_seconds() if poller.busy_since else 0.0
    life = max(1.0, (now - poller.started_at).total_seconds())
    return min(100.0, 100 * (poller.busy_time + max(0.0, running)) / life)


def _row(poller: Poller, olt_name: str | None, node_name: str | None, now: datetime) -> PollerRow:
    return PollerRow(
        id=poller.id,
        pool_id=poller.pool_id,
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
        restart_requested=poller.restart_requested,
    )


def rows(now: datetime) -> list[PollerRow]:
    """All pollers in the order of host and number; the upkeep job forgets those unseen for long. One SQL statement."""
    query = (
        select(Poller, Olt.name, Execution.node_name)
        .outerjoin(Olt, Olt.id == Poller.current_olt_id)
        .outerjoin(Execution, Execution.id == Poller.current_execution_id)
        .order_by(Poller.host, Poller.pool_id, Poller.poller_id)
    )
    return [_row(poller, olt, node, now) for poller, olt, node in db.session.execute(query)]


def pools(now: datetime) -> list[PoolRow]:
    """All pools by host and name, with the sums of their living pollers. One SQL statement."""
    living = and_(Poller.pool_id == Pool.id, Poller.seen_at > now - UNSEEN_AFTER)
    query = (
        select(
            Pool,
            func.count(Poller.id),
            func.count(case((Poller.status == PollerStatus.BUSY, 1))),
            func.coalesce(func.avg(Poller.busy_last_minute), 0.0),
        )
        .outerjoin(Poller, living)
        .group_by(Pool.id)
        .order_by(Pool.host, Pool.name)
    )
    return [_pool(pool, alive, busy, seconds, now) for pool, alive, busy, seconds in db.session.execute(query)]


def _pool(pool: Pool, alive: int, busy: int, seconds: float, now: datetime) -> PoolRow:
    percent = share(float(seconds))
    return PoolRow(
        id=pool.id, name=pool.name, host=pool.host, site=pool.site, size=pool.size, alive=alive, busy=busy,
        busy_percent=percent, saturated=percent > SATURATED_ABOVE, seen=pool.seen_at > now - UNSEEN_AFTER,
        pid=pool.pid, started_at=pool.started_at, seen_at=pool.seen_at,
    )  # fmt: skip


def pool(pool_id: int) -> Pool | None:
    """One pool, or None when it is gone."""
    return db.session.get(Pool, pool_id)


def history(since: datetime, points: int = HISTORY_POINTS) -> list[StatsPoint]:
    """The pools' history since then, thinned by the database to at most `points` (2 or more). Two SQL statements.

    Neighbouring rows are put together by their numbers, which the database can do alike everywhere; the groups stay
    the same while time goes on.
    """
    wanted = PollerStats.timestamp > since
    ident = off_its_index(PollerStats.id)
    first, last = db.session.execute(select(func.min(ident), func.max(ident)).where(wanted)).one()
    if first is None:
        return []
    group = PollerStats.id // max(1, -(-(last - first + 1) // (points - 1)))
    query = (
        select(
            func.max(PollerStats.timestamp), func.avg(PollerStats.busy_percentage), func.max(PollerStats.queue_size)
        )
        .where(wanted)
        .group_by(group)
        .order_by(group)
    )  # fmt: skip
    return [StatsPoint(at, float(busy), waiting) for at, busy, waiting in db.session.execute(query)]


def scheduler() -> SchedulerState | None:
    """What the scheduler's leader last did; None when none ever ran."""
    return db.session.scalar(select(SchedulerState).order_by(SchedulerState.id).limit(1))
