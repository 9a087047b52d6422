"""Reading promises on both databases: worst first, by filter, page after page; the slots of one; the audit."""

from datetime import UTC, datetime
from itertools import product
from random import Random
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update
from sqlalchemy.orm import Session

from portal import clock
from portal.domain import quota
from portal.domain.quota import Counts
from portal.domain.statuses import ExecutionStatus, LossCause, NodeKind, QuotaStatus, Severity
from portal.extensions import db, transaction
from portal.queries import quota_list, quota_slots, quotas, violations
from portal.services.coordinating import closing
from portal.services.coordinating.audit import Audited, Difference
from portal.services.network import workflows
from portal.tables import CoordinatorLog, QuotaLoss, QuotaTracker, QuotaViolation, WorkflowNode
from testing.builders import make_node, make_olt, make_tracker
from testing.cast import ACTOR, HOUR, MINUTE, NOW
from testing.commands import Run, commands
from testing.ticking import tick
from tests.integration.test_quotas import at, pending_ones, refresh, run

pytestmark = pytest.mark.usefixtures("session")

OPEN, MET, NOT_MET = QuotaStatus.IN_PROGRESS, QuotaStatus.COMPLETED, QuotaStatus.QUOTA_NOT_MET
INTERRUPTED, NONE_DONE = QuotaStatus.INTERRUPTED, QuotaStatus.FAILED


def add(olt_id: int, task: str, hour: datetime, counts: Counts, status: QuotaStatus = OPEN, **fields: Any) -> int:
    """A tracker as the coordinator would have left it; returns its id."""
    return make_tracker(olt_id, task, hour, counts, status=status, **fields).id


def add_violation(olt_id: int, task: str, hour: datetime, severity: Severity, **fields: Any) -> int:
    report = {"required": 4, "completed": 2, "lost": {"timeout": 2}}
    row = QuotaViolation(olt_id=olt_id, task_type=task, period_start=hour, period_end=hour + HOUR, report=report,
                         severity=severity, created_at=hour + HOUR, **fields)  # fmt: skip
    db.session.add(row)
    db.session.commit()
    return row.id


def shown(wanted: quotas.Filter, now: datetime, size: int = 50) -> list[str]:
    """Task types, page after page."""
    alike, found, cursor = quotas.groups(wanted), list[str](), ""
    while True:
        page = quotas.page(wanted, alike, now, cursor, size)
        found += [row.task_type for row in page.rows]
        cursor = page.next
        if not cursor:
            return found


@pytest.fixture
def hour(session: Session) -> datetime:
    """Half past ten: of two OLTs one keeps all, one has something at risk, something doomed, something interrupted."""
    lima, cusco = make_olt().id, make_olt("OLT-CUSCO").id
    add(lima, "get_fine", NOW, Counts(completed=6, pending=6), forecast=12)
    add(lima, "get_slower", NOW, Counts(completed=5, pending=7), forecast=10)
    add(cusco, "get_late", NOW, Counts(completed=2, pending=10), forecast=11)
    add(cusco, "get_doomed", NOW, Counts(completed=6, failed=3, pending=3), forecast=9)
    add(cusco, "discovery", NOW, Counts(skipped=4), INTERRUPTED)
    add(cusco, "get_older", NOW - HOUR, Counts(completed=1, failed=3), NOT_MET)
    return NOW


def test_the_worst_come_first_and_what_was_interrupted_last(hour: datetime) -> None:
    found = shown(quotas.Filter(hour), hour + 30 * MINUTE)
    assert found == ["get_doomed", "get_late", "get_slower", "get_fine", "discovery"]


def test_paging_shows_every_tracker_once_in_order(hour: datetime) -> None:
    whole = shown(quotas.Filter(hour), hour + 30 * MINUTE)
    assert [shown(quotas.Filter(hour), hour + 30 * MINUTE, size) for size in (1, 2, 3)] == [whole] * 3


def test_many_alike_are_each_shown_once() -> None:
    lima, dice = make_olt().id, Random(3)
    for number in range(60):
        add(lima, f"get_{number:02}", NOW, Counts(completed=dice.randint(0, 3), failed=dice.randint(0, 1), pending=3))
    found = shown(quotas.Filter(NOW), NOW + 30 * MINUTE, 7)
    assert (len(found), len(set(found))) == (60, 60)


def test_a_tracker_that_promises_nothing_does_not_break_the_order(hour: datetime) -> None:
    add(1, "get_nothing", hour, Counts())
    found = [shown(quotas.Filter(hour), hour + 30 * MINUTE, size) for size in (1, 2, 50)]
    assert found == [["get_doomed", "get_late", "get_slower", "get_fine", "get_nothing", "discovery"]] * 3


FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({"status": "at_risk"}, {"get_late", "get_doomed"}),
    ({"status": "INTERRUPTED"}, {"discovery"}),
    ({"status": "IN_PROGRESS", "olt_id": 1}, {"get_fine", "get_slower"}),
    ({"olt_id": 2}, {"discovery", "get_doomed", "get_late"}),
    ({"task_type": "get_fine"}, {"get_fine"}),
    ({"text": "cusco"}, {"discovery", "get_doomed", "get_late"}),
    ({"text": "GET slow"}, {"get_slower"}),
    ({"text": "%"}, set()),
]


def test_filters_leave_what_they_say(hour: datetime) -> None:
    for fields, wanted in FILTERS:
        assert set(shown(quotas.Filter(hour, **fields), hour + 30 * MINUTE)) == wanted, fields


def test_at_risk_is_the_domains_rule_at_every_minute() -> None:
    lima = make_olt().id
    kept: dict[str, tuple[Counts, datetime]] = {}
    for required, lost, late in product((1, 3, 4, 12, 60), (0, 1, 3), (0, 2, 40)):
        for done in range(required - lost + 1):
            task, begin = f"get_{required}_{done}_{lost}_{late}", NOW + late * MINUTE
            counts = Counts(completed=done, failed=lost, pending=required - done - lost)
            kept[task] = counts, begin if late > 5 else NOW
            make_tracker(lima, task, NOW, counts, created_at=begin)
    for minute in (0, 13, 30, 59, 61):
        moment = NOW + minute * MINUTE
        ruled = {task for task, (counts, begin) in kept.items() if quota.at_risk(counts, NOW, moment, begin)}
        wanted = quotas.Filter(NOW, status=quotas.AT_RISK)
        assert set(shown(wanted, moment, 200)) == ruled, minute
        rows = quotas.page(quotas.Filter(NOW), quotas.groups(wanted), moment, size=1000).rows
        assert {row.task_type for row in rows if row.at_risk} == ruled, minute
        assert quotas.summary(wanted, quotas.groups(wanted), moment).at_risk == len(ruled), minute


def test_the_summary_adds_up_and_says_how_many_olts_keep_their_promises(hour: datetime) -> None:
    wanted = quotas.Filter(hour)
    found = quotas.summary(wanted, quotas.groups(wanted), hour + 30 * MINUTE)
    assert found.counts == Counts(completed=19, failed=3, skipped=4, pending=26)
    assert (found.trackers, found.at_risk, found.olts, found.kept) == (5, 2, 2, 1)
    assert found.statuses == {"at_risk": 2, "IN_PROGRESS": 4, "INTERRUPTED": 1}


def test_a_row_carries_to_what_its_slots_were_lost_most_first(hour: datetime) -> None:
    for cause, failed, skipped in ((LossCause.TIMEOUT, 1, 0), (LossCause.OLT_BUSY, 0, 2)):
        db.session.add(QuotaLoss(olt_id=2, task_type="get_doomed", period_start=hour, cause=cause, failed=failed,
                                 skipped=skipped))  # fmt: skip
    db.session.commit()
    wanted = quotas.Filter(hour)
    first = quotas.page(wanted, quotas.groups(wanted), hour + 30 * MINUTE).rows[0]
    assert first.lost == ((LossCause.OLT_BUSY, 2), (LossCause.TIMEOUT, 1))


def test_an_olts_strip_has_each_of_the_last_24_hours(hour: datetime) -> None:
    add(2, "get_late", hour - 24 * HOUR, Counts(completed=4), MET)
    add(2, "get_late", hour - 25 * HOUR, Counts(failed=4), NONE_DONE)
    strips = {one.task_type: one for one in quotas.of_olt(2, hour + 30 * MINUTE)}
    assert sorted(strips) == ["discovery", "get_doomed", "get_late", "get_older"]
    late = strips["get_late"]
    assert late.present is not None and late.present.at_risk
    assert [row and row.status for _hour, row in late.past] == [MET] + [None] * 23
    assert [start for start, _row in late.past] == [hour - back * HOUR for back in range(24, 0, -1)]
    assert strips["get_older"].present is None


def test_a_glance_counts_what_is_at_risk_and_the_violations_of_the_last_hour_and_day(hour: datetime) -> None:
    for task, back in (("get_older", 1), ("get_x", 24), ("get_x", 25)):
        add_violation(1, task, hour - back * HOUR, Severity.HIGH)
    add(1, "get_x", hour - 24 * HOUR, Counts(completed=4), MET)  # its slots ended late: the violation stays one
    assert quotas.glance(hour + 30 * MINUTE) == quotas.Glance(trackers=5, at_risk=2, last_hour=1, last_day=2)
    assert quotas.broken_by_hour(hour - 24 * HOUR, hour) == {hour - 24 * HOUR: 1, hour - HOUR: 1, hour: None}


def test_an_hour_that_is_not_judged_yet_is_not_said_to_be_kept(hour: datetime) -> None:
    add(1, "get_x", hour - HOUR, Counts(completed=3, pending=1))
    assert quotas.glance(hour + MINUTE).judging
    assert quotas.broken_by_hour(hour - 2 * HOUR, hour) == {hour - HOUR: None, hour: None}


# ------------------------------------------------------------------------------------------ one, and its slots


@pytest.fixture
def node(session: Session) -> WorkflowNode:
    """A discovery each five minutes, its next slot at 10:05, its promise made."""
    made = make_node(make_olt(), "discovery", kind=NodeKind.DISCOVERY)
    at(made, NOW + 5 * MINUTE, 300)
    refresh(NOW)
    return made


def detail(now: datetime, hour: datetime) -> quota_slots.Detail:
    db.session.rollback()
    found = quota_slots.get(db.session.query(QuotaTracker.id).filter_by(period_start=hour).scalar(), now)
    assert found is not None
    return found


def test_a_promise_shows_what_became_of_each_slot(node: WorkflowNode) -> None:
    tick(NOW + 5 * MINUTE)
    run(pending_ones()[0], NOW + 5 * MINUTE, 1)
    tick(NOW + 10 * MINUTE)
    tick(NOW + 15 * MINUTE)  # the run of 10:10 waits still: this slot is skipped
    found = detail(NOW + 16 * MINUTE, NOW)
    told = [((one.at - NOW) // MINUTE, one.status, one.execution_id is not None, one.lost) for one in found.slots]
    done, waits = ExecutionStatus.SUCCESS, ExecutionStatus.PENDING
    assert told == [(5, done, True, False), (10, waits, True, False), (15, None, False, True)]
    assert (found.coming, found.next_at) == (9, NOW + 20 * MINUTE)
    assert [(one.key, one.slots, one.interval_seconds) for one in found.basis] == [("discovery", 12, 300)]


def test_slots_logged_as_one_after_a_long_stop_are_told_one_by_one_in_their_hours(node: WorkflowNode) -> None:
    tick(NOW + 5 * MINUTE)
    run(pending_ones()[0], NOW + 5 * MINUTE, 1)
    tick(NOW + 3 * HOUR + 2 * MINUTE)
    refresh(NOW + 3 * HOUR + 2 * MINUTE)
    found = detail(NOW + 4 * HOUR, NOW)
    assert len(found.slots) == found.row.counts.required == 12
    assert [one.at for one in found.slots] == [NOW + 5 * number * MINUTE for number in range(1, 13)]
    assert {one.cause for one in found.slots[1:]} == {LossCause.RESTART}
    following = detail(NOW + 4 * HOUR, NOW + HOUR).slots
    assert [one.at for one in following] == [NOW + HOUR + 5 * number * MINUTE for number in range(1, 13)]


def test_skipped_firings_of_a_cron_line_are_told_at_the_times_at_which_it_fires() -> None:
    line = "0,1,2,50 * * * *"
    made = make_node(make_olt(), "discovery", kind=NodeKind.DISCOVERY, cron=line)
    refresh(NOW)
    tick(NOW + 2 * HOUR + 40 * MINUTE)
    refresh(NOW + 2 * HOUR + 40 * MINUTE)
    for hour in (NOW, NOW + HOUR):
        assert [(one.at - hour) // MINUTE for one in detail(NOW + 3 * HOUR, hour).slots] == [1, 2, 50, 60]
    workflows.update_node(made.id, {"cron": "30 4 * * *"}, ACTOR, NOW + 3 * HOUR)
    assert len(detail(NOW + 3 * HOUR, NOW).slots) == 4, "as the line was"


def test_slots_are_found_when_their_node_is_gone(node: WorkflowNode) -> None:
    tick(NOW + 5 * MINUTE)
    run(pending_ones()[0], NOW + 5 * MINUTE, 1)
    workflows.delete_node(node.id, ACTOR, NOW + 6 * MINUTE)
    found = detail(NOW + 7 * MINUTE, NOW)
    assert [(one.node_id, one.status) for one in found.slots] == [(None, ExecutionStatus.SUCCESS)]


def test_what_belongs_to_another_task_or_to_a_person_is_not_among_the_slots(node: WorkflowNode) -> None:
    at(make_node(node.workflow.olt, "rx", kind=NodeKind.GET), NOW + 5 * MINUTE, 300)
    tick(NOW + 5 * MINUTE)
    assert [one.node_id for one in detail(NOW + 6 * MINUTE, NOW).slots] == [node.id]


def test_changes_of_a_promise_are_told(node: WorkflowNode) -> None:
    facts = {"task_type": "discovery", "period_start": NOW.isoformat(), "before": 12, "after": 6}
    for details in (facts, facts | {"task_type": "get_rx"}, facts | {"period_start": (NOW + HOUR).isoformat()}):
        db.session.add(CoordinatorLog(olt_id=node.workflow.olt_id, event_type="QUOTA_ADJUSTED", message="",
                                      details=details, timestamp=NOW + MINUTE))  # fmt: skip
    db.session.commit()
    changes = detail(NOW + 2 * MINUTE, NOW).changes
    assert [(one.at, one.before, one.after) for one in changes] == [(NOW + MINUTE, 12, 6)]


def test_nothing_stands_for_a_tracker_that_never_was() -> None:
    assert quota_slots.get(999, NOW) is None


# ----------------------------------------------------------------------------------------------------------- violations


@pytest.fixture
def broken(session: Session) -> datetime:
    """Four violations: three of OLT 1 in different hours, one of OLT 2."""
    lima, cusco = make_olt().id, make_olt("OLT-CUSCO").id
    add_violation(lima, "get_a", NOW - 3 * HOUR, Severity.LOW)
    add_violation(lima, "get_b", NOW - 2 * HOUR, Severity.HIGH, notified=True, notified_at=NOW)
    add_violation(cusco, "get_c", NOW - 2 * HOUR, Severity.CRITICAL)
    add_violation(lima, "get_d", NOW - HOUR, Severity.HIGH)
    return NOW


def test_violations_are_newest_first_and_filters_add_up(broken: datetime) -> None:
    wanted: list[tuple[dict[str, Any], str]] = [
        ({}, "dcba"), ({"olt_id": 1}, "dba"), ({"severity": Severity.HIGH}, "db"), ({"notified": True}, "b"),
        ({"notified": False, "olt_id": 1}, "da"), ({"since": broken - 2 * HOUR}, "dcb"),
        ({"until": broken - 2 * HOUR}, "a"), ({"task_type": "get_c"}, "c"),
    ]  # fmt: skip
    for fields, letters in wanted:
        found = violations.page(violations.Filter(**fields)).rows
        assert "".join(row.task_type[-1] for row in found) == letters, fields


def test_paging_shows_every_violation_once(broken: datetime) -> None:
    for fields in ({}, {"olt_id": 1}):
        wanted, cursor, found = violations.Filter(**fields), "", list[int]()  # type: ignore[arg-type]
        while True:
            page = violations.page(wanted, cursor, 1)
            found += [row.id for row in page.rows]
            cursor = page.next
            if not cursor:
                break
        assert found == ([4, 2, 1] if fields else [4, 3, 2, 1])


def test_the_hours_that_the_close_judges_broken_are_the_violations() -> None:
    lima = make_olt().id
    for required in (1, 4, 5, 12):
        for done in range(required + 1):
            add(lima, f"get_{required}_{done}", NOW, Counts(completed=done, failed=required - done))
    closing.close_due(NOW + HOUR + MINUTE)
    db.session.rollback()
    hours, glance = db.session.query(QuotaViolation).count(), quotas.glance(NOW + HOUR + MINUTE)
    assert glance.last_hour == glance.last_day == hours > 0


# ------------------------------------------------------------------------------------------ newest first, command


@pytest.fixture
def command(app: Flask) -> Run:
    return commands(app, "quotas")


def test_the_list_of_many_hours_is_newest_first_in_each_order(hour: datetime) -> None:
    kinds: list[dict[str, Any]] = [{}, {"olt": 2}, {"status": NOT_MET}, {"status": INTERRUPTED, "olt": 2}]
    found = [[row.task_type for row in quota_list.page(quota_list.Filter(**one), hour).rows] for one in kinds]
    assert found == [
        ["discovery", "get_doomed", "get_late", "get_slower", "get_fine", "get_older"],
        ["discovery", "get_doomed", "get_late", "get_older"], ["get_older"], ["discovery"],
    ]  # fmt: skip
    assert [row.task_type for row in quota_list.page(quota_list.Filter(until=hour), hour).rows] == ["get_older"]
    met = quota_list.Filter(status=NOT_MET, since=hour - HOUR, until=hour)
    assert [row.task_type for row in quota_list.page(met, hour).rows] == ["get_older"]
    assert quota_list.page(quota_list.Filter(status=NOT_MET, since=hour), hour).rows == ()


def test_a_task_on_all_olts_is_looked_for_in_the_last_day(hour: datetime) -> None:
    for back in (1, 23, 24):
        add(1, "get_x", hour - back * HOUR, Counts(completed=back), MET)
    wanted: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [1, 23]), ({"olt": 1}, [1, 23, 24]), ({"since": hour - 30 * HOUR}, [1, 23, 24]),
        ({"until": hour - HOUR}, [23, 24]),
    ]  # fmt: skip
    for fields, found in wanted:
        bounded = quota_list.Filter(task_type="get_x", **fields).bounded(hour + MINUTE)
        assert [row.counts.completed for row in quota_list.page(bounded, hour).rows] == found, fields


def test_times_at_the_end_of_the_calendar_are_no_error(hour: datetime) -> None:
    for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        quota_list.page(quota_list.Filter(since=moment, until=moment, task_type="get_x").bounded(hour), hour)
        quota_list.page(quota_list.Filter(until=moment, task_type="get_x").bounded(hour), hour)


def test_the_commands_print_quotas_and_violations(hour: datetime, command: Run) -> None:
    add_violation(2, "get_older", hour - HOUR, Severity.HIGH)
    listed = command("list", "--olt", "OLT-CUSCO", "--status", "quota_not_met").output
    assert "get_older" in listed and "QUOTA_NOT_MET" in listed and "get_late" not in listed
    told = command("violations").output
    assert all(word in told for word in ("get_older", "HIGH", "2 timeout"))
    assert '"lost"' in command("list", "--json").output
    assert "there is no OLT X" in command("list", "--olt", "X", code=1).output


def audited(monkeypatch: pytest.MonkeyPatch, *answers: Audited) -> list[float]:
    """The audit answers these one after the other; returns the waits."""
    left, waits = list(answers), list[float]()
    monkeypatch.setattr("portal.cli.quotas.service.audit", lambda _now, _hours: left.pop(0))
    monkeypatch.setattr("portal.cli.quotas.time.sleep", waits.append)
    return waits


def difference(what: str) -> Audited:
    return Audited(3, 40, (Difference(quota.TrackerKey(1, "discovery", quota.hour_at(NOW)), what, 2, 1),), 24)


CLEAN = Audited(3, 40, (), 24)


def test_the_audit_says_which_hours_and_olts_it_left_out(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    make_node(make_olt())
    monkeypatch.setattr(clock, "now", lambda: NOW + MINUTE)
    told = command("audit", "--hours", "168").output
    assert "of older hours than these 167 something has been cleaned up" in told
    assert "not opened yet on 1 OLTs" in told


def test_an_audit_without_differences_says_how_much_it_counted(command: Run) -> None:
    assert command("audit").output.splitlines() == ["0 quotas of 24 hours looked at, 0 slots counted", "no differences"]


def test_an_audit_finds_a_number_that_stands_for_nothing(
    node: WorkflowNode, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW + MINUTE)
    assert "1 quotas of 1 hours looked at, 12 slots counted" in command("audit", "--hours", "1").output
    with transaction() as writing:
        writing.execute(update(QuotaTracker).values(quota_completed=1, quota_pending=11))
    told = command("audit", "--hours", "1", code=1).output
    assert "OLT-LIMA" in told and "completed" in told and "pending" in told
    assert '"differences"' in command("audit", "--json", "--hours", "1", code=1).output


def test_where_only_pending_slots_differ_the_audit_looks_again(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = audited(monkeypatch, difference("pending"), CLEAN)
    assert "no differences" in command("audit").output
    assert waits == [6.0]


def test_the_audit_looks_three_times_and_no_more(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = audited(monkeypatch, *[difference("pending")] * 3)
    command("audit", code=1)
    assert waits == [6.0, 6.0]


def test_any_other_difference_is_told_at_once(command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = audited(monkeypatch, difference("completed"))
    command("audit", code=1)
    assert waits == []
