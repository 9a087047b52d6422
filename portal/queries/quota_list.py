"""Promises of many hours in one order, for the API and commands: newest hour first. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import select

from portal.domain import quota
from portal.domain.statuses import QuotaStatus
from portal.extensions import db
from portal.queries import keyset, quota_losses, quotas
from portal.queries.quotas import Row
from portal.tables import Olt, QuotaTracker

SPAN = timedelta(hours=24)  # of a task that is looked for on all OLTs: no index leads to it


@dataclass(frozen=True)
class Filter:
    """Which trackers; None and "" = all. `since` and `until` (exclusive) are about the start of the hour."""

    olt: int | None = None
    task_type: str = ""
    status: QuotaStatus | None = None
    since: datetime | None = None
    until: datetime | None = None

    def bounded(self, now: datetime) -> "Filter":
        """The same, with a beginning where all trackers would have to be looked at."""
        if not self.task_type or self.olt is not None or self.since is not None:
            return self
        last = quota.hour_at(min(now, self.until or now))
        return replace(self, since=max(last, datetime.min.replace(tzinfo=UTC) + SPAN) - SPAN + quota.HOUR)

    @property
    def order(self) -> keyset.Order:
        """Newest hour first, by the end of the hour where an index of the status leads to that."""
        ends = self.status is not None and self.olt is None
        hour = QuotaTracker.period_end if ends else QuotaTracker.period_start
        return keyset.Order((hour, QuotaTracker.id), descending=True)


def page(wanted: Filter, now: datetime, cursor: str = "", size: int = keyset.PAGE_SIZE) -> keyset.Page[Row]:
    """One page with losses. Two SQL statements."""
    equal = {QuotaTracker.olt_id: wanted.olt, QuotaTracker.status: wanted.status,
             QuotaTracker.task_type: wanted.task_type or None}  # fmt: skip
    query = quotas.rows_query().where(*(column == value for column, value in equal.items() if value is not None))
    if wanted.since is not None:
        query = query.where(QuotaTracker.period_start >= wanted.since)
        query = query.where(QuotaTracker.period_end >= _later(wanted.since))  # the same, for the index of the status
    if wanted.until is not None:
        query = query.where(QuotaTracker.period_start < wanted.until)
        query = query.where(QuotaTracker.period_end < _later(wanted.until))
    found = keyset.fetch(query, wanted.order, cursor, size)
    lost = quota_losses.of_trackers([(row[1], *row[3:5]) for row in found.rows])
    return found.map(lambda row: quotas.row_of(row, now, lost.get((row[1], *row[3:5]), ())))


def _later(moment: datetime) -> datetime:
    """An hour later, or as late as there is."""
    return min(moment, datetime.max.replace(tzinfo=moment.tzinfo) - quota.HOUR) + quota.HOUR


def names(olt_ids: Sequence[int]) -> dict[int, str]:
    """OLT id → name, of deleted ones too. One SQL statement."""
    query = select(Olt.id, Olt.name).where(Olt.id.in_(set(olt_ids)))
    return {row.id: row.name for row in db.session.execute(query)}
