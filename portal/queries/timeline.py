"""One hour of an OLT: what was planned, what ran, what was skipped. Six statements, whatever the number of slots."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from flask import current_app
from sqlalchemy import func, select
from sqlalchemy.orm import aliased

from portal import cron
from portal.domain import plans, schedule
from portal.domain.plans import PlannedSlot
from portal.domain.quota import HOUR
from portal.domain.statuses import (
    AttemptStatus,
    ErrorKind,
    EventType,
    ExecutionStatus,
    PlanStatus,
    SkipReason,
    Trigger,
)
from portal.extensions import db
from portal.queries import skipped
from portal.tables import (
    CoordinatorLog,
    Execution,
    ExecutionAttempt,
    ExecutionPlan,
    NodePace,
    Olt,
    Workflow,
    WorkflowNode,
)

# Runs of slots that lie further back may still go on in the hour, and hold the OLT there.
LOOKED_BACK = timedelta(minutes=30)
MOST_SLOTS = 600  # of one node in one hour: an interval below 6 s is a mistake, and is drawn to here


@dataclass(frozen=True)
class Try:
    """One try of a run; `until` None: it goes on."""

    since: datetime
    until: datetime | None
    status: AttemptStatus


@dataclass(frozen=True)
class Run:
    """An execution with its tries."""

    id: int
    node_id: int
    slot: datetime
    status: ExecutionStatus
    trigger: Trigger
    finished_at: datetime | None
    error_kind: ErrorKind | None
    skip_reason: SkipReason | None
    tries: tuple[Try, ...] = ()


@dataclass(frozen=True)
class Skip:
    """A slot that was skipped."""

    node_id: int
    slot: datetime
    reason: SkipReason | None


@dataclass(frozen=True)
class NodeRow:
    """A node with what belongs to it in the hour."""

    node: WorkflowNode
    planned: tuple[PlannedSlot, ...]
    runs: tuple[Run, ...]
    skips: tuple[Skip, ...]


@dataclass(frozen=True)
class Hour:
    """[start, end) of an OLT. `planned`: True where an execution plan says what was expected, not the clocks alone."""

    start: datetime
    rows: tuple[NodeRow, ...] = field(default=())
    planned: bool = False

    @property
    def end(self) -> datetime:
        """Exclusive."""
        return self.start + HOUR


def of_olt(olt: Olt, start: datetime, now: datetime) -> Hour:
    """The hour that begins at `start`: a row for each master, and for a chained node that ran alone."""
    nodes = _nodes(olt.id)
    ids = [node.id for node in nodes]
    plan, runs, skips = _plan(olt.id, start), _runs(ids, start), _skips(ids, start, now)
    slots = planned_slots(plan, nodes, start)
    shown = [node for node in nodes if node.master_id is None or runs[node.id]]
    rows = [
        NodeRow(node, tuple(slots[node.id]), tuple(runs[node.id]), tuple(skips[node.id]))
        for node in sorted(shown, key=lambda node: (-node.priority, node.position, node.id))
    ]
    return Hour(start, tuple(rows), planned=bool(plan))


def _nodes(olt_id: int) -> list[WorkflowNode]:
    query = select(WorkflowNode).join(Workflow, Workflow.id == WorkflowNode.workflow_id)
    return list(db.session.scalars(query.where(Workflow.olt_id == olt_id)))


# -- what was to come


def planned_slots(
    plan: Sequence[PlannedSlot], nodes: Sequence[WorkflowNode], start: datetime
) -> dict[int, list[PlannedSlot]]:
    """Node id → its slots in the hour from `start`: those of the plan, else those of its clock as it is set now."""
    found: dict[int, list[PlannedSlot]] = defaultdict(list)
    for slot in plan:
        found[slot.node_id].append(slot)
    left = [node for node in nodes if node.id not in found and node.next_run_at is not None]
    paces = _paces([node.id for node in left]) if left else {}
    for node in left:
        p50, p95 = paces.get(node.id, (0, 0))
        found[node.id] = [PlannedSlot(node.id, slot, slot, p50, p95) for slot in _grid(node, start)]
    return found


def _plan(olt_id: int, start: datetime) -> list[PlannedSlot]:
    """The plan's slots in [start, end). A plan is of (start, end]: the slot on the hour stands in the one before."""
    kept = (PlanStatus.ACTIVE, PlanStatus.COMPLETED)
    query = (
        select(ExecutionPlan.period_start, ExecutionPlan.plan_data)
        .where(
            ExecutionPlan.olt_id == olt_id, ExecutionPlan.period_start.in_((start - HOUR, start)),
            ExecutionPlan.status.in_(kept),
        )
        .order_by(ExecutionPlan.id)
    )  # fmt: skip
    newest = {row.period_start: row.plan_data for row in db.session.execute(query)}
    slots = [slot for hour, stored in newest.items() for slot in plans.from_json(stored, hour).slots]
    return [slot for slot in slots if start <= slot.scheduled_for < start + HOUR] if start in newest else []


def _paces(ids: Sequence[int]) -> dict[int, tuple[int, int]]:
    query = select(NodePace.node_id, NodePace.p50_ms, NodePace.p95_ms).where(NodePace.node_id.in_(ids))
    return {row[0]: (row[1], row[2]) for row in db.session.execute(query)}


def _grid(node: WorkflowNode, start: datetime) -> list[datetime]:
    """Slots of the clock in [start, end), from its anchor on: before it the clock was another."""
    before = start - timedelta(microseconds=1)
    anchor = node.anchor_at or node.next_run_at
    if anchor is None:
        return []
    if not node.interval_seconds:
        fired = cron.firings(str(node.cron), before, start + HOUR - timedelta(microseconds=1))
        return [slot for slot in fired if slot >= anchor][:MOST_SLOTS]
    if not on_grid():  # the next one is known; those after it come an interval after the end of the run before
        return [node.next_run_at] if node.next_run_at and start <= node.next_run_at < start + HOUR else []
    slot = schedule.next_on_grid(anchor, node.interval_seconds, before)
    found: list[datetime] = []
    while slot < start + HOUR and len(found) < MOST_SLOTS:
        found.append(slot)
        slot += timedelta(seconds=node.interval_seconds)
    return found


def on_grid() -> bool:
    """True where slots lie on a grid, so that one that has passed has to be told of somewhere."""
    return bool(current_app.config["NEXTCHECK_MODE"] == "grid")


# -- what came of it


def _runs(ids: Sequence[int], start: datetime) -> dict[int, list[Run]]:
    """Node id → executions whose slot lies in the hour, or shortly before it."""
    columns = (
        Execution.id, Execution.node_id, Execution.scheduled_for, Execution.status, Execution.trigger,
        Execution.finished_at, Execution.error_kind, Execution.skip_reason,
    )  # fmt: skip
    tries = (ExecutionAttempt.started_at, ExecutionAttempt.finished_at, ExecutionAttempt.status)
    query = (
        select(*columns, *tries)
        .outerjoin(ExecutionAttempt, ExecutionAttempt.execution_id == Execution.id)
        .where(Execution.node_id.in_(ids), Execution.scheduled_for >= start - LOOKED_BACK,
               Execution.scheduled_for < start + HOUR)
        .order_by(Execution.scheduled_for, Execution.id, ExecutionAttempt.number)
    )  # fmt: skip
    heads: dict[int, Any] = {}
    parts: dict[int, list[Try]] = defaultdict(list)
    for row in db.session.execute(query):
        heads[row[0]] = row[:8]
        if row[8] is not None:
            parts[row[0]].append(Try(*row[8:]))
    found: dict[int, list[Run]] = defaultdict(list)
    for number, head in heads.items():
        values: tuple[Any, ...] = (*head, tuple(parts[number]))
        found[head[1]].append(Run(*values))
    return found


def _skips(ids: Sequence[int], start: datetime, now: datetime) -> dict[int, list[Skip]]:
    """Node id → skipped slots in the hour. A row stands at the last of its slots, which may lie after the hour."""
    end = start + HOUR
    slot = CoordinatorLog.scheduled_for
    columns = select(CoordinatorLog.node_id, slot, CoordinatorLog.reason, CoordinatorLog.details)
    query = columns.where(CoordinatorLog.node_id.in_(ids), slot >= start, slot < end, _skipped(CoordinatorLog))
    rows = list(db.session.execute(query))
    if end < now:
        rows += db.session.execute(columns.where(CoordinatorLog.id.in_(_next_after(ids, end))))
    found: dict[int, list[Skip]] = defaultdict(list)
    for node_id, last, reason, details in rows:
        slots = skipped.span(details, last).between(start, end, MOST_SLOTS)
        found[node_id] += [Skip(node_id, slot, reason) for slot in slots]
    return found


def _skipped(table: Any) -> Any:
    """In a form for which no index is taken: that of the node leads to fewer rows."""
    return func.coalesce(table.event_type, "") == EventType.SLOT_SKIPPED.value


def _next_after(ids: Sequence[int], moment: datetime) -> Any:
    """Ids of each node's first skip that ends at or after `moment`."""
    row = aliased(CoordinatorLog)
    first = (
        select(row.id)
        .where(row.node_id == WorkflowNode.id, row.scheduled_for >= moment, _skipped(row))
        .order_by(row.scheduled_for)
        .limit(1)
        .correlate(WorkflowNode)
        .scalar_subquery()
    )
    return select(first).where(WorkflowNode.id.in_(ids))
