"""One tick in memory: due masters through the planner, and its plan carried out. No Flask, no SQLAlchemy.

States the rules of scheduler.due and portal.services.dispatch.slots for objects instead of rows.
"""

from dataclasses import replace
from datetime import datetime
from heapq import heappop, heappush
from typing import Any

from portal.domain import quota, schedule
from portal.domain.slots import DueMaster, NewExecution, Plan, SkippedSlots
from portal.domain.statuses import ErrorKind, EventType, ExecutionStatus, SkipReason
from scheduler import planner
from scheduler.timemachine import life
from scheduler.timemachine.ledger import settlements_of_skip
from scheduler.timemachine.state import State
from scheduler.timemachine.world import Node, Run

LIMIT = 5000  # scheduler.due


def tick(state: State) -> Plan | None:
    """Decide everything due now, and queue what may start. None when nothing was due."""
    plan, fresh = None, []
    if due := _select_due(state):
        plan = planner.plan(due, state.now, state.next_cron, from_end=state.rules.from_end)
        fresh = _apply(state, plan)
    for run in fresh:
        state.push(run)
    _queue_ripe(state)
    return plan


def _select_due(state: State) -> list[DueMaster]:
    due, now, last = state.due, state.now, None
    found: list[DueMaster] = []
    while due and due[0][0] <= now and len(found) < LIMIT:
        entry = heappop(due)
        node = state.nodes.get(entry[1])
        # A clock that moved away and back again is there twice.
        if node is not None and node.next_run_at == entry[0] and node.runs and entry != last:
            found.append(due_master(node, state))
            last = entry
    return sorted(found, key=lambda master: _turn(master, state))


def _turn(master: DueMaster, state: State) -> tuple[datetime, datetime, int]:
    """As scheduler.due.ORDER: equals take turns."""
    return master.next_run_at, state.nodes[master.node_id].last_success or state.begin, master.node_id


def due_master(node: Node, state: State) -> DueMaster:
    """What the plan of a due master depends on."""
    olt, active, moment = node.olt, node.active, node.next_run_at
    assert moment is not None  # noqa: S101  (just looked up by it)
    return DueMaster(
        node.node_id, node.key, olt.olt_id, olt.name, node.priority, moment, node.interval_seconds, node.cron,
        active.execution_id if active is not None else None, active is not None and active.waits_to_retry, olt.site,
        schedule.blocked(olt.state, olt.paused_until, state.now), node.task_type,
    )  # fmt: skip


def _apply(state: State, plan: Plan) -> list[Run]:
    """Carry a plan out; returns what is to be pushed."""
    _supersede(state, plan)
    fresh = [_insert(state, new) for new in plan.new]
    for skipped in plan.skipped:
        skip(state, _with_cause(state, skipped))
    _wind(state, plan)
    return [run for run in fresh if run.not_before is None]


def _supersede(state: State, plan: Plan) -> None:
    """End what waits for a retry past its node's next slot."""
    decided: list[NewExecution | SkippedSlots] = [*plan.new, *plan.skipped]
    for one in decided:
        run = state.runs.get(one.supersedes) if one.supersedes is not None else None
        if run is not None:
            life.end(state, run, ExecutionStatus.FAILED, run.error_kind or ErrorKind.SUPERSEDED)


def _insert(state: State, new: NewExecution) -> Run:
    node = state.nodes[new.master.node_id]
    run = Run(state.new_id(), node, new.scheduled_for, new.overdue_at, new.not_before, None)
    node.active = state.runs[run.execution_id] = run
    state.ledger.take(run)
    if run.not_before is not None:
        heappush(state.ripe, (run.not_before, run.execution_id))
    if state.book is not None:
        state.book.take(run)
    return run


def _with_cause(state: State, skipped: SkippedSlots) -> SkippedSlots:
    """OVERRUN: its own last run is running. OLT_BUSY: another one is, and its own waits. POOL_FULL: none is, and no

    poller is free.
    """
    node = state.nodes[skipped.master.node_id]
    own, holder = node.active, node.olt.running
    if skipped.reason is not SkipReason.STILL_ACTIVE or own is None:
        return skipped
    facts: dict[str, Any] = {"waiting": own.execution_id, "waiting_slot": own.scheduled_for.isoformat()}
    if holder is None:
        free = state.free_pollers(node.olt.site)
        facts["free_pollers"] = free
        return replace(skipped, reason=SkipReason.STILL_ACTIVE if free else SkipReason.POOL_FULL, facts=facts)
    since = holder.started_at.isoformat() if holder.started_at else ""
    facts |= {"holder": holder.execution_id, "holder_node": holder.node.key, "holder_since": since}
    reason = SkipReason.OVERRUN if holder is own else SkipReason.OLT_BUSY
    return replace(skipped, reason=reason, facts=facts)


def skip(state: State, one: SkippedSlots) -> None:
    """Into the books: slots that do not run."""
    node = state.nodes[one.master.node_id]
    if state.book is not None:
        state.book.skip(node, one, state.now)
    state.figures.skip(node.olt.olt_id, one.reason, one.count)
    state.record(EventType.SLOT_SKIPPED, "skipped", node.olt, node=node, slot=one.last, reason=one.reason,
                 slots=one.count, first=one.first, last=one.last, **one.facts)  # fmt: skip
    cause = quota.cause_of_skip(one.reason)
    for settlement in settlements_of_skip(node, one.first, one.last, one.count, cause, state.times):
        state.ledger.skip(settlement)


def _wind(state: State, plan: Plan) -> None:
    """Every clock along its grid; with NEXTCHECK_MODE=from_end it stops while its node runs."""
    following = {new.master.node_id: new.overdue_at for new in plan.new} if state.rules.from_end else {}
    for ident, moment in plan.next_runs.items():
        node = state.nodes[ident]
        if moment is None:
            node.next_run_at = following[ident]
            state.set_clock(node, None)
        else:
            node.next_run_at = moment
            heappush(state.due, (moment, ident))


def _queue_ripe(state: State) -> None:
    """Push what may start because its `not_before` has come: retries, and late starts in their turn."""
    ripe, now = state.ripe, state.now
    while ripe and ripe[0][0] <= now:
        moment, ident = heappop(ripe)
        run = state.runs.get(ident)
        if run is not None and run.pending and run.not_before == moment and run.queued_at is None:
            state.push(run)
