"""Quota violations for people: the list with filters, one, the tracker behind it. Reads only."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select

from portal.domain.statuses import LossCause, QuotaStatus, Severity
from portal.extensions import db
from portal.models import Olt, QuotaTracker, QuotaViolation
from portal.queries import keyset


@dataclass(frozen=True)
class Filter:
    """What is asked for; None and "" = all. `since` and `until` (exclusive) are about the hour's start."""

    severity: Severity | None = None
    olt_id: int | None = None
    task_type: str = ""
    notified: bool | None = None
    acknowledged: bool | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def order(self) -> keyset.Order:
        """Newest first: as they were found; of one OLT by the time at which, so that its index leads to them."""
        of_olt = (QuotaViolation.created_at, QuotaViolation.id)
        return keyset.Order((QuotaViolation.id,) if self.olt_id is None else of_olt, descending=True)


@dataclass(frozen=True)
class Row:
    """One violation. `lost` adds up to `required` - `completed`, most first."""

    id: int
    olt_id: int
    olt_name: str
    task_type: str
    hour: datetime
    end: datetime
    severity: Severity
    notified: bool
    notified_at: datetime | None
    created_at: datetime
    report: Mapping[str, Any]
    acknowledged_at: datetime | None = None
    acknowledged_by: str = ""
    note: str = ""

    @property
    def required(self) -> int:
        """Slots promised."""
        return int(self.report["required"])

    @property
    def completed(self) -> int:
        """… of which completed."""
        return int(self.report["completed"])

    @property
    def lost(self) -> tuple[tuple[LossCause, int], ...]:
        """Lost slots by cause, as the report has them."""
        return tuple((LossCause(cause), int(slots)) for cause, slots in self.report["lost"].items())


_COLUMNS = (
    QuotaViolation.id, QuotaViolation.olt_id, Olt.name, QuotaViolation.task_type, QuotaViolation.period_start,
    QuotaViolation.period_end, QuotaViolation.severity, QuotaViolation.notified, QuotaViolation.notified_at,
    QuotaViolation.created_at, QuotaViolation.report, QuotaViolation.acknowledged_at, QuotaViolation.acknowledged_by,
    QuotaViolation.note,
)  # fmt: skip


def _query() -> Select[Any]:
    return select(*_COLUMNS).join(Olt, Olt.id == QuotaViolation.olt_id)


def page(wanted: Filter, cursor: str = "", size: int = keyset.PAGE_SIZE) -> keyset.Page[Row]:
    """One page, newest first. One SQL statement."""
    query = _query()
    if wanted.severity is not None:
        query = query.where(QuotaViolation.severity == wanted.severity)
    if wanted.olt_id is not None:
        query = query.where(QuotaViolation.olt_id == wanted.olt_id)
    if wanted.task_type:
        query = query.where(QuotaViolation.task_type == wanted.task_type)
    if wanted.notified is not None:
        query = query.where(QuotaViolation.notified.is_(wanted.notified))
    if wanted.acknowledged is not None:
        seen = QuotaViolation.acknowledged_at.is_not(None)
        query = query.where(seen if wanted.acknowledged else ~seen)
    if wanted.since is not None:
        query = query.where(QuotaViolation.period_start >= wanted.since)
    if wanted.until is not None:
        query = query.where(QuotaViolation.period_start < wanted.until)
    return keyset.fetch(query, wanted.order, cursor, size).map(lambda row: Row(*row))


def get(violation_id: int) -> Row | None:
    """One violation, or None. One SQL statement."""
    found = db.session.execute(_query().where(QuotaViolation.id == violation_id)).one_or_none()
    return Row(*found) if found else None


def anything_judged() -> bool:
    """True when any promise has been judged. One SQL statement."""
    judged = select(QuotaTracker.id).where(QuotaTracker.status != QuotaStatus.IN_PROGRESS).limit(1)
    return db.session.scalar(judged) is not None


def tracker_id(row: Row) -> int | None:
    """The tracker whose hour it was; None when that was cleaned up. One SQL statement."""
    return db.session.scalar(
        select(QuotaTracker.id).where(
            QuotaTracker.olt_id == row.olt_id, QuotaTracker.task_type == row.task_type,
            QuotaTracker.period_start == row.hour,
        )
    )  # fmt: skip
