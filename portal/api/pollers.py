"""Addresses under /pollers: who runs what, what waits and why, the pools in numbers. Reads only."""

from datetime import datetime, timedelta

from portal import clock
from portal.api import args, bodies
from portal.api.operations import Reply, operation
from portal.api.waiting import queued
from portal.domain.statuses import Role
from portal.queries import api as query
from portal.queries import pollers, pulse, queue
from portal.queries.pollers import PollerRow, PoolRow

TAG = "Pollers"
LISTED = 10
MOST_LISTED = 200
POINTS = 200
MOST_POINTS = 1000
HISTORY = timedelta(hours=1)

QUEUE_ARGS = (args.whole("limit", "How many of those that wait are listed.", 1, MOST_LISTED, LISTED),)
STATS_ARGS = (
    args.moment("since", "Also the history from then on; it is kept for 7 days."),
    args.whole("points", "Into how many points at most the history is drawn together; without since: one hour.",
               2, MOST_POINTS),
)  # fmt: skip


@operation("GET", "/pollers/", Role.VIEWER, "State of all pollers", {200: ("All pollers.", bodies.PollerList)}, tag=TAG)
def list_pollers() -> Reply:
    """Each poller with what it holds and since when, and how busy it is."""
    now = clock.now()
    places = query.places()
    rows = [_poller(row, places[row.id], now) for row in pollers.rows(now) if row.id in places]
    return Reply(bodies.PollerList(rows, None))


def _poller(row: PollerRow, place: query.Place, now: datetime) -> bodies.Poller:
    total = max(0.0, (now - row.started_at).total_seconds())
    return bodies.Poller(
        id=row.id, poller_id=row.number, status=row.status, alive=row.seen,
        pool=bodies.PoolRef(place.pool_id, place.pool_name, place.pool_host, place.pool_site),
        worker=row.worker, pid=row.pid,
        busy_percentage=round(row.minute_percent, 2), busy_percentage_since_start=round(row.life_percent, 2),
        busy_time=round(row.life_percent * total / 100, 3), total_time=round(total, 3),
        tasks_completed=row.completed, tasks_delayed=row.delayed,
        current_execution_id=row.execution_id, current_node_id=place.node_id, current_node_name=row.node_name,
        current_olt_id=row.olt_id, current_olt_name=row.olt_name, busy_since=row.busy_since,
        restart_requested=row.restart_requested, created_at=row.started_at, updated_at=row.seen_at,
    )  # fmt: skip


@operation(
    "GET", "/pollers/queue/", Role.VIEWER, "What waits and why", {200: ("The queue.", bodies.Queue)},
    tag=TAG, args=QUEUE_ARGS,
)  # fmt: skip
def show_queue(limit: int) -> Reply:
    """How much waits, and the next ones, each with what keeps it from starting."""
    now = clock.now()
    beat, rows = pulse.read(now), queue.next_up(now, limit)
    nodes = query.node_ids(row.waiting.id for row in rows)
    listed = [queued(row, nodes.get(row.waiting.id), now) for row in rows]
    return Reply(bodies.Queue(beat.waiting, beat.late and beat.free <= 0, listed))


@operation(
    "GET", "/pollers/stats/", Role.VIEWER, "All pools in numbers", {200: ("The numbers.", bodies.Stats)},
    tag=TAG, args=STATS_ARGS,
)  # fmt: skip
def show_stats(since: datetime | None, points: int | None) -> Reply:
    """How busy the pollers are, what to do when they cannot keep up, and how it was before."""
    now = clock.now()
    beat, pools, (completed, delayed) = pulse.read(now), pollers.pools(now), query.totals(now)
    asked = since is not None or points is not None
    history = pollers.history(since or now - HISTORY, points or POINTS) if asked else []
    return Reply(
        bodies.Stats(
            total_pollers=beat.pollers, free_pollers=beat.free, busy_pollers=beat.busy,
            busy_percentage=round(beat.busy_percent, 2), queue_size=beat.waiting, is_saturated=beat.saturated,
            total_tasks_completed=completed, total_tasks_delayed=delayed, timestamp=now,
            advice=advice(beat, pools), pools=[_pool(one) for one in pools],
            history=[bodies.StatsPoint(one.at, round(one.busy_percent, 2), one.waiting) for one in history],
        )
    )  # fmt: skip


def _pool(row: PoolRow) -> bodies.PoolStats:
    return bodies.PoolStats(
        id=row.id, name=row.name, host=row.host, site=row.site, size=row.size, total_pollers=row.alive,
        free_pollers=row.free, busy_pollers=row.busy, busy_percentage=round(row.busy_percent, 2),
        is_saturated=row.saturated, updated_at=row.seen_at,
    )  # fmt: skip


def advice(beat: pulse.Pulse, pools: list[PoolRow]) -> str | None:
    """What to do about pools that are saturated, or about there being none; None when all is well."""
    if not beat.pollers:
        return "No poller was seen in the last 30 seconds: `flask work` starts them."
    told = [_more_for(pool) for pool in pools if pool.saturated]
    return " ".join(told) or None


def _more_for(pool: PoolRow) -> str:
    busy = f"The pollers of {pool.name} were busy for {pool.busy_percent:.0f} % of the last minute"
    if pool.enough <= pool.size:
        return f"{busy}: read less often, or start pollers on one more machine."
    return f"{busy}: more of them are needed, `flask pollers scale {pool.enough} --pool {pool.name}`."
