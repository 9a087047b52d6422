"""Thinning of the readings' history: after two days an hour's changes become one row, after ninety days hours end."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from sqlalchemy import delete, exists, select, tuple_
from sqlalchemy.orm import Session, aliased

from portal.domain import series
from portal.domain.series import HOUR, SETTLED, SINGLE, Row
from portal.extensions import transaction
from portal.services.bulk_rows import moment, upsert_rows
from portal.tables import OnuHistory

HOUR_DAYS = 90
BATCH = 1000  # rows of one transaction: about 20 ms of a lock

_SERIES = ("onu_id", "metric")
_KEY = (*_SERIES, "collected_at")
_COLUMNS = (*_KEY, "mean", "minimum", "maximum", "last", "samples", "span", "without")
_ORDER = (OnuHistory.onu_id, OnuHistory.metric, OnuHistory.collected_at)
_Series = tuple[int, str]
_Key = tuple[int, str, datetime]


def thin(now: datetime) -> int:
    """Gather what is older than two days by the hour, delete what is older than HOUR_DAYS. Returns rows taken away.

    Of each series the newest row stays, however old: it says what holds since.
    """
    edge = series.gathering_edge(now)
    taken = 0
    while (count := _gather(edge)) is not None:
        taken += count
    return taken + _forget(now - timedelta(days=HOUR_DAYS))


def _gather(edge: datetime) -> int | None:
    """Some series of the oldest hour that is not gathered yet, each with all its rows; None when there is none."""
    with transaction() as session:
        oldest = select(OnuHistory.collected_at).where(OnuHistory.span == SINGLE, OnuHistory.collected_at < edge)
        first = session.scalar(oldest.order_by(OnuHistory.collected_at).limit(1))
        if first is None:
            return None
        hour = series.hour_of(first)
        rows = _rows_of(session, hour)
        before = _carried(session, list(rows), hour)
        kept = {key: series.gathered(found, before.get(key)) for key, found in rows.items()}
        session.execute(delete(OnuHistory).where(_is_one_of([(*key, row.at) for key in rows for row in rows[key]])))
        written = [_as_tuple(session, key, row) for key in sorted(kept) for row in kept[key]]
        upsert_rows(session, OnuHistory, _COLUMNS, written, _KEY, _COLUMNS[3:])
        return sum(map(len, rows.values())) - len(written)


def _rows_of(session: Session, hour: datetime) -> dict[_Series, list[Row]]:
    """Rows of that hour of about BATCH / 60 series or more that have some to gather, oldest first."""
    inside = (OnuHistory.collected_at >= hour) & (OnuHistory.collected_at < hour + timedelta(seconds=HOUR))
    waiting = select(*_ORDER[:2]).where(OnuHistory.span == SINGLE, inside).order_by(*_ORDER).limit(BATCH)
    wanted = sorted({(row[0], row[1]) for row in session.execute(waiting)})
    query = select(OnuHistory).where(tuple_(*_ORDER[:2]).in_(wanted), inside).order_by(*_ORDER)
    found = list(session.scalars(query))
    session.expunge_all()
    return {
        key: [_as_row(one) for one in rows] for key, rows in groupby(found, key=lambda one: (one.onu_id, one.metric))
    }


def _carried(session: Session, keys: Sequence[_Series], hour: datetime) -> dict[_Series, float | None]:
    """What each series held when the hour began."""
    earlier = aliased(OnuHistory)
    newest = (
        select(earlier.collected_at)
        .where(earlier.onu_id == OnuHistory.onu_id, earlier.metric == OnuHistory.metric, earlier.collected_at < hour)
        .order_by(earlier.collected_at.desc()).limit(1).scalar_subquery()
    )  # fmt: skip
    query = select(OnuHistory.onu_id, OnuHistory.metric, OnuHistory.last).where(
        tuple_(*_ORDER[:2]).in_(keys), OnuHistory.collected_at == newest
    )
    return {(row.onu_id, row.metric): row.last for row in session.execute(query)}


def _as_row(row: OnuHistory) -> Row:
    return Row(row.collected_at, row.mean, row.minimum, row.maximum, row.last, row.samples, row.span, row.without)


def _as_tuple(session: Session, key: _Series, row: Row) -> tuple[Any, ...]:
    return (*key, moment(session, row.at), *row[1:])


def _is_one_of(keys: Sequence[_Key]) -> Any:
    return tuple_(*_ORDER).in_(keys)


def _forget(edge: datetime) -> int:
    """Delete what is older, but of each series the newest such row."""
    return sum(_forget_spans(edge, span) for span in (HOUR, SETTLED))


def _forget_spans(edge: datetime, span: int) -> int:
    """Each row is looked at once, in the order of the index: those that stay are many, and stay for ever."""
    later = aliased(OnuHistory)
    followed = exists().where(
        later.onu_id == OnuHistory.onu_id, later.metric == OnuHistory.metric,
        later.collected_at > OnuHistory.collected_at, later.collected_at <= edge,
    )  # fmt: skip
    order = (OnuHistory.collected_at, OnuHistory.onu_id, OnuHistory.metric)
    query = select(*order, followed).where(OnuHistory.span == span, OnuHistory.collected_at < edge)
    taken, unseen = 0, query
    while True:
        with transaction() as session:
            rows = session.execute(unseen.order_by(*order).limit(BATCH)).all()
            keys = [(row[1], row[2], row[0]) for row in rows if row[3]]
            if keys:
                session.execute(delete(OnuHistory).where(_is_one_of(keys)))
        taken += len(keys)
        if len(rows) < BATCH:
            return taken
        last = rows[-1][:3]
        unseen = query.where(OnuHistory.collected_at >= last[0], tuple_(*order) > tuple(last))
