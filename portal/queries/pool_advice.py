"""How many pollers would be enough, from what ran lately. Reads only."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select

from portal.domain import pool_advice
from portal.domain.pool_advice import Arrival, PoolAdvice
from portal.extensions import db
from portal.models import Execution
from portal.queries import pollers

WINDOW = timedelta(hours=1)
FEWEST = 20  # of fewer composites no 95 of 100 can be told
LIMIT = 6_000  # composites that are looked at: more would take longer than a page may

_MS = timedelta(milliseconds=1)


@dataclass(frozen=True)
class PoolView:
    """The advice and its basis: composites that ended in the `seconds` before now."""

    advice: PoolAdvice
    seconds: int


def last_hour(now: datetime) -> PoolView | None:
    """From the composites that ended in the last hour, the newest LIMIT of them; None when fewer than FEWEST did.

    A composite arrives with its slot. When a retry became due is not stored: it arrives when it starts.
    """
    query = (
        select(Execution.scheduled_for, Execution.started_at, Execution.finished_at, Execution.olt_id,
               Execution.attempt)
        .where(Execution.finished_at > now - WINDOW, Execution.started_at.is_not(None))
        .order_by(Execution.finished_at.desc())
        .limit(LIMIT)
    )  # fmt: skip
    rows = db.session.execute(query).all()
    if len(rows) < FEWEST:
        return None
    first = min(row.finished_at for row in rows) if len(rows) == LIMIT else now - WINDOW
    arrivals = [
        Arrival(round(((row.scheduled_for if row.attempt <= 1 else row.started_at) - first) / _MS),
                max(1, round((row.finished_at - row.started_at) / _MS)), row.olt_id)
        for row in rows
    ]  # fmt: skip
    present = sum(pool.alive for pool in pollers.pools(now))
    return PoolView(pool_advice.advise(arrivals, present), round((now - first).total_seconds()))
