"""How many pollers would be enough, from what ran lately. Reads only."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, select

from portal.domain import pool_advice
from portal.domain.pool_advice import Arrival, PoolAdvice
from portal.extensions import db
from portal.queries import pollers
from portal.tables import Execution, Olt

WINDOW = timedelta(hours=1)
FEWEST = 20  # of fewer composites no 95 of 100 can be told
LIMIT = 6_000  # composites that are looked at: more would take longer than a page may

_MS = timedelta(milliseconds=1)


@dataclass(frozen=True)
class PoolView:
    """The advice and its basis: composites that ended in the `seconds` before now.

    `site`: of which OLTs alone ("": of those without a site); None: of all that no pool serves alone.
    """

    advice: PoolAdvice
    seconds: int
    site: str | None = None


def last_hour(now: datetime) -> list[PoolView]:
    """From the composites that ended in the last hour, the newest LIMIT of them; of a site that has pollers of its own

    apart, of all others together. Not of those of which fewer than FEWEST ended. Two SQL statements. A composite
    arrives with its slot. When a retry became due is not stored: it arrives when it starts.
    """
    query = (
        select(Execution.scheduled_for, Execution.started_at, Execution.finished_at, Execution.olt_id,
               Execution.attempt, Olt.site)
        .join(Olt, Olt.id == Execution.olt_id)
        .where(Execution.finished_at > now - WINDOW, Execution.started_at.is_not(None))
        .order_by(Execution.finished_at.desc())
        .limit(LIMIT)
    )  # fmt: skip
    rows = db.session.execute(query).all()
    if len(rows) < FEWEST:
        return []
    first = min(row.finished_at for row in rows) if len(rows) == LIMIT else now - WINDOW
    alive = Counter[str | None]()
    for pool in pollers.pools(now):
        alive[pool.site] += pool.alive
    arrivals: dict[str | None, list[Arrival]] = defaultdict(list)
    for row in rows:
        arrivals[row.site if row.site in alive else None].append(_arrival(row, first))
    seconds = round((now - first).total_seconds())
    return [
        PoolView(pool_advice.advise(arrivals[site], alive[site]), seconds, site)
        for site in sorted(arrivals, key=lambda site: (site is not None, site or ""))
        if len(arrivals[site]) >= FEWEST
    ]


def _arrival(row: Row[Any], first: datetime) -> Arrival:
    came = row.scheduled_for if row.attempt <= 1 else row.started_at
    return Arrival(round((came - first) / _MS), max(1, round((row.finished_at - row.started_at) / _MS)), row.olt_id)
