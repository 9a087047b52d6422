"""After a long stop, on both databases: taken a part at a tick, judged when the ticks have come past, told once."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from flask import Flask
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from portal.domain.statuses import AlertKind, EventType, SkipReason
from portal.extensions import transaction
from portal.services.coordinating import closing
from portal.services.coordinating.audit import audit
from portal.services.dispatch import clock, set_back, slots
from portal.tables import Channel, CoordinatorLog, Execution, Notification, QuotaTracker, QuotaViolation, WorkflowNode
from scheduler import due, planner
from scheduler.coordinator import loop
from testing.builders import make_node, make_olt
from testing.cast import HOUR, MINUTE, SECOND
from testing.ticking import tick
from tests.integration.test_quotas import at, refresh, run


def make_nodes(count: int, first: datetime) -> list[WorkflowNode]:
    """Nodes at five minutes whose clocks stand at `first`."""
    olt = make_olt()
    nodes = [make_node(olt, f"node{number}", kind="get") for number in range(count)]
    for node in nodes:
        at(node, first, 300)
    return nodes


# A part at a tick


def test_a_tick_takes_no_more_missed_hours_than_it_has_time_for_and_the_next_goes_on(
    session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_nodes(6, now + 5 * MINUTE)
    refresh(now)
    monkeypatch.setattr(due, "HOURS", 25)
    back = now + 10 * HOUR
    plans = [tick(back + number * SECOND) for number in range(4)]
    assert [len(plan.next_runs) for plan in plans] == [2, 2, 2, 0]  # 10 hours each
    refresh(back + 4 * SECOND)
    assert audit(back + 5 * SECOND, 11).differences == ()
    session.rollback()
    assert session.scalar(select(func.sum(QuotaTracker.quota_required)).where(QuotaTracker.period_end <= back)) == 720


def test_one_master_that_missed_more_than_a_tick_takes_is_taken_alone(
    session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_nodes(2, now + 5 * MINUTE)
    monkeypatch.setattr(due, "HOURS", 3)
    assert [len(tick(now + 10 * HOUR).next_runs) for _ in range(3)] == [1, 1, 0]


def test_a_cron_line_that_missed_very_many_firings_comes_back_in_steps_and_every_firing_counts(
    session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node(make_olt(), cron="*/5 * * * *")
    refresh(now)
    monkeypatch.setattr(planner, "FIRINGS", 30)
    back = now + 5 * HOUR + MINUTE
    plans = [tick(back) for _ in range(3)]
    assert [sum(one.count for one in plan.skipped) for plan in plans] == [31, 28, 0]
    assert {one.reason for plan in plans for one in plan.skipped} == {SkipReason.SCHEDULER_DOWN}
    session.rollback()
    assert session.scalars(select(Execution.scheduled_for)).all() == [now + 5 * HOUR]
    assert session.get_one(WorkflowNode, node.id).next_run_at == now + 5 * HOUR + 5 * MINUTE
    refresh(back)
    assert audit(back, 6).differences == ()


# Judged when the ticks have come past


def close(now: datetime) -> int:
    loop.run(now)
    return closing.close_due(now)


def reports(session: Session) -> list[dict[str, int]]:
    session.rollback()
    return [row.report["lost"] for row in session.scalars(select(QuotaViolation).order_by(QuotaViolation.id))]


def test_no_hour_is_judged_before_the_ticks_have_come_past_it(
    session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_nodes(2, now + 5 * MINUTE)
    loop.run(now)
    monkeypatch.setattr(due, "HOURS", 3)  # one master a tick
    back = now + 2 * HOUR + 30 * MINUTE
    assert close(back) == 0
    tick(back)
    assert close(back) == 0, "the other master's slots are not skipped yet"
    tick(back)
    assert close(back) == 4
    assert reports(session) == [{"restart": 12}] * 4


def test_an_hour_waits_for_a_scheduler_that_is_dead_for_three_hours_and_then_says_so(
    session: Session, now: datetime
) -> None:
    (node,) = make_nodes(1, now + 5 * MINUTE)
    loop.run(now)
    tick(now + 5 * MINUTE)  # this one waits still when the hour is judged
    assert closing.close_due(now + HOUR + closing.PATIENCE - SECOND) == 0
    assert closing.close_due(now + HOUR + closing.PATIENCE + SECOND) == 1
    assert reports(session) == [{"restart": 11, "pending": 1}]


def test_a_scheduler_that_is_at_work_is_waited_for_however_much_it_has_to_catch_up(
    session: Session, now: datetime
) -> None:
    make_nodes(1, now + 5 * MINUTE)
    loop.run(now)
    back = now + 60 * HOUR
    slots.record_tick("leader", back, 5, None)
    assert closing.close_due(back) == 0


def test_a_node_that_may_not_run_keeps_nobody_waiting(session: Session, now: datetime) -> None:
    make_nodes(1, now + 5 * MINUTE)
    loop.run(now)
    session.execute(update(WorkflowNode).values(enabled=False))  # behind the services' back: its clock stands still
    session.commit()
    assert closing.close_due(now + HOUR + 16 * MINUTE) == 1


# Told once


def channel() -> None:
    with transaction() as writing:
        writing.add(Channel(name="noc", kind="json", alert_kinds=[AlertKind.QUOTA_VIOLATION, AlertKind.SYSTEM]))


def alerts(session: Session) -> list[tuple[AlertKind, str]]:
    session.rollback()
    return [(one.alert_kind, one.body) for one in session.scalars(select(Notification).order_by(Notification.id))]


def test_what_a_stop_broke_is_one_alert_with_its_hours_and_promises(
    app: Flask, session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel()
    make_nodes(3, now + 5 * MINUTE)
    loop.run(now)
    monkeypatch.setattr(closing, "CHUNK", 2)
    back = now + 3 * HOUR + 30 * MINUTE
    tick(back)
    close(back)
    assert len(reports(session)) == 9
    ((kind, body),) = alerts(session)
    assert kind is AlertKind.SYSTEM
    assert "from 2026-11-27 05:00 to 2026-11-27 08:00" in body and "that reason alone: 9." in body  # Lima's time
    close(back + 15 * SECOND)
    assert len(alerts(session)) == 1
    (row,) = session.scalars(select(CoordinatorLog).where(CoordinatorLog.event_type == EventType.SYSTEM))
    assert (row.details["promises"], row.level) == (9, "ERROR")


def test_a_violation_with_another_cause_too_has_its_own_alert_and_the_next_stop_is_told_again(
    session: Session, now: datetime
) -> None:
    channel()
    (node,) = make_nodes(1, now + 5 * MINUTE)
    loop.run(now)
    tick(now + 5 * MINUTE)
    tick(now + 10 * MINUTE)  # that of 10:05 waits still
    (waiting,) = session.scalars(select(Execution)).all()
    run(waiting, now + 11 * MINUTE, 1)
    for back in (now + HOUR + 3 * MINUTE, now + 3 * HOUR + 3 * MINUTE):
        tick(back)
        close(back + 10 * SECOND)
    assert [kind for kind, _ in alerts(session)] == [AlertKind.QUOTA_VIOLATION, AlertKind.SYSTEM]
    tick(now + 5 * HOUR + 3 * MINUTE)
    close(now + 5 * HOUR + 3 * MINUTE)
    assert [kind for kind, _ in alerts(session)][2:] == [AlertKind.SYSTEM]


# The hour that comes twice: in Santiago 23:00 to 24:00 on 4 April 2026


SECOND_TIME = datetime(2026, 4, 5, 3, 10, tzinfo=UTC)  # 23:10, when 23:30 has been once


@pytest.fixture
def santiago(app: Flask) -> ZoneInfo:
    """The portal's zone."""
    app.config["TIMEZONE"] = "America/Santiago"
    return ZoneInfo("America/Santiago")


def test_the_next_firing_in_a_repeated_hour_lies_ahead(santiago: ZoneInfo) -> None:
    following = clock.next_cron("30 23 * * *", SECOND_TIME, santiago)
    assert following is not None and following > SECOND_TIME


def test_in_a_repeated_hour_no_clock_is_wound_back_into_the_past(session: Session, santiago: ZoneInfo) -> None:
    node = make_node(make_olt(), "daily", SECOND_TIME, cron="30 23 * * *")
    before = node.next_run_at
    assert before is not None and before > SECOND_TIME
    assert set_back.wind_back(SECOND_TIME) == 0
    session.rollback()
    assert session.get_one(WorkflowNode, node.id).next_run_at == before
