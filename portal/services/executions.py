"""Executions: begin and end a try, lose one, run a node now, abort what waits. One transaction each."""

import logging
from datetime import UTC, datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from portal import queueing
from portal.domain.composite import CompositeResult, CompositeWork, StepResult
from portal.domain.statuses import (
    ACTIVE,
    AttemptStatus,
    ErrorKind,
    EventType,
    ExecutionStatus,
    PollerStatus,
    StepStatus,
    Trigger,
)
from portal.extensions import transaction
from portal.models import Execution, ExecutionAttempt, ExecutionStep, Olt, Poller, WorkflowNode
from portal.queueing import Ticket
from portal.services import audit, decisions, life, readings, work
from portal.services.errors import Invalid, NotFound
from portal.services.life import StaleToken
from portal.services.tickets import tickets_for

__all__ = ["StaleToken"]

log = logging.getLogger(__name__)


def start(
    execution_id: int, token: int, worker: str, now: datetime, lease_expires_at: datetime
) -> CompositeWork | None:
    """PENDING → RUNNING. None when there is nothing to run: it has ended, another has it, or it was disabled.

    The device is guarded twice: a second RUNNING execution on the same device_key breaks a unique index, and
    this one then stays PENDING until the reaper queues it again.
    """
    try:
        with transaction() as session:
            execution = session.get(Execution, execution_id, with_for_update={"of": Execution})
            if execution is None or execution.status is not ExecutionStatus.PENDING:
                return None
            if not _may_run(session, execution, now):
                return None
            execution.device_key = execution.olt.device_key
            life.begin(session, execution, token, worker, now, lease_expires_at)
            _occupy_poller(session, execution, now)
            return work.compose(session, execution)
    except (StaleToken, IntegrityError):
        return None


def _may_run(session: Session, execution: Execution, now: datetime) -> bool:
    node, olt = execution.node, execution.olt
    enabled = node is not None and (node.enabled or execution.trigger is Trigger.MANUAL)
    if enabled and olt.enabled and olt.deleted_at is None:
        return True
    life.end(session, execution, ExecutionStatus.INTERRUPTED, now, ErrorKind.ABORTED,
             "the node or its OLT was disabled or deleted before it could run")  # fmt: skip
    return False


def _occupy_poller(session: Session, execution: Execution, now: datetime) -> None:
    session.execute(
        update(Poller)
        .where(Poller.worker == execution.worker)
        .values(
            status=PollerStatus.BUSY, current_node_id=execution.node_id, current_olt_id=execution.olt_id,
            current_execution_id=execution.id, busy_since=now, seen_at=now,
        )
    )  # fmt: skip


def heartbeat(execution_id: int, token: int, lease_expires_at: datetime) -> None:
    """Show on the pages that the holder lives. StaleToken when it is no longer the holder."""
    with transaction() as session:
        life.lock_running(session, execution_id, token).lease_expires_at = lease_expires_at


def finish(execution_id: int, token: int, result: CompositeResult, now: datetime) -> ExecutionStatus:
    """All that came of a try, in one transaction that checks the token: steps, ONUs, readings, status.

    Returns the new status: SUCCESS, FAILED, or PENDING when the device is to be asked again later.
    """
    with transaction() as session:
        execution = life.lock_running(session, execution_id, token)
        failure = result.first_failure
        status = AttemptStatus.SUCCESS if result.succeeded else AttemptStatus.FAILED
        kind, message = (failure.error_kind, failure.error_message) if failure else (None, "")
        attempt = life.close_attempt(session, execution, status, now, kind, message)
        if attempt is not None:
            _write_steps(session, attempt, result)
        summary = readings.store(session, execution, result, now)
        execution.result = summary | {
            "steps": len(result.steps),
            "completed_steps": sum(step.status is StepStatus.SUCCESS for step in result.steps),
        }
        life.note_olt(session, execution.olt_id, now, answered=result.answered, message=message)
        _settle(session, execution, result, now)
        return execution.status


def _settle(session: Session, execution: Execution, result: CompositeResult, now: datetime) -> None:
    """Success ends it; a device's failure is tried again after retry_delay, but never past the next slot."""
    failure = result.first_failure
    if result.succeeded:
        life.end(session, execution, ExecutionStatus.SUCCESS, now)
        return
    execution.failures += 1
    kind = failure.error_kind if failure else ErrorKind.DEVICE
    message = failure.error_message if failure else ""
    node = execution.node
    delay = timedelta(seconds=node.retry_delay) if node else timedelta()
    next_slot = execution.overdue_at
    if (
        node is not None
        and execution.trigger is Trigger.SCHEDULE
        and execution.failures <= node.max_retries
        and (next_slot is None or now + delay < next_slot)
    ):
        life.again(execution, now, delay)
        execution.error_kind, execution.error_message = kind, message[:500]
    else:
        life.end(session, execution, ExecutionStatus.FAILED, now, kind, message)


def _write_steps(session: Session, attempt: ExecutionAttempt, result: CompositeResult) -> None:
    keys = {
        row.id: row.key
        for row in session.execute(
            select(WorkflowNode.id, WorkflowNode.key).where(WorkflowNode.id.in_([s.node_id for s in result.steps]))
        )
    }
    for position, step in enumerate(result.steps):
        known = step.node_id in keys
        session.add(_step_row(attempt.id, position, step, keys.get(step.node_id, "?"), known=known))
        if known and step.status is not StepStatus.SKIPPED:
            _touch(session, step)


def _step_row(attempt_id: int, position: int, step: StepResult, key: str, *, known: bool) -> ExecutionStep:
    took = life.milliseconds(step.started_at, step.finished_at) if step.finished_at else None
    return ExecutionStep(
        attempt_id=attempt_id, position=position, node_id=step.node_id if known else None, node_key=key,
        status=step.status, skip_reason=step.skip_reason, started_at=step.started_at, duration_ms=took,
        pdus=step.pdus, timeouts=step.timeouts, rows=step.rows, error_kind=step.error_kind,
        error_message=step.error_message[:500],
    )  # fmt: skip


def _touch(session: Session, step: StepResult) -> None:
    succeeded = step.status is StepStatus.SUCCESS
    times = {"last_run_at": step.finished_at, "last_success_at" if succeeded else "last_failure_at": step.finished_at}
    session.execute(update(WorkflowNode).where(WorkflowNode.id == step.node_id).values(times))


def fail_internal(execution_id: int, token: int, message: str, now: datetime) -> None:
    """A fault of our own code: FAILED, internal, no retry (it would fail again)."""
    with transaction() as session:
        execution = life.lock_running(session, execution_id, token)
        life.close_attempt(session, execution, AttemptStatus.FAILED, now, ErrorKind.INTERNAL, message)
        life.end(session, execution, ExecutionStatus.FAILED, now, ErrorKind.INTERNAL, message)


def give_up_lease(execution_id: int, token: int, message: str, now: datetime, *, aborted: bool) -> list[Ticket]:
    """The holder noticed that its lease is gone, or was asked to stop. Returns what is to be pushed again."""
    with transaction() as session:
        execution = life.lock_running(session, execution_id, token)
        if aborted:
            life.close_attempt(session, execution, AttemptStatus.INTERRUPTED, now, ErrorKind.ABORTED, message)
            life.end(session, execution, ExecutionStatus.INTERRUPTED, now, ErrorKind.ABORTED, message)
            decisions.about(session, execution, EventType.EXECUTION_ABORTED, message, now)
            return []
        life.lose(session, execution, now, ErrorKind.LEASE_LOST, message)
        return _pending_tickets(session, [execution])


def lost(execution_ids_and_tokens: list[tuple[int, int]], message: str, now: datetime) -> list[Ticket]:
    """These tries ended without a word. Returns what is to be pushed again; those that did end are left alone."""
    lost_ones = []
    with transaction() as session:
        for execution_id, token in execution_ids_and_tokens:
            try:
                execution = life.lock_running(session, execution_id, token)
            except StaleToken:
                continue
            life.lose(session, execution, now, ErrorKind.WORKER_LOST, message)
            lost_ones.append(execution)
        return _pending_tickets(session, lost_ones)


def _pending_tickets(session: Session, executions: list[Execution]) -> list[Ticket]:
    now_pending = [e for e in executions if e.status is ExecutionStatus.PENDING]
    return tickets_for(session, now_pending)


def run_now(node_id: int, actor: str, now: datetime) -> tuple[int, bool]:
    """Ask for one run of a master's composite now: first in its OLT, outside its quota, its clock unchanged.

    Returns (execution id, created). While one of the node is PENDING or RUNNING that one is returned.
    NotFound, or Invalid when the OLT is disabled or the node is chained.
    """
    try:
        with transaction() as session:
            node = _runnable(session, node_id)
            active = _active_of(session, node_id)
            if active is not None:
                return active.id, False
            execution = _manual(node, actor, now)
            session.add(execution)
            session.flush()
            audit.record(session, actor=actor, action="node.run_now", subject=node, changes=None, now=now)
            tickets = tickets_for(session, [execution])
    except IntegrityError:  # the tick or a second click was faster
        with transaction() as session:
            active = _active_of(session, node_id)
            if active is None:
                raise
            return active.id, False
    push(tickets)
    return tickets[0].execution_id, True


def _runnable(session: Session, node_id: int) -> WorkflowNode:
    node = session.get(WorkflowNode, node_id)
    if node is None:
        raise NotFound("the node does not exist any more")
    olt = node.workflow.olt
    if node.master_id is not None:
        raise Invalid({"": "a chained node runs after its master: run the master instead"})
    if not olt.enabled or olt.deleted_at is not None:
        raise Invalid({"": f"{olt.name} is disabled: enable it first"})
    return node


def _active_of(session: Session, node_id: int) -> Execution | None:
    return session.scalar(select(Execution).where(Execution.node_id == node_id, Execution.status.in_(ACTIVE)))


def _manual(node: WorkflowNode, actor: str, now: datetime) -> Execution:
    olt: Olt = node.workflow.olt
    return Execution(
        node_id=node.id, node_name=node.name, olt_id=olt.id, device_key=olt.device_key, trigger=Trigger.MANUAL,
        requested_by=actor, priority=node.priority, scheduled_for=now, queued_at=now,
    )  # fmt: skip


def push(tickets: list[Ticket]) -> bool:
    """Queue after the commit. False when Redis is away: the reaper queues them when it is back."""
    try:
        queueing.push(tickets)
    except queueing.RedisError:
        return False
    return True


def abort_pending(session: Session, node_ids: list[int], now: datetime, why: str = "its node was disabled") -> None:
    """INTERRUPT what waits of these nodes, in the caller's transaction. The database guard refuses it to a poller.

    The rows are locked: one that a poller is starting at this moment is either not PENDING any more when we get
    it, or not startable when the poller gets it. A RUNNING one is never overwritten.
    """
    waiting = session.scalars(
        select(Execution)
        .where(Execution.node_id.in_(node_ids), Execution.status == ExecutionStatus.PENDING)
        .with_for_update(of=Execution)
    ).all()
    for execution in waiting:
        life.end(session, execution, ExecutionStatus.INTERRUPTED, now, ErrorKind.ABORTED, why)
        decisions.about(session, execution, EventType.EXECUTION_ABORTED, why, now)


def stop_running(olt_ids: list[int]) -> None:
    """Ask what runs on these OLTs to stop before its next PDU; call it after the commit that disabled them.

    When Redis is away their holders stop by themselves once their lease is no longer proven.
    """
    try:
        queueing.ask_to_stop(olt_ids)
    except queueing.RedisError as error:
        log.warning("event=stop_not_sent olts=%s error=%s", olt_ids, type(error).__name__)


def now() -> datetime:
    """Present time, for callers that report something that just happened."""
    return datetime.now(UTC)
