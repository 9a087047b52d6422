"""What people ask of executions, on both databases: run a node now, cancel one."""

from datetime import datetime

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.composite import CompositeResult, CompositeWork, StepResult
from portal.domain.statuses import AttemptStatus, ErrorKind, ExecutionStatus, StepStatus, Trigger
from portal.services.dispatch import executions, run_requests, tickets
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.network import olts
from portal.tables import AuditLog, CoordinatorLog, Execution, ExecutionAttempt
from testing.builders import make_chained, make_node, make_olt
from testing.cast import ACTOR, SECOND
from tests.integration.test_executions import outcome, slot_taken, started, tick


def fresh(session: Session, execution_id: int) -> Execution:
    session.rollback()
    return session.get_one(Execution, execution_id, populate_existing=True)


def test_a_chained_node_runs_alone_when_somebody_asks(session: Session, now: datetime) -> None:
    master = make_node(make_olt())
    first, second = make_chained(master), make_chained(master, key="second", name="second")
    execution_id, created = run_requests.run_now(second.id, ACTOR, now)
    work = executions.start(execution_id, 1, "poller-1", now, now + 15 * SECOND)
    assert created and work is not None
    assert [step.node_id for step in work.steps] == [second.id] != [first.id]


def test_a_disabled_chained_node_runs_alone_too_but_not_on_a_disabled_olt(session: Session, now: datetime) -> None:
    olt = make_olt()
    master = make_node(olt)
    chained = make_chained(master, enabled=False)
    execution_id, _ = run_requests.run_now(chained.id, ACTOR, now)
    assert executions.start(execution_id, 1, "poller-1", now, now + 15 * SECOND) is not None
    olts.set_enabled(olt.id, False, ACTOR, now)
    with pytest.raises(Invalid, match="disabled"):
        run_requests.run_now(master.id, ACTOR, now)
    with pytest.raises(NotFound):
        run_requests.run_now(10**6, ACTOR, now)


def test_asking_for_a_slot_that_waits_moves_it_to_the_front_and_keeps_it_the_schedules(session: Session) -> None:
    execution = slot_taken(session)
    asked = run_requests.run_now(execution.node_id, ACTOR, execution.scheduled_for + SECOND)  # type: ignore[arg-type]
    assert asked == (execution.id, False)
    waiting = fresh(session, execution.id)
    assert (waiting.trigger, waiting.requested_by) == (Trigger.SCHEDULE, ACTOR)
    assert [ticket.queue_name for ticket in tickets.tickets_for(session, [waiting])] == [f"olt-{waiting.olt_id}-high"]


def test_asking_for_a_node_that_waits_for_its_retry_ends_the_wait(session: Session) -> None:
    execution = slot_taken(session)
    work = started(execution)
    assert work is not None
    executions.finish(execution.id, 1, outcome(work, StepStatus.FAILED), execution.scheduled_for + SECOND)
    assert fresh(session, execution.id).not_before is not None
    run_requests.run_now(execution.node_id, ACTOR, execution.scheduled_for + 2 * SECOND)  # type: ignore[arg-type]
    assert fresh(session, execution.id).not_before is None


def test_cancelling_what_waits_interrupts_it_at_once_and_says_who(session: Session, now: datetime) -> None:
    execution = slot_taken(session)
    assert run_requests.cancel(execution.id, ACTOR, now) is ExecutionStatus.INTERRUPTED
    ended = fresh(session, execution.id)
    assert (ended.status, ended.error_kind) == (ExecutionStatus.INTERRUPTED, ErrorKind.ABORTED)
    assert ACTOR in ended.error_message
    assert session.scalars(select(AuditLog).where(AuditLog.action == "execution.cancel")).one().actor == ACTOR
    assert started(execution) is None


def test_cancelling_what_runs_only_asks_and_the_holder_ends_it(session: Session, now: datetime) -> None:
    execution = slot_taken(session)
    assert started(execution) is not None
    assert run_requests.cancel(execution.id, ACTOR, now) is ExecutionStatus.RUNNING
    assert fresh(session, execution.id).cancelled_by == ACTOR
    assert executions.give_up_lease(execution.id, 1, "stopped on request", now, aborted=True) == []
    ended = fresh(session, execution.id)
    assert ended.status is ExecutionStatus.INTERRUPTED and ACTOR in ended.error_message
    logged = session.scalars(select(CoordinatorLog).where(CoordinatorLog.execution_id == execution.id)).all()
    assert any(ACTOR in line.message for line in logged)


def test_what_has_ended_cannot_be_cancelled_and_keeps_its_status(session: Session, now: datetime) -> None:
    execution = slot_taken(session)
    work = started(execution)
    assert work is not None
    executions.finish(execution.id, 1, outcome(work, StepStatus.SUCCESS), now)
    with pytest.raises(Conflict):
        run_requests.cancel(execution.id, ACTOR, now)
    assert fresh(session, execution.id).status is ExecutionStatus.SUCCESS
    with pytest.raises(NotFound):
        run_requests.cancel(10**6, ACTOR, now)


def cancelled(session: Session, now: datetime) -> tuple[Execution, CompositeWork]:
    """A run that somebody cancels."""
    execution = slot_taken(session)
    work = started(execution)
    assert work is not None
    run_requests.cancel(execution.id, ACTOR, now)
    return execution, work


def test_a_cancelled_run_whose_poller_is_lost_does_not_run_again(session: Session, now: datetime) -> None:
    execution, _ = cancelled(session, now)
    assert executions.lost([(execution.id, 1)], "killed", now) == []
    assert fresh(session, execution.id).status is ExecutionStatus.INTERRUPTED


def test_a_cancelled_run_that_fails_is_not_tried_again(session: Session, now: datetime) -> None:
    execution, work = cancelled(session, now)
    executions.finish(execution.id, 1, outcome(work, StepStatus.FAILED), now)
    assert fresh(session, execution.id).status is ExecutionStatus.INTERRUPTED


def test_a_cancelled_run_that_was_read_to_its_end_keeps_what_it_read(session: Session, now: datetime) -> None:
    execution, work = cancelled(session, now)
    result = CompositeResult((StepResult(work.steps[0].node_id, StepStatus.SUCCESS, pdus=1),))
    assert executions.finish(execution.id, 1, result, now) is ExecutionStatus.SUCCESS


def test_a_run_handed_over_by_a_stopping_poller_is_no_loss_and_runs_again_at_once(session: Session) -> None:
    execution = slot_taken(session)
    for token in (1, 2, 3, 4):
        assert started(execution, token=token) is not None
        moment = execution.scheduled_for + token * SECOND
        assert len(executions.hand_over(execution.id, token, "the poller was stopped", moment)) == 1
    waiting = fresh(session, execution.id)
    assert (waiting.status, waiting.losses, waiting.not_before) == (ExecutionStatus.PENDING, 0, None)
    kinds = session.scalars(select(ExecutionAttempt.error_kind).where(ExecutionAttempt.execution_id == execution.id))
    assert set(kinds) == {ErrorKind.SHUTDOWN}
    statuses = session.scalars(select(ExecutionAttempt.status).where(ExecutionAttempt.execution_id == execution.id))
    assert set(statuses) == {AttemptStatus.INTERRUPTED}


def test_what_was_claimed_but_never_started_is_queued_again(session: Session, now: datetime) -> None:
    execution = slot_taken(session)
    assert [ticket.execution_id for ticket in executions.never_started(execution.id)] == [execution.id]
    started(execution)
    assert executions.never_started(execution.id) == [] == executions.never_started(10**6)


def test_run_now_leaves_the_next_slot_where_it_was(session: Session, now: datetime) -> None:
    node = make_node(make_olt())
    slot = node.next_run_at
    assert slot is not None
    execution_id, _ = run_requests.run_now(node.id, ACTOR, now)
    work = executions.start(execution_id, 1, "poller-1", now, now + 15 * SECOND)
    assert work is not None
    executions.finish(execution_id, 1, outcome(work, StepStatus.SUCCESS), now + SECOND)
    assert [new.scheduled_for for new in tick(slot).new] == [slot]
