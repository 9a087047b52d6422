"""Clocks on both databases: switches see each other, due slots stay in the books, what strays is found and wound."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from portal.domain.statuses import EventType, SkipReason
from portal.extensions import db, transaction
from portal.services.coordinating import audit
from portal.services.network import olts, workflows
from portal.tables import Olt, QuotaTracker, WorkflowNode
from scheduler import tick as ticks
from scheduler.coordinator import loop
from testing.builders import make_node, make_olt
from testing.cast import ACTOR, MINUTE, NOW, SECOND
from testing.rows import logged

pytestmark = pytest.mark.usefixtures("session")


def tick(now: datetime) -> Any:
    return ticks.tick("test", now)


def fresh(node: WorkflowNode) -> WorkflowNode:
    db.session.rollback()
    return db.session.get_one(WorkflowNode, node.id, populate_existing=True)


# Two switches at once


def _somebody_waits_for_a_lock() -> bool:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with db.engine.connect() as watcher:
        return bool(watcher.scalar(text(query)))


def second_waits_for_first(app: Flask, first: Callable[[Session], None], second: Callable[[], None]) -> None:
    """`first` in this session's transaction; `second` begins before its commit and goes on until it must wait."""

    def other() -> None:
        with app.app_context():
            try:
                second()
            finally:
                db.session.remove()

    with ThreadPoolExecutor(1) as pool:
        with transaction() as session:
            first(session)
            session.flush()
            running = pool.submit(other)
            while not running.done() and not _somebody_waits_for_a_lock():
                pass
        running.result(30)


def _olt_on(session: Session) -> None:
    (olt,) = session.scalars(select(Olt))
    (found,) = olts._in_service(session, [olt.id])
    found.enabled = True
    olts._switch(session, [found], True, NOW)


def _workflow_on(session: Session) -> None:
    (olt,) = session.scalars(select(Olt))
    begun = workflows.revisions.begin(
        session, workflows.ensure_workflow(session, workflows.existing_olt(session, olt.id))
    )
    workflows.switch(session, begun, True, ACTOR, NOW)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer at a time
@pytest.mark.parametrize("olt_first", [True, False])
def test_an_olt_and_its_workflow_switched_on_at_once_leave_its_node_a_clock(app: Flask, olt_first: bool) -> None:
    olt = make_olt()
    node = make_node(olt, interval="15m")
    ident = olt.id
    olts.set_enabled(ident, False, ACTOR, NOW)
    workflows.set_workflow_enabled(ident, False, ACTOR, NOW)
    assert fresh(node).next_run_at is None
    if olt_first:
        second_waits_for_first(app, _olt_on, lambda: workflows.set_workflow_enabled(ident, True, ACTOR, NOW))
    else:
        second_waits_for_first(app, _workflow_on, lambda: olts.set_enabled(ident, True, ACTOR, NOW))
    assert fresh(node).runs and fresh(node).next_run_at == NOW + 15 * MINUTE


# Due slots stay in the books


def _interval(node: WorkflowNode, olt: Olt, now: datetime) -> None:
    workflows.update_node(node.id, {"interval": "10m"}, ACTOR, now)


def _off_and_on(node: WorkflowNode, olt: Olt, now: datetime) -> None:
    workflows.set_node_enabled(node.id, False, ACTOR, now)
    workflows.set_node_enabled(node.id, True, ACTOR, now)


def _olt_off(node: WorkflowNode, olt: Olt, now: datetime) -> None:
    olts.set_enabled(olt.id, False, ACTOR, now)


def _workflow_off(node: WorkflowNode, olt: Olt, now: datetime) -> None:
    workflows.set_workflow_enabled(olt.id, False, ACTOR, now)


def _cron(node: WorkflowNode, olt: Olt, now: datetime) -> None:
    workflows.update_node(node.id, {"interval": "", "cron": "0 * * * *"}, ACTOR, now)


def _delete(node: WorkflowNode, olt: Olt, now: datetime) -> None:
    workflows.delete_node(node.id, ACTOR, now)


@pytest.mark.parametrize("change", [_interval, _off_and_on, _olt_off, _workflow_off, _cron, _delete])
def test_slots_that_came_while_nothing_ticked_are_skipped_before_a_change_winds_their_clock(
    app: Flask, change: Callable[[WorkflowNode, Olt, datetime], None]
) -> None:
    olt = make_olt()
    node = make_node(olt, interval="5m")
    first = node.next_run_at
    assert first is not None
    loop.run(NOW)
    back = first + 30 * MINUTE - SECOND
    change(node, olt, back)
    (skip,) = logged(EventType.SLOT_SKIPPED)
    assert (skip.reason, skip.details["slots"]) == (SkipReason.SCHEDULER_DOWN, 6)
    loop.run(back)
    tracker = db.session.scalars(select(QuotaTracker).order_by(QuotaTracker.period_start)).first()
    assert tracker is not None and tracker.quota_skipped == 6
    assert audit.audit(back + SECOND, 24) is not None


def test_the_slot_of_this_second_is_the_next_tick_s_also_after_a_change(app: Flask) -> None:
    node = make_node(make_olt(), interval="5m")
    slot = node.next_run_at
    assert slot is not None
    workflows.update_node(node.id, {"interval": "10m"}, ACTOR, slot + timedelta(milliseconds=400))
    (new,) = tick(slot + timedelta(milliseconds=700)).new
    assert new.scheduled_for == slot and fresh(node).next_run_at == slot + 10 * MINUTE
    assert logged(EventType.SLOT_SKIPPED) == []


def test_the_slot_of_this_second_of_a_node_that_is_switched_off_is_skipped_for_that(app: Flask) -> None:
    node = make_node(make_olt(), interval="5m")
    assert node.next_run_at is not None
    workflows.set_node_enabled(node.id, False, ACTOR, node.next_run_at)
    (skip,) = logged(EventType.SLOT_SKIPPED)
    assert (skip.reason, skip.details["slots"]) == (SkipReason.NODE_DISABLED, 1)
