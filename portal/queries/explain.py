"""The facts that an explanation is made of: at most a dozen statements, each led by an index. Reads only."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim
from flask import current_app
from sqlalchemy import ColumnElement, case, func, select, union_all
from sqlalchemy.orm import joinedload

from portal.domain import explain as rules
from portal.domain import schedule
from portal.domain.explain_facts import (
    Explanation,
    Facts,
    Hold,
    Meant,
    NodeFacts,
    PoolFacts,
    RunFacts,
    SkipFacts,
    StepFacts,
    Switch,
    meant,
    waiting_span,
)
from portal.domain.statuses import EventType, OltState, SkipReason, Trigger
from portal.extensions import db
from portal.models import (
    CoordinatorLog,
    Execution,
    ExecutionAttempt,
    ExecutionStep,
    Olt,
    PollerStats,
    SchedulerState,
    Workflow,
    WorkflowNode,
)
from portal.queries import holds

SWITCHES = {EventType.TASK_ADDED: True, EventType.TASK_REMOVED: True, EventType.OLT_ENABLED: False,
            EventType.OLT_DISABLED: False}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """The node asked about and the master whose slots count: the node itself, unless it is chained."""

    node: WorkflowNode
    master: WorkflowNode
    olt: Olt


def explain(node_id: int, at: datetime, now: datetime) -> Explanation | None:
    """Why the slot that `at` means went as it did; None when there is no such node."""
    asked = _asked(node_id)
    return rules.explain(_facts(asked, at, now)) if asked is not None else None


def node_named(olt_name: str, key: str) -> int | None:
    """Id of a node by the name of its OLT and its key. One SQL statement."""
    query = (
        select(WorkflowNode.id)
        .join(Workflow, Workflow.id == WorkflowNode.workflow_id)
        .join(Olt, Olt.id == Workflow.olt_id)
        .where(Olt.name == olt_name, Olt.deleted_at.is_(None), WorkflowNode.key == key)
    )
    return db.session.scalar(query)


def _asked(node_id: int) -> Asked | None:
    flow = joinedload(WorkflowNode.workflow)
    query = (
        select(WorkflowNode)
        .options(joinedload(WorkflowNode.master), flow.joinedload(Workflow.olt), flow.joinedload(Workflow.template))
        .where(WorkflowNode.id == node_id)
    )
    node = db.session.scalar(query.execution_options(populate_existing=True))
    return None if node is None else Asked(node, node.master or node, node.workflow.olt)


def _facts(asked: Asked, at: datetime, now: datetime) -> Facts:
    node, master_id = _node(asked, at), asked.master.id
    skip_row = _skip_row(master_id, at)
    execution = _execution(master_id, at)
    own = db.session.get(Execution, _own_id(skip_row)) if skip_row is not None and _own_id(skip_row) else None
    runs = _runs([one for one in (execution, own) if one is not None])
    run = runs[execution.id] if execution is not None else None
    skip = _skip(skip_row, runs.get(own.id) if own is not None else None) if skip_row is not None else None
    one = meant(at, run, skip, node)
    facts = Facts(at, now, node, run, skip, switch=_switch(asked, at))
    if one.run is not None and asked.node is not asked.master:
        facts = replace(facts, run=replace(one.run, step=_step(one.run.id, asked.node.id)))
    if one.run is not None or one.skip is not None:
        return _with_waits(facts, asked, one)
    return replace(facts, log_since=_log_since(), ticked_at=_ticked_at())


# -- the node and its clock


def _node(asked: Asked, at: datetime) -> NodeFacts:
    master, chained = asked.master, asked.node is not asked.master
    return NodeFacts(
        id=master.id, name=master.name, olt_id=asked.olt.id, olt_name=asked.olt.name,
        runs=all(map(_on, {master, asked.node})), next_run_at=master.next_run_at, grid_slot=_grid_slot(master, at),
        chained=asked.node.name if chained else "",
    )  # fmt: skip


def _on(node: WorkflowNode) -> bool:
    flow = node.workflow
    template = flow.template if node.template_node_id is not None else None
    enabled = node.enabled and flow.enabled and (template is None or template.enabled)
    return enabled and flow.olt.enabled and flow.olt.deleted_at is None


def _grid_slot(master: WorkflowNode, at: datetime) -> datetime | None:
    """The clock's latest slot at or before `at`, from its anchor on; before it the clock was another."""
    if master.next_run_at is None or master.anchor_at is None or at < master.anchor_at:
        return None
    if current_app.config["NEXTCHECK_MODE"] != "grid":
        return None
    if master.interval_seconds:
        return schedule.latest_on_grid(master.anchor_at, master.interval_seconds, at)
    return _cron_slot(str(master.cron), master.anchor_at, at)


def _cron_slot(cron: str, anchor: datetime, at: datetime) -> datetime | None:
    local = (at + timedelta(minutes=1)).astimezone(ZoneInfo(current_app.config["TIMEZONE"]))
    for found in CronSim(cron, local, reverse=True):
        moment = found.astimezone(at.tzinfo)
        if moment <= at:
            return moment if moment >= anchor else None
    return None


# -- what is recorded of the slot


def _execution(node_id: int, at: datetime) -> Execution | None:
    """Of the latest slot at or before `at` that became one; else of the first after it."""
    query = select(Execution).where(Execution.node_id == node_id, Execution.trigger == Trigger.SCHEDULE).limit(1)
    slot = Execution.scheduled_for
    found = db.session.scalar(query.where(slot <= at).order_by(slot.desc()))
    return found or db.session.scalar(query.where(slot > at).order_by(slot))


def _skip_row(node_id: int, at: datetime) -> CoordinatorLog | None:
    """The skip whose slots begin at or before `at`, the latest; a row stands at its last slot."""
    last = CoordinatorLog.scheduled_for
    query = select(CoordinatorLog).where(
        CoordinatorLog.node_id == node_id, func.coalesce(CoordinatorLog.event_type, "") == EventType.SLOT_SKIPPED.value
    )
    after = db.session.scalar(query.where(last > at).order_by(last).limit(1))
    if after is not None and _first(after) <= at:
        return after
    return db.session.scalar(query.where(last <= at).order_by(last.desc()).limit(1))


def _first(row: CoordinatorLog) -> datetime:
    """First slot of a skip; that of the row where its details do not say."""
    last = row.scheduled_for or row.timestamp
    try:
        return min(datetime.fromisoformat(row.details["first"]), last)
    except (KeyError, TypeError, ValueError):
        return last


def _own_id(row: CoordinatorLog) -> int | None:
    """The node's execution that was in the way."""
    waiting = row.details.get("waiting")
    return waiting if isinstance(waiting, int) else row.execution_id


def _skip(row: CoordinatorLog, own: RunFacts | None) -> SkipFacts:
    count, free = row.details.get("slots"), row.details.get("free_pollers")
    last = row.scheduled_for or row.timestamp
    return SkipFacts(
        reason=row.reason, first=_first(row), last=last, count=count if isinstance(count, int) else 1,
        decided_at=row.timestamp, own=own, free_pollers=free if isinstance(free, int) else None,
    )  # fmt: skip


def _runs(executions: list[Execution]) -> dict[int, RunFacts]:
    """The executions as facts. One SQL statement for their first tries."""
    ids = [one.id for one in executions]
    query = select(ExecutionAttempt.execution_id, ExecutionAttempt.started_at).where(
        ExecutionAttempt.execution_id.in_(ids), ExecutionAttempt.number == 1
    )
    first = {row.execution_id: row.started_at for row in db.session.execute(query)} if ids else {}
    return {one.id: _run(one, first.get(one.id)) for one in executions}


def _run(one: Execution, first_try: datetime | None) -> RunFacts:
    return RunFacts(
        id=one.id, slot=one.scheduled_for, status=one.status, first_started_at=first_try or one.started_at,
        started_at=one.started_at, finished_at=one.finished_at, duration_ms=one.duration_ms, tries=one.attempt,
        not_before=one.not_before, error_kind=one.error_kind, error_message=one.error_message,
        skip_reason=one.skip_reason, cancelled_by=one.cancelled_by,
    )  # fmt: skip


def _step(execution_id: int, node_id: int) -> StepFacts | None:
    """What the last try of the execution made of a chained node."""
    query = (
        select(ExecutionStep.status, ExecutionStep.skip_reason, ExecutionStep.error_kind)
        .join(ExecutionAttempt, ExecutionAttempt.id == ExecutionStep.attempt_id)
        .where(ExecutionAttempt.execution_id == execution_id, ExecutionStep.node_id == node_id)
        .order_by(ExecutionAttempt.number.desc())
        .limit(1)
    )
    row = db.session.execute(query).first()
    return StepFacts(*row) if row is not None else None


# -- what it waited for


def _with_waits(facts: Facts, asked: Asked, one: Meant) -> Facts:
    span, skip = waiting_span(one, facts.now), one.skip
    if skip is not None and skip.reason is SkipReason.OVERRUN and skip.own is not None and one.slot is not None:
        return replace(facts, holds=_own_holds(asked, skip.own.id, one.slot))
    if skip is not None and one.slot is not None:
        facts = replace(facts, state=_state(asked.olt, skip.reason, one.slot))
    if span is None:
        return facts
    rows = holds.between(holds.nodes_of(asked.node.workflow_id), *span, without=_held_by(one))
    return replace(facts, holds=_holds(rows), pool=_pool(*span))


def _held_by(one: Meant) -> int:
    run = one.run or (one.skip.own if one.skip is not None else None)
    return run.id if run is not None else 0


def _own_holds(asked: Asked, execution_id: int, slot: datetime) -> tuple[Hold, ...]:
    """The try of its own run that went on at the slot."""
    rows = holds.between([asked.master.id], slot - timedelta(microseconds=1), slot + timedelta(seconds=1))
    return _holds([row for row in rows if row.execution_id == execution_id])


def _holds(rows: list[holds.HoldRow]) -> tuple[Hold, ...]:
    usual: Mapping[int, int] = holds.usual({row.node_id for row in rows}) if rows else {}
    return tuple(
        Hold(row.execution_id, row.node_name, row.since, row.until, usual.get(row.node_id)) for row in rows
    )  # fmt: skip


def _pool(since: datetime, until: datetime) -> PoolFacts:
    full = func.coalesce(func.sum(case((PollerStats.free_pollers == 0, 1), else_=0)), 0)
    query = select(func.count(), full).where(PollerStats.timestamp > since, PollerStats.timestamp <= until)
    samples, none_free = db.session.execute(query).one()
    return PoolFacts(samples, int(none_free))


# -- switches and states


def _switch(asked: Asked, at: datetime) -> Switch | None:
    """The last event before `at` that switched the node, its master or its OLT on or off. One SQL statement."""
    nodes = {asked.node.id, asked.master.id}
    ends = []
    for event, of_node in SWITCHES.items():
        of_it = _unled(CoordinatorLog.node_id).in_(nodes) if of_node else _unled(CoordinatorLog.olt_id) == asked.olt.id
        ends.append(_last(event, at, of_it).subquery())
    query = union_all(*(select(end.c.event_type, end.c.timestamp) for end in ends))
    rows = [Switch(row.event_type, row.timestamp) for row in db.session.execute(query)]
    return max(rows, key=lambda switch: switch.at, default=None)


def _last(event: EventType, at: datetime, which: ColumnElement[bool]) -> Any:
    columns = (CoordinatorLog.event_type, CoordinatorLog.timestamp, CoordinatorLog.details)
    query = select(*columns).where(CoordinatorLog.event_type == event, CoordinatorLog.timestamp <= at, which)
    return query.order_by(CoordinatorLog.timestamp.desc()).limit(1)


def _unled(column: Any) -> ColumnElement[int]:
    """The column in a form for which no index is taken: events of these types are few, rows of an OLT many."""
    return func.coalesce(column, 0)


def _state(olt: Olt, reason: SkipReason | None, slot: datetime) -> tuple[OltState, datetime] | None:
    """The state that kept the OLT from being read at the slot, and since when, as far as that is recorded."""
    wanted = {SkipReason.OLT_UNREACHABLE: OltState.UNREACHABLE, SkipReason.OLT_PAUSED: OltState.PAUSED}
    state = wanted.get(reason) if reason is not None else None
    if state is None:
        return None
    if olt.state is state and olt.state_since is not None and olt.state_since <= slot:
        return state, olt.state_since
    row = db.session.execute(_last(EventType.OLT_STATE_CHANGED, slot, _unled(CoordinatorLog.olt_id) == olt.id)).first()
    same = row is not None and row.details.get("after") == state.value and row.details.get("before") != state.value
    return (state, row.timestamp) if same and row is not None else None


def _log_since() -> datetime | None:
    return db.session.scalar(select(CoordinatorLog.timestamp).order_by(CoordinatorLog.id).limit(1))


def _ticked_at() -> datetime | None:
    return db.session.scalar(select(SchedulerState.last_tick_at).limit(1))
