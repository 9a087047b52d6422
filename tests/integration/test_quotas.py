"""Promises on both databases: each slot of each node is counted once, whatever happens to it."""

from collections import Counter
from datetime import datetime
from random import Random

import pytest
from flask import Flask, current_app
from sqlalchemy import exists, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from portal.domain import quota
from portal.domain.composite import CompositeResult, StepResult
from portal.domain.statuses import ErrorKind, ExecutionStatus, NodeKind, StepStatus
from portal.extensions import db, transaction
from portal.services.accounting import quotas
from portal.services.coordinating import trackers
from portal.services.coordinating.audit import audit
from portal.services.dispatch import executions, run_requests
from portal.services.network import olts, workflows
from portal.tables import CoordinatorState, Execution, Olt, QuotaLoss, QuotaTracker, WorkflowNode
from testing.builders import make_node, make_olt
from testing.cast import ACTOR, HOUR, MINUTE, NOW, SECOND
from testing.rows import set_rows
from testing.threads import at_once
from testing.ticking import take, tick

pytestmark = pytest.mark.usefixtures("session")


def at(node: WorkflowNode, moment: datetime, interval: int) -> None:
    """The node's clock stands at `moment`, as if it had run at that pace before."""
    change = update(WorkflowNode).where(WorkflowNode.id == node.id)
    db.session.execute(change.values(next_run_at=moment, anchor_at=moment, interval_seconds=interval))
    db.session.commit()


def refresh(now: datetime) -> list[trackers.Adjusted]:
    """As the coordinator does it when it opens the hour on every OLT."""
    with transaction() as session:
        opened = session.scalars(select(Olt.id).where(~exists().where(CoordinatorState.olt_id == Olt.id))).all()
        session.add_all(CoordinatorState(olt_id=one, version=0, digest="", snapshot="", observed_at=now)
                        for one in opened)  # fmt: skip
        session.flush()
        session.execute(update(CoordinatorState).values(hour=quota.hour_at(now)))
        return trackers.refresh(session, [quota.hour_at(now) - HOUR, quota.hour_at(now)], now)


def tracker(hour: datetime, task_type: str = "discovery") -> QuotaTracker:
    db.session.rollback()
    query = select(QuotaTracker).where(QuotaTracker.period_start == hour, QuotaTracker.task_type == task_type)
    return db.session.scalars(query).one()


def counts(hour: datetime, task_type: str = "discovery") -> tuple[int, ...]:
    """(required, completed, failed, skipped, pending)."""
    row = tracker(hour, task_type)
    return row.quota_required, row.quota_completed, row.quota_failed, row.quota_skipped, row.quota_pending


def lost() -> dict[str, int]:
    db.session.rollback()
    sums: Counter[str] = Counter()
    for row in db.session.scalars(select(QuotaLoss)):
        sums[row.cause.value] += row.failed + row.skipped
    return dict(sums)


def run(execution: Execution, now: datetime, token: int, kind: ErrorKind | None = None) -> None:
    """One try that takes two seconds; `kind`: how it fails."""
    work = executions.start(execution.id, token, "poller-1", now, now + MINUTE)
    assert work is not None
    status = StepStatus.SUCCESS if kind is None else StepStatus.FAILED
    step = StepResult(node_id=work.steps[0].node_id, status=status, started_at=now, finished_at=now + 2 * SECOND,
                      pdus=2, timeouts=2 if kind is ErrorKind.TIMEOUT else 0, error_kind=kind)  # fmt: skip
    executions.finish(execution.id, token, CompositeResult((step,)), now + 2 * SECOND)


def pending_ones() -> list[Execution]:
    db.session.rollback()
    return list(db.session.scalars(select(Execution).where(Execution.status == ExecutionStatus.PENDING)))


@pytest.fixture
def node(session: Session) -> WorkflowNode:
    """A discovery each five minutes, its next slot at 10:05."""
    made = make_node(make_olt(), "discovery", kind=NodeKind.DISCOVERY)
    at(made, NOW + 5 * MINUTE, 300)
    return made


def test_a_node_enabled_at_ten_to_the_hour_promises_two_runs_and_then_twelve(node: WorkflowNode) -> None:
    workflows.set_node_enabled(node.id, False, ACTOR, NOW)
    workflows.set_node_enabled(node.id, True, ACTOR, NOW + 50 * MINUTE)
    refresh(NOW + 50 * MINUTE)
    assert counts(NOW) == (2, 0, 0, 0, 2)
    with transaction() as writing:
        trackers.refresh(writing, [NOW + HOUR], NOW + 50 * MINUTE)
    assert counts(NOW + HOUR) == (12, 0, 0, 0, 12)


def test_the_slot_of_the_full_hour_belongs_to_the_hour_that_ends_with_it(node: WorkflowNode) -> None:
    at(node, NOW + HOUR, 3600)
    refresh(NOW)
    assert counts(NOW) == (1, 0, 0, 0, 1)
    refresh(NOW + HOUR)
    assert counts(NOW + HOUR) == (1, 0, 0, 0, 1)


def test_a_slot_is_settled_in_the_transaction_that_ends_its_execution(node: WorkflowNode) -> None:
    refresh(NOW)
    tick(NOW + 5 * MINUTE)
    assert counts(NOW) == (12, 0, 0, 0, 12)
    run(pending_ones()[0], NOW + 5 * MINUTE, 1)
    assert counts(NOW) == (12, 1, 0, 0, 11)
    assert (tracker(NOW).total_duration_ms, tracker(NOW).avg_duration_ms) == (2000, 2000)


def test_a_transaction_that_is_rolled_back_settles_nothing(node: WorkflowNode) -> None:
    refresh(NOW)
    key = quota.TrackerKey(node.workflow.olt_id, "discovery", NOW)
    with pytest.raises(RuntimeError), transaction() as writing:
        quotas.settle(writing, [quota.Settlement(key, ExecutionStatus.SUCCESS, None)], NOW)
        raise RuntimeError
    with transaction():
        pass
    assert counts(NOW) == (12, 0, 0, 0, 12)


def test_a_failure_counts_once_however_often_it_is_tried(node: WorkflowNode) -> None:
    refresh(NOW)
    tick(NOW + 5 * MINUTE)
    execution = pending_ones()[0]
    for number in range(3):
        run(execution, NOW + 5 * MINUTE + number * 10 * SECOND, number + 1, ErrorKind.DEVICE)
    assert lost() == {"device": 1}, "the third was its last"
    tick(NOW + 10 * MINUTE)
    assert counts(NOW)[1:4] == (0, 1, 0)
    assert lost() == {"device": 1}


def test_slots_that_passed_while_nothing_ticked_are_lost_to_the_restart_in_their_hours(node: WorkflowNode) -> None:
    refresh(NOW)
    tick(NOW + 2 * HOUR + 3 * MINUTE)  # 12:00 too: it is late by more than half its interval
    refresh(NOW + 2 * HOUR + 3 * MINUTE)
    assert counts(NOW) == counts(NOW + HOUR) == (12, 0, 0, 12, 0)
    assert lost() == {"restart": 24}
    assert audit(NOW + 2 * HOUR + 3 * MINUTE, 3).differences == ()


def test_what_a_person_asks_for_is_nobodys_promise(node: WorkflowNode) -> None:
    refresh(NOW)
    run_requests.run_now(node.id, ACTOR, NOW + MINUTE)
    run(pending_ones()[0], NOW + MINUTE, 1)
    assert counts(NOW) == (12, 0, 0, 0, 12)
    assert audit(NOW + MINUTE, 1).differences == ()


def test_disabling_a_node_takes_its_slots_to_come_out_of_the_promise(node: WorkflowNode) -> None:
    refresh(NOW)
    tick(NOW + 5 * MINUTE)
    workflows.set_node_enabled(node.id, False, ACTOR, NOW + 6 * MINUTE)
    assert [(one.before, one.after) for one in refresh(NOW + 6 * MINUTE)] == [(12, 1)]
    assert counts(NOW) == (1, 0, 0, 1, 0)
    assert lost() == {"disabled": 1}


def one_run() -> None:
    """An hour is promised and its first slot kept."""
    refresh(NOW)
    tick(NOW + 5 * MINUTE)
    run(pending_ones()[0], NOW + 5 * MINUTE, 1)


def test_a_new_interval_keeps_what_was_settled_and_promises_at_the_new_pace(node: WorkflowNode) -> None:
    one_run()
    workflows.update_node(node.id, {"interval": "10m"}, ACTOR, NOW + 6 * MINUTE)  # next 10:10, then each ten minutes
    refresh(NOW + 6 * MINUTE)
    assert counts(NOW) == (7, 1, 0, 0, 6)
    assert [(one["interval"], one["slots"]) for one in tracker(NOW).basis] == [(300, 12), (600, 6)]


def test_refreshing_again_changes_nothing(node: WorkflowNode) -> None:
    assert len(refresh(NOW)) == 1
    assert refresh(NOW) == []


def test_the_database_refuses_a_tracker_that_does_not_add_up(node: WorkflowNode) -> None:
    refresh(NOW)
    with pytest.raises(IntegrityError), transaction() as writing:
        writing.execute(update(QuotaTracker).values(quota_completed=5))


def test_the_audit_finds_a_number_that_does_not_stand_for_its_executions(node: WorkflowNode) -> None:
    one_run()
    with transaction() as writing:
        writing.execute(update(QuotaTracker).values(quota_completed=2, quota_pending=10))
    found = audit(NOW + 6 * MINUTE, 1).differences
    assert {(one.what, one.stored, one.counted) for one in found} == {("completed", 2, 1), ("pending", 10, 11)}


def test_an_execution_that_ends_while_the_promise_is_recounted_is_counted_once(app: Flask, node: WorkflowNode) -> None:
    refresh(NOW)
    tick(NOW + 5 * MINUTE)
    ident = pending_ones()[0].id
    db.session.rollback()

    def finish() -> None:
        run(db.session.get_one(Execution, ident), NOW + 5 * MINUTE, 1)

    def recount() -> None:
        for _ in range(20):
            refresh(NOW + 6 * MINUTE)

    at_once(app, [finish, recount])
    assert counts(NOW) == (12, 1, 0, 0, 11)
    assert audit(NOW + 6 * MINUTE, 1).differences == ()


# Random histories


class _History:
    """Two OLTs with three nodes each, through two hours of ticks, runs, failures, edits and stops."""

    def __init__(self, seed: int) -> None:
        self.chance, self.now = Random(seed), NOW
        self.token = 0
        for olt in (make_olt(), make_olt(name="OLT-CUSCO", address="127.0.0.2")):
            for key, interval in (("discovery", 900), ("rx", 300), ("names", 420)):
                kind = NodeKind.DISCOVERY if key == "discovery" else NodeKind.GET
                at(make_node(olt, key, kind=kind), NOW + self.chance.randint(1, 300) * SECOND, interval)

    def go(self, minutes: int) -> None:
        for _ in range(minutes * 2):
            self.now += 30 * SECOND
            if self.chance.random() < 0.93:
                tick(self.now)
            self._poll()
            if self.chance.random() < 0.15:
                self._meddle()
            if self.chance.random() < 0.2:
                refresh(self.now)

    def _poll(self) -> None:
        for execution in pending_ones():
            if self.chance.random() < 0.4 or (execution.not_before and execution.not_before > self.now):
                continue
            self.token += 1
            fate = self.chance.random()
            kind = None if fate < 0.7 else ErrorKind.TIMEOUT if fate < 0.85 else ErrorKind.DEVICE
            if executions.start(execution.id, self.token, "p", self.now, self.now + MINUTE) is None:
                continue
            if self.chance.random() < 0.1:
                executions.lost([(execution.id, self.token)], "killed", self.now + SECOND)
                continue
            step = StepResult(node_id=execution.node_id or 0, started_at=self.now, finished_at=self.now + SECOND,
                              status=StepStatus.FAILED if kind else StepStatus.SUCCESS, pdus=1,
                              timeouts=int(kind is ErrorKind.TIMEOUT), error_kind=kind)  # fmt: skip
            executions.finish(execution.id, self.token, CompositeResult((step,)), self.now + SECOND)

    def _meddle(self) -> None:
        nodes = list(db.session.scalars(select(WorkflowNode)))
        node, olt_id = self.chance.choice(nodes), self.chance.choice(list(db.session.scalars(select(Olt.id))))
        enabled = node.enabled
        db.session.rollback()
        deeds = (
            lambda: workflows.set_node_enabled(node.id, not enabled, ACTOR, self.now),
            lambda: workflows.update_node(node.id, {"interval": f"{self.chance.choice((5, 7, 10, 15))}m",
                                                    "override_reason": "test"}, ACTOR, self.now),
            lambda: olts.set_enabled(olt_id, self.chance.random() < 0.7, ACTOR, self.now),
            lambda: olts.pause([olt_id], "works", self.now + 4 * MINUTE, ACTOR, self.now),
            lambda: olts.resume([olt_id], ACTOR, self.now),
            lambda: workflows.delete_node(node.id, ACTOR, self.now) if len(nodes) > 4 else None,
            self._cancel,
        )  # fmt: skip
        self.chance.choice(deeds)()

    def _cancel(self) -> None:
        waiting = pending_ones()
        db.session.rollback()
        if waiting:
            run_requests.cancel(waiting[0].id, ACTOR, self.now)


@pytest.fixture(params=range(4))
def history(request: pytest.FixtureRequest, session: Session) -> _History:
    made = _History(request.param)
    refresh(NOW)
    return made


@pytest.mark.slow
def test_every_tracker_stands_for_its_executions_after_any_history(history: _History) -> None:
    history.go(130)
    with transaction() as session:
        trackers.refresh(session, [quota.hour_at(history.now) - back * HOUR for back in (2, 1, 0)], history.now)
    audited = audit(history.now, 3)
    assert audited.differences == () and audited.trackers >= 6
    for row in db.session.scalars(select(QuotaTracker)):
        same = (QuotaLoss.olt_id == row.olt_id, QuotaLoss.task_type == row.task_type,
                QuotaLoss.period_start == row.period_start)  # fmt: skip
        losses = db.session.scalars(select(QuotaLoss).where(*same)).all()
        assert sum(one.failed for one in losses) == row.quota_failed
        assert sum(one.skipped for one in losses) == row.quota_skipped


def test_a_slot_that_became_no_execution_adds_no_time(node: WorkflowNode) -> None:
    refresh(NOW)
    for number in (1, 2, 3):
        tick(NOW + number * 5 * MINUTE)  # the first still waits for its poller
    kept = tracker(NOW)
    assert (kept.quota_skipped, kept.total_duration_ms, kept.timed) == (2, 0, 0)


def test_the_mean_duration_is_that_of_the_runs_that_have_one(node: WorkflowNode) -> None:
    refresh(NOW)
    for number in (1, 2):
        tick(NOW + number * 5 * MINUTE)
        run(pending_ones()[0], NOW + number * 5 * MINUTE, number)
    tick(NOW + 15 * MINUTE)
    run_requests.cancel(pending_ones()[0].id, ACTOR, NOW + 15 * MINUTE)  # it never ran
    tick(NOW + 20 * MINUTE)
    ident = pending_ones()[0].id
    executions.start(ident, 9, "poller-1", NOW + 20 * MINUTE, NOW + HOUR)
    workflows.set_node_enabled(node.id, False, ACTOR, NOW + 20 * MINUTE)
    executions.give_up_lease(ident, 9, "told to stop", NOW + 20 * MINUTE + 8 * SECOND, aborted=True)
    kept = tracker(NOW)
    assert (kept.quota_completed, kept.quota_skipped) == (2, 2)
    assert (kept.total_duration_ms, kept.timed, kept.avg_duration_ms) == (12_000, 3, 4_000)


# from_end: the clock goes on where the run ends


def test_a_node_that_runs_promises_its_run_and_what_its_interval_leaves_room_for_after_it(node: WorkflowNode) -> None:
    current_app.config["NEXTCHECK_MODE"] = "from_end"
    take(NOW + 5 * MINUTE, from_end=True)
    assert db.session.get_one(WorkflowNode, node.id, populate_existing=True).next_run_at is None
    refresh(NOW + 5 * MINUTE)
    assert counts(NOW) == (12, 0, 0, 0, 12)  # this run, then 10:10 … 11:00
    refresh(NOW + 58 * MINUTE)
    assert counts(NOW) == (1, 0, 0, 0, 1)  # its next is due in five minutes


def test_a_node_that_was_disabled_while_it_runs_promises_no_more_than_that_run(node: WorkflowNode) -> None:
    current_app.config["NEXTCHECK_MODE"] = "from_end"
    take(NOW + 5 * MINUTE, from_end=True)
    executions.start(pending_ones()[0].id, 1, "poller-1", NOW + 5 * MINUTE, NOW + HOUR)
    workflows.set_node_enabled(node.id, False, ACTOR, NOW + 6 * MINUTE)
    refresh(NOW + 6 * MINUTE)
    assert counts(NOW)[0] == 1


def test_a_run_that_a_person_asked_for_gives_a_node_without_a_clock_no_slots(node: WorkflowNode) -> None:
    current_app.config["NEXTCHECK_MODE"] = "from_end"
    workflows.set_node_enabled(node.id, False, ACTOR, NOW)
    run_requests.run_now(node.id, ACTOR, NOW + MINUTE)
    workflows.set_node_enabled(node.id, True, ACTOR, NOW + MINUTE)
    set_rows(WorkflowNode, next_run_at=None)
    assert refresh(NOW + 2 * MINUTE) == []


def test_at_the_start_of_an_hour_what_is_pending_is_compared_where_the_hour_is_opened(node: WorkflowNode) -> None:
    refresh(NOW)
    tick(NOW + 5 * MINUTE)
    for minute in (5, 65):
        tick(NOW + minute * MINUTE)
        for one in pending_ones():
            run(one, NOW + minute * MINUTE, minute)
    found = audit(NOW + HOUR + 6 * MINUTE, 1)
    assert (found.unopened, found.differences) == (1, ())
    refresh(NOW + HOUR + 6 * MINUTE)
    with transaction() as writing:
        writing.execute(update(QuotaTracker).values(quota_completed=0, quota_required=QuotaTracker.quota_pending,
                                                    quota_failed=0, quota_skipped=0))  # fmt: skip
    found = audit(NOW + HOUR + 6 * MINUTE, 1)
    assert found.unopened == 0 and {one.what for one in found.differences} == {"completed"}


def test_the_audit_looks_at_no_hour_of_which_something_is_cleaned_up(app: Flask, node: WorkflowNode) -> None:
    assert audit(NOW, 168).hours == 167  # of the decision log
    app.config["RETENTION_DAYS"] = 2
    assert [audit(NOW, hours).hours for hours in (168, 47, 1)] == [47, 47, 1]
