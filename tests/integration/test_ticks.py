"""Ticks on both databases: what is due, what is taken, when it is pushed, and what ticks at once do to each other."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Executable, event, insert, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from portal import queueing
from portal.cron import following as next_cron
from portal.domain.slots import DueMaster, NewExecution, Plan
from portal.domain.statuses import ErrorKind, EventType, ExecutionStatus, OltState, SkipReason, Trigger
from portal.extensions import db, transaction
from portal.models.olt import TemplateNode
from portal.queueing import Ticket
from portal.services.dispatch import reaping, slots
from portal.tables import Execution, Olt, SchedulerState, Workflow, WorkflowNode, WorkflowTemplate
from scheduler import due, planner
from scheduler import reaper as reapers
from scheduler import tick as ticks
from testing.builders import make_execution, make_node, make_olt
from testing.cast import ACTOR, MINUTE, NOW, SECOND
from testing.rows import logged, set_rows
from testing.threads import at_once

Decide = Callable[[list[DueMaster]], Plan]


def take(now: datetime, decide: Decide | None = None, **more: bool) -> tuple[Plan, list[Ticket]]:
    """What a tick at `now` does, short of the push."""
    planned: Decide = decide or (lambda masters: planner.plan(masters, now, next_cron))
    return slots.take(lambda session: due.select_due(session, now), planned, now, **more)


def due_at(moment: datetime, nodes: Iterable[WorkflowNode] | None = None, **values: object) -> None:
    """These nodes (all of them without `nodes`) have their slot at `moment`."""
    change = update(WorkflowNode).values(next_run_at=moment, anchor_at=moment, **values)
    db.session.execute(change if nodes is None else change.where(WorkflowNode.id.in_([node.id for node in nodes])))
    db.session.commit()


def many_nodes(count: int, interval: int = 3600) -> list[WorkflowNode]:
    """Masters of one OLT, made at once."""
    first = make_node(make_olt(), "n0")
    for number in range(1, count):
        db.session.add(WorkflowNode(workflow_id=first.workflow_id, key=f"n{number}", name=f"n{number}", kind=first.kind,
                                    oid=first.oid, interval_seconds=interval, priority=40))  # fmt: skip
    first.interval_seconds = interval
    db.session.commit()
    return list(db.session.scalars(select(WorkflowNode).order_by(WorkflowNode.id)))


def found(session: Session) -> list[Execution]:
    session.rollback()
    return list(session.scalars(select(Execution).order_by(Execution.id).execution_options(populate_existing=True)))


def clock_of(session: Session, node: WorkflowNode) -> datetime | None:
    session.rollback()
    session.refresh(node)
    return node.next_run_at


def waiting_for_its_retry(session: Session, slot: datetime) -> tuple[WorkflowNode, Execution]:
    """A node every 15 minutes whose try at `slot` has failed; it is tried again two minutes later."""
    node = make_node(make_olt(), interval="15m")
    due_at(slot)
    take(slot)
    (execution,) = found(session)
    execution.attempt = execution.failures = 1
    execution.not_before, execution.queued_at = slot + 2 * MINUTE, None
    session.commit()
    return node, execution


# What is due


def a_history(session: Session) -> None:
    """400 nodes, three of them due, each with a day of runs behind it; half of them wait for a retry in an hour.

    PostgreSQL gets its statistics: of a table that is all but empty it may pick any index.
    """
    nodes = many_nodes(400)
    due_at(NOW + MINUTE)
    due_at(NOW, nodes[:3])
    olt = nodes[0].workflow.olt

    def run(node: WorkflowNode, hour: int, status: ExecutionStatus, **more: object) -> dict[str, object]:
        return {"node_id": node.id, "olt_id": olt.id, "device_key": olt.device_key, "priority": 40,
                "node_name": node.name, "scheduled_for": NOW - timedelta(hours=hour), "status": status,
                **more}  # fmt: skip

    ended = [run(node, hour, ExecutionStatus.SUCCESS) for node in nodes for hour in range(1, 25)]
    waiting = [run(node, 0, ExecutionStatus.PENDING, not_before=NOW + timedelta(hours=1)) for node in nodes[::2]]
    for rows in (ended, waiting):
        session.execute(insert(Execution), rows)
    session.commit()
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("ANALYZE"))
        session.commit()


def plan_of(session: Session, statement: Executable, **values: object) -> str:
    """The database's plan of a select as it is sent."""
    connection = session.connection()
    explain = "EXPLAIN " if connection.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "

    def ask_for_the_plan(_c: object, _cursor: object, words: str, given: object, *_: object) -> tuple[str, object]:
        return explain + words, given

    event.listen(connection, "before_cursor_execute", ask_for_the_plan, retval=True)
    cursor = connection.execute(statement, values).cursor
    event.remove(connection, "before_cursor_execute", ask_for_the_plan)
    rows = cursor.fetchall()
    session.rollback()
    return "\n".join(str(row[-1]) for row in rows)


def test_what_is_due_is_found_by_its_clock_and_never_by_a_nodes_history(session: Session) -> None:
    a_history(session)
    made = plan_of(session, due.DUE, now=NOW)
    assert "ix_workflow_nodes_next_run_at" in made
    assert "uq_executions_active_node" in made
    assert "uq_executions_node_id" not in made and "SCAN" not in made and "Seq Scan on executions" not in made


def test_what_is_ripe_is_found_by_its_time(session: Session) -> None:
    a_history(session)
    assert "ix_executions_not_before" in plan_of(session, slots._RIPE[session.get_bind().dialect.name], now=NOW)


def test_a_due_master_carries_all_that_its_ticket_needs(session: Session) -> None:
    olt = make_olt(site="lima")
    node = make_node(olt)
    due_at(NOW)
    (master,) = due.select_due(session, NOW)
    assert (master.node_id, master.olt_id, master.site, master.device_key) == (node.id, olt.id, "lima", olt.device_key)
    _, (ticket,) = take(NOW)
    assert (ticket.olt_id, ticket.site, ticket.attempt, ticket.priority) == (olt.id, "lima", 1, node.priority)
    assert (ticket.scheduled_for, ticket.overdue_at) == (NOW, NOW + 15 * MINUTE)
    assert [execution.id for execution in found(session)] == [ticket.execution_id]


@pytest.mark.parametrize("blocked_by", ["node", "workflow", "olt", "deleted olt"])
def test_what_is_disabled_is_not_due(session: Session, blocked_by: str) -> None:
    node = make_node(make_olt())
    due_at(NOW)
    target = {"node": WorkflowNode, "workflow": Workflow}.get(blocked_by, Olt)
    values = {"deleted_at": NOW} if blocked_by == "deleted olt" else {"enabled": False}
    session.execute(update(target).values(values))
    session.commit()
    assert not due.anything_due(session, NOW) and due.select_due(session, NOW) == []
    assert clock_of(session, node) == NOW


def test_nodes_of_a_disabled_template_are_not_due_but_those_of_its_own_olt_are(session: Session) -> None:
    olt = make_olt()
    own, from_template = make_node(olt, "own"), make_node(olt, "made")
    template = WorkflowTemplate(name="basic")
    template.nodes.append(TemplateNode(key="made", name="made", kind=own.kind, oid=own.oid, interval_seconds=60,
                                       priority=40))  # fmt: skip
    session.add(template)
    session.flush()
    own.workflow.template_id, from_template.template_node_id = template.id, template.nodes[0].id
    session.commit()
    due_at(NOW)
    assert {master.node_id for master in due.select_due(session, NOW)} == {own.id, from_template.id}
    template.enabled = False
    session.commit()
    assert {master.node_id for master in due.select_due(session, NOW)} == {own.id}


# Slots that do not run


@pytest.mark.parametrize(
    ("state", "reason"), [(OltState.UNREACHABLE, SkipReason.OLT_UNREACHABLE), (OltState.PAUSED, SkipReason.OLT_PAUSED)]
)
def test_slots_of_an_olt_that_is_away_are_skipped_with_the_cause_and_its_clocks_go_on(
    session: Session, state: OltState, reason: SkipReason
) -> None:
    node = make_node(make_olt(), interval="15m")
    set_rows(Olt, state=state)
    due_at(NOW - 30 * MINUTE)
    plan, tickets = take(NOW)
    assert (plan.new, tickets, found(session)) == ((), [], [])
    (log,) = logged(EventType.SLOT_SKIPPED)
    assert (log.reason, log.node_id, log.olt_id, log.scheduled_for) == (reason, node.id, node.workflow.olt_id, NOW)
    assert log.details["slots"] == 3 and "3 slots were skipped" in log.message
    assert clock_of(session, node) == NOW + 15 * MINUTE


def test_an_olt_whose_pause_has_run_out_is_due_again(session: Session) -> None:
    make_node(make_olt())
    set_rows(Olt, state=OltState.PAUSED, paused_until=NOW + SECOND)
    due_at(NOW)
    assert [master.blocked for master in due.select_due(session, NOW)] == [SkipReason.OLT_PAUSED]
    assert [master.blocked for master in due.select_due(session, NOW + SECOND)] == [None]


def test_skips_of_many_nodes_are_each_logged(session: Session) -> None:
    nodes = many_nodes(40, interval=60)
    due_at(NOW - 5 * MINUTE)
    take(NOW + 40 * SECOND)
    assert Counter(log.node_id for log in logged(EventType.SLOT_SKIPPED)) == Counter(node.id for node in nodes)
    assert {log.details["slots"] for log in logged(EventType.SLOT_SKIPPED)} == {6}


def test_a_retry_ends_when_the_slot_after_it_is_skipped(session: Session) -> None:
    _, execution = waiting_for_its_retry(session, NOW)
    set_rows(Olt, state=OltState.UNREACHABLE)
    take(NOW + 15 * MINUTE)
    (ended,) = found(session)
    assert (ended.id, ended.status, ended.error_kind) == (execution.id, ExecutionStatus.FAILED, ErrorKind.SUPERSEDED)


def test_a_slot_that_exists_already_is_passed_over(app: Flask, session: Session) -> None:
    node = make_node(make_olt(), interval="15m")
    due_at(NOW)
    take(NOW)
    set_rows(Execution, status=ExecutionStatus.SUCCESS)
    due_at(NOW)  # as after somebody set the clock back and enabled the node anew
    plan, tickets = take(NOW, lambda masters: planner.plan(masters, NOW, next_cron, from_end=True))
    assert (plan.new, plan.skipped, tickets) == ((), (), [])
    assert [execution.status for execution in found(session)] == [ExecutionStatus.SUCCESS]
    assert clock_of(session, node) == NOW + 15 * MINUTE


def test_a_slot_whose_node_was_run_by_hand_meanwhile_is_that_run_s_and_the_others_run(session: Session) -> None:
    first, second = many_nodes(2)
    due_at(NOW)

    def decide(masters: list[DueMaster]) -> Plan:
        make_execution(first, NOW, trigger=Trigger.MANUAL)
        return planner.plan(masters, NOW, next_cron)

    _, tickets = take(NOW, decide)
    scheduled = [(one.node_id, one.scheduled_for) for one in found(session) if one.trigger is Trigger.SCHEDULE]
    assert scheduled == [(first.id, NOW), (second.id, NOW)] and len(tickets) == 1
    assert logged(EventType.SLOT_SKIPPED) == []
    assert clock_of(session, first) == NOW + timedelta(hours=1)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer at a time
def test_a_retry_that_is_being_started_when_its_next_slot_comes_is_left_alone(app: Flask, session: Session) -> None:
    node, execution = waiting_for_its_retry(session, NOW)
    with db.engine.connect() as starter:
        starter.execute(text(f"UPDATE executions SET priority = 41 WHERE id = {execution.id}"))  # noqa: S608
        take(NOW + 15 * MINUTE)
        starter.rollback()
    assert [one.status for one in found(session)] == [ExecutionStatus.PENDING]
    assert [log.reason for log in logged(EventType.SLOT_SKIPPED)] == [SkipReason.POOL_FULL]
    assert clock_of(session, node) == NOW + 30 * MINUTE


# Late with many others


def test_late_starts_are_pushed_in_their_turn_each_once_and_spread_over_a_minute(session: Session) -> None:
    many_nodes(100)
    due_at(NOW - 10 * MINUTE)
    _, tickets = take(NOW)
    starts = [(NOW, ticket.execution_id) for ticket in tickets]
    assert len(starts) == 1 and sum(one.queued_at is None for one in found(session)) == 99
    moment = NOW
    while slots.anything_ripe(session, moment) or moment < NOW + 70 * SECOND:
        starts += [(moment, ticket.execution_id) for ticket in slots.queue_ripe(moment)]
        moment += SECOND
    assert sorted(ident for _, ident in starts) == [one.id for one in found(session)]
    assert max(moment for moment, _ in starts) - NOW >= 60 * SECOND
    assert max(Counter(moment for moment, _ in starts).values()) <= 2


def test_the_reaper_leaves_late_starts_to_their_turn(session: Session) -> None:
    many_nodes(30)
    due_at(NOW - 10 * MINUTE)
    take(NOW)
    assert len(reaping.to_queue(NOW + 20 * SECOND)) == pytest.approx(10, abs=2)
    assert len(reaping.to_queue(NOW + 70 * SECOND)) == 30


def test_a_retry_is_pushed_on_its_second(session: Session) -> None:
    _, execution = waiting_for_its_retry(session, NOW)
    again = NOW + 2 * MINUTE
    assert not slots.anything_ripe(session, again - SECOND) and slots.queue_ripe(again - SECOND) == []
    assert slots.anything_ripe(session, again)
    assert [(ticket.execution_id, ticket.attempt) for ticket in slots.queue_ripe(again)] == [(execution.id, 2)]
    assert not slots.anything_ripe(session, again + SECOND) and slots.queue_ripe(again + SECOND) == []


def test_a_tick_pushes_what_has_waited_for_its_second(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    _, execution = waiting_for_its_retry(session, NOW)
    pushed: list[Ticket] = []
    monkeypatch.setattr(queueing, "push", pushed.extend)
    ticks.tick("leader", NOW + 2 * MINUTE)
    assert [(ticket.execution_id, ticket.attempt) for ticket in pushed] == [(execution.id, 2)]


# Two ticks, and ticks that fail


def test_three_ticks_at_once_take_each_slot_once(app: Flask, session: Session) -> None:
    many_nodes(60)
    due_at(NOW)
    pushed = [ticket.execution_id for _, tickets in at_once(app, [lambda: take(NOW)] * 3) for ticket in tickets]
    assert sorted(pushed) == [execution.id for execution in found(session)] and len(pushed) == 60


def test_a_tick_that_breaks_a_constraint_changes_nothing_and_pushes_nothing(
    app: Flask, session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node(make_olt())
    due_at(NOW)
    plan = planner.plan

    def with_a_node_that_is_gone(masters: list[DueMaster], *rest: object, **more: object) -> Plan:
        made = plan(masters, *rest, **more)  # type: ignore[arg-type]
        return replace(made, new=(*made.new, NewExecution(replace(masters[0], node_id=10**6), NOW, NOW + MINUTE)))

    pushed: list[Ticket] = []
    monkeypatch.setattr(planner, "plan", with_a_node_that_is_gone)
    monkeypatch.setattr(queueing, "push", pushed.extend)
    with pytest.raises(IntegrityError):
        ticks.tick("leader", NOW)
    assert "event=tick_doubled" not in caplog.text  # nobody was faster: it is a fault of ours, and shown
    assert session.get_one(SchedulerState, 1).error.startswith("IntegrityError: ")
    assert (found(session), pushed, clock_of(session, node)) == ([], [], NOW)
    monkeypatch.setattr(planner, "plan", plan)
    ticks.tick("leader", NOW + SECOND)
    assert [ticket.execution_id for ticket in pushed] == [execution.id for execution in found(session)]


def refuse_inserts(session: Session, node: WorkflowNode) -> None:
    """The database refuses executions of this node, as a CHECK of an older schema would refuse a new word."""
    if session.get_bind().dialect.name == "sqlite":
        session.execute(text(f"CREATE TRIGGER refuse BEFORE INSERT ON executions WHEN NEW.node_id = {node.id} "
                             "BEGIN SELECT RAISE(ABORT, 'refused'); END"))  # fmt: skip
    else:
        session.execute(text(f"ALTER TABLE executions ADD CONSTRAINT refuse CHECK (node_id <> {node.id}) NOT VALID"))
    session.commit()


@pytest.fixture
def refusing(session: Session) -> Iterator[Callable[[WorkflowNode], None]]:
    """refuse_inserts(), which is taken back."""
    yield lambda node: refuse_inserts(session, node)
    session.rollback()
    sqlite = session.get_bind().dialect.name == "sqlite"
    session.execute(text("DROP TRIGGER refuse" if sqlite else "ALTER TABLE executions DROP CONSTRAINT refuse"))
    session.commit()


def test_a_master_that_the_database_refuses_leaves_the_others_alone_and_is_named_in_the_pulse(
    session: Session, refusing: Callable[[WorkflowNode], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = many_nodes(21)
    pushed: list[Ticket] = []
    monkeypatch.setattr(queueing, "push", pushed.extend)
    refusing(nodes[13])
    for slot in (NOW, NOW + timedelta(hours=1)):
        due_at(slot, [node for node in nodes if node is not nodes[13]])
        due_at(NOW, [nodes[13]])
        ticks.tick("leader", slot)
        state = session.get_one(SchedulerState, 1, populate_existing=True)
        assert f"n13 (node {nodes[13].id}) cannot be planned" in state.error
        assert state.last_planned == 20
        with pytest.raises(IntegrityError):  # nothing else is due
            ticks.tick("leader", slot + SECOND)
        session.rollback()
        assert "refuse" in session.get_one(SchedulerState, 1, populate_existing=True).error
        set_rows(Execution, status=ExecutionStatus.SUCCESS)
    assert sorted(ticket.execution_id for ticket in pushed) == [execution.id for execution in found(session)]
    assert {execution.node_id for execution in found(session)} == {node.id for node in nodes} - {nodes[13].id}


def test_somebody_who_is_faster_three_times_in_a_row_is_an_error_and_not_before(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node,) = many_nodes(1)
    due_at(NOW)
    take_slots = slots.take

    def late(*rest: Any, **more: Any) -> Any:
        made = take_slots(*rest, **more)
        with transaction() as writing:  # what the other process has written already
            writing.execute(insert(Execution).values(
                node_id=node.id, olt_id=node.workflow.olt_id, node_name="n", device_key="k", priority=40,
                scheduled_for=NOW, trigger=Trigger.SCHEDULE,
            ))  # fmt: skip
        return made

    said = []
    monkeypatch.setattr(slots, "take", late)
    monkeypatch.setattr(queueing, "push", lambda _tickets: None)
    for second in range(3):
        due_at(NOW)
        with suppress(IntegrityError):
            ticks.tick("leader", NOW + second * SECOND)
        session.rollback()
        said.append(session.get_one(SchedulerState, 1).error[:14])
    assert said == ["", "", "IntegrityError"]


def test_a_tick_without_redis_takes_the_slots_and_leaves_the_push_to_the_reaper(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_: object) -> None:
        raise AssertionError("Redis is known to be away")

    make_node(make_olt())
    due_at(NOW)
    monkeypatch.setattr(queueing, "push", never)
    ticks.tick("leader", NOW, redis_trouble="Redis: ConnectionError")
    assert session.get(SchedulerState, 1).error == "Redis: ConnectionError"  # type: ignore[union-attr]
    (execution,) = found(session)
    assert execution.queued_at is None
    assert [ticket.execution_id for ticket in reaping.to_queue(NOW)] == [execution.id]


def test_the_pulse_says_who_ticked_and_what_came_of_it(session: Session) -> None:
    many_nodes(3, interval=60)
    due_at(NOW - MINUTE)
    ticks.tick("leader-1", NOW)
    session.rollback()
    state = session.get_one(SchedulerState, 1)
    assert (state.leader, state.last_tick_at, state.last_planned, state.last_skipped) == ("leader-1", NOW, 3, 3)


def test_a_tick_that_fails_is_shown_on_the_pages(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Plan:
        raise KeyError("x")

    make_node(make_olt())
    due_at(NOW)
    monkeypatch.setattr(planner, "plan", broken)
    with pytest.raises(KeyError):
        ticks.tick("leader-1", NOW)
    session.rollback()
    assert (session.get_one(SchedulerState, 1).error, found(session)) == ("KeyError: 'x'", [])


def test_a_cron_line_that_cannot_be_read_stops_no_other_node(session: Session) -> None:
    olt = make_olt()
    bad, good = make_node(olt, "bad", cron="0 * * * *"), make_node(olt, "good")
    due_at(NOW)
    set_rows(WorkflowNode, WorkflowNode.id == bad.id, cron="0 0 30 2 *")
    take(NOW)
    assert good.id in [execution.node_id for execution in found(session)]


@pytest.mark.parametrize(
    ("line", "zone", "month", "day"),
    [
        ("30 2 * * *", "Europe/Madrid", 3, 29),  # 02:30 does not exist on that day
        ("30 2 * * *", "Europe/Madrid", 10, 25),  # 02:30 comes twice
        ("30 23 * * *", "America/Santiago", 4, 4),
        ("30 0 * * *", "America/Santiago", 9, 6),
    ],
)
def test_a_daily_cron_line_fires_once_a_day_when_summer_time_begins_and_ends(
    app: Flask, session: Session, line: str, zone: str, month: int, day: int
) -> None:
    app.config["TIMEZONE"] = zone
    moment = datetime(2026, month, day, tzinfo=UTC) - timedelta(days=3)
    fired = []
    for _ in range(6):
        moment = next_cron(line, moment)
        fired.append(moment)
    gaps = [(later - sooner) / timedelta(hours=1) for sooner, later in zip(fired, fired[1:], strict=False)]
    assert all(22.4 < gap < 25.1 for gap in gaps) and abs(sum(gaps) - 5 * 24) <= 1.5


def test_a_cron_line_never_answers_with_a_time_that_has_passed(app: Flask, session: Session) -> None:
    app.config["TIMEZONE"] = "Europe/Madrid"
    moment = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)
    while moment < datetime(2026, 10, 25, 4, 0, tzinfo=UTC):  # 02:00 to 03:00 comes twice
        assert next_cron("30 2 * * *", moment) > moment
        moment += 10 * MINUTE


# The whole of it over a simulated day


@pytest.mark.slow
def test_over_a_simulated_day_of_outages_and_steps_of_the_clock_every_slot_is_accounted_for(session: Session) -> None:
    olts = [make_olt(f"OLT-{n}") for n in range(3)]
    nodes = [make_node(olt, key, interval=pace) for olt in olts for key, pace in (("a", "5m"), ("b", "7m"))]
    due_at(NOW)
    moment, started = NOW, set[int]()
    for number in range(60):
        moment += timedelta(seconds=(61, 300, 7, 1200, -90, 45)[number % 6])
        moment += timedelta(hours={10: 1, 15: -1}.get(number % 20, 0))
        state = OltState.UNREACHABLE if number % 9 < 2 else OltState.UP
        set_rows(Olt, Olt.id == olts[0].id, state=state)
        plan, tickets = take(moment)
        assert all(new.scheduled_for <= moment for new in plan.new)
        tickets += slots.queue_ripe(moment)
        assert not started & {ticket.execution_id for ticket in tickets}
        started |= {ticket.execution_id for ticket in tickets}
        if number % 3:
            pending = update(Execution).where(Execution.id.in_(started), Execution.status == ExecutionStatus.PENDING)
            session.execute(pending.values(status=ExecutionStatus.SUCCESS if number % 2 else ExecutionStatus.FAILED))
            session.commit()
    for node in nodes:
        check_account(session, node, NOW)


def check_account(session: Session, node: WorkflowNode, first: datetime) -> None:
    step = timedelta(seconds=node.interval_seconds or 0)
    ways = Counter(execution.scheduled_for for execution in found(session) if execution.node_id == node.id)
    for log in logged(EventType.SLOT_SKIPPED):
        if log.node_id == node.id:
            slot, last = (datetime.fromisoformat(log.details[word]) for word in ("first", "last"))
            counted = 0
            while slot <= last:
                ways[slot] += 1
                slot, counted = slot + step, counted + 1
            assert counted == log.details["slots"]
    following = clock_of(session, node)
    slots_by_arithmetic = {first + k * step for k in range(round((following - first) / step))}
    assert set(ways) == slots_by_arithmetic and set(ways.values()) == {1}


# The reaper


def running(session: Session, **values: object) -> Execution:
    execution = Execution(node_name="n", device_key=f"d{values}", priority=40, scheduled_for=NOW, token=7,
                          status=ExecutionStatus.RUNNING, **values)  # fmt: skip
    session.add(execution)
    session.commit()
    return execution


def test_what_runs_though_it_was_cancelled_or_its_olt_disabled_is_asked_to_stop_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine, off, gone, mixed = (make_olt(f"OLT-{n}") for n in range(4))
    off.enabled, gone.deleted_at = False, NOW
    for olt in (fine, off, gone):
        running(session, olt_id=olt.id)
    running(session, olt_id=mixed.id, cancelled_by=ACTOR)
    assert sorted(reaping.to_stop()) == sorted([(off.id, 7), (gone.id, 7), (mixed.id, 7)])
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(queueing, "ask_to_stop_token", lambda olt, token: asked.append((olt, token)))
    monkeypatch.setattr(queueing, "lease_tokens", lambda olts: dict.fromkeys(olts, 7))
    monkeypatch.setattr(queueing, "mark_ready", lambda *_: 0)
    reapers.reap()
    assert sorted(asked) == sorted(reaping.to_stop())


def test_what_runs_under_a_token_that_its_olt_forgot_is_lost(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    held, free, taken_over = (running(session, olt_id=make_olt(f"OLT-{n}").id) for n in range(3))
    tokens = {held.olt_id: 7, taken_over.olt_id: 8}
    monkeypatch.setattr(queueing, "lease_tokens", lambda _olts: tokens)
    monkeypatch.setattr(queueing, "mark_ready", lambda *_: 0)
    monkeypatch.setattr(queueing, "unknown", lambda _tickets: [])
    monkeypatch.setattr(queueing, "push", lambda _tickets: 0)
    reapers.reap()
    assert [one.status for one in found(session)] == [ExecutionStatus.RUNNING, *[ExecutionStatus.PENDING] * 2]
    assert (free.losses, taken_over.losses) == (1, 1)


def test_olts_with_work_are_kicked_with_their_site(session: Session) -> None:
    for name, site in (("A", "lima"), ("B", ""), ("C", "cusco")):
        make_node(make_olt(name, site=site))
    due_at(NOW)
    take(NOW)
    set_rows(Execution, Execution.olt_id == 3, status=ExecutionStatus.SUCCESS)
    assert sorted(reaping.active_olts()) == [(1, "lima"), (2, "")]


def test_when_more_wait_than_one_look_takes_in_the_others_get_their_turn(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_nodes(5)
    due_at(NOW)
    take(NOW)
    later = NOW + MINUTE
    monkeypatch.setattr(reaping, "LIMIT", 3)
    monkeypatch.setattr(queueing, "unknown", lambda tickets: [])
    monkeypatch.setattr(queueing, "push", lambda tickets: 0)
    looks = []
    for _ in range(2):
        looks.append([ticket.execution_id for ticket in reaping.to_queue(later)])
        reapers._push_forgotten(later)
    assert [len(look) for look in looks] == [3, 2] and not set(looks[0]) & set(looks[1])


# Equals


def test_of_equals_the_one_whose_last_success_is_longest_ago_goes_first(session: Session) -> None:
    first, second, third = many_nodes(3)
    due_at(NOW)
    for node, ago in ((first, 10), (third, 20)):
        change = update(WorkflowNode).where(WorkflowNode.id == node.id).values(last_success_at=NOW - ago * MINUTE)
        db.session.execute(change)
    db.session.commit()
    take(NOW)
    assert [one.node_id for one in found(session)] == [second.id, third.id, first.id]
