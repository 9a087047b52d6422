"""Which masters are due: one indexed select of plain columns. Its cost grows with what is due, not with what exists."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, bindparam, select
from sqlalchemy.orm import Session

from portal.domain import quota, schedule
from portal.domain.slots import DueMaster
from portal.domain.statuses import ExecutionStatus
from portal.models.execution import ACTIVE_SQL
from portal.tables import Execution, Olt, Workflow, WorkflowNode, WorkflowTemplate

LIMIT = 5000  # a tick takes no more than this; the rest comes a second later
# … and no more than so many missed hours of all of them together: each is a row of the books. After a stop of a month
# 5,000 masters have 3.6 million of them, and a tick that works on longer than 10 s is ended (slots._PREPARE).
HOURS = 5_000

NOW = bindparam("now", type_=WorkflowNode.next_run_at.type)


# Equals take turns: of those due in the same second the one that has waited longest for a success is inserted, and so
# served, first. Else under overload it would be the same ones each time.
ORDER = (WorkflowNode.next_run_at, WorkflowNode.last_success_at.asc().nulls_first(), WorkflowNode.id)


def _due() -> ColumnElement[bool]:
    """A chained node has no clock (the table's law), a disabled one neither; that it runs is a second guard.

    `master_id IS NULL` is not said: without statistics SQLite would go by the index of that column.
    """
    return and_(WorkflowNode.next_run_at <= NOW, WorkflowNode.runs_joined())


def _of_due(query: Select[Any]) -> Select[Any]:
    return (
        query.select_from(WorkflowNode)
        .join(Workflow, WorkflowNode.workflow_id == Workflow.id)
        .join(Olt, Workflow.olt_id == Olt.id)
        .outerjoin(WorkflowTemplate, Workflow.template_id == WorkflowTemplate.id)
        .where(_due())
    )


ANYTHING_DUE = _of_due(select(WorkflowNode.id)).limit(1)


def _due_masters() -> Select[Any]:
    columns = select(
        WorkflowNode.id, WorkflowNode.name, WorkflowNode.priority, WorkflowNode.next_run_at,
        WorkflowNode.interval_seconds, WorkflowNode.cron, WorkflowNode.kind, WorkflowNode.key,
        WorkflowNode.held_until, Olt.id, Olt.address, Olt.port, Olt.site, Olt.state, Olt.paused_until,
        Execution.id, Execution.status, Execution.attempt,
    )  # fmt: skip
    active = and_(Execution.node_id == WorkflowNode.id, ACTIVE_SQL)
    return _of_due(columns).outerjoin(Execution, active).order_by(*ORDER).limit(LIMIT)


DUE = _due_masters()  # without its lock; `_master` knows the order of its columns


def anything_due(session: Session, now: datetime) -> bool:
    """True when a tick at `now` would have something to decide. Takes no lock."""
    return session.connection().scalar(ANYTHING_DUE, {"now": now}) is not None


def select_due(
    session: Session, now: datetime, *, lock: bool = True, only: Collection[int] | None = None
) -> list[DueMaster]:
    """The due masters with what their plan depends on, those that wait longest first; `only` these node ids.

    With `lock` they are locked against a second scheduler's tick (PostgreSQL), and those that somebody else is
    writing are left for the next second.
    """
    query = DUE if only is None else DUE.where(WorkflowNode.id.in_(only))
    if lock:
        # NO KEY UPDATE: who only refers to a node (a step, a manual run) neither waits for the tick nor hides it.
        query = query.with_for_update(of=WorkflowNode, skip_locked=True, key_share=True)
    return [_master(row, now) for row in _bounded(session.connection().execute(query, {"now": now}), now)]


def _bounded(rows: Iterable[Row[Any]], now: datetime) -> Iterator[Row[Any]]:
    """The first of the rows, as long as the hours that they missed are not too many for one tick; one at least."""
    hours = 0
    for row in rows:
        hours += (now - row.next_run_at) // quota.HOUR + 1
        if hours > HOURS and hours > (now - row.next_run_at) // quota.HOUR + 1:
            return
        yield row


def _master(row: Row[Any], now: datetime) -> DueMaster:
    # Taken apart at once: by name, each of these costs a look-up, a thousand times over.
    (
        node_id, name, priority, next_run_at, interval, cron, kind, key, held_until, olt_id, address, port, site,
        state, paused_until, active_id, status, attempt,
    ) = row  # fmt: skip
    return DueMaster(
        node_id=node_id,
        node_name=name,
        olt_id=olt_id,
        device_key=f"{address}:{port}",  # Olt.device_key
        priority=priority,
        next_run_at=next_run_at,
        interval_seconds=interval,
        cron=cron,
        active_id=active_id,
        active_waits_to_retry=status is ExecutionStatus.PENDING and attempt > 0,
        site=site,
        blocked=schedule.blocked(state, paused_until, now, held_until),
        task_type=quota.task_type(kind, key),
    )
