"""Dead OLTs: when one is given up, what becomes of what waits on it, what brings it back, and what a person decides."""

from datetime import datetime, timedelta

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.composite import ColumnReadings, CompositeResult, ReadingSpec, StepResult
from portal.domain.readings import ValueSpec
from portal.domain.statuses import ErrorKind, EventType, ExecutionStatus, OltState, SkipReason, StepStatus, Trigger
from portal.extensions import transaction
from portal.services.dispatch import executions, reachability
from portal.services.errors import NotFound
from portal.services.network import credentials, olts
from portal.tables import AuditLog, CoordinatorLog, Execution, Olt, WorkflowNode
from testing.builders import make_execution, make_node, make_olt
from testing.cast import ACTOR, FAR_AWAY, MINUTE, NOW, SECOND
from testing.refusals import errors_of
from testing.rows import logged


@pytest.fixture
def node(session: Session) -> WorkflowNode:
    """A master without retries on OLT-LIMA."""
    return make_node(make_olt(), max_retries=0)


def run(
    session: Session, node: WorkflowNode, moment: datetime, kind: ErrorKind | None, *, answers: int = 0,
    **columns: object,
) -> Execution:  # fmt: skip
    """One execution that ends with `kind` (None = success); `answers` of its two requests were answered."""
    execution = started(node, moment, **columns)
    executions.finish(execution.id, execution.id, outcome(node, kind, answers), moment + SECOND)
    session.rollback()
    return execution


def started(node: WorkflowNode, moment: datetime, **columns: object) -> Execution:
    execution = make_execution(node, moment, **columns)
    assert executions.start(execution.id, execution.id, "poller", moment, moment + 15 * SECOND)
    return execution


def outcome(node: WorkflowNode, kind: ErrorKind | None, answers: int = 0) -> CompositeResult:
    silent = 2 - (2 if kind is None else answers)
    step = StepResult(node.id, StepStatus.FAILED if kind else StepStatus.SUCCESS, pdus=2, timeouts=silent,
                      error_kind=kind, error_message="no answer" if kind else "")  # fmt: skip
    return CompositeResult((step,))


def silence(session: Session, node: WorkflowNode, moment: datetime, times: int) -> datetime:
    """So many silent executions, a minute apart; when the last one ended."""
    for number in range(times):
        run(session, node, moment + number * MINUTE, ErrorKind.TIMEOUT)
    return moment + (times - 1) * MINUTE + SECOND


def changes() -> list[CoordinatorLog]:
    return logged(EventType.OLT_STATE_CHANGED)


def test_three_silent_executions_in_a_row_make_an_olt_unreachable(session: Session, node: WorkflowNode) -> None:
    olt = node.workflow.olt
    silence(session, node, NOW, 2)
    assert (olt.state, olt.consecutive_failures, changes()) == (OltState.UNKNOWN, 2, [])
    end = silence(session, node, NOW + 2 * MINUTE, 1)
    assert (olt.state, olt.state_since, olt.consecutive_failures) == (OltState.UNREACHABLE, end, 3)
    assert (olt.probe_at, olt.probes_sent) == (end + 30 * SECOND, 0)
    (row,) = changes()
    assert (row.level, row.olt_id, row.details["failures"]) == ("ERROR", olt.id, 3)
    assert (row.details["before"], row.details["after"]) == ("unknown", "unreachable")
    assert "no answer" in row.details["error"]


def test_what_a_driver_said_is_kept_beside_a_decision_not_in_its_sentence(session: Session, node: WorkflowNode) -> None:
    """The sentence is said in the reader's language; the driver speaks English only."""
    silence(session, node, NOW, 3)
    (row,) = changes()
    assert row.message == "OLT-LIMA: Not read yet → Unreachable: silences in a row: 3"
    assert "no answer" not in str(row.details["said"])


def test_an_answer_in_between_starts_the_count_again(session: Session, node: WorkflowNode) -> None:
    silence(session, node, NOW, 2)
    run(session, node, NOW + 2 * MINUTE, ErrorKind.NO_SUCH_OBJECT, answers=2)
    assert (node.workflow.olt.state, node.workflow.olt.consecutive_failures) == (OltState.UP, 0)
    silence(session, node, NOW + 3 * MINUTE, 2)
    assert node.workflow.olt.state is OltState.UP


def test_an_olt_that_answered_once_in_a_run_that_failed_is_up(session: Session, node: WorkflowNode) -> None:
    run(session, node, NOW, ErrorKind.TIMEOUT, answers=1)
    assert (node.workflow.olt.state, node.workflow.olt.consecutive_failures) == (OltState.UP, 0)


def test_each_silent_try_of_an_execution_counts(session: Session) -> None:
    node = make_node(make_olt(), max_retries=1, retry_delay=60, interval="15m")
    execution = run(session, node, NOW, ErrorKind.TIMEOUT)
    assert (execution.status, node.workflow.olt.consecutive_failures) == (ExecutionStatus.PENDING, 1)
    moment = NOW + 2 * MINUTE
    assert executions.start(execution.id, 101, "poller", moment, moment + 15 * SECOND)
    step = StepResult(node.id, StepStatus.FAILED, pdus=2, timeouts=2, error_kind=ErrorKind.TIMEOUT)
    executions.finish(execution.id, 101, CompositeResult((step,)), moment + SECOND)
    session.rollback()
    assert (execution.status, node.workflow.olt.consecutive_failures) == (ExecutionStatus.FAILED, 2)


def test_an_olt_that_fell_silent_is_known_dead_within_a_minute_whatever_its_intervals(session: Session) -> None:
    node = make_node(make_olt(), max_retries=2, retry_delay=600, interval="1h")
    olt, first = node.workflow.olt, NOW + SECOND  # when the first silent try had ended
    run(session, node, NOW, ErrorKind.TIMEOUT)
    assert (olt.consecutive_failures, olt.probe_at) == (1, first + 15 * SECOND)
    assert reachability.suspects(first + 14 * SECOND, 64) == []
    for asked in (first + 15 * SECOND, first + 33 * SECOND):
        assert [one.olt_id for one in reachability.suspects(asked, 64)] == [olt.id]
        reachability.record_probes({olt.id: False}, asked)
        session.expire_all()
    assert (olt.state, olt.state_since) == (OltState.UNREACHABLE, first + 33 * SECOND)
    waiting = session.scalars(select(Execution)).one()
    assert (waiting.status, waiting.error_kind) == (ExecutionStatus.FAILED, ErrorKind.TIMEOUT)


def test_an_olt_that_missed_one_request_and_answers_the_next_is_up(session: Session, node: WorkflowNode) -> None:
    olt = node.workflow.olt
    run(session, node, NOW, ErrorKind.TIMEOUT)
    assert reachability.record_probes({olt.id: True}, NOW + 16 * SECOND) == 0
    session.expire_all()
    assert (olt.state, olt.consecutive_failures, olt.probe_at) == (OltState.UP, 0, None)
    assert reachability.suspects(NOW + MINUTE, 64) == []


def test_the_states_of_onus_count_until_some_of_their_readings_are_missed(session: Session) -> None:
    ends = {}
    for name, clock in (("OLT-A", {"interval": "5m"}), ("OLT-B", {"interval": "1h"}), ("OLT-C", {"interval": "1m"})):
        node = make_node(make_olt(name), **clock)
        execution = make_execution(node, NOW)
        assert executions.start(execution.id, execution.id, "poller", NOW, NOW + 15 * SECOND)
        column = ColumnReadings(ReadingSpec("onu_state", "1.1", ValueSpec()), (), complete=name != "OLT-C")
        step = StepResult(node.id, StepStatus.SUCCESS, (column,), pdus=2)
        executions.finish(execution.id, execution.id, CompositeResult((step,)), NOW)
        session.expire_all()
        ends[name] = session.get_one(Olt, node.workflow.olt_id).stale_at
    assert ends == {"OLT-A": NOW + 15 * MINUTE, "OLT-B": NOW + 180 * MINUTE, "OLT-C": FAR_AWAY}


def test_an_olt_that_refuses_its_credential_is_asked_seldom_and_told_of_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(reachability.alerts, "raise_alert", lambda *given, **_more: told.append(str(given[2])))
    node = make_node(make_olt(), max_retries=2, retry_delay=60, interval="15m")
    olt = node.workflow.olt
    execution = run(session, node, NOW, ErrorKind.AUTH, answers=2)
    assert (execution.status, execution.error_kind) == (ExecutionStatus.FAILED, ErrorKind.AUTH), "no retry"
    assert (olt.state, olt.refused) == (OltState.UNREACHABLE, True)
    asked = []
    for _ in range(40):
        moment = olt.probe_at
        assert moment is not None
        (suspect,) = reachability.suspects(moment, 64)
        assert suspect.refused
        asked.append(moment)
        reachability.record_probes({olt.id: False}, moment)
        session.expire_all()
    gaps = [after - before for before, after in zip(asked, asked[1:], strict=False)]
    assert gaps == sorted(gaps) and gaps[0] == 2 * MINUTE and gaps[-1] == 15 * MINUTE
    assert sum(moment < NOW + 60 * MINUTE for moment in asked) == 6
    assert told == ["OLT-LIMA refuses its SNMP credential"]
    assert reachability.record_probes({olt.id: True}, olt.probe_at or NOW) == 1
    session.expire_all()
    assert (olt.state, olt.refused) == (OltState.UP, False)


def test_a_refusal_in_the_midst_of_an_answer_is_no_refused_credential(session: Session, node: WorkflowNode) -> None:
    execution = make_execution(node, NOW)
    assert executions.start(execution.id, execution.id, "poller", NOW, NOW + 15 * SECOND)
    steps = (
        StepResult(node.id, StepStatus.SUCCESS, pdus=2, rows=5),
        StepResult(node.id, StepStatus.FAILED, pdus=1, error_kind=ErrorKind.AUTH),
    )
    executions.finish(execution.id, execution.id, CompositeResult(steps), NOW)
    session.rollback()
    assert node.workflow.olt.state is OltState.UP


def test_once_a_credential_is_changed_the_olts_that_wait_for_it_are_asked_at_once(session: Session) -> None:
    nodes = [make_node(make_olt(name), max_retries=0) for name in ("OLT-A", "OLT-B")]
    for node in nodes:
        run(session, node, NOW, ErrorKind.AUTH, answers=2)
    later = NOW + 3 * MINUTE
    assert all(node.workflow.olt.probe_at != later for node in nodes)
    credential = nodes[0].workflow.olt.credential
    credentials.save({"name": credential.name, "community": "another"}, ACTOR, later, credential.id)
    session.expire_all()
    assert [node.workflow.olt.probe_at for node in nodes] == [later, later]


def test_zero_switches_giving_up_off(app: Flask, session: Session, node: WorkflowNode) -> None:
    app.config["AUTO_PAUSE_AFTER"] = 0
    silence(session, node, NOW, 5)
    assert (node.workflow.olt.state, node.workflow.olt.probe_at) == (OltState.UNKNOWN, None)
    app.config["AUTO_PAUSE_AFTER"] = 6
    silence(session, node, NOW + 5 * MINUTE, 1)
    assert node.workflow.olt.state is OltState.UNREACHABLE


def test_what_waits_on_a_dead_olt_is_skipped_and_what_failed_before_fails(session: Session, node: WorkflowNode) -> None:
    olt, stranger = node.workflow.olt, make_execution(make_node(make_olt("OTHER")), NOW)
    never_tried = make_execution(make_node(olt, "b"), NOW)
    to_retry = make_execution(make_node(olt, "c"), NOW, attempt=1, failures=1, error_kind=ErrorKind.INCOMPLETE,
                       error_message="cut short")  # fmt: skip
    asked_for = make_execution(make_node(olt, "d"), NOW, trigger=Trigger.MANUAL, requested_by=ACTOR)
    silence(session, node, NOW, 3)
    assert (never_tried.status, never_tried.error_kind) == (ExecutionStatus.INTERRUPTED, ErrorKind.UNREACHABLE)
    assert (to_retry.status, to_retry.error_kind) == (ExecutionStatus.FAILED, ErrorKind.INCOMPLETE)
    assert to_retry.error_message == "cut short"
    assert (asked_for.status, stranger.status) == (ExecutionStatus.PENDING, ExecutionStatus.PENDING)
    assert [row.reason for row in logged() if row.execution_id == never_tried.id] == [SkipReason.OLT_UNREACHABLE]


def test_it_is_given_up_once_and_its_further_silence_is_no_news(session: Session, node: WorkflowNode) -> None:
    end, olt = silence(session, node, NOW, 3), node.workflow.olt
    run(session, node, NOW + 10 * MINUTE, ErrorKind.TIMEOUT, trigger=Trigger.MANUAL, requested_by=ACTOR)
    assert (len(changes()), olt.state_since, olt.probe_at) == (1, end, end + 30 * SECOND)


def test_an_answer_to_a_manual_run_brings_a_dead_olt_back(session: Session, node: WorkflowNode) -> None:
    silence(session, node, NOW, 3)
    clock = node.next_run_at
    run(session, node, NOW + 10 * MINUTE, None, trigger=Trigger.MANUAL, requested_by=ACTOR)
    olt = node.workflow.olt
    assert (olt.state, olt.consecutive_failures, olt.probe_at, olt.probes_sent) == (OltState.UP, 0, None, 0)
    assert [row.details["after"] for row in changes()] == ["unreachable", "up"]
    assert changes()[1].details["away_seconds"] == 8 * 60
    assert node.next_run_at == clock  # it goes on at its grid


def test_a_persons_pause_is_not_undone_by_an_answer(session: Session, node: WorkflowNode) -> None:
    olt = node.workflow.olt
    olts.pause([olt.id], "fibre work", None, ACTOR, NOW)
    run(session, node, NOW, None, trigger=Trigger.MANUAL)
    assert (olt.state, olt.paused_reason) == (OltState.PAUSED, "fibre work")


def test_a_persons_pause_is_not_replaced_by_silence(session: Session, node: WorkflowNode) -> None:
    silence(session, node, NOW, 2)
    olts.pause([node.workflow.olt_id], "fibre work", None, ACTOR, NOW)
    silence(session, node, NOW + 2 * MINUTE, 3)
    olt = node.workflow.olt
    assert (olt.state, olt.consecutive_failures, olt.probe_at) == (OltState.PAUSED, 0, None)


def test_a_dead_olt_is_suspected_at_its_time_and_only_while_in_service(session: Session, node: WorkflowNode) -> None:
    due = silence(session, node, NOW, 3) + 30 * SECOND
    assert reachability.suspects(due - SECOND, 64) == []
    (suspect,) = reachability.suspects(due, 64)
    assert (suspect.olt_id, suspect.target.community) == (node.workflow.olt_id, "planted-community")
    assert "planted" not in repr(suspect)
    olts.set_enabled(node.workflow.olt_id, False, ACTOR, due)
    assert reachability.suspects(due, 64) == []


def test_who_waits_longest_is_asked_first_and_no_more_than_so_many_at_once(session: Session) -> None:
    found = [make_olt(name) for name in ("A", "B", "C")]
    for olt, late in zip(found, (1, 3, 2), strict=True):
        olt.state, olt.probe_at = OltState.UNREACHABLE, NOW - late * MINUTE
    session.commit()
    assert [one.olt_id for one in reachability.suspects(NOW, 2)] == [found[1].id, found[2].id]


def test_silence_to_a_probe_moves_the_next_and_answers_bring_the_olt_back(session: Session, node: WorkflowNode) -> None:
    olt, end = node.workflow.olt, silence(session, node, NOW, 3)
    late = end + 12 * MINUTE
    assert reachability.record_probes({olt.id: False}, late) == 0
    assert (olt.state, olt.probes_sent, olt.probe_at) == (OltState.UNREACHABLE, 1, late + MINUTE)
    assert reachability.record_probes({olt.id: True}, late + MINUTE) == 1
    assert (olt.state, olt.consecutive_failures, olt.probe_at, olt.probes_sent) == (OltState.UP, 0, None, 0)
    row = changes()[1]
    assert (row.level, row.details["probes"], row.details["away_seconds"]) == ("INFO", 2, 13 * 60)


def test_a_probe_that_was_under_way_does_not_undo_a_pause(session: Session, node: WorkflowNode) -> None:
    silence(session, node, NOW, 3)
    olts.pause([node.workflow.olt_id], "fibre work", None, ACTOR, NOW + 5 * MINUTE)
    assert reachability.record_probes({node.workflow.olt_id: True}, NOW + 5 * MINUTE) == 0
    assert node.workflow.olt.state is OltState.PAUSED


def test_a_pause_skips_what_waits_and_lets_run_what_runs(session: Session, node: WorkflowNode) -> None:
    olt, running = node.workflow.olt, make_execution(node, NOW)
    assert executions.start(running.id, 1, "poller", NOW, NOW + 15 * SECOND)
    never_tried = make_execution(make_node(olt, "b"), NOW)
    asked_for = make_execution(make_node(olt, "c"), NOW, trigger=Trigger.MANUAL, requested_by=ACTOR)
    until = NOW + timedelta(hours=2)
    assert olts.pause([olt.id], " fibre work ", until, ACTOR, NOW) == 1
    assert (olt.state, olt.state_since) == (OltState.PAUSED, NOW)
    assert (olt.paused_reason, olt.paused_until) == ("fibre work", until)
    session.refresh(running)
    assert running.status is ExecutionStatus.RUNNING
    assert (never_tried.status, asked_for.status) == (ExecutionStatus.INTERRUPTED, ExecutionStatus.PENDING)
    assert [row.reason for row in logged() if row.execution_id == never_tried.id] == [SkipReason.OLT_PAUSED]
    audited = session.scalars(select(AuditLog).where(AuditLog.action == "olt.pause")).one()
    assert (audited.actor, audited.changes["reason"]) == (ACTOR, ["", "fibre work"])
    assert changes()[0].details["actor"] == ACTOR


@pytest.mark.parametrize(
    ("reason", "later", "field"),
    [("", MINUTE, "reason"), ("two\nlines", MINUTE, "reason"), ("x" * 256, MINUTE, "reason"),
     ("ok", timedelta(), "until"), ("ok", -MINUTE, "until")],
)  # fmt: skip
def test_a_pause_needs_a_reason_and_an_end_in_the_future_if_any(
    node: WorkflowNode, reason: str, later: timedelta, field: str
) -> None:
    assert errors_of(olts.pause, [node.workflow.olt_id], reason, NOW + later, ACTOR, NOW).keys() == {field}
    errors = errors_of(olts.pause, [node.workflow.olt_id], "ok", NOW.replace(tzinfo=None) + MINUTE, ACTOR, NOW)
    assert errors.keys() == {"until"}


def test_pausing_and_resuming_unknown_olts_changes_nothing_and_names_them(session: Session, node: WorkflowNode) -> None:
    for verb in (lambda ids: olts.pause(ids, "x", None, ACTOR, NOW), lambda ids: olts.resume(ids, ACTOR, NOW)):
        with pytest.raises(NotFound, match="98, 99"):
            verb([node.workflow.olt_id, 99, 98])
    session.rollback()
    assert node.workflow.olt.state is OltState.UNKNOWN


def test_the_same_pause_again_is_no_change_and_another_reason_is(node: WorkflowNode) -> None:
    ids = [node.workflow.olt_id]
    assert [olts.pause(ids, why, None, ACTOR, NOW) for why in ("fibre work", "fibre work", "power cut")] == [1, 0, 1]
    assert node.workflow.olt.paused_reason == "power cut"


def test_a_dead_olt_that_a_person_pauses_is_paused_and_after_that_unknown(session: Session, node: WorkflowNode) -> None:
    silence(session, node, NOW, 3)
    olt = node.workflow.olt
    olts.pause([olt.id], "known outage", None, ACTOR, NOW + 5 * MINUTE)
    assert (olt.state, olt.probe_at) == (OltState.PAUSED, None)
    assert olts.resume([olt.id], ACTOR, NOW + 9 * MINUTE) == 1
    assert (olt.state, olt.paused_reason, olt.consecutive_failures) == (OltState.UNKNOWN, "", 0)
    assert session.scalars(select(AuditLog.action).order_by(AuditLog.id)).all()[-2:] == ["olt.pause", "olt.resume"]


def test_resuming_a_dead_olt_makes_it_be_asked_at_once(session: Session, node: WorkflowNode) -> None:
    silence(session, node, NOW, 3)
    moment, olt = NOW + 4 * MINUTE, node.workflow.olt
    assert olts.resume([olt.id, make_olt("UP").id], ACTOR, moment) == 1
    assert olt.state is OltState.UNREACHABLE
    assert [one.olt_id for one in reachability.suspects(moment, 64)] == [olt.id]


def test_a_pause_ends_by_itself_when_its_time_is_over_and_not_before(session: Session, node: WorkflowNode) -> None:
    olt, forever = node.workflow.olt, make_olt("FOREVER")
    olts.pause([olt.id], "fibre work", NOW + MINUTE, ACTOR, NOW)
    olts.pause([forever.id], "closed", None, ACTOR, NOW)
    assert (reachability.end_pauses(NOW + 59 * SECOND), olt.state) == (0, OltState.PAUSED)
    assert reachability.end_pauses(NOW + MINUTE) == 1
    assert (olt.state, olt.paused_until, olt.paused_reason) == (OltState.UNKNOWN, None, "")
    assert forever.state is OltState.PAUSED
    last = changes()[-1]
    assert (last.details["after"], last.details["reason"], last.details["actor"]) == ("unknown", "fibre work", "")
    assert reachability.end_pauses(NOW + MINUTE) == 0


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer at a time
def test_a_pause_given_at_the_moment_of_a_silent_end_wins(app: Flask, session: Session, node: WorkflowNode) -> None:
    """What this transaction read of the OLT before may be old: the row is read again under its lock."""
    silence(session, node, NOW, 2)
    ident = started(node, NOW + 2 * MINUTE).id
    silent, end = outcome(node, ErrorKind.TIMEOUT), NOW + 2 * MINUTE + SECOND
    with transaction():
        olt = session.get_one(Olt, node.workflow.olt_id)
        assert (olt.state, olt.consecutive_failures) == (OltState.UNKNOWN, 2)
        with app.app_context():  # a session of its own, as another process has
            olts.pause([olt.id], "fibre work", None, ACTOR, NOW)
        executions.write_result(session, ident, ident, silent, end)
    assert olt.state is OltState.PAUSED
