"""Thinning of the readings' history: after two days an hour's changes become one row, after ninety days hours end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from sqlalchemy import and_, delete, exists, select, tuple_
from sqlalchemy.orm import Session, aliased

from portal.domain import series
from portal.domain.series import HOUR, SETTLED, SINGLE, Row
from portal.extensions import db, transaction
from portal.services.bulk_rows import moment, upsert_rows
from portal.tables import OltHistory, OnuHistory

HOUR_DAYS = 90
BATCH = 1000  # rows of one transaction: about 20 ms of a lock

_Series = tuple[Any, ...]  # the key of a series


def thin(now: datetime) -> Iterator[int]:
    """Gather what is older than two days by the hour, delete what is older than HOUR_DAYS.

    One transaction at a time: whoever iterates says when the next comes, and gets how many rows went. Of each series
    the newest row stays, however old: it says what holds since.
    """
    for table in (_Table(OnuHistory, ("onu_id", "metric")), _Table(OltHistory, ("olt_id", "metric", "index_key"))):
        yield from table.thin(now)


@dataclass(frozen=True)
class _Table:
    """One table of histories; `names` of the columns that make a series."""

    model: Any
    names: tuple[str, ...]

    def thin(self, now: datetime) -> Iterator[int]:
        edge = series.gathering_edge(now)
        while (count := self._gather(edge)) is not None:
            yield count
        for span in (HOUR, SETTLED):
            yield from self._forget(now - timedelta(days=HOUR_DAYS), span)

    @property
    def _series(self) -> list[Any]:
        return [getattr(self.model, name) for name in self.names]

    def _gather(self, edge: datetime) -> int | None:
        """Some series of the oldest hour that is not gathered yet, each with all its rows; None when there is none."""
        at = self.model.collected_at
        with transaction() as session:
            waiting = select(at).where(self.model.span == SINGLE, at < edge)
            first = session.scalar(waiting.order_by(at).limit(1))
            if first is None:
                return None
            hour = series.hour_of(first)
            rows = self._rows_of(session, hour)
            before = self._carried(session, list(rows), hour)
            kept = {key: series.gathered(found, before.get(key)) for key, found in rows.items()}
            session.execute(delete(self.model).where(self._is_one_of([(*k, row.at) for k in rows for row in rows[k]])))
            written = [(*key, moment(session, row.at), *row[1:]) for key in sorted(kept) for row in kept[key]]
            columns = (*self.names, "collected_at", *series.VALUES)
            upsert_rows(session, self.model, columns, written, columns[: -len(series.VALUES)], series.VALUES)
            return sum(map(len, rows.values())) - len(written)

    def _rows_of(self, session: Session, hour: datetime) -> dict[_Series, list[Row]]:
        """All rows of that hour of some series that have any to gather, oldest first."""
        at = self.model.collected_at
        inside = (at >= hour) & (at < hour + timedelta(seconds=HOUR))
        waiting = select(*self._series).where(self.model.span == SINGLE, inside)
        wanted = {tuple(row) for row in session.execute(waiting.order_by(*self._series, at).limit(BATCH))}
        values = [getattr(self.model, name) for name in series.VALUES]
        query = select(*self._series, at, *values).where(tuple_(*self._series).in_(sorted(wanted)), inside)
        width = len(self.names)
        found = groupby(session.execute(query.order_by(*self._series, at)), key=lambda row: tuple(row[:width]))
        return {key: [Row(*row[width:]) for row in rows] for key, rows in found}

    def _carried(self, session: Session, keys: Sequence[_Series], hour: datetime) -> dict[_Series, float | None]:
        """What each series held when the hour began."""
        earlier = aliased(self.model)
        newest = (
            select(earlier.collected_at).where(self._same(earlier), earlier.collected_at < hour)
            .order_by(earlier.collected_at.desc()).limit(1).scalar_subquery()
        )  # fmt: skip
        query = select(*self._series, self.model.last).where(
            tuple_(*self._series).in_(keys), self.model.collected_at == newest
        )
        return {tuple(row[:-1]): row[-1] for row in session.execute(query)}

    def _same(self, other: Any) -> Any:
        return and_(*(getattr(other, name) == getattr(self.model, name) for name in self.names))

    def _is_one_of(self, keys: Sequence[tuple[Any, ...]]) -> Any:
        return tuple_(*self._series, self.model.collected_at).in_(keys)

    def _forget(self, edge: datetime, span: int) -> Iterator[int]:
        """Delete what is older, but of each series the newest such row.

        Each row is looked at once, in the order of the index: those that stay are many, and stay for ever. So they are
        looked at before the lock is taken. Rows so old change no more; who deletes their ONU deletes those behind too.
        """
        later, at = aliased(self.model), self.model.collected_at
        followed = exists().where(self._same(later), later.collected_at > at, later.collected_at <= edge)
        order = (at, *self._series)
        query = select(*order, followed).where(self.model.span == span, at < edge)
        unseen = query
        while True:
            rows = db.session.execute(unseen.order_by(*order).limit(BATCH)).all()
            db.session.rollback()
            if keys := [(*row[1:-1], row[0]) for row in rows if row[-1]]:
                with transaction() as session:
                    session.execute(delete(self.model).where(self._is_one_of(keys)))
            yield len(keys)
            if len(rows) < BATCH:
                return
            last = tuple(rows[-1][:-1])
            unseen = query.where(at >= last[0], tuple_(*order) > last)
