"""The coordinator on both databases: each change is seen and acted on once; hours are opened, judged and closed."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from flask import Flask
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from portal.domain import quota
from portal.domain.statuses import (
    AlertKind,
    ErrorKind,
    EventType,
    ExecutionStatus,
    NodeKind,
    QuotaStatus,
    Severity,
    SkipReason,
)
from portal.extensions import db, transaction
from portal.models.alert import Channel, Notification
from portal.models.coordination import CoordinatorHour, CoordinatorState
from portal.services.coordinating import closing, trackers
from portal.services.coordinating.audit import audit
from portal.services.network import olts, workflows
from portal.tables import Execution, Olt, QuotaTracker, QuotaViolation, WorkflowNode
from scheduler.coordinator import loop, observe, reconcile
from testing.builders import make_node, make_olt
from testing.cast import ACTOR, HOUR, MINUTE, NOW, SECOND
from testing.rows import logged, set_rows
from testing.threads import at_once
from testing.ticking import tick
from tests.integration.test_quotas import at, counts, pending_ones, run, tracker

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture
def olt(session: Session) -> Olt:
    """Discovery each 15 minutes from 10:05, GET each five from 10:01; the coordinator has seen both."""
    made = make_olt()
    at(make_node(made, "discovery", kind=NodeKind.DISCOVERY), NOW + 5 * MINUTE, 900)
    at(make_node(made, "rx", kind=NodeKind.GET), NOW + MINUTE, 300)
    loop.run(NOW)
    return made


def node(key: str) -> WorkflowNode:
    db.session.rollback()
    return db.session.scalars(select(WorkflowNode).where(WorkflowNode.key == key)).one()


def words() -> Counter[str]:
    return Counter(row.event_type.value for row in logged())


def test_the_first_pass_opens_the_promises_of_the_hour(olt: Olt) -> None:
    assert counts(NOW, "discovery") == (4, 0, 0, 0, 4)
    assert counts(NOW, "get_rx") == (12, 0, 0, 0, 12)
    assert words() == {"TASK_ADDED": 2, "PLAN_ADJUSTED": 1}


def test_a_pass_over_what_did_not_change_does_nothing(olt: Olt) -> None:
    before = words()
    assert observe.differing(db.session, quota.hour_at(NOW)) == ([], [])
    assert loop.run(NOW + 5 * SECOND) == 0
    assert words() == before


def test_what_is_volatile_is_no_change(olt: Olt) -> None:
    tick(NOW + 5 * MINUTE)
    run(pending_ones()[0], NOW + 5 * MINUTE, 1)
    set_rows(Olt, consecutive_failures=2)
    assert loop.run(NOW + 6 * MINUTE) == 0


def test_a_node_that_was_switched_off_and_on_between_two_looks_promises_what_its_new_clock_has(olt: Olt) -> None:
    ident = node("rx").id
    workflows.set_node_enabled(ident, False, ACTOR, NOW + 50 * MINUTE)
    workflows.set_node_enabled(ident, True, ACTOR, NOW + 50 * MINUTE + SECOND)
    assert loop.run(NOW + 50 * MINUTE + 2 * SECOND) == 0
    assert counts(NOW, "get_rx") == (11, 0, 0, 10, 1)  # 10:55:01; those that came while nothing ticked are skipped
    assert logged(EventType.PLAN_ADJUSTED)[-1].details["why"] == ["clock"]


def test_the_next_hour_is_opened_when_it_begins_and_once(olt: Olt) -> None:
    at(node("discovery"), NOW + HOUR + 5 * MINUTE, 900)
    at(node("rx"), NOW + HOUR + MINUTE, 300)
    loop.run(NOW + HOUR)
    told = words()
    loop.run(NOW + HOUR + 5 * SECOND)
    assert counts(NOW + HOUR, "get_rx") == (12, 0, 0, 0, 12)
    assert words() == told
    db.session.rollback()
    assert db.session.scalar(select(func.count()).select_from(QuotaTracker)) == 4


def test_many_hours_open_a_part_at_a_pass_and_changes_come_first(olt: Olt, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        make_node(make_olt(name=f"OLT-{number}", address=f"127.0.1.{number + 1}"), "discovery")
    monkeypatch.setattr(loop, "OPENED_AT_ONCE", 3)
    workflows.set_node_enabled(node("rx").id, False, ACTOR, NOW + MINUTE)
    assert [loop.run(NOW + MINUTE + number * 5 * SECOND) for number in range(3)] == [1 + 3, 1, 0]


def test_disabling_a_task_ends_what_waits_adjusts_the_promise_logs_it_and_makes_a_new_plan(olt: Olt) -> None:
    tick(NOW + MINUTE)
    workflows.set_node_enabled(node("rx").id, False, ACTOR, NOW + 2 * MINUTE)
    assert loop.run(NOW + 5 * MINUTE) == 1
    db.session.rollback()
    execution = db.session.scalars(select(Execution)).one()
    assert (execution.status, execution.skip_reason) == (ExecutionStatus.INTERRUPTED, SkipReason.NODE_DISABLED)
    assert counts(NOW, "get_rx") == (1, 0, 0, 1, 0)
    assert [(row.details["before"], row.details["after"]) for row in logged(EventType.QUOTA_ADJUSTED)] == [(12, 1)]
    assert [(row.level, row.details["key"]) for row in logged(EventType.TASK_REMOVED)] == [("WARNING", "rx")]
    assert words()["PLAN_ADJUSTED"] == 2


def test_a_task_that_was_switched_off_behind_the_services_back_is_stopped_all_the_same(olt: Olt) -> None:
    tick(NOW + MINUTE)
    set_rows(WorkflowNode, WorkflowNode.key == "rx", enabled=False, next_run_at=None)
    loop.run(NOW + 2 * MINUTE)
    assert pending_ones() == []
    assert counts(NOW, "get_rx") == (1, 0, 0, 1, 0)


def test_disabling_an_olt_aborts_everything_and_marks_its_promises_interrupted(olt: Olt) -> None:
    tick(NOW + 5 * MINUTE)
    olts.set_enabled(olt.id, False, ACTOR, NOW + 6 * MINUTE)
    assert loop.run(NOW + 6 * MINUTE) == 1
    assert pending_ones() == []
    assert {row.status for row in db.session.scalars(select(QuotaTracker))} == {QuotaStatus.INTERRUPTED}
    assert counts(NOW, "get_rx")[4] == 0
    assert words()["OLT_DISABLED"] == 1 and words()["TASK_REMOVED"] == 0
    closing.close_due(NOW + HOUR + MINUTE)
    assert db.session.scalars(select(QuotaViolation)).all() == []


def test_an_olt_that_is_enabled_again_goes_on_with_its_promises(olt: Olt) -> None:
    olts.set_enabled(olt.id, False, ACTOR, NOW + 6 * MINUTE)
    loop.run(NOW + 6 * MINUTE)
    olts.set_enabled(olt.id, True, ACTOR, NOW + 20 * MINUTE)
    loop.run(NOW + 20 * MINUTE)
    assert tracker(NOW, "get_rx").status is QuotaStatus.IN_PROGRESS
    assert counts(NOW, "get_rx") == (10, 0, 0, 2, 8)  # 10:25 … 11:00; 10:01 and 10:06 came and were not run
    assert words()["OLT_ENABLED"] == 1


def test_three_coordinators_at_once_act_on_each_change_once(app: Flask, olt: Olt) -> None:
    workflows.set_node_enabled(node("rx").id, False, ACTOR, NOW + MINUTE)
    workflows.update_node(node("discovery").id, {"interval": "10m"}, ACTOR, NOW + MINUTE)
    before = words()
    db.session.rollback()
    assert sum(at_once(app, [lambda: loop.run(NOW + 2 * MINUTE)] * 3)) == 2
    assert words() - before == {"TASK_REMOVED": 1, "TASK_INTERVAL_CHANGED": 1, "PLAN_ADJUSTED": 1, "QUOTA_ADJUSTED": 2}


def test_a_change_that_came_while_no_coordinator_ran_is_found_by_the_next(olt: Olt) -> None:
    workflows.set_node_enabled(node("rx").id, False, ACTOR, NOW + MINUTE)
    assert loop.run(NOW + 3 * HOUR) == 1


def test_a_pass_that_fails_leaves_the_change_to_the_next(olt: Olt, monkeypatch: pytest.MonkeyPatch) -> None:
    workflows.set_node_enabled(node("rx").id, False, ACTOR, NOW + MINUTE)

    def broken(*_: object) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as broke, pytest.raises(RuntimeError):
        broke.setattr(reconcile, "_remember", broken)
        loop.run(NOW + 2 * MINUTE)
    assert counts(NOW, "get_rx")[0] == 12 and words()["TASK_REMOVED"] == 0
    assert loop.run(NOW + 2 * MINUTE) == 1
    assert words()["TASK_REMOVED"] == 1


def test_a_snapshot_of_an_older_form_is_no_change(olt: Olt) -> None:
    set_rows(CoordinatorState, version=99, digest="x", snapshot="?")
    assert loop.run(NOW + MINUTE) == 0
    assert observe.differing(db.session, quota.hour_at(NOW)) == ([], [])


def test_after_an_upgrade_promises_are_reckoned_anew_though_no_change_can_be_told(olt: Olt) -> None:
    old = "1\n1|rx|get|1|300||40|"  # as it was written before the anchor came
    db.session.execute(update(CoordinatorState).values(version=1, digest="x", snapshot=old))
    set_rows(WorkflowNode, WorkflowNode.key == "rx", interval_seconds=600)
    assert loop.run(NOW + MINUTE) == 0
    assert counts(NOW, "get_rx") == (6, 0, 0, 0, 6)
    assert observe.differing(db.session, quota.hour_at(NOW)) == ([], [])


def test_a_snapshot_that_cannot_be_read_does_not_end_the_pass(olt: Olt) -> None:
    set_rows(CoordinatorState, digest="x", snapshot="1\n1|rx|get|1|300||40|")
    assert loop.run(NOW + MINUTE) == 0
    assert observe.differing(db.session, quota.hour_at(NOW)) == ([], [])


def test_an_olt_that_was_deleted_is_out_of_service(olt: Olt) -> None:
    olts.delete(olt.id, "gone", ACTOR, NOW + MINUTE)
    assert loop.run(NOW + MINUTE) == 1
    assert words()["OLT_DISABLED"] == 1


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer at a time
def test_a_pass_locks_the_trackers_of_all_its_olts_in_the_order_in_which_runs_are_settled(app: Flask, olt: Olt) -> None:
    """The second OLT changes, of the first the hour begins: a poller that settles both meanwhile waits in no circle."""
    other = make_olt("OLT-CUSCO", address="127.0.0.2")
    at(make_node(other, "rx", kind=NodeKind.GET), NOW + MINUTE, 300)
    hour, first, second = NOW + HOUR, olt.id, other.id
    loop.run(NOW)
    with transaction() as writing:
        trackers.refresh(writing, [hour], hour)
        writing.execute(update(WorkflowNode).where(WorkflowNode.key == "rx", WorkflowNode.id > 2)
                        .values(interval_seconds=600))  # fmt: skip
    db.session.rollback()

    def work() -> int:
        with app.app_context():
            return loop.run(hour)

    lock = text("SELECT id FROM quota_trackers WHERE olt_id = :olt AND period_start = :hour FOR UPDATE")
    waits = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    watching = db.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    with db.engine.connect() as poller, watching as watcher, ThreadPoolExecutor(1) as pool:
        poller.execute(lock, {"olt": first, "hour": hour})
        passing = pool.submit(work)
        while not watcher.scalar(waits):
            assert not passing.done()
        poller.execute(lock, {"olt": second, "hour": hour})
        poller.commit()
        assert passing.result() == 1


def finish(fates: list[ErrorKind | None]) -> None:
    """The slots of the discovery, one after the other, with these fates; after each the clock ticks."""
    for number, fate in enumerate(fates):
        slot = NOW + 5 * MINUTE + number * 15 * MINUTE
        tick(slot)
        run([one for one in pending_ones() if one.task_type == "discovery"][0], slot, number + 1, fate)


@pytest.fixture
def alone(session: Session) -> WorkflowNode:
    """A discovery each 15 minutes without retries, from 10:05."""
    made = make_node(make_olt(), "discovery", kind=NodeKind.DISCOVERY, max_retries=0)
    at(made, NOW + 5 * MINUTE, 900)
    loop.run(NOW)
    closing.close_due(NOW)
    return made


def test_two_of_four_is_a_violation_of_high_severity_with_a_report_that_adds_up(alone: WorkflowNode) -> None:
    finish([None, ErrorKind.TIMEOUT, ErrorKind.DEVICE, None])
    closing.close_due(NOW + HOUR + 10 * SECOND)
    db.session.rollback()
    violation = db.session.scalars(select(QuotaViolation)).one()
    assert (violation.severity, violation.task_type) == (Severity.HIGH, "discovery")
    report = violation.report
    assert (report["completed"], report["required"], report["lost"]) == (2, 4, {"device": 1, "timeout": 1})
    assert sum(report["lost"].values()) == report["required"] - report["completed"]
    assert tracker(NOW).status is QuotaStatus.QUOTA_NOT_MET
    assert [(row.level, row.details["severity"]) for row in logged(EventType.QUOTA_VIOLATION)] == [("ERROR", "HIGH")]


def test_an_hour_that_was_kept_is_completed(alone: WorkflowNode) -> None:
    finish([None] * 4)
    closing.close_due(NOW + HOUR + 10 * SECOND)
    assert tracker(NOW).status is QuotaStatus.COMPLETED
    assert db.session.scalars(select(QuotaViolation)).all() == []
    assert db.session.get_one(CoordinatorHour, NOW).closed_at is not None


def test_an_hour_is_judged_when_its_last_slot_has_ended_or_a_quarter_of_an_hour_later(alone: WorkflowNode) -> None:
    at(alone, NOW + HOUR, 900)
    loop.run(NOW + MINUTE)
    assert counts(NOW) == (1, 0, 0, 0, 1)
    tick(NOW + HOUR)
    closing.close_due(NOW + HOUR + MINUTE)
    assert tracker(NOW).status is QuotaStatus.IN_PROGRESS
    closing.close_due(NOW + HOUR + 16 * MINUTE)
    assert db.session.scalars(select(QuotaViolation)).one().report["lost"] == {"pending": 1}


def test_what_ends_after_its_hour_was_judged_is_counted_and_changes_the_verdict(alone: WorkflowNode) -> None:
    at(alone, NOW + HOUR, 1800)
    tick(NOW + HOUR)
    closing.close_due(NOW + HOUR + 20 * MINUTE)
    assert tracker(NOW).status is QuotaStatus.FAILED
    run(pending_ones()[0], NOW + HOUR + 21 * MINUTE, 1)
    loop.run(NOW + HOUR + 21 * MINUTE)
    assert counts(NOW) == (1, 1, 0, 0, 0)
    assert tracker(NOW).status is QuotaStatus.COMPLETED
    assert audit(NOW + HOUR + 22 * MINUTE, 2).differences == ()


def test_closing_twice_or_by_several_at_once_makes_one_violation(app: Flask, alone: WorkflowNode) -> None:
    finish([ErrorKind.DEVICE] * 4)
    db.session.rollback()
    at_once(app, [lambda: closing.close_due(NOW + HOUR + MINUTE)] * 3)
    closing.close_due(NOW + HOUR + 2 * MINUTE)
    assert [row.severity for row in db.session.scalars(select(QuotaViolation))] == [Severity.CRITICAL]
    assert len(logged(EventType.QUOTA_VIOLATION)) == 1


def test_hours_missed_while_nothing_ran_are_closed_with_their_slots_lost_to_the_restart(alone: WorkflowNode) -> None:
    back = NOW + 3 * HOUR + 30 * MINUTE
    tick(back)
    loop.run(back)
    closing.close_due(back)
    db.session.rollback()
    found = {row.period_start: row.report["lost"] for row in db.session.scalars(select(QuotaViolation))}
    assert found == {NOW + n * HOUR: {"restart": 4} for n in range(3)}
    hours = db.session.scalars(select(CoordinatorHour.hour).where(CoordinatorHour.closed_at.is_not(None))).all()
    assert set(hours) >= {NOW + HOUR, NOW + 2 * HOUR}
    assert audit(back, 4).differences == ()


# Nights of a clock change in Santiago, and the last day of a month: the day on the wall, hours it has, runs of a line
# at half past each hour.
DAYS = {"2026-04-04": (25, 25), "2026-09-06": (23, 23), "2027-02-28": (24, 24)}


@pytest.mark.parametrize("day", DAYS)
def test_a_day_on_the_wall_has_a_tracker_for_each_of_its_hours_and_none_twice(app: Flask, day: str) -> None:
    app.config["TIMEZONE"] = "America/Santiago"
    zone = ZoneInfo("America/Santiago")
    start = datetime.fromisoformat(day).replace(tzinfo=zone)
    begin, end = start.astimezone(UTC), (start + timedelta(days=1)).astimezone(UTC)
    made = make_olt()
    make_node(made, "line", begin, cron="30 * * * *")
    at(make_node(made, "rx", begin, kind=NodeKind.GET, oid="huawei.onu_rx_power"), begin + HOUR, 3600)
    moment = begin
    while moment < end:
        loop.run(moment)
        for half in (moment + 30 * MINUTE, moment + HOUR):
            tick(half)
            for one in pending_ones():
                run(one, half, one.id)
        moment += HOUR
    db.session.rollback()
    hours, runs = DAYS[day]
    for task in ("discovery", "get_rx"):
        query = select(QuotaTracker).where(QuotaTracker.task_type == task).order_by(QuotaTracker.period_start)
        rows = db.session.scalars(query).all()
        assert [row.period_start for row in rows] == [begin + hour * HOUR for hour in range(hours)]
        assert sum(row.quota_required for row in rows) == sum(row.quota_completed for row in rows) == runs
    assert audit(end, hours + 1).differences == ()


def test_the_observation_says_which_tasks_are_on_as_the_clock_does(olt: Olt) -> None:
    for statement in (
        "UPDATE workflows SET enabled = false", "UPDATE workflows SET enabled = true",
        "UPDATE workflow_nodes SET enabled = false WHERE key = 'rx'",
    ):  # fmt: skip
        db.session.execute(text(statement))
        db.session.commit()
        seen = observe.decide.parse(observe.texts(db.session)[olt.id])
        for one in db.session.scalars(select(WorkflowNode)):
            assert seen.tasks[one.id].on is (one.enabled and one.workflow.enabled)
        db.session.rollback()


def test_a_violation_is_an_alert_for_the_channels_that_want_it(alone: WorkflowNode) -> None:
    with transaction() as writing:
        writing.add(Channel(name="noc", kind="json", alert_kinds=[AlertKind.QUOTA_VIOLATION]))
    finish([None, ErrorKind.TIMEOUT, ErrorKind.DEVICE, None])
    closing.close_due(NOW + HOUR + 10 * SECOND)
    db.session.rollback()
    alert = db.session.scalars(select(Notification)).one()
    assert (alert.alert_kind, alert.severity) == (AlertKind.QUOTA_VIOLATION, Severity.HIGH)
    assert alert.subject.startswith("OLT-LIMA: discovery completed 2 of 4") and "1" in alert.body
    assert alert.violation_id == db.session.scalars(select(QuotaViolation.id)).one()
