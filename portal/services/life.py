"""The life cycle of an execution: the only code that writes its status. Works in the caller's transaction."""

from datetime import datetime, timedelta

from flask import current_app
from sqlalchemy import update
from sqlalchemy.orm import Session

from portal.domain import schedule
from portal.domain.statuses import (
    TERMINAL,
    AttemptStatus,
    ErrorKind,
    EventType,
    ExecutionStatus,
    OltState,
    PollerStatus,
    Trigger,
)
from portal.models import Execution, ExecutionAttempt, Olt, Poller, WorkflowNode
from portal.services import decisions

MAX_LOSSES = 3  # a composite whose worker was lost so often is parked (design §5.9)


class StaleToken(Exception):
    """The execution is no longer ours: another attempt has it, or it has ended. Nothing was written."""


def milliseconds(start: datetime | None, end: datetime) -> int | None:
    """Whole milliseconds from start to end, never negative; None without a start."""
    return None if start is None else max(0, round((end - start) / timedelta(milliseconds=1)))


def begin(
    session: Session, execution: Execution, token: int, worker: str, now: datetime, lease_expires_at: datetime
) -> ExecutionAttempt:
    """PENDING → RUNNING under `token`. The flush raises IntegrityError when the device already runs something."""
    changed = session.execute(
        update(Execution)
        .where(Execution.id == execution.id, Execution.status == ExecutionStatus.PENDING)
        .values(
            status=ExecutionStatus.RUNNING, token=token, worker=worker, attempt=Execution.attempt + 1,
            started_at=now, not_before=None, lease_expires_at=lease_expires_at, device_key=execution.device_key,
            delay_ms=execution.delay_ms if execution.delay_ms is not None
            else schedule.delay_ms(execution.scheduled_for, now),
        ),
        execution_options={"synchronize_session": False},
    )  # fmt: skip
    if changed.rowcount != 1:  # type: ignore[attr-defined]
        raise StaleToken(f"execution {execution.id} is not pending")
    session.refresh(execution)
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
    execution = session.get(Execution, execution_id, populate_existing=True)
    assert execution is not None  # noqa: S101  (just updated)
    return execution


def close_attempt(
    session: Session,
    execution: Execution,
    status: AttemptStatus,
    now: datetime,
    kind: ErrorKind | None = None,
    message: str = "",
) -> ExecutionAttempt | None:
    """End the running try, free its poller's row. Returns the attempt (None when it never started)."""
    attempt = session.query(ExecutionAttempt).filter_by(
        execution_id=execution.id, number=execution.attempt, status=AttemptStatus.RUNNING
    ).one_or_none()  # fmt: skip
    if attempt is not None:
        attempt.status, attempt.finished_at = status, now
        attempt.duration_ms = milliseconds(attempt.started_at, now)
        attempt.error_kind, attempt.error_message = kind, message[:500]
        _free_poller(session, execution, attempt, now)
    return attempt


def _free_poller(session: Session, execution: Execution, attempt: ExecutionAttempt, now: datetime) -> None:
    late = execution.attempt == 1 and schedule.is_delayed(execution.scheduled_for, attempt.started_at)
    session.execute(
        update(Poller)
        .where(Poller.worker == attempt.worker, Poller.current_execution_id == execution.id)
        .values(
            status=PollerStatus.FREE, current_node_id=None, current_olt_id=None, current_execution_id=None,
            busy_since=None, busy_time=Poller.busy_time + (attempt.duration_ms or 0) / 1000, seen_at=now,
            tasks_completed=Poller.tasks_completed + int(attempt.status is AttemptStatus.SUCCESS),
            tasks_delayed=Poller.tasks_delayed + int(late),
        )
    )  # fmt: skip


def end(
    session: Session,
    execution: Execution,
    status: ExecutionStatus,
    now: datetime,
    kind: ErrorKind | None = None,
    message: str = "",
) -> None:
    """A terminal status. One that is terminal already is never rewritten."""
    if execution.status in TERMINAL:
        raise StaleToken(f"execution {execution.id} has ended already")
    execution.status, execution.finished_at = status, now
    execution.duration_ms = milliseconds(execution.started_at, now)
    execution.error_kind, execution.error_message = kind, message[:500]
    execution.not_before = execution.lease_expires_at = None
    node = session.get(WorkflowNode, execution.node_id) if execution.node_id is not None else None
    if node is not None:
        _touch_node(node, execution, now)


def _touch_node(node: WorkflowNode, execution: Execution, now: datetime) -> None:
    if execution.attempt:
        node.last_run_at = now
    from_end = current_app.config["NEXTCHECK_MODE"] == "from_end"
    if from_end and execution.trigger is Trigger.SCHEDULE and node.next_run_at is None and node.interval_seconds:
        node.next_run_at = schedule.after_enabling(now, node.interval_seconds)


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
    if execution.losses >= MAX_LOSSES:
        end(session, execution, ExecutionStatus.FAILED, now, ErrorKind.POISON,
            f"given up after {execution.losses} lost workers; last: {message}")  # fmt: skip
        decisions.about(session, execution, EventType.POISONED, execution.error_message, now, level="ERROR")
    else:
        again(execution, now, timedelta())


def note_olt(session: Session, olt_id: int, now: datetime, *, answered: bool, message: str = "") -> None:
    """What a finished try says of the OLT itself. Three silent tries in a row: unreachable."""
    olt = session.get(Olt, olt_id)
    if olt is None:
        return
    olt.consecutive_failures = 0 if answered else olt.consecutive_failures + 1
    state = OltState.UP if answered else OltState.UNREACHABLE if olt.consecutive_failures >= 3 else olt.state
    if state is not olt.state:
        decisions.record(session, EventType.OLT_STATE_CHANGED, f"{olt.name}: {olt.state} → {state}", now,
                         olt_id=olt.id, level="INFO" if answered else "WARNING",
                         details={"before": olt.state, "after": state, "cause": message})  # fmt: skip
        olt.state, olt.state_since = state, now
