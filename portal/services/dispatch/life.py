"""The life cycle of an execution: the only code that writes its status. Works in the caller's transaction."""

from datetime import datetime, timedelta

from flask import current_app
from sqlalchemy import update
from sqlalchemy.orm import Session, joinedload

from portal.domain import schedule
from portal.domain.messages import N_
from portal.domain.statuses import (
    TERMINAL,
    AttemptStatus,
    ErrorKind,
    EventType,
    ExecutionStatus,
    PollerStatus,
    SkipReason,
    Trigger,
)
from portal.services import decisions
from portal.services.accounting import quotas
from portal.services.dispatch import poison
from portal.tables import Execution, ExecutionAttempt, Poller, WorkflowNode

MAX_LOSSES = 3  # a composite whose worker was lost so often is parked: it may be what kills them


class StaleToken(Exception):
    """The execution is no longer ours: another attempt has it, or it has ended. Nothing was written."""


def milliseconds(start: datetime | None, end: datetime) -> int | None:
    """Whole milliseconds from start to end, never negative; None without a start."""
    return None if start is None else max(0, round((end - start) / timedelta(milliseconds=1)))


def begin(
    session: Session, execution: Execution, token: int, worker: str, now: datetime, lease_expires_at: datetime
) -> ExecutionAttempt:
    """PENDING → RUNNING under `token`. The flush raises IntegrityError when the device already runs something."""
    delay = execution.delay_ms if execution.delay_ms is not None else schedule.delay_ms(execution.scheduled_for, now)
    changed = session.execute(
        update(Execution)
        .where(Execution.id == execution.id, Execution.status == ExecutionStatus.PENDING)
        .values(
            status=ExecutionStatus.RUNNING, token=token, worker=worker, attempt=execution.attempt + 1, started_at=now,
            not_before=None, lease_expires_at=lease_expires_at, device_key=execution.olt.device_key, delay_ms=delay,
        ),
        execution_options={"synchronize_session": "evaluate"},
    )  # fmt: skip
    if changed.rowcount != 1:  # type: ignore[attr-defined]
        raise StaleToken(f"execution {execution.id} is not pending")
    attempt = ExecutionAttempt(
        execution_id=execution.id, number=execution.attempt, worker=worker, token=token, started_at=now
    )
    session.add(attempt)
    session.flush()
    return attempt


def lock_running(session: Session, execution_id: int, token: int) -> Execution:
    """The RUNNING execution of this token, its row locked until the end of the transaction; else StaleToken."""
    locked = session.execute(
        update(Execution)
        .where(
            Execution.id == execution_id, Execution.token == token, Execution.status == ExecutionStatus.RUNNING
        )
        .values(lease_expires_at=None),
        execution_options={"synchronize_session": False},
    )  # fmt: skip
    if locked.rowcount != 1:  # type: ignore[attr-defined]
        raise StaleToken(f"execution {execution_id} no longer belongs to token {token}")
    execution = session.get(
        Execution, execution_id, populate_existing=True,
        options=[joinedload(Execution.node), joinedload(Execution.olt)],
    )  # fmt: skip
    assert execution is not None  # noqa: S101  (just updated)
    return execution


def close_attempt(
    session: Session,
    execution: Execution,
    status: AttemptStatus,
    now: datetime,
    kind: ErrorKind | None = None,
    message: str = "",
) -> int | None:
    """End the running try, free its poller's row. Returns the attempt's id (None when it never started)."""
    took = milliseconds(execution.started_at, now)
    attempt_id = session.scalar(
        update(ExecutionAttempt)
        .where(
            ExecutionAttempt.execution_id == execution.id, ExecutionAttempt.number == execution.attempt,
            ExecutionAttempt.status == AttemptStatus.RUNNING,
        )
        .values(status=status, finished_at=now, duration_ms=took, error_kind=kind, error_message=message[:500])
        .returning(ExecutionAttempt.id),
        execution_options={"synchronize_session": False},
    )  # fmt: skip
    if attempt_id is not None:
        _free_poller(session, execution, took or 0, now, succeeded=status is AttemptStatus.SUCCESS)
    return attempt_id


def _free_poller(session: Session, execution: Execution, took_ms: int, now: datetime, *, succeeded: bool) -> None:
    started = execution.started_at or now
    late = execution.attempt == 1 and schedule.is_delayed(execution.scheduled_for, started)
    session.execute(
        update(Poller)
        .where(Poller.worker == execution.worker, Poller.current_execution_id == execution.id)
        .values(
            status=PollerStatus.FREE, current_node_id=None, current_olt_id=None, current_execution_id=None,
            busy_since=None, busy_time=Poller.busy_time + took_ms / 1000, seen_at=now,
            tasks_completed=Poller.tasks_completed + int(succeeded), tasks_delayed=Poller.tasks_delayed + int(late),
        ),
        execution_options={"synchronize_session": False},
    )  # fmt: skip


def end(
    session: Session,
    execution: Execution,
    status: ExecutionStatus,
    now: datetime,
    kind: ErrorKind | None = None,
    message: str = "",
    reason: SkipReason | None = None,
) -> None:
    """A terminal status. One that is terminal already is never rewritten.

    Its slot is settled in the same transaction. `reason`: why one that is INTERRUPTED was taken away.
    """
    if execution.status in TERMINAL:
        raise StaleToken(f"execution {execution.id} has ended already")
    execution.status, execution.finished_at = status, now
    execution.duration_ms = milliseconds(execution.started_at, now)
    execution.error_kind, execution.error_message = kind, message[:500]
    execution.skip_reason = reason
    execution.not_before = execution.lease_expires_at = None
    quotas.settle_execution(session, execution, now)
    if execution.node is not None:
        _wind(execution.node, execution, now)


def _wind(node: WorkflowNode, execution: Execution, now: datetime) -> None:
    """With NEXTCHECK_MODE=from_end the clock of a node stands still while it runs, and goes on from the end."""
    from_end = current_app.config["NEXTCHECK_MODE"] == "from_end"
    if not from_end or execution.trigger is not Trigger.SCHEDULE or node.next_run_at is not None:
        return
    if node.interval_seconds and node.runs:  # what was disabled meanwhile has no clock
        node.next_run_at = schedule.after_end(now, node.interval_seconds)


def again(execution: Execution, now: datetime, delay: timedelta) -> None:
    """Between two tries the execution is PENDING, with `not_before`."""
    execution.status = ExecutionStatus.PENDING
    execution.not_before = now + delay if delay else None
    execution.queued_at = None
    execution.started_at = execution.token = execution.lease_expires_at = None
    execution.worker = ""


def lose(session: Session, execution: Execution, now: datetime, kind: ErrorKind, message: str) -> None:
    """The try ended without a word (worker killed, frozen, lease gone): INTERRUPTED, and again at once, 3 times."""
    worker = execution.worker
    close_attempt(session, execution, AttemptStatus.INTERRUPTED, now, kind, message)
    execution.losses += 1
    facts = {"worker": worker, "attempt": execution.attempt, "losses": execution.losses}
    decisions.about(session, execution, EventType.WORKER_LOST, message, now, level="WARNING", details=facts)
    if execution.cancelled_by:
        cancel(session, execution, now)
    elif execution.losses >= MAX_LOSSES:
        end(session, execution, ExecutionStatus.FAILED, now, ErrorKind.POISON,
            f"given up after {execution.losses} lost workers; last: {message}")  # fmt: skip
        told = N_("given up after %(count)d lost workers; last: %(message)s", count=execution.losses, message=message)
        decisions.about(session, execution, EventType.POISONED, told, now, level="ERROR")
        poison.note(session, execution, now)
    else:
        again(execution, now, timedelta())
        execution.error_kind, execution.error_message = kind, message[:500]  # should its next slot come first


def hand_over(session: Session, execution: Execution, now: datetime, message: str) -> None:
    """The poller was told to stop: the try is INTERRUPTED, the execution runs again at once. No loss: nothing broke.

    One that a person has cancelled meanwhile ends.
    """
    close_attempt(session, execution, AttemptStatus.INTERRUPTED, now, ErrorKind.SHUTDOWN, message)
    if execution.cancelled_by:
        cancel(session, execution, now)
        return
    decisions.about(session, execution, EventType.REQUEUED, message, now, details={"attempt": execution.attempt})
    again(execution, now, timedelta())
    execution.error_kind, execution.error_message = ErrorKind.SHUTDOWN, message[:500]


def cancel(session: Session, execution: Execution, now: datetime) -> None:
    """INTERRUPTED on the wish of `cancelled_by`, logged."""
    why = N_("cancelled by %(name)s", name=execution.cancelled_by)
    end(session, execution, ExecutionStatus.INTERRUPTED, now, ErrorKind.ABORTED, why, SkipReason.CANCELLED)
    decisions.about(session, execution, EventType.EXECUTION_ABORTED, why, now)
