"""Executions for people: the list with filters, and one with its attempts and steps. Reads only."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import contains_eager, joinedload, selectinload

from portal.domain.statuses import TERMINAL, ErrorKind, ExecutionStatus, NodeKind, SkipReason, Trigger
from portal.extensions import db
from portal.queries import keyset
from portal.tables import Execution, ExecutionAttempt, Olt


@dataclass(frozen=True)
class Filter:
    """What the URL asks for; None = everything."""

    status: ExecutionStatus | None = None
    olt_id: int | None = None
    trigger: Trigger | None = None


@dataclass(frozen=True)
class Row:
    """One line of the list."""

    id: int
    olt_id: int
    olt_name: str
    node_name: str
    status: ExecutionStatus
    trigger: Trigger
    requested_by: str
    scheduled_for: datetime
    not_before: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int | None
    delay_ms: int | None
    attempt: int
    error_kind: ErrorKind | None
    error_message: str
    cancelled_by: str
    skip_reason: SkipReason | None
    node_id: int | None

    @property
    def gap(self) -> bool:
        """True when it stands for a slot that did not become a success, so that people ask why."""
        asked = self.status in (ExecutionStatus.FAILED, ExecutionStatus.INTERRUPTED)
        return asked and self.node_id is not None and self.trigger is Trigger.SCHEDULE


_COLUMNS = (
    Execution.id, Execution.olt_id, Olt.name, Execution.node_name, Execution.status, Execution.trigger,
    Execution.requested_by, Execution.scheduled_for, Execution.not_before, Execution.started_at, Execution.finished_at,
    Execution.duration_ms, Execution.delay_ms, Execution.attempt, Execution.error_kind, Execution.error_message,
    Execution.cancelled_by, Execution.skip_reason, Execution.node_id,
)  # fmt: skip


def _filtered(wanted: Filter) -> Select[Any]:
    query = select(*_COLUMNS).join(Olt, Olt.id == Execution.olt_id)
    if wanted.status:
        query = query.where(Execution.status == wanted.status)
    if wanted.olt_id:
        query = query.where(Execution.olt_id == wanted.olt_id)
    if wanted.trigger:
        query = query.where(Execution.trigger == wanted.trigger)
    return query


_NEWEST_FIRST = keyset.Order((Execution.id,), descending=True)


def page(wanted: Filter, cursor: str = "", size: int = keyset.PAGE_SIZE) -> keyset.Page[Row]:
    """One page, newest first. One SQL statement whatever the size of the table."""
    return keyset.fetch(_filtered(wanted), _NEWEST_FIRST, cursor, size).map(lambda row: Row(*row))


def newest(wanted: Filter, most: int) -> Iterator[Row]:
    """The newest `most`, for a file. One SQL statement."""
    return (Row(*row) for row in keyset.stream(_filtered(wanted), _NEWEST_FIRST, most))


def olt_names() -> list[tuple[int, str]]:
    """(id, name) of all OLTs, for the filter."""
    query = select(Olt.id, Olt.name).where(Olt.deleted_at.is_(None)).order_by(Olt.name)
    return [(row.id, row.name) for row in db.session.execute(query)]


def get(execution_id: int) -> Execution | None:
    """One execution with OLT, node, attempts and steps. Three SQL statements."""
    attempts = selectinload(Execution.attempts).selectinload(ExecutionAttempt.steps)
    query = select(Execution).options(joinedload(Execution.olt), joinedload(Execution.node), attempts)
    return db.session.scalar(query.where(Execution.id == execution_id).execution_options(populate_existing=True))


def last_discovery(olt_id: int | None) -> Execution | None:
    """The newest discovery of an OLT, or of any, that has ended; with its OLT. One SQL statement."""
    query = select(Execution).join(Execution.olt).options(contains_eager(Execution.olt))
    query = query.where(Execution.task_type == NodeKind.DISCOVERY.value, Execution.status.in_(TERMINAL))
    query = query.where(Olt.deleted_at.is_(None), *([Execution.olt_id == olt_id] if olt_id is not None else []))
    return db.session.scalar(query.order_by(Execution.id.desc()).limit(1))
