"""Taking slots: the tick's plan becomes PENDING executions, moved clocks and logged skips, in one transaction."""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import update
from sqlalchemy.orm import Session

from portal.domain.slots import DueMaster, NewExecution, Plan, SkippedSlots
from portal.domain.statuses import ErrorKind, EventType, ExecutionStatus, SkipReason
from portal.extensions import transaction
from portal.models import Execution, SchedulerState, WorkflowNode
from portal.queueing import Ticket
from portal.services import decisions, life
from portal.services.tickets import tickets_for

_WHY = {
    SkipReason.STILL_ACTIVE: "the node's last execution had not ended",
    SkipReason.SCHEDULER_DOWN: "nothing ticked when the slot came",
}


def take(
    select: Callable[[Session], list[DueMaster]], decide: Callable[[list[DueMaster]], Plan], now: datetime
) -> tuple[Plan, list[Ticket]]:
    """Select, decide and write in one transaction; returns the plan and what is to be pushed after the commit."""
    with transaction() as session:
        plan = decide(select(session))
        tickets = _apply(session, plan, now)
    return plan, tickets


def _apply(session: Session, plan: Plan, now: datetime) -> list[Ticket]:
    for new in plan.new:
        if new.supersedes is not None:
            _supersede(session, new.supersedes, now)
    executions = [_execution(new, now) for new in plan.new]
    session.add_all(executions)
    for skipped in plan.skipped:
        _log_skipped(session, skipped, now)
    if plan.next_runs:
        session.execute(
            update(WorkflowNode), [{"id": node, "next_run_at": moment} for node, moment in plan.next_runs.items()]
        )
    session.flush()
    return tickets_for(session, executions)


def _execution(new: NewExecution, now: datetime) -> Execution:
    master = new.master
    return Execution(
        node_id=master.node_id, node_name=master.node_name, olt_id=master.olt_id, device_key=master.device_key,
        priority=master.priority, scheduled_for=new.scheduled_for, overdue_at=new.overdue_at, queued_at=now,
    )  # fmt: skip


def _supersede(session: Session, execution_id: int, now: datetime) -> None:
    old = session.get(Execution, execution_id, populate_existing=True, with_for_update={"of": Execution})
    if old is not None and old.status is ExecutionStatus.PENDING:
        life.end(session, old, ExecutionStatus.FAILED, now, old.error_kind or ErrorKind.SUPERSEDED,
                 old.error_message or "the node's next slot came before its retry")  # fmt: skip
        session.flush()


def _log_skipped(session: Session, skipped: SkippedSlots, now: datetime) -> None:
    count = "" if skipped.count == 1 else f"{skipped.count} slots "
    decisions.record(
        session, EventType.SLOT_SKIPPED, f"{skipped.master.node_name}: {count}skipped, {_WHY[skipped.reason]}", now,
        olt_id=skipped.master.olt_id, node_id=skipped.master.node_id, execution_id=skipped.master.active_id,
        scheduled_for=skipped.last, reason=skipped.reason, level="WARNING",
        details={"slots": skipped.count, "first": skipped.first.isoformat(), "last": skipped.last.isoformat()},
    )  # fmt: skip


def record_tick(leader: str, now: datetime, milliseconds: int, plan: Plan | None, error: str = "") -> None:
    """The pulse that every page shows: when the leader last ticked, and what came of it."""
    with transaction() as session:
        state = session.get(SchedulerState, 1) or SchedulerState(id=1)
        state.leader, state.last_tick_at, state.last_tick_ms = leader, now, milliseconds
        state.last_planned = len(plan.new) if plan else 0
        state.last_skipped = sum(skipped.count for skipped in plan.skipped) if plan else 0
        state.error = error[:500]
        session.add(state)
