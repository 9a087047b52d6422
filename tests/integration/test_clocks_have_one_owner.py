"""Clocks on both databases: switches see each other, due slots stay in the books, what strays is found and wound."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from flask import Flask
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from portal.domain.statuses import EventType, SkipReason
from portal.extensions import db, transaction
from portal.services.coordinating import audit, phases
from portal.services.dispatch import clock, set_back, slots
from portal.services.network import olts, workflows
from portal.tables import Notification, Olt, QuotaTracker, WorkflowNode
from scheduler import tick as ticks
from scheduler.coordinator import loop
from testing.builders import make_node, make_olt
from testing.cast import ACTOR, MINUTE, NOW, SECOND
from testing.rows import logged, set_rows

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


# A clock that was set back is witnessed


@pytest.mark.parametrize("seed", range(6))
def test_applied_advice_is_never_taken_for_a_clock_that_was_set_back(app: Flask, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    nodes = []
    for number in range(4):
        olt = make_olt(f"OLT-{number}")
        for key in "abc":
            nodes.append(make_node(olt, key, interval=chance.choice(["5m", "10m", "30m"])))
    for node in nodes:
        ahead = timedelta(seconds=chance.randrange(5, 5 * 60))
        put = {"next_run_at": NOW + ahead, "anchor_at": NOW + ahead}
        db.session.execute(update(WorkflowNode).where(WorkflowNode.id == node.id).values(put))
    db.session.commit()
    slots.record_tick("test", NOW, 1, None)
    phases.apply(ACTOR, NOW)
    applied = dict(db.session.execute(select(WorkflowNode.id, WorkflowNode.next_run_at)).tuples().all())
    for later in (timedelta(seconds=30), timedelta(minutes=2)):
        assert set_back.wind_back(NOW + later) == 0
    db.session.rollback()
    assert applied == dict(db.session.execute(select(WorkflowNode.id, WorkflowNode.next_run_at)).tuples().all())


def test_another_time_zone_plans_cron_lines_anew_and_is_no_alarm(app: Flask) -> None:
    app.config["TIMEZONE"] = "Asia/Tokyo"
    node = make_node(make_olt(), "line", cron="0 6 * * *")
    slots.record_tick("test", NOW, 1, None)
    app.config["TIMEZONE"] = "America/Lima"
    assert set_back.wind_back(NOW + MINUTE) == 0
    zone = ZoneInfo("America/Lima")
    assert fresh(node).next_run_at == clock.next_cron("0 6 * * *", NOW + MINUTE, zone)
    (told,) = logged(EventType.SYSTEM)
    assert told.level == "INFO" and "America/Lima" in told.message
    assert list(db.session.scalars(select(Notification))) == []
    assert set_back.wind_back(NOW + 2 * MINUTE) == 0 and len(logged(EventType.SYSTEM)) == 1


# What strays


@pytest.mark.parametrize("mode", ["grid", "from_end"])
def test_a_master_that_may_run_and_has_no_clock_is_found_at_the_next_pass(app: Flask, mode: str) -> None:
    app.config["NEXTCHECK_MODE"] = mode
    node = make_node(make_olt(), interval="15m")
    set_rows(WorkflowNode, next_run_at=None)
    loop.run(NOW)
    assert fresh(node).next_run_at == NOW + 15 * MINUTE
    (told,) = logged(EventType.SYSTEM)
    assert (told.level, told.node_id) == ("WARNING", node.id)
    loop.run(NOW + 5 * SECOND)
    assert len(logged(EventType.SYSTEM)) == 1


def test_a_master_that_may_not_run_loses_the_clock_it_was_left(app: Flask) -> None:
    node = make_node(make_olt(), interval="15m")
    set_rows(WorkflowNode, enabled=False)
    loop.run(NOW)
    assert fresh(node).next_run_at is None


def test_a_node_whose_mode_was_set_back_to_the_grid_while_it_waited_for_its_retry_has_a_clock(app: Flask) -> None:
    node = make_node(make_olt(), interval="15m")
    assert node.next_run_at is not None
    app.config["NEXTCHECK_MODE"] = "from_end"
    tick(node.next_run_at)
    assert fresh(node).next_run_at is None
    loop.run(NOW + 2 * MINUTE)
    assert logged(EventType.SYSTEM) == [], "it waits: its clock goes on at the end of its run"
    app.config["NEXTCHECK_MODE"] = "grid"
    loop.run(NOW + 3 * MINUTE)
    assert fresh(node).next_run_at == NOW + 18 * MINUTE


# Many at once


def test_many_olts_enabled_at_once_run_first_all_over_their_interval_and_keep_a_phase_that_was_set(app: Flask) -> None:
    made = [make_olt(f"OLT-{number}") for number in range(24)]
    ids = [olt.id for olt in made]
    olts.set_enabled_many(ids, False, ACTOR, NOW)
    nodes = [make_node(olt, interval="5m") for olt in made]
    olts.set_enabled_many(ids, True, ACTOR, NOW)
    first = {node.id: fresh(node).next_run_at for node in nodes}
    ahead = sorted((at - NOW).total_seconds() for at in first.values() if at is not None)
    assert len(set(ahead)) >= 20 and 0 < ahead[0] and ahead[-1] <= 300 and ahead[12] - ahead[0] > 60
    olts.set_enabled_many(ids, False, ACTOR, NOW)
    later = NOW + 17 * MINUTE
    olts.set_enabled_many(ids, True, ACTOR, later)
    for node in nodes:
        again, before = fresh(node).next_run_at, first[node.id]
        assert again is not None and before is not None and later < again <= later + 5 * MINUTE
        assert (again - before).total_seconds() % 300 == 0
