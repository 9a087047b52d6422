"""Promises on both databases: a manual run satisfies a slot; what people took away is no violation."""

from datetime import datetime
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.statuses import (
    AlertKind,
    EventType,
    ExecutionStatus,
    OltState,
    QuotaStatus,
    Severity,
    SkipReason,
    Trigger,
)
from portal.extensions import db, transaction
from portal.services.coordinating import closing
from portal.services.dispatch import life, run_requests
from portal.services.network import olts, workflows
from portal.tables import Channel, Execution, Notification, Olt, QuotaTracker, QuotaViolation, WorkflowNode
from scheduler import tick as ticks
from scheduler.coordinator import loop
from testing.builders import make_node, make_olt
from testing.cast import ACTOR, HOUR, MINUTE, NOW, SECOND
from testing.rows import logged, set_rows

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture(autouse=True)
def channel(session: Session) -> None:
    with transaction() as writing:
        writing.add(Channel(name="noc", kind="json", alert_kinds=[AlertKind.QUOTA_VIOLATION, AlertKind.SYSTEM]))


def tick(now: datetime) -> Any:
    db.session.rollback()
    return ticks.tick("test", now)


def end_active(status: ExecutionStatus, now: datetime) -> None:
    with transaction() as session:
        active = select(Execution).where(Execution.status.in_((ExecutionStatus.PENDING, ExecutionStatus.RUNNING)))
        for one in session.scalars(active).all():
            life.end(session, one, status, now)


def hour_of_ticks(begin: datetime, minutes: int, status: ExecutionStatus | None = None) -> None:
    for number in range(1, minutes + 1):
        now = begin + number * MINUTE
        tick(now)
        if status is not None:
            end_active(status, now + SECOND)


def tracker() -> QuotaTracker:
    db.session.rollback()
    found = db.session.scalars(select(QuotaTracker).order_by(QuotaTracker.period_start)).first()
    assert found is not None
    return found


def close(now: datetime) -> None:
    loop.run(now)
    closing.close_due(now)


def violations() -> list[QuotaViolation]:
    db.session.rollback()
    return list(db.session.scalars(select(QuotaViolation)))


def alerts() -> list[AlertKind]:
    return [one.alert_kind for one in db.session.scalars(select(Notification))]


@pytest.mark.parametrize(
    ("outcome", "counts"), [(ExecutionStatus.SUCCESS, (1, 0, 0)), (ExecutionStatus.FAILED, (0, 1, 0))]
)
def test_a_manual_run_that_is_active_when_its_slot_comes_satisfies_it(
    app: Flask, outcome: ExecutionStatus, counts: tuple[int, int, int]
) -> None:
    node = make_node(make_olt(), interval="1h")
    slot = node.next_run_at
    assert slot is not None
    loop.run(NOW)
    ident, created = run_requests.run_now(node.id, ACTOR, slot - 10 * SECOND)
    assert created
    assert tick(slot).new == ()
    db.session.rollback()
    adopted = db.session.get_one(Execution, ident)
    assert (adopted.trigger, adopted.scheduled_for, adopted.requested_by) == (Trigger.SCHEDULE, slot, ACTOR)
    assert logged(EventType.SLOT_SKIPPED) == []
    end_active(outcome, slot + 20 * SECOND)
    found = tracker()
    assert (found.quota_completed, found.quota_failed, found.quota_skipped) == counts
    assert db.session.get_one(WorkflowNode, node.id).next_run_at == slot + HOUR


def test_a_slot_that_finds_its_node_s_last_slot_active_is_skipped_as_ever(app: Flask) -> None:
    node = make_node(make_olt(), interval="5m")
    slot = node.next_run_at
    assert slot is not None
    tick(slot)
    tick(slot + 5 * MINUTE)
    assert len(logged(EventType.SLOT_SKIPPED)) == 1


def test_a_manual_run_before_the_slot_costs_and_gives_nothing(app: Flask) -> None:
    node = make_node(make_olt(), interval="1h")
    slot = node.next_run_at
    assert slot is not None
    run_requests.run_now(node.id, ACTOR, slot - 30 * SECOND)
    end_active(ExecutionStatus.SUCCESS, slot - 20 * SECOND)
    assert len(tick(slot).new) == 1


def test_an_hour_in_which_an_olt_was_paused_by_a_person_breaks_no_promise(app: Flask) -> None:
    olt = make_olt()
    make_node(olt, interval="5m")
    loop.run(NOW)
    olts.pause([olt.id], "new line card", None, ACTOR, NOW)
    hour_of_ticks(NOW, 61)
    close(NOW + HOUR + MINUTE + 10 * SECOND)
    assert tracker().status is QuotaStatus.INTERRUPTED
    assert violations() == [] and alerts() == []


def test_what_was_left_to_be_read_is_judged_by_itself(app: Flask) -> None:
    olt = make_olt()
    make_node(olt, interval="5m")
    loop.run(NOW)
    hour_of_ticks(NOW, 22, ExecutionStatus.FAILED)
    olts.pause([olt.id], "new line card", None, ACTOR, NOW + 23 * MINUTE)
    for number in range(23, 62):
        tick(NOW + number * MINUTE)
    close(NOW + HOUR + MINUTE + 10 * SECOND)
    (broken,) = violations()
    assert broken.severity is Severity.CRITICAL and set(broken.report["lost"]) == {"device", "paused"}
    assert alerts() == [AlertKind.QUOTA_VIOLATION]


def test_a_node_that_was_disabled_while_it_waited_breaks_no_promise(app: Flask) -> None:
    node = make_node(make_olt(), interval="15m")
    loop.run(NOW)
    hour_of_ticks(NOW, 20, ExecutionStatus.SUCCESS)
    slot = NOW + 31 * MINUTE
    tick(slot)
    workflows.set_node_enabled(node.id, False, ACTOR, slot + SECOND)
    close(NOW + HOUR + MINUTE)
    assert tracker().quota_skipped == 1 and tracker().status is QuotaStatus.COMPLETED
    assert violations() == []


def test_an_unreachable_olt_breaks_promises_without_an_alert_for_each(app: Flask) -> None:
    make_node(make_olt(), interval="5m")
    loop.run(NOW)
    set_rows(Olt, state=OltState.UNREACHABLE, state_since=NOW)
    hour_of_ticks(NOW, 61)
    close(NOW + HOUR + MINUTE + 10 * SECOND)
    (broken,) = violations()
    assert set(broken.report["lost"]) == {"unreachable"} and broken.severity is Severity.CRITICAL
    assert alerts() == []
    assert {row.reason for row in logged(EventType.SLOT_SKIPPED)} == {SkipReason.OLT_UNREACHABLE}
