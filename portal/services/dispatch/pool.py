"""Rows of pollers and of the pool's history. Written by the pools and by the upkeep job."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from portal.domain.messages import N_
from portal.domain.pool import SATURATED_ABOVE, UNSEEN_AFTER, WINDOW, busy_lately, sampled
from portal.domain.statuses import ExecutionStatus, PollerStatus
from portal.extensions import transaction
from portal.services import audit
from portal.services.errors import Conflict, Invalid, NotFound
from portal.tables import Execution, Poller, PollerStats, Pool

FORGOTTEN_AFTER = timedelta(hours=1)
POOL_GONE_AFTER = timedelta(seconds=15)  # a pool shows itself every 2 s
LARGEST_POOL = 200


@dataclass(frozen=True)
class PoolOrders:
    """What people want of a running pool."""

    size: int
    restart: frozenset[str]  # names of workers to be replaced


def pool_name(host: str, site: str | None) -> str:
    """Name of the pool of a host: the host, or host/site; "host/-" serves the OLTs without a site."""
    return host if site is None else f"{host}/{site or '-'}"


def open_pool(
    host: str, site: str | None, pid: int, size: int, now: datetime, lives: Callable[[int], bool]
) -> int:  # fmt: skip
    """A pool starts; returns its id. Conflict while another process of this name `lives` and gave a sign just now."""
    name = pool_name(host, site)
    with transaction() as session:
        pool = session.scalar(select(Pool).where(Pool.name == name))
        if pool is None:
            pool = Pool(name=name, host=host, site=site)
            session.add(pool)
        elif pool.pid != pid and pool.seen_at >= now - POOL_GONE_AFTER and lives(pool.pid):
            raise Conflict(
                f"the pool {name} is running already (pid {pool.pid}): change its size with `flask pollers scale N`"
            )
        pool.pid, pool.size, pool.started_at, pool.seen_at = pid, size, now, now
        session.flush()
        session.execute(delete(Poller).where(Poller.pool_id == pool.id))
        return pool.id


def close_pool(pool_id: int) -> None:
    """The pool has ended, and its pollers with it."""
    with transaction() as session:
        session.execute(delete(Poller).where(Poller.pool_id == pool_id))
        session.execute(delete(Pool).where(Pool.id == pool_id))


def attend(pool_id: int, workers: Iterable[str], now: datetime) -> PoolOrders | None:
    """The pool and these worker processes are alive. Returns what people want of it; None when its row is gone."""
    with transaction() as session:
        pool = session.get(Pool, pool_id)
        if pool is None:
            return None
        pool.seen_at = now
        # Locked in the order of their ids, as record_stats does: else PostgreSQL sees the two wait for each other.
        alive = select(Poller.id).where(Poller.worker.in_(list(workers))).order_by(Poller.id).with_for_update()
        session.execute(update(Poller).where(Poller.id.in_(session.scalars(alive).all())).values(seen_at=now))
        restart = select(Poller.worker).where(Poller.pool_id == pool_id, Poller.restart_requested.is_(True))
        return PoolOrders(pool.size, frozenset(session.scalars(restart)))


def register(pool_id: int, number: int, worker: str, pid: int, now: datetime) -> None:
    """A worker process started under this number; its counters start again."""
    with transaction() as session:
        pool = session.get(Pool, pool_id)
        if pool is None:
            return
        poller = session.query(Poller).filter_by(pool_id=pool_id, poller_id=number).one_or_none()
        if poller is None:
            poller = Poller(pool_id=pool_id, host=pool.host, poller_id=number)
            session.add(poller)
        poller.worker, poller.pid, poller.started_at, poller.seen_at = worker, pid, now, now
        poller.status, poller.busy_since, poller.restart_requested = PollerStatus.FREE, None, False
        poller.current_node_id = poller.current_olt_id = poller.current_execution_id = None
        poller.busy_time = poller.busy_last_minute = 0.0
        poller.busy_samples = sampled([], now.timestamp(), 0.0)
        poller.tasks_completed = poller.tasks_delayed = 0


def unregister(pool_id: int, number: int) -> None:
    """This number is gone for good: the pool was made smaller."""
    with transaction() as session:
        session.execute(delete(Poller).where(Poller.pool_id == pool_id, Poller.poller_id == number))


def scale(name: str, size: int, actor: str, now: datetime) -> None:
    """Make the running pool `name` keep `size` pollers; it follows within seconds, and nothing that runs is broken off.

    NotFound lists the pools there are; Invalid for a size that cannot be.
    """
    if not 1 <= size <= LARGEST_POOL:
        raise Invalid({"size": N_("must be from 1 to %(most)d", most=LARGEST_POOL)})
    with transaction() as session:
        pool = session.scalar(select(Pool).where(Pool.name == name))
        if pool is None:
            there = ", ".join(session.scalars(select(Pool.name).order_by(Pool.name))) or "none"
            raise NotFound(N_("there is no running pool %(name)s (running: %(there)s)", name=name, there=there))
        audit.record(session, actor=actor, action="pool.scale", subject=pool, changes={"size": [pool.size, size]},
                     now=now)  # fmt: skip
        pool.size = size


def request_restart(poller_row_id: int, actor: str, now: datetime) -> None:
    """Ask the pool to end one poller warmly and start a fresh one in its place. NotFound."""
    with transaction() as session:
        poller = session.get(Poller, poller_row_id)
        if poller is None:
            raise NotFound(N_("the poller does not exist any more"))
        poller.restart_requested = True
        subject = audit.Subject("poller", f"{poller.pool.name} {poller.poller_id}", poller.id)
        audit.record(session, actor=actor, action="poller.restart", subject=subject, changes=None, now=now)


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
        lately = select(Poller).where(Poller.seen_at >= now - UNSEEN_AFTER).order_by(Poller.id)
        pollers = list(session.scalars(lately.with_for_update()))
        for poller in pollers:
            _set_busy(poller, now)
        stats = _stats(session, pollers, now)
        session.add(stats)
        return stats


def _set_busy(poller: Poller, now: datetime) -> None:
    """From what its row knows: tries are many, and no index tells those of a poller."""
    going_on = max(timedelta(), now - poller.busy_since) if poller.busy_since is not None else timedelta()
    busy = poller.busy_time + going_on.total_seconds()
    poller.busy_last_minute = busy_lately(poller.busy_samples, now.timestamp(), busy)
    poller.busy_samples = sampled(poller.busy_samples, now.timestamp(), busy)


def _stats(session: Session, pollers: list[Poller], now: datetime) -> PollerStats:
    total = len(pollers)
    busy = sum(poller.status is PollerStatus.BUSY for poller in pollers)
    share = sum(p.busy_last_minute for p in pollers) / (total * WINDOW) * 100 if total else 0.0
    waiting = session.scalar(select(func.count()).where(Execution.status == ExecutionStatus.PENDING)) or 0
    return PollerStats(
        timestamp=now, total_pollers=total, busy_pollers=busy, free_pollers=total - busy, busy_percentage=share,
        queue_size=waiting, is_saturated=share > SATURATED_ABOVE,
        total_tasks_completed=sum(p.tasks_completed for p in pollers),
        total_tasks_delayed=sum(p.tasks_delayed for p in pollers),
    )  # fmt: skip
