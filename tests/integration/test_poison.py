"""A composite that ends every worker that runs it: who is told, and how seldom it is tried again."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain import schedule
from portal.domain.statuses import AlertKind, ErrorKind, EventType, ExecutionStatus, Severity, SkipReason, StepStatus
from portal.services.dispatch import executions, run_requests
from portal.tables import Channel, Execution, Notification, QuotaLoss, WorkflowNode
from testing.builders import make_node, make_olt
from testing.cast import ACTOR, NOW, SECOND
from testing.rows import logged, set_rows
from testing.ticking import tick
from tests.integration.test_executions import outcome

pytestmark = pytest.mark.integration

HOUR = timedelta(hours=1)


@pytest.fixture
def node(session: Session) -> WorkflowNode:
    """A master each 15 minutes, and a channel that takes every alert."""
    made = make_node(make_olt(), interval="15m")
    session.add(Channel(name="NOC", kind="json", target="json://x", alert_kinds=list(AlertKind)))
    session.commit()
    return made


def newest(session: Session) -> Execution:
    session.rollback()
    return session.scalars(select(Execution).order_by(Execution.id.desc()).limit(1)).one()


def poisoned(session: Session, at: datetime) -> Execution:
    """The slot at that moment, if there is one, with three workers lost on it."""
    set_rows(WorkflowNode, next_run_at=at)
    tick(at)
    execution = newest(session)
    for strike in range(3):
        if execution.status is not ExecutionStatus.PENDING:
            break
        token = execution.id * 10 + strike
        executions.start(execution.id, token, "w", at, at + 15 * SECOND)
        executions.lost([(execution.id, token)], "killed", at + SECOND)
        session.refresh(execution)
    return newest(session)


def alerts(session: Session) -> list[tuple[AlertKind, Severity, str]]:
    query = select(Notification).order_by(Notification.id)
    return [(row.alert_kind, row.severity, row.subject.partition(" 20")[0]) for row in session.scalars(query)]


def test_the_first_is_told_and_the_second_holds_the_node(session: Session, node: WorkflowNode) -> None:
    assert poisoned(session, NOW).error_kind is ErrorKind.POISON
    told = [(AlertKind.SYSTEM, Severity.HIGH, "discovery on OLT-LIMA ends the pollers that run it")]
    assert alerts(session) == told
    session.refresh(node)
    assert (node.poisoned, node.held_until) == (1, None)
    poisoned(session, NOW + 15 * 60 * SECOND)
    assert alerts(session) == [*told, (AlertKind.SYSTEM, Severity.HIGH, "discovery on OLT-LIMA is held until")]
    session.refresh(node)
    assert node.held_until == NOW + 15 * 60 * SECOND + SECOND + HOUR
    skipped = tick(NOW + 30 * 60 * SECOND).skipped
    assert [one.reason for one in skipped] == [SkipReason.NODE_HELD]
    losses = session.scalars(select(QuotaLoss.cause)).all()
    assert set(losses) == {"worker_lost"}  # in its books under one cause, whether it ran or not


def test_it_is_tried_again_after_growing_gaps_and_alerts_say_nothing_twice(
    session: Session, node: WorkflowNode
) -> None:
    at, tries = NOW, []
    for _ in range(4 * 24 * 5):
        before = newest(session).id if tries else 0
        if poisoned(session, at).id != before:
            tries.append(at)
        at += 15 * 60 * SECOND
    gaps = [round((later - sooner) / HOUR, 2) for sooner, later in zip(tries, tries[1:], strict=False)]
    assert gaps == [0.25, 1.25, 2.25, 4.25, 8.25, 16.25, 24.25, 24.25, 24.25]
    assert len(alerts(session)) == 2
    assert len(logged(EventType.SLOT_SKIPPED)) == 4 * 24 * 5 - len(tries)


@pytest.mark.parametrize("status", [StepStatus.SUCCESS, StepStatus.FAILED])
def test_run_now_is_a_try_and_any_result_ends_the_hold(
    session: Session, node: WorkflowNode, status: StepStatus
) -> None:
    for quarter in range(2):
        poisoned(session, NOW + quarter * HOUR / 4)
    asked, _created = run_requests.run_now(node.id, ACTOR, NOW + HOUR / 2)
    work = executions.start(asked, 99, "w", NOW + HOUR / 2, NOW + HOUR)
    assert work is not None
    executions.finish(asked, 99, outcome(work, status), NOW + HOUR / 2 + SECOND)
    session.refresh(node)
    assert (node.poisoned, node.held_until) == (0, None)
    set_rows(WorkflowNode, next_run_at=NOW + HOUR)
    assert len(tick(NOW + HOUR).new) == 1


def test_holds_double_from_an_hour_to_a_day() -> None:
    hours = [held / HOUR if (held := schedule.hold(slots)) else None for slots in (0, 1, 2, 3, 4, 5, 6, 7, 8, 1000)]
    assert hours == [None, None, 1, 2, 4, 8, 16, 24, 24, 24]
