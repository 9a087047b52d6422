"""The life of an execution on both databases: starts, ends, retries, lost workers, and the rehearsal of it all."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Event

import pytest
from flask import Flask
from sqlalchemy import event, func, select, text
from sqlalchemy.orm import Session

from jobs.claim import LeaseLost
from portal.domain.composite import CompositeResult, CompositeWork, StepResult
from portal.domain.slots import Plan
from portal.domain.statuses import AttemptStatus, ErrorKind, ExecutionStatus, OltState, StepStatus, Trigger
from portal.extensions import Base, db, transaction
from portal.services.dispatch import executions, life, rehearsal, run_requests, work
from portal.services.dispatch.executions import StaleToken
from portal.services.network import olts, workflows
from portal.tables import CoordinatorLog, Execution, ExecutionAttempt, ExecutionStep, Olt, WorkflowNode
from testing.builders import make_chained, make_node, make_olt
from testing.cast import ACTOR, NOW, SECOND, at
from testing.ticking import take, tick


def taken(session: Session, master: WorkflowNode) -> Execution:
    """The execution of a node whose first slot has just come."""
    tick(master.next_run_at)  # type: ignore[arg-type]
    return session.scalars(select(Execution)).one()


def slot_taken(session: Session, **node: object) -> Execution:
    """An execution that waits, of a node alone on its OLT."""
    return taken(session, make_node(make_olt(), **node))


def started(execution: Execution, token: int = 1, worker: str = "poller-1", late: float = 0) -> CompositeWork | None:
    now = execution.scheduled_for + timedelta(seconds=late)
    return executions.start(execution.id, token, worker, now, now + 15 * SECOND)


def outcome(work: CompositeWork, *statuses: StepStatus, kind: ErrorKind = ErrorKind.TIMEOUT) -> CompositeResult:
    failed = {"error_kind": kind, "error_message": "no answer"}
    return CompositeResult(tuple(
        StepResult(step.node_id, status, pdus=2, timeouts=2 if status is StepStatus.FAILED else 0,
                   **(failed if status is StepStatus.FAILED else {}))  # type: ignore[arg-type]
        for step, status in zip(work.steps, statuses, strict=True)
    ))  # fmt: skip


def ran(execution: Execution, *statuses: StepStatus, token: int = 1, late: float = 0, ended: float = 1) -> None:
    """One try, started and ended so many seconds after the slot."""
    work = started(execution, token, late=late)
    executions.finish(execution.id, token, outcome(work, *statuses), execution.scheduled_for + ended * SECOND)


def fresh(session: Session, execution: Execution) -> Execution:
    session.rollback()
    return session.get(Execution, execution.id, populate_existing=True)  # type: ignore[return-value]


def test_a_due_node_gets_one_pending_execution_and_its_next_slot(session: Session) -> None:
    execution = slot_taken(session)
    node = session.get(WorkflowNode, execution.node_id)
    assert (execution.status, execution.trigger) == (ExecutionStatus.PENDING, Trigger.SCHEDULE)
    assert node is not None and node.next_run_at == execution.scheduled_for + timedelta(minutes=15)


def test_a_second_tick_of_the_same_second_decides_nothing(session: Session) -> None:
    assert tick(slot_taken(session).scheduled_for) == Plan((), (), {})


def test_a_start_hands_out_the_chain_and_the_secrets_in_clear(session: Session) -> None:
    master = make_node(make_olt())
    make_chained(master)
    make_chained(master, key="off", enabled=False)
    work = started(taken(session, master))
    assert [step.key for step in work.steps] == ["discovery", "description"]
    assert work.target.community == "planted-community" and "planted" not in repr(work)


def test_an_execution_is_started_by_one_token_only(session: Session) -> None:
    execution = slot_taken(session)
    assert started(execution, token=1) is not None
    assert started(execution, token=2) is None


def test_a_device_never_has_two_running_executions(session: Session) -> None:
    olt = make_olt()
    for key in ("a", "b"):
        node = make_node(olt, key)
    tick(node.next_run_at)  # type: ignore[arg-type]
    first, second = session.scalars(select(Execution).order_by(Execution.id))
    assert started(first, token=2) is not None
    assert started(second, token=1) is None
    assert fresh(session, second).status is ExecutionStatus.PENDING


def test_success_ends_the_execution_with_its_steps_and_the_olt_is_up(session: Session) -> None:
    execution = slot_taken(session)
    ran(execution, StepStatus.SUCCESS, late=3, ended=4)
    ended = fresh(session, execution)
    assert (ended.status, ended.duration_ms, ended.delay_ms) == (ExecutionStatus.SUCCESS, 1000, 3000)
    assert [step.status for step in session.scalars(select(ExecutionStep))] == [StepStatus.SUCCESS]
    assert session.get(Olt, ended.olt_id).state is OltState.UP  # type: ignore[union-attr]


def test_a_stale_token_writes_nothing(session: Session) -> None:
    execution = slot_taken(session)
    work = started(execution, token=1)
    executions.lost([(execution.id, 1)], "killed", execution.scheduled_for + SECOND)
    assert started(execution, token=2, worker="poller-2") is not None
    with pytest.raises(StaleToken):
        executions.finish(execution.id, 1, outcome(work, StepStatus.SUCCESS), execution.scheduled_for + 2 * SECOND)
    assert fresh(session, execution).status is ExecutionStatus.RUNNING
    assert session.scalars(select(ExecutionStep)).all() == []


def test_an_end_is_never_written_over(session: Session) -> None:
    slot_taken(session)
    with transaction() as session:
        execution = session.scalars(select(Execution)).one()
        life.end(session, execution, ExecutionStatus.INTERRUPTED, execution.scheduled_for)
        with pytest.raises(StaleToken):
            life.end(session, execution, ExecutionStatus.SUCCESS, execution.scheduled_for)
        assert execution.status is ExecutionStatus.INTERRUPTED


def test_a_lost_worker_interrupts_the_try_and_the_execution_waits_again(session: Session) -> None:
    execution = slot_taken(session)
    started(execution)
    tickets = executions.lost([(execution.id, 1)], "killed", execution.scheduled_for + SECOND)
    assert [(ticket.execution_id, ticket.attempt) for ticket in tickets] == [(execution.id, 2)]
    assert fresh(session, execution).status is ExecutionStatus.PENDING
    attempt = session.scalars(select(ExecutionAttempt)).one()
    assert (attempt.status, attempt.error_kind) == (AttemptStatus.INTERRUPTED, ErrorKind.WORKER_LOST)


def test_three_lost_workers_end_the_execution_as_poison(session: Session) -> None:
    execution = slot_taken(session)
    for token in (1, 2, 3):
        assert started(execution, token=token) is not None
        executions.lost([(execution.id, token)], "killed", execution.scheduled_for + SECOND)
    ended = fresh(session, execution)
    assert (ended.status, ended.error_kind) == (ExecutionStatus.FAILED, ErrorKind.POISON)


def test_a_device_that_fails_is_tried_again_after_the_retry_delay(session: Session) -> None:
    execution = slot_taken(session)
    for token in (1, 2, 3):
        ran(execution, StepStatus.FAILED, token=token)
        waiting = fresh(session, execution)
        if token < 3:
            assert waiting.status is ExecutionStatus.PENDING
            assert waiting.not_before == execution.scheduled_for + SECOND + timedelta(seconds=120)
    assert (waiting.status, waiting.error_kind) == (ExecutionStatus.FAILED, ErrorKind.TIMEOUT)


def test_a_retry_is_never_planned_past_the_nodes_next_slot(session: Session) -> None:
    execution = slot_taken(session, interval="60s", override_reason="test")
    ran(execution, StepStatus.FAILED)
    assert fresh(session, execution).status is ExecutionStatus.FAILED


def test_the_next_slot_ends_an_execution_that_waits_for_its_retry(session: Session) -> None:
    execution = slot_taken(session, interval="5m", retry_delay=200)
    ran(execution, StepStatus.FAILED)
    assert fresh(session, execution).status is ExecutionStatus.PENDING
    tick(execution.scheduled_for + timedelta(minutes=5))
    old, new = session.scalars(select(Execution).order_by(Execution.id).execution_options(populate_existing=True))
    assert (old.status, new.status) == (ExecutionStatus.FAILED, ExecutionStatus.PENDING)


@pytest.mark.parametrize(("unanswered", "silences"), [(2, 1), (1, 0)])
def test_a_retry_that_never_came_is_silence_if_its_try_was(session: Session, unanswered: int, silences: int) -> None:
    execution = slot_taken(session, interval="5m", retry_delay=200)
    work = started(execution)
    step = StepResult(work.steps[0].node_id, StepStatus.FAILED, pdus=2, timeouts=unanswered,
                      error_kind=ErrorKind.TIMEOUT, error_message="no answer")  # fmt: skip
    executions.finish(execution.id, 1, CompositeResult((step,)), execution.scheduled_for + SECOND)
    tick(execution.scheduled_for + timedelta(minutes=5))
    assert fresh(session, execution).status is ExecutionStatus.FAILED
    assert execution.olt.consecutive_failures == silences


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer at a time
@pytest.mark.parametrize(
    ("who", "first", "then"), [("a tick", "workflow_nodes", "executions"), ("a switch", "olts", "workflow_nodes")]
)
def test_an_end_waits_for_others_without_keeping_them_from_what_they_lock_next(
    app: Flask, who: str, first: str, then: str
) -> None:
    with app.app_context():
        execution = slot_taken(db.session())
        work = started(execution)
        ident, soon = execution.id, execution.scheduled_for + SECOND
        ids = {"workflow_nodes": execution.node_id, "executions": ident, "olts": execution.olt_id}
        engine = db.engine

    def finish() -> ExecutionStatus:
        with app.app_context():
            return executions.finish(ident, 1, outcome(work, StepStatus.SUCCESS), soon)

    with ThreadPoolExecutor(1) as threads, engine.connect() as other:
        other.execute(text(f"SELECT id FROM {first} WHERE id = {ids[first]} FOR NO KEY UPDATE"))  # noqa: S608
        end = threads.submit(finish)
        wait_for_a_blocked_transaction(app)
        other.execute(text(f"SELECT id FROM {then} WHERE id = {ids[then]} FOR UPDATE NOWAIT"))  # noqa: S608
        other.rollback()
        assert end.result(20) is ExecutionStatus.SUCCESS
    with app.app_context():
        db.engine.dispose()


def test_a_slot_that_finds_its_node_active_is_skipped_and_logged(session: Session) -> None:
    execution = slot_taken(session)
    tick(execution.scheduled_for + timedelta(minutes=15))
    assert len(session.scalars(select(Execution)).all()) == 1
    logged = session.scalars(select(CoordinatorLog).where(CoordinatorLog.reason.is_not(None))).one()
    assert (logged.reason, logged.node_id) == ("pool_full", execution.node_id)


def test_a_partly_failed_chain_is_failed_and_says_how_far_it_came(session: Session) -> None:
    master = make_node(make_olt(), max_retries=0)
    make_chained(master)
    execution = taken(session, master)
    result = outcome(started(execution), StepStatus.SUCCESS, StepStatus.FAILED, kind=ErrorKind.NO_SUCH_OBJECT)
    executions.finish(execution.id, 1, result, execution.scheduled_for + SECOND)
    ended = fresh(session, execution)
    assert (ended.status, ended.result["completed_steps"], ended.result["steps"]) == (ExecutionStatus.FAILED, 1, 2)


def test_run_now_makes_one_manual_execution_and_leaves_the_clock_alone(session: Session) -> None:
    node = make_node(make_olt())
    before = node.next_run_at
    execution_id, created = run_requests.run_now(node.id, ACTOR, NOW)
    assert created and run_requests.run_now(node.id, ACTOR, NOW + SECOND) == (execution_id, False)
    execution = session.get_one(Execution, execution_id)
    assert (execution.trigger, execution.requested_by) == (Trigger.MANUAL, ACTOR)
    assert session.get(WorkflowNode, node.id).next_run_at == before  # type: ignore[union-attr]


def test_a_manual_run_that_fails_is_not_retried(session: Session) -> None:
    execution_id, _ = run_requests.run_now(make_node(make_olt()).id, ACTOR, NOW)
    work = executions.start(execution_id, 1, "poller-1", NOW, NOW + 15 * SECOND)
    assert executions.finish(execution_id, 1, outcome(work, StepStatus.FAILED), NOW) is ExecutionStatus.FAILED


def test_disabling_a_node_interrupts_what_waits_at_once(session: Session) -> None:
    execution = slot_taken(session)
    workflows.set_node_enabled(execution.node_id, False, ACTOR, NOW)  # type: ignore[arg-type]
    ended = fresh(session, execution)
    assert (ended.status, ended.error_kind) == (ExecutionStatus.INTERRUPTED, ErrorKind.ABORTED)


def test_an_execution_of_a_disabled_olt_is_not_started(session: Session) -> None:
    execution = slot_taken(session)
    session.get_one(Olt, execution.olt_id).enabled = False
    session.commit()
    assert started(execution) is None
    assert fresh(session, execution).status is ExecutionStatus.INTERRUPTED


def test_a_fault_of_our_own_is_internal_and_not_retried(session: Session) -> None:
    execution = slot_taken(session)
    started(execution)
    executions.fail_internal(execution.id, 1, "KeyError: 'x'", execution.scheduled_for + SECOND)
    ended = fresh(session, execution)
    assert (ended.status, ended.error_kind) == (ExecutionStatus.FAILED, ErrorKind.INTERNAL)


def test_an_execution_that_is_being_started_is_not_interrupted_by_a_disabling(app: Flask) -> None:
    started_it, may_commit = Event(), Event()

    def slowly() -> None:
        started_it.set()
        may_commit.wait(20)

    with app.app_context():
        execution = slot_taken(db.session())
        ident, node = execution.id, execution.node_id

    def in_app(verb: Callable[[], object]) -> None:
        with app.app_context():
            verb()

    soon = at("10:02")
    with ThreadPoolExecutor(2) as threads:
        start = threads.submit(in_app, lambda: executions.start(ident, 1, "poller-1", soon, soon, slowly))
        assert started_it.wait(20)
        disable = threads.submit(in_app, lambda: workflows.set_node_enabled(node, False, ACTOR, soon))  # type: ignore[arg-type]
        wait_for_a_blocked_transaction(app)
        may_commit.set()
        start.result(20)
        disable.result(20)
    with app.app_context():
        assert db.session.get_one(Execution, ident).status is ExecutionStatus.RUNNING
        db.session.remove()
        db.engine.dispose()


def between_reading_and_taking(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """`happens` in the moment after the work has been put together and before it is taken."""
    compose = work.compose

    def and_then(session: Session, execution: Execution, token: int, now: datetime) -> CompositeWork:
        composed = compose(session, execution, token, now)
        session.rollback()
        happens()
        return composed

    monkeypatch.setattr(work, "compose", and_then)


def test_what_is_disabled_while_put_together_is_not_started(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    execution = slot_taken(session)
    olt_id = execution.olt_id
    between_reading_and_taking(monkeypatch, lambda: olts.set_enabled(olt_id, False, ACTOR, NOW))
    assert started(execution) is None
    assert fresh(session, execution).status is ExecutionStatus.INTERRUPTED


def test_an_olt_that_moves_while_its_work_is_put_together_is_not_read_at_the_old_address(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = slot_taken(session)
    moved, olt_id = {"address": "192.0.2.99"}, execution.olt_id
    between_reading_and_taking(monkeypatch, lambda: olts.update(olt_id, moved, ACTOR, NOW))
    assert started(execution) is None
    monkeypatch.undo()
    again = started(execution)
    assert again is not None and again.target.address == "192.0.2.99"


def test_a_lease_that_was_lost_while_the_database_kept_us_waiting_starts_nothing(session: Session) -> None:
    execution = slot_taken(session)

    def gone() -> None:
        raise LeaseLost("gone")

    soon = execution.scheduled_for + SECOND
    with pytest.raises(LeaseLost):
        executions.start(execution.id, 1, "poller-1", soon, soon, gone)
    waiting = fresh(session, execution)
    assert (waiting.status, waiting.attempt, waiting.losses) == (ExecutionStatus.PENDING, 0, 0)
    assert session.scalars(select(ExecutionAttempt)).all() == []


def start_beside(session: Session, running: Execution, token: int) -> CompositeWork | None:
    """What a poller gets that starts another node of the same OLT under `token` meanwhile."""
    other = make_node(session.get(Olt, running.olt_id), key="other", name="other")  # type: ignore[arg-type]
    execution_id, _ = run_requests.run_now(other.id, ACTOR, running.scheduled_for)
    soon = running.scheduled_for + SECOND
    return executions.start(execution_id, token, "poller-2", soon, soon)


def test_a_new_holder_ends_what_a_lost_one_left_running_on_its_olt(session: Session) -> None:
    left = slot_taken(session)
    assert started(left, token=1) is not None
    assert start_beside(session, left, token=2) is not None
    assert (fresh(session, left).status, fresh(session, left).losses) == (ExecutionStatus.PENDING, 1)


def test_an_older_token_does_not_end_what_a_younger_one_runs(session: Session) -> None:
    running = slot_taken(session)
    assert started(running, token=9) is not None
    assert start_beside(session, running, token=8) is None
    assert fresh(session, running).status is ExecutionStatus.RUNNING


def wait_for_a_blocked_transaction(app: Flask) -> None:
    """Until PostgreSQL sees the second transaction wait for the first. SQLite lets it in only afterwards anyway."""
    deadline = time.monotonic() + 20
    with app.app_context():
        while db.engine.dialect.name == "postgresql" and time.monotonic() < deadline:
            if db.session.scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted")):
                break
            db.session.rollback()


def from_end(app: Flask) -> tuple[WorkflowNode, datetime]:
    """A master whose slot was just taken with NEXTCHECK_MODE=from_end, and that slot."""
    app.config["NEXTCHECK_MODE"] = "from_end"
    master = make_node(make_olt())
    slot = master.next_run_at
    take(slot, from_end=True)
    return master, slot


def test_from_end_the_next_run_comes_an_interval_after_the_end(app: Flask, session: Session) -> None:
    master, due_at = from_end(app)
    execution = session.scalars(select(Execution)).one()
    assert session.get(WorkflowNode, master.id).next_run_at is None  # type: ignore[union-attr]
    ran(execution, StepStatus.SUCCESS, late=5, ended=7)
    session.rollback()
    session.expire_all()
    assert session.get(WorkflowNode, master.id).next_run_at == due_at + 7 * SECOND + timedelta(minutes=15)  # type: ignore[union-attr]


def test_from_end_a_node_that_is_disabled_while_it_waits_gets_no_clock(app: Flask, session: Session) -> None:
    master, due_at = from_end(app)
    workflows.set_node_enabled(master.id, False, ACTOR, due_at)
    assert session.scalars(select(Execution)).one().status is ExecutionStatus.INTERRUPTED
    assert session.get(WorkflowNode, master.id, populate_existing=True).next_run_at is None  # type: ignore[union-attr]


def counts(session: Session) -> dict[str, int]:
    session.rollback()
    return {name: session.scalar(select(func.count()).select_from(table)) or 0 for name, table in
            Base.metadata.tables.items()}  # fmt: skip


def test_a_rehearsal_leaves_no_row(session: Session) -> None:
    before = counts(session)
    rehearsal.rehearse()
    assert counts(session) == before


def test_a_rehearsal_can_be_repeated_beside_real_rows(session: Session) -> None:
    slot_taken(session)
    before = counts(session)
    rehearsal.rehearse()
    rehearsal.rehearse()
    assert counts(session) == before


def test_after_a_rehearsal_a_composite_compiles_nothing_new(session: Session) -> None:
    execution = slot_taken(session)
    ident, slot = execution.id, execution.scheduled_for
    rehearsal.rehearse()
    compiled: list[str] = []

    def note(_conn, _cursor, statement, _parameters, context, _many) -> None:  # type: ignore[no-untyped-def]
        if context.compiled is not None and context.cache_hit.name != "CACHE_HIT":
            compiled.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        work = executions.start(ident, 1, "poller-1", slot, slot)
        assert work is not None
        executions.finish(ident, 1, outcome(work, StepStatus.SUCCESS), slot)
    finally:
        event.remove(db.engine, "before_cursor_execute", note)
    assert compiled == []
