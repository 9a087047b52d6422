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
from portal.services.coordinating import closing, trackers
from portal.services.coordinating.audit import audit
from portal.services.network import olts, workflows
from portal.tables import (
    Channel,
    CoordinatorHour,
    CoordinatorLog,
    CoordinatorState,
    Execution,
    Notification,
    Olt,
    QuotaTracker,
    QuotaViolation,
    WorkflowNode,
)
from scheduler.coordinator import loop, observe, reconcile
from testing.builders import make_node, make_olt
from testing.cast import ACTOR, HOUR, MINUTE, SECOND
from testing.threads import at_once
from testing.ticking import tick
from tests.integration.test_quotas import at, counts, pending_ones, run, tracker


@pytest.fixture
def olt(session: Session, now: datetime) -> Olt:
    """Discovery each 15 minutes from 10:05, GET each five from 10:01; the coordinator has seen both."""
    made = make_olt()
    at(make_node(made, "discovery", kind=NodeKind.DISCOVERY), now + 5 * MINUTE, 900)
    at(make_node(made, "rx", kind=NodeKind.GET), now + MINUTE, 300)
    loop.run(now)
    return made


def node(session: Session, key: str) -> WorkflowNode:
    session.rollback()
    return session.scalars(select(WorkflowNode).where(WorkflowNode.key == key)).one()


def logged(session: Session, *events: EventType) -> list[CoordinatorLog]:
    session.rollback()
    query = select(CoordinatorLog).order_by(CoordinatorLog.id)
    return list(session.scalars(query.where(CoordinatorLog.event_type.in_(events)) if events else query))


def words(session: Session) -> Counter[str]:
    return Counter(row.event_type.value for row in logged(session))


def test_the_first_pass_opens_the_promises_of_the_hour(session: Session, olt: Olt, now: datetime) -> None:
    assert counts(session, now, "discovery") == (4, 0, 0, 0, 4)
    assert counts(session, now, "get_rx") == (12, 0, 0, 0, 12)
    assert words(session) == {"TASK_ADDED": 2, "PLAN_ADJUSTED": 1}


def test_a_pass_over_what_did_not_change_does_nothing(session: Session, olt: Olt, now: datetime) -> None:
    before = words(session)
    assert observe.differing(session, quota.hour_at(now)) == ([], [])
    assert loop.run(now + 5 * SECOND) == 0
    assert words(session) == before


def test_what_is_volatile_is_no_change(session: Session, olt: Olt, now: datetime) -> None:
    tick(now + 5 * MINUTE)
    run(pending_ones(session)[0], now + 5 * MINUTE, 1)
    session.execute(update(Olt).values(consecutive_failures=2))
    session.commit()
    assert loop.run(now + 6 * MINUTE) == 0


def test_a_node_that_was_switched_off_and_on_between_two_looks_promises_what_its_new_clock_has(
    session: Session, olt: Olt, now: datetime
) -> None:
    ident = node(session, "rx").id
    workflows.set_node_enabled(ident, False, ACTOR, now + 50 * MINUTE)
    workflows.set_node_enabled(ident, True, ACTOR, now + 50 * MINUTE + SECOND)
    assert loop.run(now + 50 * MINUTE + 2 * SECOND) == 0
    assert counts(session, now, "get_rx") == (1, 0, 0, 0, 1)  # 10:55:01
    assert logged(session, EventType.PLAN_ADJUSTED)[-1].details["why"] == ["clock"]


def test_the_next_hour_is_opened_when_it_begins_and_once(session: Session, olt: Olt, now: datetime) -> None:
    at(node(session, "discovery"), now + HOUR + 5 * MINUTE, 900)
    at(node(session, "rx"), now + HOUR + MINUTE, 300)
    loop.run(now + HOUR)
    told = words(session)
    loop.run(now + HOUR + 5 * SECOND)
    assert counts(session, now + HOUR, "get_rx") == (12, 0, 0, 0, 12)
    assert words(session) == told
    session.rollback()
    assert session.scalar(select(func.count()).select_from(QuotaTracker)) == 4


def test_many_hours_are_opened_a_part_at_a_pass_and_changes_come_first(
    session: Session, olt: Olt, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        make_node(make_olt(name=f"OLT-{number}", address=f"127.0.1.{number + 1}"), "discovery")
    monkeypatch.setattr(loop, "OPENED_AT_ONCE", 3)
    workflows.set_node_enabled(node(session, "rx").id, False, ACTOR, now + MINUTE)
    found = [loop.run(now + MINUTE + number * 5 * SECOND) for number in range(3)]
    assert found == [1 + 3, 1, 0]


# A task is disabled


def test_disabling_a_task_ends_what_waits_adjusts_the_promise_logs_it_and_makes_a_new_plan(
    session: Session, olt: Olt, now: datetime
) -> None:
    tick(now + MINUTE)
    workflows.set_node_enabled(node(session, "rx").id, False, ACTOR, now + 2 * MINUTE)
    assert loop.run(now + 5 * MINUTE) == 1
    session.rollback()
    execution = session.scalars(select(Execution)).one()
    assert (execution.status, execution.skip_reason) == (ExecutionStatus.INTERRUPTED, SkipReason.NODE_DISABLED)
    assert counts(session, now, "get_rx") == (1, 0, 0, 1, 0)
    adjusted = logged(session, EventType.QUOTA_ADJUSTED)
    assert [(row.details["before"], row.details["after"]) for row in adjusted] == [(12, 1)]
    removed = logged(session, EventType.TASK_REMOVED)
    assert [(row.level, row.details["key"]) for row in removed] == [("WARNING", "rx")]
    assert words(session)["PLAN_ADJUSTED"] == 2


def test_a_task_that_was_switched_off_behind_the_services_back_is_stopped_all_the_same(
    session: Session, olt: Olt, now: datetime
) -> None:
    tick(now + MINUTE)
    session.execute(update(WorkflowNode).where(WorkflowNode.key == "rx").values(enabled=False, next_run_at=None))
    session.commit()
    loop.run(now + 2 * MINUTE)
    assert pending_ones(session) == []
    assert counts(session, now, "get_rx") == (1, 0, 0, 1, 0)


# An OLT is disabled


def test_disabling_an_olt_aborts_everything_and_marks_its_promises_interrupted(
    session: Session, olt: Olt, now: datetime
) -> None:
    tick(now + 5 * MINUTE)
    olts.set_enabled(olt.id, False, ACTOR, now + 6 * MINUTE)
    assert loop.run(now + 6 * MINUTE) == 1
    assert pending_ones(session) == []
    statuses = {row.status for row in session.scalars(select(QuotaTracker))}
    assert statuses == {QuotaStatus.INTERRUPTED}
    assert counts(session, now, "get_rx")[4] == 0
    assert words(session)["OLT_DISABLED"] == 1 and words(session)["TASK_REMOVED"] == 0
    closing.close_due(now + HOUR + MINUTE)
    assert session.scalars(select(QuotaViolation)).all() == []


def test_an_olt_that_is_enabled_again_goes_on_with_its_promises(session: Session, olt: Olt, now: datetime) -> None:
    olts.set_enabled(olt.id, False, ACTOR, now + 6 * MINUTE)
    loop.run(now + 6 * MINUTE)
    olts.set_enabled(olt.id, True, ACTOR, now + 20 * MINUTE)
    loop.run(now + 20 * MINUTE)
    assert tracker(session, now, "get_rx").status is QuotaStatus.IN_PROGRESS
    assert counts(session, now, "get_rx") == (8, 0, 0, 0, 8)  # 10:25 … 11:00
    assert words(session)["OLT_ENABLED"] == 1


# Exactly once


def test_three_coordinators_at_once_act_on_each_change_once(
    app: Flask, session: Session, olt: Olt, now: datetime
) -> None:
    workflows.set_node_enabled(node(session, "rx").id, False, ACTOR, now + MINUTE)
    workflows.update_node(node(session, "discovery").id, {"interval": "10m"}, ACTOR, now + MINUTE)
    before = words(session)
    session.rollback()
    assert sum(at_once(app, [lambda: loop.run(now + 2 * MINUTE)] * 3)) == 2
    assert words(session) - before == {
        "TASK_REMOVED": 1, "TASK_INTERVAL_CHANGED": 1, "PLAN_ADJUSTED": 1, "QUOTA_ADJUSTED": 2,
    }  # fmt: skip


def test_a_change_that_came_while_no_coordinator_ran_is_found_by_the_next(
    session: Session, olt: Olt, now: datetime
) -> None:
    workflows.set_node_enabled(node(session, "rx").id, False, ACTOR, now + MINUTE)
    assert loop.run(now + 3 * HOUR) == 1


def test_a_pass_that_fails_leaves_the_change_to_the_next(
    session: Session, olt: Olt, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflows.set_node_enabled(node(session, "rx").id, False, ACTOR, now + MINUTE)

    def broken(*_: object) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as broke, pytest.raises(RuntimeError):
        broke.setattr(reconcile, "_remember", broken)
        loop.run(now + 2 * MINUTE)
    assert counts(session, now, "get_rx")[0] == 12 and words(session)["TASK_REMOVED"] == 0
    assert loop.run(now + 2 * MINUTE) == 1
    assert words(session)["TASK_REMOVED"] == 1


def test_a_snapshot_of_an_older_form_is_no_change(session: Session, olt: Olt, now: datetime) -> None:
    session.execute(update(CoordinatorState).values(version=99, digest="x", snapshot="?"))
    session.commit()
    assert loop.run(now + MINUTE) == 0
    assert observe.differing(session, quota.hour_at(now)) == ([], [])


def test_after_an_upgrade_promises_are_reckoned_anew_though_no_change_can_be_told(
    session: Session, olt: Olt, now: datetime
) -> None:
    old = "1\n1|rx|get|1|300||40|"  # as it was written before the anchor came
    session.execute(update(CoordinatorState).values(version=1, digest="x", snapshot=old))
    session.execute(update(WorkflowNode).where(WorkflowNode.key == "rx").values(interval_seconds=600))
    session.commit()
    assert loop.run(now + MINUTE) == 0
    assert counts(session, now, "get_rx") == (6, 0, 0, 0, 6)
    assert observe.differing(session, quota.hour_at(now)) == ([], [])


def test_a_snapshot_that_cannot_be_read_does_not_end_the_pass(session: Session, olt: Olt, now: datetime) -> None:
    session.execute(update(CoordinatorState).values(digest="x", snapshot="1\n1|rx|get|1|300||40|"))
    session.commit()
    assert loop.run(now + MINUTE) == 0
    assert observe.differing(session, quota.hour_at(now)) == ([], [])


def test_an_olt_that_was_deleted_is_out_of_service(session: Session, olt: Olt, now: datetime) -> None:
    olts.delete(olt.id, "gone", ACTOR, now + MINUTE)
    assert loop.run(now + MINUTE) == 1
    assert words(session)["OLT_DISABLED"] == 1


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer at a time
def test_a_pass_locks_the_trackers_of_all_its_olts_in_the_order_in_which_runs_are_settled(
    app: Flask, session: Session, olt: Olt, now: datetime
) -> None:
    """The second OLT changes, of the first the hour begins: a poller that settles both meanwhile waits in no circle."""
    other = make_olt("OLT-CUSCO", address="127.0.0.2")
    at(make_node(other, "rx", kind=NodeKind.GET), now + MINUTE, 300)
    hour, first, second = now + HOUR, olt.id, other.id
    loop.run(now)
    with transaction() as writing:
        trackers.refresh(writing, [hour], hour)
        writing.execute(update(WorkflowNode).where(WorkflowNode.key == "rx", WorkflowNode.id > 2)
                        .values(interval_seconds=600))  # fmt: skip
    session.rollback()

    def work() -> int:
        with app.app_context():
            try:
                return loop.run(hour)
            finally:
                db.session.remove()

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


# The close of the hour


def finish(session: Session, now: datetime, fates: list[ErrorKind | None]) -> None:
    """The slots of the discovery, one after the other, with these fates; after each the clock ticks."""
    for number, fate in enumerate(fates):
        slot = now + 5 * MINUTE + number * 15 * MINUTE
        tick(slot)
        mine = [one for one in pending_ones(session) if one.task_type == "discovery"]
        run(mine[0], slot, number + 1, fate)


@pytest.fixture
def alone(session: Session, now: datetime) -> WorkflowNode:
    """A discovery each 15 minutes without retries, from 10:05."""
    made = make_node(make_olt(), "discovery", kind=NodeKind.DISCOVERY, max_retries=0)
    at(made, now + 5 * MINUTE, 900)
    loop.run(now)
    closing.close_due(now)
    return made


def test_two_of_four_is_a_violation_of_high_severity_with_a_report_that_adds_up(
    session: Session, alone: WorkflowNode, now: datetime
) -> None:
    finish(session, now, [None, ErrorKind.TIMEOUT, ErrorKind.DEVICE, None])
    closing.close_due(now + HOUR + 10 * SECOND)
    session.rollback()
    violation = session.scalars(select(QuotaViolation)).one()
    assert (violation.severity, violation.task_type) == (Severity.HIGH, "discovery")
    report = violation.report
    assert (report["completed"], report["required"]) == (2, 4)
    assert report["lost"] == {"device": 1, "timeout": 1}
    assert sum(report["lost"].values()) == report["required"] - report["completed"]
    assert tracker(session, now).status is QuotaStatus.QUOTA_NOT_MET
    rows = logged(session, EventType.QUOTA_VIOLATION)
    assert [(row.level, row.details["severity"]) for row in rows] == [("ERROR", "HIGH")]


def test_an_hour_that_was_kept_is_completed(session: Session, alone: WorkflowNode, now: datetime) -> None:
    finish(session, now, [None] * 4)
    closing.close_due(now + HOUR + 10 * SECOND)
    assert tracker(session, now).status is QuotaStatus.COMPLETED
    assert session.scalars(select(QuotaViolation)).all() == []
    assert session.get_one(CoordinatorHour, now).closed_at is not None


def test_an_hour_is_judged_when_its_last_slot_has_ended_or_a_quarter_of_an_hour_later(
    session: Session, alone: WorkflowNode, now: datetime
) -> None:
    at(alone, now + HOUR, 900)
    loop.run(now + MINUTE)
    assert counts(session, now) == (1, 0, 0, 0, 1)
    tick(now + HOUR)
    closing.close_due(now + HOUR + MINUTE)
    assert tracker(session, now).status is QuotaStatus.IN_PROGRESS
    closing.close_due(now + HOUR + 16 * MINUTE)
    violation = session.scalars(select(QuotaViolation)).one()
    assert violation.report["lost"] == {"pending": 1}


def test_what_ends_after_its_hour_was_judged_is_counted_and_changes_the_verdict(
    session: Session, alone: WorkflowNode, now: datetime
) -> None:
    at(alone, now + HOUR, 1800)
    tick(now + HOUR)
    closing.close_due(now + HOUR + 20 * MINUTE)
    assert tracker(session, now).status is QuotaStatus.FAILED
    run(pending_ones(session)[0], now + HOUR + 21 * MINUTE, 1)
    loop.run(now + HOUR + 21 * MINUTE)
    assert counts(session, now) == (1, 1, 0, 0, 0)
    assert tracker(session, now).status is QuotaStatus.COMPLETED
    assert audit(now + HOUR + 22 * MINUTE, 2).differences == ()


def test_closing_twice_or_by_several_at_once_makes_one_violation(
    app: Flask, session: Session, alone: WorkflowNode, now: datetime
) -> None:
    finish(session, now, [ErrorKind.DEVICE] * 4)
    session.rollback()
    at_once(app, [lambda: closing.close_due(now + HOUR + MINUTE)] * 3)
    closing.close_due(now + HOUR + 2 * MINUTE)
    assert [row.severity for row in session.scalars(select(QuotaViolation))] == [Severity.CRITICAL]
    assert len(logged(session, EventType.QUOTA_VIOLATION)) == 1


def test_hours_that_were_missed_while_nothing_ran_are_closed_with_their_slots_lost_to_the_restart(
    session: Session, alone: WorkflowNode, now: datetime
) -> None:
    back = now + 3 * HOUR + 30 * MINUTE
    tick(back)
    loop.run(back)
    closing.close_due(back)
    session.rollback()
    found = {row.period_start: row.report["lost"] for row in session.scalars(select(QuotaViolation))}
    assert found == {now + n * HOUR: {"restart": 4} for n in range(3)}
    hours = session.scalars(select(CoordinatorHour.hour).where(CoordinatorHour.closed_at.is_not(None))).all()
    assert set(hours) >= {now + HOUR, now + 2 * HOUR}
    assert audit(back, 4).differences == ()


# Nights of a clock change in Santiago, and the last day of a month: the day on the wall, hours it has, runs of a line
# at half past each hour.
DAYS = {"2026-04-04": (25, 25), "2026-09-06": (23, 23), "2027-02-28": (24, 24)}


@pytest.mark.parametrize("day", DAYS)
def test_a_day_on_the_wall_has_a_tracker_for_each_of_its_hours_and_none_twice(
    app: Flask, session: Session, day: str
) -> None:
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
            for one in pending_ones(session):
                run(one, half, one.id)
        moment += HOUR
    session.rollback()
    hours, runs = DAYS[day]
    for task in ("discovery", "get_rx"):
        query = select(QuotaTracker).where(QuotaTracker.task_type == task).order_by(QuotaTracker.period_start)
        rows = session.scalars(query).all()
        assert [row.period_start for row in rows] == [begin + hour * HOUR for hour in range(hours)]
        assert sum(row.quota_required for row in rows) == sum(row.quota_completed for row in rows) == runs
    assert audit(end, hours + 1).differences == ()


def test_the_observation_says_which_tasks_are_on_as_the_clock_does(session: Session, olt: Olt, now: datetime) -> None:
    for statement in (
        "UPDATE workflows SET enabled = false", "UPDATE workflows SET enabled = true",
        "UPDATE workflow_nodes SET enabled = false WHERE key = 'rx'",
    ):  # fmt: skip
        session.execute(text(statement))
        session.commit()
        seen = observe.decide.parse(observe.texts(session)[olt.id])
        for one in session.scalars(select(WorkflowNode)):
            assert seen.tasks[one.id].on is (one.enabled and one.workflow.enabled)
        session.rollback()


def test_a_violation_is_an_alert_for_the_channels_that_want_it(
    session: Session, alone: WorkflowNode, now: datetime
) -> None:
    with transaction() as writing:
        writing.add(Channel(name="noc", kind="json", alert_kinds=[AlertKind.QUOTA_VIOLATION]))
    finish(session, now, [None, ErrorKind.TIMEOUT, ErrorKind.DEVICE, None])
    closing.close_due(now + HOUR + 10 * SECOND)
    session.rollback()
    alert = session.scalars(select(Notification)).one()
    assert (alert.alert_kind, alert.severity) == (AlertKind.QUOTA_VIOLATION, Severity.HIGH)
    assert alert.subject.startswith("OLT-LIMA: discovery completed 2 of 4") and "1" in alert.body
    assert alert.violation_id == session.scalars(select(QuotaViolation.id)).one()
