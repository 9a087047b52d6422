"""Executions as pollers report them: begin and end a try, lose one, hand one over. One transaction each."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased, joinedload

from portal import queueing
from portal.domain import schedule
from portal.domain.composite import CompositeResult, CompositeWork, StepResult, telling
from portal.domain.messages import N_
from portal.domain.statuses import (
    AttemptStatus,
    ErrorKind,
    EventType,
    ExecutionStatus,
    PollerStatus,
    SkipReason,
    StepStatus,
    Trigger,
)
from portal.domain.words import SKIPS
from portal.extensions import db, transaction
from portal.queueing import Ticket
from portal.services import decisions
from portal.services.collecting import devices
from portal.services.collecting.readings import Books
from portal.services.dispatch import life, poison, reachability, waiting, work
from portal.services.dispatch.life import StaleToken
from portal.services.dispatch.tickets import tickets_for
from portal.services.uniqueness import was_faster
from portal.tables import Execution, ExecutionStep, Olt, Poller, WorkflowNode

__all__ = ["StaleToken"]

log = logging.getLogger(__name__)


def start(
    execution_id: int, token: int, worker: str, now: datetime, lease_expires_at: datetime,
    still_mine: Callable[[], None] = lambda: None,
) -> CompositeWork | None:  # fmt: skip
    """PENDING → RUNNING. None when there is nothing to run: it has ended, another has it, or it was disabled.

    What is to be read is put together first, without a lock; then one short transaction takes the execution if it is
    still PENDING. Whoever disables it meanwhile ends it, and then it is not. `still_mine` is called once all locks are
    held: what it raises (the lease was lost while waiting for them) passes through, and nothing was started.

    The device is guarded twice: a second RUNNING execution on the same device_key breaks a unique index. If that one
    is only what a lost holder of the same OLT has left behind it is ended; else this one stays PENDING until the
    reaper queues it again.
    """
    composed = _composed(execution_id, token, now)
    if composed is None:
        return None
    for _ in range(2):
        try:
            with transaction() as session:
                if not take(session, execution_id, composed, worker, now, lease_expires_at):
                    return None
                still_mine()
                return composed
        except StaleToken:
            return None
        except IntegrityError as error:
            if not was_faster(error):
                raise
            if not _evict(execution_id, token, now):
                return None
    return None


def _evict(execution_id: int, token: int, now: datetime) -> bool:
    """What still counts as RUNNING on the OLT under an older token is lost: we hold the OLT's lease, so it does not.

    The reaper would find it too, some seconds later. False when nothing of the kind is there: the device is then
    read under another OLT's name, and that one's lease is not ours to judge.
    """
    mine, other = aliased(Execution), aliased(Execution)
    query = (
        select(other.id, other.token)
        .join(mine, mine.olt_id == other.olt_id)
        .where(mine.id == execution_id, other.status == ExecutionStatus.RUNNING, other.token < token)
    )
    stale = [(row.id, row.token) for row in db.session.execute(query)]
    db.session.rollback()
    if stale:
        push(lost(stale, "the worker was lost: its OLT was claimed by another", now))
    return bool(stale)


def take(
    session: Session, execution_id: int, composed: CompositeWork, worker: str, now: datetime,
    lease_expires_at: datetime,
) -> bool:  # fmt: skip
    """The writing half of `start`, in the caller's transaction. False when it is not PENDING any more."""
    query = select(Execution).options(joinedload(Execution.olt)).where(Execution.id == execution_id)
    execution = session.scalar(query)
    if execution is None or execution.status is not ExecutionStatus.PENDING:
        return False
    if execution.olt.device_key != composed.target.device_key:  # moved meanwhile: the reaper queues it again
        return False
    life.begin(session, execution, composed.token, worker, now, lease_expires_at)
    _occupy_poller(session, execution, now)
    return True


def _composed(execution_id: int, token: int, now: datetime) -> CompositeWork | None:
    session: Session = db.session()
    session.rollback()
    execution = session.scalar(work.loaded(execution_id))
    if execution is None or execution.status is not ExecutionStatus.PENDING:
        return None
    if _may_run(execution):
        composed = work.compose(session, execution, token, now)
        session.rollback()
        return composed
    if execution.cancelled_by:
        _end_cancelled(execution_id, now)
        return None
    with transaction() as session:
        why = N_("its node or OLT was disabled or deleted meanwhile")
        waiting.end(session, Execution.id == execution_id, now, why, SkipReason.NODE_DISABLED)
    return None


def _may_run(execution: Execution) -> bool:
    node, olt = execution.node, execution.olt
    enabled = node is not None and (execution.trigger is Trigger.MANUAL or node.runs)
    return enabled and olt.enabled and olt.deleted_at is None and not execution.cancelled_by


def _end_cancelled(execution_id: int, now: datetime) -> None:
    """It was cancelled while it ran, and waits all the same: an earlier release handed it over."""
    with transaction() as session:
        execution = session.get(Execution, execution_id, with_for_update={"of": Execution})
        if execution is not None and execution.status is ExecutionStatus.PENDING:
            life.cancel(session, execution, now)


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


def keep_step(
    execution_id: int, token: int, books: Books, step: StepResult, now: datetime, lease_expires_at: datetime
) -> None:  # fmt: skip
    """What one step read, while the composite goes on: one transaction, which checks the token.

    StaleToken: nothing was written. After any error `books` is out of step with the database: `books.afresh()`.
    """
    with transaction() as session:
        nodes = _locked_nodes(session, [step])
        life.lock_running(session, execution_id, token).lease_expires_at = lease_expires_at
        _enter(session, books, step, nodes, now)


def _enter(session: Session, books: Books, step: StepResult, nodes: dict[int, Any], now: datetime) -> None:
    node = nodes.get(step.node_id)
    books.enter(session, step, node.kind if node is not None else None, now)


def finish(
    execution_id: int, token: int, result: CompositeResult, now: datetime, books: Books | None = None
) -> ExecutionStatus:
    """All that came of a try, in one transaction that checks the token: steps, ONUs, readings, status.

    `books`: of a composite whose earlier steps were kept already. Returns the new status: SUCCESS, FAILED, or PENDING
    when the device is to be asked again later.
    """
    with transaction() as session:
        return write_result(session, execution_id, token, result, now, books)


def write_result(
    session: Session, execution_id: int, token: int, result: CompositeResult, now: datetime,
    books: Books | None = None,
) -> ExecutionStatus:  # fmt: skip
    """`finish`, in the caller's transaction."""
    _lock_olt(session, execution_id)
    nodes = _locked_nodes(session, result.steps)
    execution = life.lock_running(session, execution_id, token)
    failure = result.first_failure
    status = AttemptStatus.SUCCESS if result.succeeded else AttemptStatus.FAILED
    if result.empty:
        status = AttemptStatus.INTERRUPTED
    kind, message = (failure.error_kind, failure.error_message) if failure else (None, "")
    attempt_id = life.close_attempt(session, execution, status, now, kind, message)
    if result.answer is not None:
        devices.note(session, execution, result.answer, now, other=result.other_device)
    books = books or Books(execution.olt_id, execution.id, telling(result.steps))
    for step in result.steps:
        if step.node_id not in books.entered:
            _enter(session, books, step, nodes, now)
    books.close(session, execution.node_id or 0, now)
    if attempt_id is not None:
        _write_steps(session, attempt_id, result, nodes, books)
    execution.result = books.counts | {
        "steps": len(result.steps),
        "completed_steps": sum(step.status is StepStatus.SUCCESS for step in result.steps),
    }
    _settle(session, execution, result, now)
    poison.over(execution.node)
    silent = not result.answered and kind is ErrorKind.TIMEOUT  # what could not be sent says nothing of the OLT
    refused = kind is ErrorKind.AUTH and not any(step.rows for step in result.steps)
    reachability.note(
        session, execution, now, answered=result.answered, silent=silent, message=message, refused=refused
    )  # fmt: skip
    reachability.note_states(execution, result, now)
    session.flush()
    return execution.status


def _settle(session: Session, execution: Execution, result: CompositeResult, now: datetime) -> None:
    """Success ends it; a device's failure is tried again after retry_delay, but never past the next slot. What it said

    to a wrong credential it would say again.

    One that had nothing to ask for ends too, and is none: it has read nothing.
    """
    failure = result.first_failure
    if result.empty:
        why = SKIPS[SkipReason.NO_ONUS]
        life.end(session, execution, ExecutionStatus.INTERRUPTED, now, None, why, SkipReason.NO_ONUS)
        return
    if result.succeeded:
        life.end(session, execution, ExecutionStatus.SUCCESS, now)
        return
    if execution.cancelled_by:  # asked to stop during its last request
        life.cancel(session, execution, now)
        return
    execution.failures += 1
    kind = failure.error_kind if failure else ErrorKind.DEVICE
    message = failure.error_message if failure else ""
    node, retry = execution.node, None
    if node is not None and execution.trigger is Trigger.SCHEDULE and kind is not ErrorKind.AUTH:
        failures, next_slot = execution.failures, execution.overdue_at
        retry = schedule.next_try(now, node.retry_delay, failures, node.max_retries, next_slot)
    if retry is not None:
        life.again(execution, now, retry - now)
        execution.error_kind, execution.error_message = kind, message[:500]
    else:
        life.end(session, execution, ExecutionStatus.FAILED, now, kind, message)


def _lock_olt(session: Session, execution_id: int) -> None:
    """Lock the OLT before its nodes, as whoever switches it, its workflow or a node does."""
    query = select(Olt.id).join(Execution, Execution.olt_id == Olt.id).where(Execution.id == execution_id)
    session.execute(query.with_for_update(of=Olt, key_share=True))


def _locked_nodes(session: Session, steps: Sequence[StepResult]) -> dict[int, Any]:
    """id → (id, key, kind) of the nodes that were read and still exist.

    Locked, and before the execution: a tick too has its nodes first and then waits for executions. The other way
    round the two of them could wait for each other.
    """
    ids = [step.node_id for step in steps]
    query = select(WorkflowNode.id, WorkflowNode.key, WorkflowNode.kind).where(WorkflowNode.id.in_(ids))
    query = query.order_by(WorkflowNode.id).with_for_update(key_share=True)
    return {row.id: row for row in session.execute(query)}


def _write_steps(
    session: Session, attempt_id: int, result: CompositeResult, nodes: dict[int, Any], books: Books
) -> None:
    rows = [_step_row(attempt_id, position, step, nodes, books) for position, step in enumerate(result.steps)]
    table: Any = ExecutionStep.__table__  # not the class: that would be one statement for each set of empty columns
    session.execute(insert(table), rows)
    ran = [step for step in result.steps if step.node_id in nodes and step.status is not StepStatus.SKIPPED]
    for status, column in ((StepStatus.SUCCESS, "last_success_at"), (StepStatus.FAILED, "last_failure_at")):
        times = [{"id": step.node_id, "last_run_at": step.finished_at, column: step.finished_at,
                  "progress": step.progress.as_json()}
                 for step in ran if step.status is status]  # fmt: skip
        if times:
            session.execute(update(WorkflowNode), times)


def _step_row(
    attempt_id: int, position: int, step: StepResult, nodes: dict[int, Any], books: Books
) -> dict[str, Any]:  # fmt: skip
    known = step.node_id in nodes
    read, changed = books.step_counts.get(step.node_id, (0, 0))
    return {
        "attempt_id": attempt_id, "position": position, "node_id": step.node_id if known else None,
        "node_key": nodes[step.node_id].key if known else "?", "status": step.status, "skip_reason": step.skip_reason,
        "started_at": step.started_at, "pdus": step.pdus, "timeouts": step.timeouts, "rows": step.rows,
        "retries": step.retries, "octets": step.octets,
        "duration_ms": life.milliseconds(step.started_at, step.finished_at) if step.finished_at else None,
        "error_kind": step.error_kind, "error_message": step.error_message[:500],
        "values_read": read, "values_changed": changed, "sparse": books.sparse.get(step.node_id),
    }  # fmt: skip


def fail_internal(execution_id: int, token: int, message: str, now: datetime) -> None:
    """A fault of our own code: FAILED, internal, no retry (it would fail again)."""
    with transaction() as session:
        execution = life.lock_running(session, execution_id, token)
        life.close_attempt(session, execution, AttemptStatus.FAILED, now, ErrorKind.INTERNAL, message)
        life.end(session, execution, ExecutionStatus.FAILED, now, ErrorKind.INTERNAL, message)


def fail_unstarted(execution_id: int, message: str, now: datetime) -> None:
    """A fault of our own code before the start: FAILED, internal. Nothing when it is not PENDING any more."""
    with transaction() as session:
        execution = session.get(Execution, execution_id, with_for_update={"of": Execution})
        if execution is not None and execution.status is ExecutionStatus.PENDING:
            life.end(session, execution, ExecutionStatus.FAILED, now, ErrorKind.INTERNAL, message)


def give_up_lease(execution_id: int, token: int, message: str, now: datetime, *, aborted: bool) -> list[Ticket]:
    """The holder noticed that its lease is gone, or was asked to stop. Returns what is to be pushed again."""
    with transaction() as session:
        poison.lock_nodes(session, [execution_id], life.MAX_LOSSES - 1)
        execution = life.lock_running(session, execution_id, token)
        if not aborted:
            life.lose(session, execution, now, ErrorKind.LEASE_LOST, message)
            return _pending_tickets(session, [execution])
        life.close_attempt(session, execution, AttemptStatus.INTERRUPTED, now, ErrorKind.ABORTED, message)
        if execution.cancelled_by:
            life.cancel(session, execution, now)
        else:
            why = N_("its OLT was disabled")
            life.end(session, execution, ExecutionStatus.INTERRUPTED, now, ErrorKind.ABORTED, why,
                     SkipReason.OLT_DISABLED)  # fmt: skip
            decisions.about(session, execution, EventType.EXECUTION_ABORTED, why, now)
        return []


def hand_over(execution_id: int, token: int, message: str, now: datetime) -> list[Ticket]:
    """The holder's poller was told to stop and the composite took too long. Returns what is to be pushed again."""
    with transaction() as session:
        execution = life.lock_running(session, execution_id, token)
        life.hand_over(session, execution, now, message)
        return _pending_tickets(session, [execution])


def lost(execution_ids_and_tokens: list[tuple[int, int]], message: str, now: datetime) -> list[Ticket]:
    """These tries ended without a word. Returns what is to be pushed again; those that did end are left alone."""
    lost_ones = []
    with transaction() as session:
        ids = [execution_id for execution_id, _token in execution_ids_and_tokens]
        poison.lock_nodes(session, ids, life.MAX_LOSSES - 1)
        for execution_id, token in execution_ids_and_tokens:
            try:
                execution = life.lock_running(session, execution_id, token)
            except StaleToken:
                continue
            life.lose(session, execution, now, ErrorKind.WORKER_LOST, message)
            lost_ones.append(execution)
        return _pending_tickets(session, lost_ones)


def never_started(execution_id: int) -> list[Ticket]:
    """What was claimed by a poller that died before it could start it. Empty when it is not PENDING (any more)."""
    with transaction() as session:
        execution = session.get(Execution, execution_id)
        return _pending_tickets(session, [execution]) if execution is not None else []


def _pending_tickets(session: Session, executions: list[Execution]) -> list[Ticket]:
    now_pending = [e for e in executions if e.status is ExecutionStatus.PENDING]
    return tickets_for(session, now_pending)


def push(tickets: list[Ticket]) -> bool:
    """Queue after the commit. False when Redis is away: the reaper queues them when it is back."""
    try:
        queueing.push(tickets)
    except queueing.RedisError:
        return False
    return True


def stop_running(olt_ids: list[int]) -> None:
    """Ask what runs on these OLTs to stop before its next PDU; call it after the commit that disabled them.

    When Redis is away their holders stop by themselves once their lease is no longer proven.
    """
    try:
        queueing.ask_to_stop(olt_ids)
    except queueing.RedisError as error:
        log.warning("event=stop_not_sent olts=%s error=%s", olt_ids, type(error).__name__)
