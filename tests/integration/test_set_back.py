"""After the host's clock was set back: nodes go on at their interval, no slot is used twice, and the log says so."""

from datetime import datetime
from functools import partial

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from portal.domain.statuses import EventType, ExecutionStatus, OltState
from portal.extensions import db
from portal.services.dispatch import reachability, reaping, set_back
from portal.tables import CoordinatorLog, Execution, Olt, WorkflowNode
from testing.builders import make_node, make_olt
from testing.cast import HOUR, MINUTE, SECOND
from testing.statements import statements_of
from testing.ticking import tick


def end_all(session: Session) -> None:
    session.execute(update(Execution).values(status=ExecutionStatus.SUCCESS))
    session.commit()


def every_quarter() -> tuple[WorkflowNode, datetime]:
    """A node that runs each 15 minutes, and its first slot."""
    node = make_node(make_olt(), interval="15m")
    assert node.next_run_at is not None
    return node, node.next_run_at


def next_run(session: Session, node: WorkflowNode) -> datetime | None:
    session.rollback()
    session.refresh(node)
    return node.next_run_at


def test_after_a_clock_that_was_an_hour_ahead_for_a_moment_a_node_goes_on_at_its_interval(
    session: Session, now: datetime
) -> None:
    node, first = every_quarter()
    tick(first)
    end_all(session)
    tick(first + 3 * MINUTE + HOUR)
    assert next_run(session, node) == first + 75 * MINUTE
    end_all(session)
    assert set_back.wind_back(first + 3 * MINUTE) == 1
    assert next_run(session, node) == first + 15 * MINUTE + SECOND, "the grid's slot of 11:16 was used"
    assert len(tick(first + 15 * MINUTE + SECOND).new) == 1
    (row,) = session.scalars(select(CoordinatorLog).where(CoordinatorLog.event_type == EventType.SYSTEM))
    assert (row.level, row.details) == ("WARNING", {"nodes": 1}) and "1:12:00 ahead" in row.message


def test_after_an_hour_that_comes_twice_a_node_runs_in_it_again_on_seconds_of_its_own(
    session: Session, now: datetime
) -> None:
    node, first = every_quarter()
    for number in range(5):
        tick(first + number * 15 * MINUTE)
        end_all(session)
    assert set_back.wind_back(first + MINUTE) == 1
    assert next_run(session, node) == first + 15 * MINUTE + SECOND
    for number in range(1, 5):
        assert len(tick(first + number * 15 * MINUTE + SECOND).new) == 1
        end_all(session)


def test_what_the_rules_of_time_put_ahead_stays_where_it_is(session: Session, now: datetime) -> None:
    olt = make_olt()
    make_node(olt, "daily", interval="1d")
    make_node(olt, "new", interval="60s", override_reason="test")
    make_node(olt, "line", cron="0 3 * * *")
    before = {node.id: node.next_run_at for node in session.scalars(select(WorkflowNode))}
    assert set_back.wind_back(now) == 0
    session.rollback()
    assert before == {node.id: node.next_run_at for node in session.scalars(select(WorkflowNode))}
    assert session.scalars(select(CoordinatorLog)).all() == []


def test_where_no_clock_lies_ahead_a_look_costs_the_same_however_many_intervals_there_are(
    session: Session, now: datetime
) -> None:
    olt, costs = make_olt(), set()
    for interval in ("5m", "10m", "15m"):
        make_node(olt, interval, interval=interval)
        costs.add(statements_of(partial(set_back.wind_back, now)))
    assert len(costs) == 1


def test_a_cron_line_fires_again_where_its_slot_was_not_used(session: Session, now: datetime) -> None:
    node = make_node(make_olt(), "line", cron="0 * * * *")
    hour = node.next_run_at
    assert hour is not None
    tick(hour)
    end_all(session)
    session.execute(update(WorkflowNode).values(next_run_at=hour + 3 * HOUR))
    session.commit()
    assert set_back.wind_back(hour - MINUTE) == 1
    assert next_run(session, node) == hour + HOUR


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer at a time
def test_a_node_that_somebody_is_writing_has_its_turn_a_minute_later(session: Session, now: datetime) -> None:
    node = make_node(make_olt(), interval="15m")
    session.execute(update(WorkflowNode).values(next_run_at=now + 3 * HOUR))
    session.commit()
    with db.engine.connect() as writer:
        writer.execute(text(f"SELECT id FROM workflow_nodes WHERE id = {node.id} FOR UPDATE"))  # noqa: S608
        assert set_back.wind_back(now) == 0
        writer.rollback()
    assert set_back.wind_back(now) == 1


def test_a_dead_olt_whose_next_question_lies_too_far_ahead_is_asked_now(session: Session, now: datetime) -> None:
    make_olt()
    session.execute(update(Olt).values(state=OltState.UNREACHABLE, state_since=now, probe_at=now + HOUR))
    session.commit()
    assert len(reachability.suspects(now, 10)) == 1


def test_what_was_queued_in_the_future_is_looked_for_again(session: Session, now: datetime) -> None:
    node = make_node(make_olt(), interval="15m")
    assert node.next_run_at is not None
    tick(node.next_run_at)
    session.execute(update(Execution).values(queued_at=now + HOUR))
    session.commit()
    assert len(reaping.to_queue(now)) == 1
