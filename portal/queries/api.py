"""What the API needs beyond the pages' queries: executions by node and time, ids, totals. Reads only."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select

from portal.domain.pool import UNSEEN_AFTER
from portal.domain.statuses import ErrorKind, ExecutionStatus, Trigger
from portal.extensions import db
from portal.queries import keyset
from portal.tables import Execution, Olt, Poller, Pool


@dataclass(frozen=True)
class Filter:
    """Which executions; None = all. `since` and `until` (exclusive) are about the slot."""

    status: ExecutionStatus | None = None
    olt: int | None = None
    node: int | None = None
    trigger: Trigger | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def order(self) -> keyset.Order:
        """Newest first; by slot where slots are asked for, so that an index leads to them."""
        timed = self.since is not None or self.until is not None
        keys: tuple[keyset.Key, ...] = (Execution.scheduled_for, Execution.id) if timed else (Execution.id,)
        return keyset.Order(keys, descending=True)


@dataclass(frozen=True)
class ExecutionRow:
    """One line of the list."""

    id: int
    node_id: int | None
    node_name: str
    olt_id: int
    olt_name: str
    status: ExecutionStatus
    trigger: Trigger
    requested_by: str
    cancelled_by: str
    priority: int
    scheduled_for: datetime
    not_before: datetime | None
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int | None
    delay_ms: int | None
    attempt: int
    worker: str
    error_kind: ErrorKind | None
    error_message: str


_COLUMNS = (
    Execution.id, Execution.node_id, Execution.node_name, Execution.olt_id, Olt.name, Execution.status,
    Execution.trigger, Execution.requested_by, Execution.cancelled_by, Execution.priority, Execution.scheduled_for,
    Execution.not_before, Execution.queued_at, Execution.started_at, Execution.finished_at, Execution.duration_ms,
    Execution.delay_ms, Execution.attempt, Execution.worker, Execution.error_kind, Execution.error_message,
)  # fmt: skip


def executions(wanted: Filter, cursor: str, size: int) -> keyset.Page[ExecutionRow]:
    """One page, newest first. One SQL statement."""
    return keyset.fetch(_filtered(wanted), wanted.order, cursor, size).map(lambda row: ExecutionRow(*row))


def _filtered(wanted: Filter) -> Select[Any]:
    equal = {
        Execution.status: wanted.status, Execution.olt_id: wanted.olt, Execution.node_id: wanted.node,
        Execution.trigger: wanted.trigger,
    }  # fmt: skip
    query = select(*_COLUMNS).join(Olt, Olt.id == Execution.olt_id)
    query = query.where(*(column == value for column, value in equal.items() if value is not None))
    if wanted.since is not None:
        query = query.where(Execution.scheduled_for >= wanted.since)
    if wanted.until is not None:
        query = query.where(Execution.scheduled_for < wanted.until)
    return query


def node_ids(execution_ids: Iterable[int]) -> dict[int, int | None]:
    """Execution id → node id. One SQL statement."""
    query = select(Execution.id, Execution.node_id).where(Execution.id.in_(list(execution_ids)))
    return {row.id: row.node_id for row in db.session.execute(query)}


@dataclass(frozen=True)
class Place:
    """Which pool a poller belongs to, and the node it holds. `pool_site`: None = it serves every OLT."""

    pool_id: int
    pool_name: str
    pool_host: str
    pool_site: str | None
    node_id: int | None


def places() -> dict[int, Place]:
    """Row id of a poller → its place. One SQL statement."""
    query = select(
        Poller.id, Pool.id.label("pool"), Pool.name, Pool.host, Pool.site, Poller.current_node_id
    ).join(Pool, Pool.id == Poller.pool_id)  # fmt: skip
    return {row[0]: Place(*row[1:]) for row in db.session.execute(query)}


def totals(now: datetime) -> tuple[int, int]:
    """(tasks completed, tasks delayed) of the pollers alive, since each started. One SQL statement."""
    query = select(
        func.coalesce(func.sum(Poller.tasks_completed), 0), func.coalesce(func.sum(Poller.tasks_delayed), 0)
    ).where(Poller.seen_at > now - UNSEEN_AFTER)  # fmt: skip
    completed, delayed = db.session.execute(query).one()
    return int(completed), int(delayed)
