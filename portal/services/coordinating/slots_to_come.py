"""How many slots of each promise have not come to their end: those ACTIVE now, and those that the clocks still hold."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from flask import current_app
from sqlalchemy import ColumnElement, Select, Text, and_, exists, literal, null, or_, select, union_all
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session

from portal import cron as cron_lines
from portal.domain import quota
from portal.domain.quota import Clock, TrackerKey
from portal.domain.statuses import Trigger
from portal.models.execution import ACTIVE_SQL
from portal.tables import Execution, NodePace, Workflow, WorkflowNode


@dataclass
class Pending:
    """Slots of one tracker that are to come or not ended, and from which nodes they were reckoned."""

    slots: int = 0
    basis: list[dict[str, Any]] = field(default_factory=list)


def pending(
    session: Session, hours: Sequence[datetime], now: datetime, olt_ids: Collection[int] | None = None
) -> dict[TrackerKey, Pending]:  # fmt: skip
    """What is pending in these hours (their starts), of these OLTs (None: of all). One statement, one snapshot:

    a slot that a tick turns into an execution at this moment is seen as the one or as the other.
    """
    found: dict[TrackerKey, Pending] = defaultdict(Pending)
    wanted = set(hours)
    times = cache(lambda line, hour: cron_lines.firings(line, hour, hour + quota.HOUR))
    from_end = current_app.config["NEXTCHECK_MODE"] == "from_end"
    for row in session.execute(_clocks_and_active(olt_ids)):
        # Taken apart at once: by name, each of these costs a look-up, many thousand times over.
        olt_id, node_id, kind, key, at, interval, cron, p50_ms, execution_id, task_type = row
        if execution_id is not None:
            hour = quota.hour_of(at)
            if hour in wanted:
                one = found[TrackerKey(olt_id, task_type, hour)]
                one.slots += 1
            continue
        counted = quota.task_type(kind, key)
        step = _step(interval, p50_ms) if from_end else interval
        if at is None:  # it runs: its clock goes on when that has ended, a whole step from now if that takes its usual
            at = now + timedelta(seconds=step or 0)
        for hour in hours:
            ahead = Clock(counted, at, step, times(cron, hour) if cron else ())
            if slots := ahead.slots(hour):
                one = found[TrackerKey(olt_id, counted, hour)]
                one.slots += slots
                one.basis.append(_basis(node_id, key, slots, interval, cron))
    return dict(found)


def _step(interval: int | None, p50_ms: int | None) -> int | None:
    """Seconds between two slots where a clock goes on from the end of a run (NEXTCHECK_MODE=from_end)."""
    return None if interval is None else int(interval + (p50_ms or 0) / 1000)


def _basis(node_id: int, key: str, slots: int, interval: int | None, cron: str | None) -> dict[str, Any]:
    return {"node_id": node_id, "key": key, "slots": slots, **({"cron": cron} if cron else {"interval": interval})}


def _clocks_and_active(olt_ids: Collection[int] | None) -> Any:
    nodes, active = _clocks(), _active()
    if olt_ids is not None:
        nodes, active = nodes.where(Workflow.olt_id.in_(olt_ids)), active.where(Execution.olt_id.in_(olt_ids))
    both = union_all(nodes, active).subquery()
    return select(both)


def _clocks() -> Select[Any]:
    query = select(
        Workflow.olt_id.label("olt_id"), WorkflowNode.id.label("node_id"), WorkflowNode.kind.label("kind"),
        WorkflowNode.key.label("key"), WorkflowNode.next_run_at.label("at"),
        WorkflowNode.interval_seconds.label("interval_seconds"), WorkflowNode.cron.label("cron"),
        NodePace.p50_ms.label("p50_ms"), null().label("execution_id"), literal("").label("task_type"),
    ).join(Workflow, Workflow.id == WorkflowNode.workflow_id).outerjoin(NodePace)  # fmt: skip
    return query.where(_has_slots())


def _has_slots() -> ColumnElement[bool]:
    if current_app.config["NEXTCHECK_MODE"] != "from_end":
        return WorkflowNode.next_run_at.is_not(None)
    runs = exists().where(Execution.node_id == WorkflowNode.id, Execution.trigger == Trigger.SCHEDULE, ACTIVE_SQL)
    waits = and_(WorkflowNode.interval_seconds.is_not(None), runs, WorkflowNode.runs)
    return or_(WorkflowNode.next_run_at.is_not(None), waits)


def _active() -> Select[Any]:
    return select(
        Execution.olt_id, Execution.node_id, null(), sql_cast(null(), Text), Execution.scheduled_for, null(),
        sql_cast(null(), Text), null(), Execution.id, Execution.task_type,
    ).where(ACTIVE_SQL, Execution.trigger == Trigger.SCHEDULE, Execution.task_type != "")  # fmt: skip


def hours_between(first: datetime, last: datetime) -> Iterable[datetime]:
    """Starts of the hours from `first` to `last`, both included."""
    while first <= last:
        yield first
        first += timedelta(hours=1)
