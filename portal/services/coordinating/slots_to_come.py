"""How many slots of each promise have not come to their end: those ACTIVE now, and those that the clocks still hold."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from itertools import takewhile
from typing import Any

from flask import current_app
from sqlalchemy import ColumnElement, Row, Select, Text, and_, exists, literal, null, or_, select, union_all
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session

from portal.domain import quota
from portal.domain.fields import FieldError
from portal.domain.quota import Clock, TrackerKey
from portal.domain.statuses import Trigger
from portal.models import Execution, NodePace, Workflow, WorkflowNode
from portal.models.execution import ACTIVE_SQL
from portal.services.dispatch import clock


@dataclass
class Pending:
    """Slots of one tracker that are to come or not ended, and from which nodes they were reckoned."""

    slots: int = 0
    active: int = 0
    basis: list[dict[str, Any]] = field(default_factory=list)


def pending(
    session: Session, hours: Sequence[datetime], now: datetime, olt_ids: Collection[int] | None = None
) -> dict[TrackerKey, Pending]:  # fmt: skip
    """What is pending in these hours (their starts), of these OLTs (None: of all). One statement, one snapshot:

    a slot that a tick turns into an execution at this moment is seen as the one or as the other.
    """
    found: dict[TrackerKey, Pending] = defaultdict(Pending)
    wanted = set(hours)
    times = cache(_cron_times)
    for row in session.execute(_clocks_and_active(olt_ids)):
        if row.execution_id is not None:
            key = TrackerKey(row.olt_id, row.task_type, quota.hour_of(row.at))
            if key.hour in wanted:
                found[key].slots += 1
                found[key].active += 1
            continue
        kind = quota.task_type(row.kind, row.key)
        for hour in hours:
            fired = times(row.cron, hour) if row.cron else ()
            slots = Clock(kind, row.at or now, _step(row), fired).slots(hour)
            if slots:
                one = found[TrackerKey(row.olt_id, kind, hour)]
                one.slots += slots
                one.basis.append(_basis(row, slots))
    return dict(found)


def _step(row: Row[Any]) -> int | None:
    """Seconds between two slots. From the end of a run on it is the interval and what a run takes (design §5.3)."""
    if row.interval_seconds is None or current_app.config["NEXTCHECK_MODE"] != "from_end":
        return row.interval_seconds  # type: ignore[no-any-return]
    return int(row.interval_seconds + (row.p50_ms or 0) / 1000)


def _basis(row: Row[Any], slots: int) -> dict[str, Any]:
    pace = {"cron": row.cron} if row.cron else {"interval": row.interval_seconds}
    return {"node_id": row.node_id, "key": row.key, "slots": slots, **pace}


def _cron_times(cron: str, hour: datetime) -> tuple[datetime, ...]:
    end = hour + quota.HOUR
    try:
        return tuple(takewhile(lambda at: at <= end, clock.cron_times(cron, hour, clock.portal_zone())))
    except FieldError:  # refused on entry; one that is there all the same never fires
        return ()


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
    runs = exists().where(Execution.node_id == WorkflowNode.id, ACTIVE_SQL)  # its clock goes on when that has ended
    return or_(WorkflowNode.next_run_at.is_not(None), and_(WorkflowNode.interval_seconds.is_not(None), runs))


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
