"""The facts that an explanation is made of: at most a dozen statements, each led by an index. Reads only."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from flask import current_app
from sqlalchemy import ColumnElement, case, func, literal, select, union_all
from sqlalchemy.orm import aliased, joinedload

from portal import cron
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
from portal.queries import holds, skipped
from portal.tables import (
    CoordinatorLog,
    Execution,
    ExecutionAttempt,
    ExecutionStep,
    Olt,
    PollerStats,
    Pool,
    SchedulerState,
    Workflow,
    WorkflowNode,
)

OF_NODES = (EventType.TASK_ADDED, EventType.TASK_REMOVED)
OF_OLTS = (EventType.OLT_ENABLED, EventType.OLT_DISABLED)


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
    skip = _skip(skip_row, at, runs.get(own.id) if own is not None else None) if skip_row is not None else None
    one = meant(at, run, skip, node)
    facts = Facts(at, now, node, run, skip, switch=_switch(asked, at))
    if one.run is not None and asked.node is not asked.master:
        facts = replace(facts, run=replace(one.run, step=_step(one.run.id, asked.node.id)))
    if one.run is not None or one.skip is not None:
        return _with_waits(facts, asked, one, skip_row.details if skip_row is not None else {})
    return replace(facts, log_since=_log_since(), ticked_at=_ticked_at())


# -- the node and its clock


def _node(asked: Asked, at: datetime) -> NodeFacts:
    master, chained = asked.master, asked.node is not asked.master
    return NodeFacts(
        id=master.id, name=master.name, olt_id=asked.olt.id, olt_name=asked.olt.name,
        runs=master.runs and asked.node.runs, next_run_at=master.next_run_at, grid_slot=_grid_slot(master, at),
        chained=asked.node.name if chained else "",
    )  # fmt: skip


def _grid_slot(master: WorkflowNode, at: datetime) -> datetime | None:
    """The clock's latest slot at or before `at`, from its anchor on; before it the clock was another."""
    if master.next_run_at is None or master.anchor_at is None or at < master.anchor_at:
        return None
    if current_app.config["NEXTCHECK_MODE"] != "grid":
        return None
    if master.interval_seconds:
        return schedule.latest_on_grid(master.anchor_at, master.interval_seconds, at)
    found = cron.latest_firing(str(master.cron), at)
    return found if found is not None and found >= master.anchor_at else None


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
    if after is not None and _span(after).first <= at:
        return after
    return db.session.scalar(query.where(last <= at).order_by(last.desc()).limit(1))


def _span(row: CoordinatorLog) -> skipped.Span:
    return skipped.span(row.details, row.scheduled_for or row.timestamp)


def _own_id(row: CoordinatorLog) -> int | None:
    """The node's execution that was in the way."""
    waiting = row.details.get("waiting")
    return waiting if isinstance(waiting, int) else row.execution_id


def _skip(row: CoordinatorLog, at: datetime, own: RunFacts | None) -> SkipFacts:
    free, span = row.details.get("free_pollers"), _span(row)
    return SkipFacts(
        reason=row.reason, first=span.first, last=span.last, count=span.count, decided_at=row.timestamp, own=own,
        free_pollers=free if isinstance(free, int) else None, nearest=span.latest(at),
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
    """What the last try of the execution made of a chained node; None where that one has not written so."""
    later = aliased(ExecutionAttempt)
    newest = select(func.max(later.number)).where(later.execution_id == execution_id).scalar_subquery()
    query = (
        select(ExecutionStep.status, ExecutionStep.skip_reason, ExecutionStep.error_kind)
        .join(ExecutionAttempt, ExecutionAttempt.id == ExecutionStep.attempt_id)
        .where(
            ExecutionAttempt.execution_id == execution_id, ExecutionAttempt.number == newest,
            ExecutionStep.node_id == node_id,
        )
    )  # fmt: skip
    row = db.session.execute(query).first()
    return StepFacts(*row) if row is not None else None


# -- what it waited for


def _with_waits(facts: Facts, asked: Asked, one: Meant, recorded: Mapping[str, Any]) -> Facts:
    """`recorded`: the details of the skip, which name who held the OLT when its slot came."""
    span, skip = waiting_span(one, facts.now), one.skip
    if skip is not None and one.slot is not None:
        facts = replace(facts, state=_state(asked.olt, skip.reason, one.slot), own_hold=_own_hold(skip, one.slot))
    if span is None:
        return facts
    rows = holds.between(holds.nodes_of(asked.node.workflow_id), *span, without=_held_by(one))
    holder = recorded.get("holder") if skip is not None and skip.reason is SkipReason.OLT_BUSY else None
    if isinstance(holder, int) and holder not in {row.execution_id for row in rows}:
        rows = sorted([*rows, *holds.of_execution(holder, *span)], key=lambda row: row.since)
    return replace(facts, holds=_holds(rows), pool=_pool(*span))


def _held_by(one: Meant) -> int:
    run = one.run or (one.skip.own if one.skip is not None else None)
    return run.id if run is not None else 0


def _own_hold(skip: SkipFacts, slot: datetime) -> Hold | None:
    """The try of its own run that went on when the slot came."""
    if skip.reason is not SkipReason.OVERRUN or skip.own is None:
        return None
    rows = holds.of_execution(skip.own.id, slot - timedelta(microseconds=1), slot + timedelta(seconds=1))
    return next(iter(_holds(rows[-1:])), None)


def _holds(rows: list[holds.HoldRow]) -> tuple[Hold, ...]:
    ids = {row.node_id for row in rows if row.node_id is not None}
    usual: Mapping[int, int] = holds.usual(ids) if ids else {}
    return tuple(
        Hold(row.execution_id, row.node_name, row.since, row.until, usual.get(row.node_id or 0)) for row in rows
    )  # fmt: skip


def _pool(since: datetime, until: datetime) -> PoolFacts:
    """What was seen of the pollers; nothing where some serve one site only, since the samples are of all of them."""
    if db.session.scalar(select(Pool.id).where(Pool.site.is_not(None)).limit(1)) is not None:
        return PoolFacts()
    full = func.coalesce(func.sum(case((PollerStats.free_pollers == 0, 1), else_=0)), 0)
    query = select(func.count(), full).where(PollerStats.timestamp > since, PollerStats.timestamp <= until)
    samples, none_free = db.session.execute(query).one()
    return PoolFacts(samples, int(none_free))


# -- switches and states


def _switch(asked: Asked, at: datetime) -> Switch | None:
    """Since when the node, its master or its OLT was off at `at`: the first of those that were. One SQL statement."""
    subjects = {node.name: _unled(CoordinatorLog.node_id) == node.id for node in {asked.node, asked.master}}
    events = {name: OF_NODES for name in subjects} | {"": OF_OLTS}
    subjects[""] = _unled(CoordinatorLog.olt_id) == asked.olt.id
    ends = [
        _last(event, at, of_it).add_columns(literal(name).label("name")).subquery()
        for name, of_it in subjects.items()
        for event in events[name]
    ]
    query = union_all(*(select(end.c.name, end.c.event_type, end.c.timestamp, end.c.id) for end in ends))
    last: dict[str, Switch] = {}
    for row in sorted(db.session.execute(query), key=lambda row: (row.timestamp, row.id)):
        last[row.name] = Switch(row.event_type, row.timestamp, row.name)
    return min((one for one in last.values() if one.event in rules.OFF), key=lambda one: one.at, default=None)


def _last(event: EventType, at: datetime, which: ColumnElement[bool]) -> Any:
    columns = (CoordinatorLog.id, CoordinatorLog.event_type, CoordinatorLog.timestamp, CoordinatorLog.details)
    query = select(*columns).where(CoordinatorLog.event_type == event, CoordinatorLog.timestamp <= at, which)
    return query.order_by(CoordinatorLog.timestamp.desc(), CoordinatorLog.id.desc()).limit(1)


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
