"""What one promise stands for: the nodes it was reckoned from, each slot with its outcome, changes. Reads only."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, Select, func, select, union_all

from portal.domain import quota
from portal.domain.statuses import ACTIVE, EventType, ExecutionStatus, LossCause, SkipReason, Trigger
from portal.extensions import db
from portal.models.types import off_its_index
from portal.queries import quota_losses, quotas, skipped
from portal.queries.quotas import Row
from portal.tables import CoordinatorLog, Execution, QuotaTracker, QuotaViolation, Workflow, WorkflowNode

NEIGHBOURS = 3  # hours before and after
MOST = 3600  # slots of a node in an hour
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True)
class Slot:
    """One slot of a promise. Without an execution it was skipped for `reason`; `cause`: to what it was lost."""

    at: datetime
    node_id: int | None
    node_name: str
    execution_id: int | None = None
    status: ExecutionStatus | None = None
    cause: LossCause | None = None
    reason: SkipReason | None = None
    delay_ms: int | None = None
    duration_ms: int | None = None

    @property
    def lost(self) -> bool:
        """True when it will never be completed."""
        return self.cause is not None


@dataclass(frozen=True)
class Basis:
    """A node and the pace at which its slots were promised first."""

    node_id: int
    key: str
    name: str
    slots: int
    interval_seconds: int | None
    cron: str


@dataclass(frozen=True)
class Change:
    """The promise was changed."""

    at: datetime
    before: int
    after: int


@dataclass(frozen=True)
class Detail:
    """A tracker with all that it stands for. `coming`: slots that no execution stands for yet; `next_at`: the first."""

    row: Row
    basis: tuple[Basis, ...]
    slots: tuple[Slot, ...]
    coming: int
    next_at: datetime | None
    changes: tuple[Change, ...]
    violation_id: int | None


def get(tracker_id: int, now: datetime) -> Detail | None:
    """A tracker with its slots, or None. Seven SQL statements at most."""
    query = quotas.rows_query().add_columns(QuotaTracker.basis, _violation().label("violation_id"))
    found = db.session.execute(query.where(QuotaTracker.id == tracker_id)).one_or_none()
    if found is None:
        return None
    *facts, stored, violation_id = found
    lost = quota_losses.of_trackers([(found.olt_id, found.task_type, found.period_start)])
    row = quotas.row_of(facts, now, next(iter(lost.values()), ()))
    nodes = _nodes(row, {one["node_id"] for one in stored})
    basis = tuple(_basis(one, nodes) for one in stored)
    slots = slots_of(row, nodes)
    coming = max(0, row.counts.pending - sum(one.status in ACTIVE for one in slots)) if row.end > now else 0
    clocks = [node.next_run_at for node in nodes.values() if node.next_run_at is not None]
    next_at = min((at for at in clocks if row.hour < at <= row.end), default=None) if coming else None
    return Detail(row, basis, slots, coming, next_at, _changes(row), violation_id)


def _nodes(row: Row, ids: Collection[int]) -> dict[int, Any]:
    """Those it was reckoned from, and those that have the task now: one that settling made has no basis."""
    query = select(
        WorkflowNode.id, WorkflowNode.key, WorkflowNode.name, WorkflowNode.kind, WorkflowNode.next_run_at
    ).join(Workflow, Workflow.id == WorkflowNode.workflow_id).where(Workflow.olt_id == row.olt_id)  # fmt: skip
    found = db.session.execute(query)
    return {one.id: one for one in found if one.id in ids or quota.task_type(one.kind, one.key) == row.task_type}


def _basis(stored: Mapping[str, Any], nodes: Mapping[int, Any]) -> Basis:
    node = nodes.get(stored["node_id"])
    name = (node.name or node.key) if node else stored["key"]
    return Basis(stored["node_id"], stored["key"], name, stored["slots"], stored.get("interval"),
                 stored.get("cron") or "")  # fmt: skip


def _violation() -> ScalarSelect[int]:
    """Of the tracker's hour, if it was one."""
    return (
        select(QuotaViolation.id)
        .where(
            QuotaViolation.olt_id == QuotaTracker.olt_id, QuotaViolation.task_type == QuotaTracker.task_type,
            QuotaViolation.period_start == QuotaTracker.period_start,
        )
        .scalar_subquery()
    )  # fmt: skip


def _changes(row: Row) -> tuple[Change, ...]:
    """Logged while the hour was open, or when it was opened late."""
    query = select(CoordinatorLog.timestamp, CoordinatorLog.details).where(
        CoordinatorLog.olt_id == row.olt_id, CoordinatorLog.timestamp >= row.hour - quota.HOUR,
        CoordinatorLog.timestamp <= row.end + quota.HOUR, CoordinatorLog.event_type == EventType.QUOTA_ADJUSTED,
    ).order_by(CoordinatorLog.timestamp, CoordinatorLog.id)  # fmt: skip
    ours = {"task_type": row.task_type, "period_start": row.hour.isoformat()}
    return tuple(
        Change(at, details["before"], details["after"])
        for at, details in db.session.execute(query)
        if all(details.get(name) == value for name, value in ours.items())
    )


def slots_of(row: Row, nodes: Mapping[int, Any]) -> tuple[Slot, ...]:
    """Executions and skipped slots of the tracker's hour, in their order. Three SQL statements."""
    found = [*_executions(row), *_skipped(row, nodes)]
    return tuple(sorted(found, key=lambda one: (one.at, one.node_id or 0)))


def _executions(row: Row) -> list[Slot]:
    """No index leads to the slots of an OLT: that of the slots tells between which ids the hour lies."""
    hour = (Execution.scheduled_for > row.hour, Execution.scheduled_for <= row.end)
    ident = off_its_index(Execution.id)
    first, last = db.session.execute(select(func.min(ident), func.max(ident)).where(*hour)).one()
    if first is None:
        return []
    query = select(
        Execution.scheduled_for, Execution.node_id, Execution.node_name, Execution.id, Execution.status,
        Execution.error_kind, Execution.skip_reason, Execution.delay_ms, Execution.duration_ms,
    ).where(
        Execution.olt_id == row.olt_id, Execution.id >= first, Execution.id <= last, *hour,
        Execution.trigger == Trigger.SCHEDULE, Execution.task_type == row.task_type,
    )  # fmt: skip
    return [_slot(*one) for one in db.session.execute(query)]


def _slot(at: datetime, node_id: int | None, name: str, ident: int, status: ExecutionStatus, *rest: Any) -> Slot:
    kind, reason, delay, duration = rest
    cause = None if status in ACTIVE else quota.cause_of_end(status, kind, reason)
    return Slot(at, node_id, name, ident, status, cause, reason, delay, duration)


def _skipped(row: Row, nodes: Mapping[int, Any]) -> list[Slot]:
    """A log row may stand for slots of several hours. It is written when or after the last of them was due."""
    soon = (
        CoordinatorLog.olt_id == row.olt_id, CoordinatorLog.timestamp > row.hour,
        CoordinatorLog.timestamp <= row.end + quota.HOUR,
    )  # fmt: skip
    parts = [_log(soon)]
    for node_id in nodes:  # what was written later: after a long stop
        late = (CoordinatorLog.node_id == node_id, CoordinatorLog.scheduled_for > row.hour)
        parts.append(_log(late, row.counts.skipped + 1))
    found = {one.id: one for one in db.session.execute(union_all(*parts))}
    mine = (one for one in found.values() if one.details.get("task_type") == row.task_type)
    return [slot for one in mine for slot in _each(one, row)]


def _log(which: Sequence[ColumnElement[bool]], limit: int | None = None) -> Select[Any]:
    query = select(
        CoordinatorLog.id, CoordinatorLog.node_id, WorkflowNode.name, WorkflowNode.key, CoordinatorLog.reason,
        CoordinatorLog.details, CoordinatorLog.scheduled_for,
    ).outerjoin(WorkflowNode, WorkflowNode.id == CoordinatorLog.node_id)  # fmt: skip
    query = query.where(CoordinatorLog.event_type == EventType.SLOT_SKIPPED, *which)
    if limit is None:
        return query
    return select(query.order_by(CoordinatorLog.scheduled_for).limit(limit).subquery())


def _each(one: Any, row: Row) -> list[Slot]:
    """The slots of the hour; of an old row of a cron line, that does not name the line, only those that are known."""
    span = skipped.span(one.details, one.scheduled_for or row.end)
    times = span.between(row.hour + _INSTANT, row.end + _INSTANT, MOST)
    cause = quota.cause_of_skip(one.reason)
    return [Slot(at, one.node_id, one.name or one.key or "", cause=cause, reason=one.reason) for at in times]


def neighbours(row: Row, now: datetime, hours: int = NEIGHBOURS) -> list[Row]:
    """The same task of the same OLT in the hours around, oldest first. One SQL statement."""
    query = quotas.rows_query().where(
        QuotaTracker.olt_id == row.olt_id, QuotaTracker.task_type == row.task_type,
        QuotaTracker.period_start >= row.hour - hours * quota.HOUR,
        QuotaTracker.period_start <= row.hour + hours * quota.HOUR,
    ).order_by(QuotaTracker.period_start)  # fmt: skip
    return [quotas.row_of(one, now) for one in db.session.execute(query)]
