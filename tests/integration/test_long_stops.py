"""After a long stop, and after the host's clock was set back: what was missed is counted, and nothing runs twice."""

from datetime import UTC, datetime
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from flask import Flask
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from portal.domain import slots as due_slots
from portal.domain.statuses import AlertKind, EventType, ExecutionStatus, OltState, SkipReason
from portal.extensions import db, transaction
from portal.models.alert import Channel, Notification
from portal.services.coordinating import closing
from portal.services.coordinating.audit import audit
from portal.services.dispatch import clock, reachability, reaping, set_back, slots
from portal.tables import Execution, Olt, QuotaTracker, QuotaViolation, WorkflowNode
from scheduler import due
from scheduler.coordinator import loop
from testing.builders import make_node, make_olt
from testing.cast import HOUR, MINUTE, NOW, SECOND
from testing.rows import logged, set_rows
from testing.statements import statements_of
from testing.ticking import tick
from tests.integration.test_quotas import at, refresh, run

pytestmark = pytest.mark.usefixtures("session")


def make_nodes(count: int, first: datetime) -> list[WorkflowNode]:
    """Nodes at five minutes whose clocks stand at `first`."""
    olt = make_olt()
    nodes = [make_node(olt, f"node{number}", kind="get") for number in range(count)]
    for node in nodes:
        at(node, first, 300)
    return nodes


def test_a_tick_takes_no_more_missed_hours_than_fit_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    make_nodes(6, NOW + 5 * MINUTE)
    refresh(NOW)
    monkeypatch.setattr(due, "HOURS", 25)
    back = NOW + 10 * HOUR
    plans = [tick(back + number * SECOND) for number in range(4)]
    assert [len(plan.next_runs) for plan in plans] == [2, 2, 2, 0]  # 10 hours each
    refresh(back + 4 * SECOND)
    assert audit(back + 5 * SECOND, 11).differences == ()
    db.session.rollback()
    found = db.session.scalar(select(func.sum(QuotaTracker.quota_required)).where(QuotaTracker.period_end <= back))
    assert found == 720


def test_one_master_that_missed_more_than_a_tick_takes_is_taken_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    make_nodes(2, NOW + 5 * MINUTE)
    monkeypatch.setattr(due, "HOURS", 3)
    assert [len(tick(NOW + 10 * HOUR).next_runs) for _ in range(3)] == [1, 1, 0]


def test_a_cron_line_that_missed_many_firings_returns_in_steps_and_each_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    node = make_node(make_olt(), cron="*/5 * * * *")
    refresh(NOW)
    monkeypatch.setattr(due_slots, "FIRINGS", 30)
    back = NOW + 5 * HOUR + MINUTE
    plans = [tick(back) for _ in range(3)]
    assert [sum(one.count for one in plan.skipped) for plan in plans] == [31, 28, 0]
    assert {one.reason for plan in plans for one in plan.skipped} == {SkipReason.SCHEDULER_DOWN}
    db.session.rollback()
    assert db.session.scalars(select(Execution.scheduled_for)).all() == [NOW + 5 * HOUR]
    assert db.session.get_one(WorkflowNode, node.id).next_run_at == NOW + 5 * HOUR + 5 * MINUTE
    refresh(back)
    assert audit(back, 6).differences == ()


def close(now: datetime) -> int:
    loop.run(now)
    return closing.close_due(now)


def reports() -> list[dict[str, int]]:
    db.session.rollback()
    return [row.report["lost"] for row in db.session.scalars(select(QuotaViolation).order_by(QuotaViolation.id))]


def test_no_hour_is_judged_before_the_ticks_have_come_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    make_nodes(2, NOW + 5 * MINUTE)
    loop.run(NOW)
    monkeypatch.setattr(due, "HOURS", 3)  # one master a tick
    back = NOW + 2 * HOUR + 30 * MINUTE
    assert close(back) == 0
    tick(back)
    assert close(back) == 0, "the other master's slots are not skipped yet"
    tick(back)
    assert close(back) == 4
    assert reports() == [{"restart": 12}] * 4


def test_an_hour_waits_for_a_scheduler_that_is_dead_for_three_hours_and_then_says_so() -> None:
    (node,) = make_nodes(1, NOW + 5 * MINUTE)
    loop.run(NOW)
    tick(NOW + 5 * MINUTE)  # this one waits still when the hour is judged
    assert closing.close_due(NOW + HOUR + closing.PATIENCE - SECOND) == 0
    assert closing.close_due(NOW + HOUR + closing.PATIENCE + SECOND) == 1
    assert reports() == [{"restart": 11, "pending": 1}]


def test_a_scheduler_that_is_at_work_is_waited_for_however_much_it_has_to_catch_up() -> None:
    make_nodes(1, NOW + 5 * MINUTE)
    loop.run(NOW)
    back = NOW + 60 * HOUR
    slots.record_tick("leader", back, 5, None)
    assert closing.close_due(back) == 0


def test_a_node_that_may_not_run_keeps_nobody_waiting() -> None:
    make_nodes(1, NOW + 5 * MINUTE)
    loop.run(NOW)
    set_rows(WorkflowNode, enabled=False)  # behind the services' back: its clock stands still
    assert closing.close_due(NOW + HOUR + 16 * MINUTE) == 1


def channel() -> None:
    with transaction() as writing:
        writing.add(Channel(name="noc", kind="json", alert_kinds=[AlertKind.QUOTA_VIOLATION, AlertKind.SYSTEM]))


def alerts() -> list[tuple[AlertKind, str]]:
    db.session.rollback()
    return [(one.alert_kind, one.body) for one in db.session.scalars(select(Notification).order_by(Notification.id))]


def test_what_a_stop_broke_is_one_alert_with_hours_and_promises(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    channel()
    make_nodes(3, NOW + 5 * MINUTE)
    loop.run(NOW)
    monkeypatch.setattr(closing, "CHUNK", 2)
    back = NOW + 3 * HOUR + 30 * MINUTE
    tick(back)
    close(back)
    assert len(reports()) == 9
    ((kind, body),) = alerts()
    assert kind is AlertKind.SYSTEM
    assert "from 2026-11-27 05:00 to 2026-11-27 08:00" in body and "that reason alone: 9." in body  # Lima's time
    close(back + 15 * SECOND)
    assert len(alerts()) == 1
    (row,) = logged(EventType.SYSTEM)
    assert (row.details["promises"], row.level) == (9, "ERROR")


def test_a_violation_with_another_cause_too_has_its_own_alert_and_the_next_stop_is_told_again() -> None:
    channel()
    (node,) = make_nodes(1, NOW + 5 * MINUTE)
    loop.run(NOW)
    tick(NOW + 5 * MINUTE)
    tick(NOW + 10 * MINUTE)  # that of 10:05 waits still
    (waiting,) = db.session.scalars(select(Execution)).all()
    run(waiting, NOW + 11 * MINUTE, 1)
    for back in (NOW + HOUR + 3 * MINUTE, NOW + 3 * HOUR + 3 * MINUTE):
        tick(back)
        close(back + 10 * SECOND)
    assert [kind for kind, _ in alerts()] == [AlertKind.QUOTA_VIOLATION, AlertKind.SYSTEM]
    tick(NOW + 5 * HOUR + 3 * MINUTE)
    close(NOW + 5 * HOUR + 3 * MINUTE)
    assert [kind for kind, _ in alerts()][2:] == [AlertKind.SYSTEM]


# The hour that comes twice: in Santiago 23:00 to 24:00 on 4 April 2026


SECOND_TIME = datetime(2026, 4, 5, 3, 10, tzinfo=UTC)  # 23:10, when 23:30 has been once


@pytest.fixture
def santiago(app: Flask) -> ZoneInfo:
    app.config["TIMEZONE"] = "America/Santiago"
    return ZoneInfo("America/Santiago")


def test_the_next_firing_in_a_repeated_hour_lies_ahead(santiago: ZoneInfo) -> None:
    following = clock.next_cron("30 23 * * *", SECOND_TIME, santiago)
    assert following is not None and following > SECOND_TIME


def test_in_a_repeated_hour_no_clock_is_wound_back_into_the_past(santiago: ZoneInfo) -> None:
    node = make_node(make_olt(), "daily", SECOND_TIME, cron="30 23 * * *")
    before = node.next_run_at
    assert before is not None and before > SECOND_TIME
    ticked(SECOND_TIME + HOUR)
    assert set_back.wind_back(SECOND_TIME) == 0
    db.session.rollback()
    assert db.session.get_one(WorkflowNode, node.id).next_run_at == before


def end_all(session: Session) -> None:
    set_rows(Execution, status=ExecutionStatus.SUCCESS)


def every_quarter() -> tuple[WorkflowNode, datetime]:
    """A node that runs each 15 minutes, and its first slot."""
    node = make_node(make_olt(), interval="15m")
    assert node.next_run_at is not None
    return node, node.next_run_at


def ticked(until: datetime) -> None:
    """The clock was here once: a tick has used this time."""
    slots.record_tick("test", until, 1, None)


def next_run(session: Session, node: WorkflowNode) -> datetime | None:
    session.rollback()
    session.refresh(node)
    return node.next_run_at


def test_after_a_clock_that_was_an_hour_ahead_for_a_moment_a_node_goes_on_at_its_interval(session: Session) -> None:
    node, first = every_quarter()
    tick(first)
    end_all(session)
    tick(first + 3 * MINUTE + HOUR)
    assert next_run(session, node) == first + 75 * MINUTE
    end_all(session)
    ticked(first + 3 * MINUTE + HOUR)
    assert set_back.wind_back(first + 3 * MINUTE) == 1
    assert next_run(session, node) == first + 15 * MINUTE + SECOND, "the grid's slot of 11:16 was used"
    assert len(tick(first + 15 * MINUTE + SECOND).new) == 1
    (row,) = logged(EventType.SYSTEM)
    assert (row.level, row.details) == ("WARNING", {"nodes": 1}) and "1:12:00 ahead" in row.message


def test_after_an_hour_that_comes_twice_a_node_runs_in_it_again_on_seconds_of_its_own(session: Session) -> None:
    node, first = every_quarter()
    for number in range(5):
        tick(first + number * 15 * MINUTE)
        end_all(session)
    ticked(first + HOUR)
    assert set_back.wind_back(first + MINUTE) == 1
    assert next_run(session, node) == first + 15 * MINUTE + SECOND
    for number in range(1, 5):
        assert len(tick(first + number * 15 * MINUTE + SECOND).new) == 1
        end_all(session)


def test_what_the_rules_of_time_put_ahead_stays_where_it_is(session: Session) -> None:
    olt = make_olt()
    make_node(olt, "daily", interval="1d")
    make_node(olt, "new", interval="60s", override_reason="test")
    make_node(olt, "line", cron="0 3 * * *")
    before = {node.id: node.next_run_at for node in session.scalars(select(WorkflowNode))}
    ticked(NOW + HOUR)
    assert set_back.wind_back(NOW) == 0
    session.rollback()
    assert before == {node.id: node.next_run_at for node in session.scalars(select(WorkflowNode))}
    assert logged() == []


def test_where_no_clock_lies_ahead_a_look_costs_the_same_however_many_intervals_there_are(session: Session) -> None:
    olt, costs = make_olt(), set()
    for interval in ("5m", "10m", "15m"):
        make_node(olt, interval, interval=interval)
        ticked(NOW + HOUR)
        costs.add(statements_of(partial(set_back.wind_back, NOW)))
    assert len(costs) == 1


def test_a_cron_line_fires_again_where_its_slot_was_not_used(session: Session) -> None:
    node = make_node(make_olt(), "line", cron="0 * * * *")
    hour = node.next_run_at
    assert hour is not None
    tick(hour)
    end_all(session)
    set_rows(WorkflowNode, next_run_at=hour + 3 * HOUR)
    ticked(hour + 2 * HOUR)
    assert set_back.wind_back(hour - MINUTE) == 1
    assert next_run(session, node) == hour + HOUR


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer at a time
def test_a_node_that_somebody_is_writing_has_its_turn_a_minute_later(session: Session) -> None:
    node = make_node(make_olt(), interval="15m")
    set_rows(WorkflowNode, next_run_at=NOW + 3 * HOUR)
    ticked(NOW + 3 * HOUR)
    with db.engine.connect() as writer:
        writer.execute(text(f"SELECT id FROM workflow_nodes WHERE id = {node.id} FOR UPDATE"))  # noqa: S608
        assert set_back.wind_back(NOW) == 0
        writer.rollback()
    assert set_back.wind_back(NOW) == 1


def test_a_dead_olt_whose_next_question_lies_too_far_ahead_is_asked_now(session: Session) -> None:
    make_olt()
    set_rows(Olt, state=OltState.UNREACHABLE, state_since=NOW, probe_at=NOW + HOUR)
    assert len(reachability.suspects(NOW, 10)) == 1


def test_what_was_queued_in_the_future_is_looked_for_again(session: Session) -> None:
    node = make_node(make_olt(), interval="15m")
    assert node.next_run_at is not None
    tick(node.next_run_at)
    set_rows(Execution, queued_at=NOW + HOUR)
    assert len(reaping.to_queue(NOW)) == 1
