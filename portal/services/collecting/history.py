"""Thinning of the readings' history: single readings become hours after two days, hours end after ninety."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select, tuple_
from sqlalchemy.orm import Session

from portal.extensions import transaction
from portal.services.bulk_rows import moment, upsert_rows
from portal.tables import OnuHistory

RAW_HOURS = 48
HOUR_DAYS = 90
HOUR = 3600  # seconds; `span` of a thinned row
BATCH = 1000  # rows of one transaction: about 20 ms of a lock

_KEY = ("onu_id", "metric", "collected_at")
_COLUMNS = (*_KEY, "mean", "minimum", "maximum", "samples", "span")


def thin(now: datetime) -> int:
    """Gather what is older than RAW_HOURS by the hour, delete hours older than HOUR_DAYS. Returns rows taken away.

    Only whole hours are gathered. An hour that is met twice, because it did not fit one batch, is joined.
    """
    edge = (now - timedelta(hours=RAW_HOURS)).replace(minute=0, second=0, microsecond=0)
    taken = 0
    while count := _gather(edge):
        taken += count
    while count := _forget(now - timedelta(days=HOUR_DAYS)):
        taken += count
    return taken


def _gather(edge: datetime) -> int:
    with transaction() as session:
        query = select(OnuHistory).where(OnuHistory.span == 0, OnuHistory.collected_at < edge)
        rows = session.scalars(query.order_by(OnuHistory.collected_at).limit(BATCH)).all()
        if not rows:
            return 0
        hours: dict[tuple[int, str, datetime], list[OnuHistory]] = {}
        for row in rows:
            hour = row.collected_at.replace(minute=0, second=0, microsecond=0)
            hours.setdefault((row.onu_id, row.metric, hour), []).append(row)
        before = _existing(session, list(hours))
        merged = [_merged(key, [*singles, *before.get(key, ())]) for key, singles in hours.items()]
        keys = [(row.onu_id, row.metric, row.collected_at) for row in rows]
        session.execute(delete(OnuHistory).where(_is_one_of(keys)))
        session.expunge_all()
        written = [(*key[:2], moment(session, key[2]), *rest) for key, *rest in merged]
        upsert_rows(session, OnuHistory, _COLUMNS, sorted(written, key=lambda row: row[:3]), _KEY, _COLUMNS[3:])
        return len(rows)


def _is_one_of(keys: Sequence[tuple[int, str, datetime]]) -> Any:
    return tuple_(OnuHistory.onu_id, OnuHistory.metric, OnuHistory.collected_at).in_(keys)


def _existing(
    session: Session, keys: Sequence[tuple[int, str, datetime]]
) -> dict[tuple[int, str, datetime], list[OnuHistory]]:
    query = select(OnuHistory).where(_is_one_of(keys), OnuHistory.span == HOUR)
    return {(row.onu_id, row.metric, row.collected_at): [row] for row in session.scalars(query)}


def _merged(key: tuple[int, str, datetime], rows: Sequence[OnuHistory]) -> tuple[Any, ...]:
    """Key, mean, minimum, maximum, samples, span. Rows without a reading count as samples only where all are."""
    known = [row for row in rows if row.mean is not None]
    samples = sum(row.samples for row in known or rows)
    if not known:
        return (key, None, None, None, samples, HOUR)
    mean = sum((row.mean or 0.0) * row.samples for row in known) / samples
    lows = [row.minimum for row in known if row.minimum is not None]
    highs = [row.maximum for row in known if row.maximum is not None]
    return (key, mean, min(lows), max(highs), samples, HOUR)


def _forget(edge: datetime) -> int:
    with transaction() as session:
        key = (OnuHistory.onu_id, OnuHistory.metric, OnuHistory.collected_at)
        query = select(*key).where(OnuHistory.span == HOUR, OnuHistory.collected_at < edge).limit(BATCH)
        keys = [(row[0], row[1], row[2]) for row in session.execute(query)]
        if keys:
            session.execute(delete(OnuHistory).where(_is_one_of(keys)))
        return len(keys)
