"""What people ask of executions and of pools, on both databases: run a node now, cancel a run, scale, restart."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.composite import CompositeResult, CompositeWork, StepResult
from portal.domain.statuses import AttemptStatus, ErrorKind, ExecutionStatus, SkipReason, StepStatus, Trigger
from portal.services.dispatch import executions, pool, run_requests, tickets
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.network import olts
from portal.tables import AuditLog, CoordinatorLog, Execution, ExecutionAttempt, Poller
from testing.builders import make_chained, make_node, make_olt
from testing.cast import ACTOR, NOW, SECOND
from testing.rows import set_rows
from testing.ticking import tick
from tests.integration.test_executions import fresh, outcome, ran, slot_taken, started


def test_a_chained_node_runs_alone_when_somebody_asks(session: Session) -> None:
    master = make_node(make_olt())
    first, second = make_chained(master), make_chained(master, key="second", name="second")
    execution_id, created = run_requests.run_now(second.id, ACTOR, NOW)
    work = executions.start(execution_id, 1, "poller-1", NOW, NOW + 15 * SECOND)
    assert created
    assert [step.node_id for step in work.steps] == [second.id] != [first.id]


def test_a_disabled_chained_node_runs_alone_too_but_not_on_a_disabled_olt(session: Session) -> None:
    olt = make_olt()
    master = make_node(olt)
    execution_id, _ = run_requests.run_now(make_chained(master, enabled=False).id, ACTOR, NOW)
    assert executions.start(execution_id, 1, "poller-1", NOW, NOW + 15 * SECOND) is not None
    olts.set_enabled(olt.id, False, ACTOR, NOW)
    with pytest.raises(Invalid, match="disabled"):
        run_requests.run_now(master.id, ACTOR, NOW)
    with pytest.raises(NotFound):
        run_requests.run_now(10**6, ACTOR, NOW)


def test_asking_for_a_slot_that_waits_moves_it_to_the_front_and_keeps_it_the_schedules(session: Session) -> None:
    execution = slot_taken(session)
    asked = run_requests.run_now(execution.node_id, ACTOR, execution.scheduled_for + SECOND)  # type: ignore[arg-type]
    assert asked == (execution.id, False)
    waiting = fresh(session, execution)
    assert (waiting.trigger, waiting.requested_by) == (Trigger.SCHEDULE, ACTOR)
    assert [ticket.queue_name for ticket in tickets.tickets_for(session, [waiting])] == [f"olt-{waiting.olt_id}-high"]


def test_asking_for_a_node_that_waits_for_its_retry_ends_the_wait(session: Session) -> None:
    execution = slot_taken(session)
    ran(execution, StepStatus.FAILED)
    assert fresh(session, execution).not_before is not None
    run_requests.run_now(execution.node_id, ACTOR, execution.scheduled_for + 2 * SECOND)  # type: ignore[arg-type]
    assert fresh(session, execution).not_before is None


def test_cancelling_what_waits_interrupts_it_at_once_and_says_who(session: Session) -> None:
    execution = slot_taken(session)
    assert run_requests.cancel(execution.id, ACTOR, NOW) is ExecutionStatus.INTERRUPTED
    ended = fresh(session, execution)
    assert (ended.status, ended.error_kind) == (ExecutionStatus.INTERRUPTED, ErrorKind.ABORTED)
    assert ACTOR in ended.error_message
    assert session.scalars(select(AuditLog).where(AuditLog.action == "execution.cancel")).one().actor == ACTOR
    assert started(execution) is None


def test_cancelling_what_runs_only_asks_and_the_holder_ends_it(session: Session) -> None:
    execution = slot_taken(session)
    assert started(execution) is not None
    assert run_requests.cancel(execution.id, ACTOR, NOW) is ExecutionStatus.RUNNING
    assert fresh(session, execution).cancelled_by == ACTOR
    assert executions.give_up_lease(execution.id, 1, "stopped on request", NOW, aborted=True) == []
    ended = fresh(session, execution)
    assert ended.status is ExecutionStatus.INTERRUPTED and ACTOR in ended.error_message
    logged = session.scalars(select(CoordinatorLog).where(CoordinatorLog.execution_id == execution.id)).all()
    assert any(ACTOR in line.message for line in logged)


def test_what_has_ended_cannot_be_cancelled_and_keeps_its_status(session: Session) -> None:
    execution = slot_taken(session)
    ran(execution, StepStatus.SUCCESS)
    with pytest.raises(Conflict):
        run_requests.cancel(execution.id, ACTOR, NOW)
    assert fresh(session, execution).status is ExecutionStatus.SUCCESS
    with pytest.raises(NotFound):
        run_requests.cancel(10**6, ACTOR, NOW)


def cancelled(session: Session) -> tuple[Execution, CompositeWork]:
    execution = slot_taken(session)
    work = started(execution)
    run_requests.cancel(execution.id, ACTOR, NOW)
    return execution, work  # type: ignore[return-value]


def test_a_cancelled_run_whose_poller_is_lost_does_not_run_again(session: Session) -> None:
    execution, _ = cancelled(session)
    assert executions.lost([(execution.id, 1)], "killed", NOW) == []
    assert fresh(session, execution).status is ExecutionStatus.INTERRUPTED


def test_a_cancelled_run_that_fails_is_not_tried_again(session: Session) -> None:
    execution, work = cancelled(session)
    executions.finish(execution.id, 1, outcome(work, StepStatus.FAILED), NOW)
    assert fresh(session, execution).status is ExecutionStatus.INTERRUPTED


def test_a_cancelled_run_that_was_read_to_its_end_keeps_what_it_read(session: Session) -> None:
    execution, work = cancelled(session)
    result = CompositeResult((StepResult(work.steps[0].node_id, StepStatus.SUCCESS, pdus=1),))
    assert executions.finish(execution.id, 1, result, NOW) is ExecutionStatus.SUCCESS


def test_a_run_handed_over_by_a_stopping_poller_is_no_loss_and_runs_again_at_once(session: Session) -> None:
    execution = slot_taken(session)
    for token in (1, 2, 3, 4):
        assert started(execution, token=token) is not None
        moment = execution.scheduled_for + token * SECOND
        assert len(executions.hand_over(execution.id, token, "the poller was stopped", moment)) == 1
    waiting = fresh(session, execution)
    assert (waiting.status, waiting.losses, waiting.not_before) == (ExecutionStatus.PENDING, 0, None)
    tries = session.execute(select(ExecutionAttempt.error_kind, ExecutionAttempt.status)).tuples()
    assert set(tries) == {(ErrorKind.SHUTDOWN, AttemptStatus.INTERRUPTED)}


def test_what_was_claimed_but_never_started_is_queued_again(session: Session) -> None:
    execution = slot_taken(session)
    assert [ticket.execution_id for ticket in executions.never_started(execution.id)] == [execution.id]
    started(execution)
    assert executions.never_started(execution.id) == [] == executions.never_started(10**6)


def test_run_now_leaves_the_next_slot_where_it_was(session: Session) -> None:
    node = make_node(make_olt())
    slot = node.next_run_at
    execution_id, _ = run_requests.run_now(node.id, ACTOR, NOW)
    work = executions.start(execution_id, 1, "poller-1", NOW, NOW + 15 * SECOND)
    executions.finish(execution_id, 1, outcome(work, StepStatus.SUCCESS), NOW + SECOND)
    assert [new.scheduled_for for new in tick(slot).new] == [slot]


def opened(now: datetime, pid: int = 1, *, lives: bool = True) -> int:
    made = pool.open_pool("vm", "lima", pid, 2, now, lambda _pid: lives)
    for number in (1, 2):
        pool.register(made, number, f"worker-{number}", number, now)
    return made


def test_a_pool_that_lives_is_not_opened_twice_and_a_dead_one_is_taken_over(session: Session) -> None:
    first = opened(NOW)
    with pytest.raises(Conflict, match="flask pollers scale"):
        opened(NOW, pid=2)
    assert opened(NOW, pid=2, lives=False) == first
    assert opened(NOW + timedelta(minutes=1), pid=3) == first


def test_a_pool_hears_of_its_new_size_and_of_whom_to_replace(session: Session) -> None:
    made = opened(NOW)
    pool.scale("vm/lima", 5, ACTOR, NOW)
    pool.request_restart(session.scalars(select(Poller).where(Poller.poller_id == 2)).one().id, ACTOR, NOW)
    orders = pool.attend(made, ["worker-1", "worker-2"], NOW)
    assert orders is not None and (orders.size, orders.restart) == (5, frozenset({"worker-2"}))
    pool.register(made, 2, "worker-2b", 3, NOW)
    again = pool.attend(made, ["worker-1", "worker-2b"], NOW)
    assert again is not None and not again.restart


def test_what_is_cancelled_and_handed_over_in_the_same_second_does_not_start_again(session: Session) -> None:
    execution = slot_taken(session)
    started(execution, token=5)
    assert run_requests.cancel(execution.id, ACTOR, NOW) is ExecutionStatus.RUNNING
    assert executions.hand_over(execution.id, 5, "the poller was stopped", NOW + SECOND) == []
    ended = fresh(session, execution)
    assert (ended.status, ended.skip_reason) == (ExecutionStatus.INTERRUPTED, SkipReason.CANCELLED)
    assert executions.start(execution.id, 6, "w2", NOW + 2 * SECOND, NOW + 17 * SECOND) is None


def test_what_waits_though_it_was_cancelled_ends_where_it_would_start(session: Session) -> None:
    execution = slot_taken(session)
    set_rows(Execution, cancelled_by="rosa")
    assert executions.start(execution.id, 5, "w1", NOW + SECOND, NOW + 16 * SECOND) is None
    ended = fresh(session, execution)
    assert (ended.status, ended.error_message) == (ExecutionStatus.INTERRUPTED, "cancelled by rosa")


def test_pools_of_two_hosts_number_their_pollers_each_on_its_own(session: Session) -> None:
    first = opened(NOW)
    second = pool.open_pool("vm2", "lima", 7, 2, NOW, lambda _pid: True)
    for worker in ("other-1", "other-1b"):
        pool.register(second, 1, worker, 7, NOW)
    found = {(row.pool_id, row.poller_id): (row.host, row.worker) for row in session.scalars(select(Poller))}
    assert found == {(first, 1): ("vm", "worker-1"), (first, 2): ("vm", "worker-2"), (second, 1): ("vm2", "other-1b")}


def test_a_size_that_cannot_be_or_a_pool_that_is_not_there_is_refused(session: Session) -> None:
    opened(NOW)
    for size in (0, 201):
        with pytest.raises(Invalid):
            pool.scale("vm/lima", size, ACTOR, NOW)
    with pytest.raises(NotFound, match="vm/lima"):
        pool.scale("elsewhere", 3, ACTOR, NOW)
    with pytest.raises(NotFound):
        pool.request_restart(10**6, ACTOR, NOW)


def test_a_pool_that_has_ended_leaves_no_poller_and_counts_no_more(session: Session) -> None:
    made = opened(NOW)
    assert pool.record_stats(NOW).total_pollers == 2
    pool.close_pool(made)
    assert pool.attend(made, [], NOW) is None
    assert pool.record_stats(NOW).total_pollers == 0
