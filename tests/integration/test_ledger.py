"""The ledger's sums are those of the runs, on both databases: none lost, none counted twice, whatever the closes do."""

import random
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain import quota
from portal.domain.statuses import AttemptStatus, EventType, ExecutionStatus, SkipReason, StepStatus, Trigger
from portal.extensions import transaction
from portal.models.execution import NodeDay
from portal.services import decisions, retention
from portal.services.coordinating import ledger
from portal.tables import CoordinatorHour, CoordinatorLog, Execution, ExecutionAttempt, ExecutionStep, WorkflowNode
from testing.builders import make_chained, make_execution, make_node, make_olt
from testing.cast import HOUR, NOW, at

TODAY = at("00:00")


Steps = list[tuple[int, StepStatus, int, int, int]]
"""What the steps of one try say: (node id, status, milliseconds, values read, values changed)."""


def add_run(
    session: Session, node: WorkflowNode, slot: datetime, end: datetime | None, tries: list[Steps] | None = None,
    *, status: ExecutionStatus = ExecutionStatus.SUCCESS, reason: SkipReason | None = None,
    trigger: Trigger = Trigger.SCHEDULE, delay: int | None = 0,
) -> int:  # fmt: skip
    """An execution with its tries; `end` None: it is PENDING."""
    run = make_execution(node, slot, trigger=trigger, status=status if end else ExecutionStatus.PENDING,
                         finished_at=end, skip_reason=reason, delay_ms=delay, attempt=len(tries or ()))  # fmt: skip
    add_tries(session, run, tries or [])
    return run.id


def add_tries(session: Session, run: Execution, tries: list[Steps]) -> None:
    for number, steps in enumerate(tries, 1):
        one = ExecutionAttempt(execution_id=run.id, number=number, worker="w", token=1, status=AttemptStatus.SUCCESS,
                               started_at=run.scheduled_for)  # fmt: skip
        session.add(one)
        session.flush()
        for position, (node_id, status, took, read, changed) in enumerate(steps):
            session.add(ExecutionStep(attempt_id=one.id, position=position, node_id=node_id, node_key="k",
                                      status=status, duration_ms=took, values_read=read,
                                      values_changed=changed))  # fmt: skip
    session.flush()


def close(hour: datetime, now: datetime | None = None) -> int:
    with transaction() as session:
        return ledger.close_hour(session, hour, now or hour + HOUR + ledger.SETTLED)


def days(session: Session) -> dict[tuple[int, datetime], dict[str, Any]]:
    session.rollback()
    session.expire_all()
    names = ("runs", "failures", "duration_ms", "delay_ms", "values_read", "values_changed")
    return {
        (row.node_id, row.day): {name: getattr(row, name) for name in names} | {"skips": dict(row.skips)}
        for row in session.scalars(select(NodeDay))
    }


@pytest.fixture
def master(session: Session) -> WorkflowNode:
    return make_node(make_olt())


@pytest.fixture
def chained(master: WorkflowNode) -> WorkflowNode:
    return make_chained(master)


def test_a_run_is_entered_for_the_master_and_for_each_node_of_its_chain(
    session: Session, master: WorkflowNode, chained: WorkflowNode
) -> None:
    steps = [(master.id, StepStatus.SUCCESS, 1500, 64, 3), (chained.id, StepStatus.FAILED, 4000, 10, 1)]
    with transaction() as writing:
        add_run(writing, master, NOW, NOW + timedelta(minutes=1), [steps], status=ExecutionStatus.FAILED, delay=250)
    assert close(NOW) == 1
    assert days(session) == {
        (master.id, TODAY): {"runs": 1, "failures": 1, "duration_ms": 1500, "delay_ms": 250, "values_read": 64,
                           "values_changed": 3, "skips": {}},
        (chained.id, TODAY): {"runs": 1, "failures": 1, "duration_ms": 4000, "delay_ms": 0, "values_read": 10,
                            "values_changed": 1, "skips": {}},
    }  # fmt: skip


def test_tries_of_a_run_all_cost_but_are_one_run(session: Session, master: WorkflowNode, chained: WorkflowNode) -> None:
    first = [(master.id, StepStatus.FAILED, 2000, 0, 0), (chained.id, StepStatus.SKIPPED, 0, 0, 0)]
    second = [(master.id, StepStatus.SUCCESS, 700, 64, 64), (chained.id, StepStatus.SUCCESS, 300, 9, 9)]
    with transaction() as writing:
        add_run(writing, master, NOW, NOW + timedelta(minutes=3), [first, second])
    close(NOW)
    found = {node_id: (row["runs"], row["duration_ms"]) for (node_id, _), row in days(session).items()}
    assert found == {master.id: (1, 2700), chained.id: (1, 300)}


def test_hours_of_one_day_add_up_and_that_before_midnight_is_yesterdays(session: Session, master: WorkflowNode) -> None:
    steps = [[(master.id, StepStatus.SUCCESS, 100, 5, 1)]]
    with transaction() as writing:
        for hour in (-1, 0, 1):
            # It ends in the last moment of its hour.
            add_run(writing, master, TODAY + hour * HOUR, TODAY + (hour + 1) * HOUR, steps)
    for hour in (-1, 0, 1):
        close(TODAY + hour * HOUR)
    assert {day: row["runs"] for (_, day), row in days(session).items()} == {TODAY - timedelta(days=1): 1, TODAY: 2}


def test_what_is_active_at_the_close_counts_in_the_hour_of_its_end(session: Session, master: WorkflowNode) -> None:
    with transaction() as writing:
        run_id = add_run(writing, master, NOW + timedelta(minutes=50), None)
    assert close(NOW) == 0
    with transaction() as writing:
        run = writing.get_one(Execution, run_id)
        run.status, run.finished_at = ExecutionStatus.SUCCESS, NOW + timedelta(minutes=80)
    assert close(NOW + HOUR) == 1
    assert days(session)[master.id, TODAY]["runs"] == 1


def test_skipped_slots_count_in_the_days_they_belong_to_by_cause(session: Session, master: WorkflowNode) -> None:
    """One row of the log tells of an outage over midnight; the slot of midnight itself is yesterday's."""
    first, two = TODAY - 2 * HOUR + timedelta(minutes=15), TODAY + 2 * HOUR
    with transaction() as writing:
        for reason, start, slots in ((SkipReason.SCHEDULER_DOWN, first, 16), (SkipReason.OLT_BUSY, two, 1)):
            last = start + (slots - 1) * timedelta(minutes=15)
            decisions.record(
                writing, EventType.SLOT_SKIPPED, "x", two + timedelta(minutes=1),
                olt_id=master.workflow.olt_id, node_id=master.id, reason=reason,
                details={"slots": slots, "first": start.isoformat(), "last": last.isoformat()},
            )  # fmt: skip
        add_run(writing, master, two, two + timedelta(minutes=5),
                status=ExecutionStatus.INTERRUPTED, reason=SkipReason.OLT_DISABLED)  # fmt: skip
        add_run(writing, master, two, two + timedelta(minutes=6), trigger=Trigger.MANUAL,
                status=ExecutionStatus.INTERRUPTED, reason=SkipReason.CANCELLED)  # fmt: skip
    close(two)
    found = days(session)
    assert found[master.id, TODAY - timedelta(days=1)]["skips"] == {"restart": 8}
    assert found[master.id, TODAY]["skips"] == {"restart": 8, "olt_busy": 1, "disabled": 1}
    assert found[master.id, TODAY]["runs"] == 2


def test_the_runs_of_a_deleted_node_are_nobodys(session: Session, master: WorkflowNode) -> None:
    with transaction() as writing:
        writing.get_one(Execution, add_run(writing, master, NOW, NOW + timedelta(minutes=1))).node_id = None
    assert close(NOW) == 0
    assert days(session) == {}


def test_an_hour_that_is_not_over_is_refused(session: Session) -> None:
    with pytest.raises(ValueError, match="not over"):
        close(NOW, NOW + HOUR - timedelta(seconds=1))


def test_each_hour_is_entered_once_and_not_before_it_has_settled(session: Session, master: WorkflowNode) -> None:
    with transaction() as writing:
        writing.add(CoordinatorHour(hour=NOW, opened_at=NOW))
        add_run(writing, master, NOW, NOW + timedelta(minutes=1))
    end = NOW + HOUR
    assert ledger.close_due(end + ledger.SETTLED - timedelta(seconds=1)) == 0
    assert ledger.close_due(end + ledger.SETTLED) == 1
    assert ledger.close_due(end + ledger.SETTLED) == 0
    assert days(session)[master.id, TODAY]["runs"] == 1


def test_rows_of_the_ledger_go_after_their_time(session: Session, master: WorkflowNode) -> None:
    with transaction() as writing:
        for age in (729, 731):
            writing.add(NodeDay(node_id=master.id, olt_id=master.workflow.olt_id, day=TODAY - timedelta(days=age)))
    retention.clean_up(TODAY, 14, 30)
    assert [day for _, day in days(session)] == [TODAY - timedelta(days=729)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_after_any_history_the_days_say_what_the_runs_and_the_log_say(session: Session, seed: int) -> None:
    history = History(session, random.Random(seed))
    for _ in range(30):
        history.one_hour()
    history.settle()
    assert days(session) == history.expected()


class History:
    """Random runs of 2 OLTs; hours are closed late, several at once, and doubled; ends are committed late.

    Knows what must come of it.
    """

    def __init__(self, session: Session, rng: random.Random) -> None:
        self.session, self.random, self.now = session, rng, TODAY + 10 * HOUR
        self.masters = [make_node(make_olt(name)) for name in ("OLT-A", "OLT-B")]
        self.chains = {one.id: [make_chained(one).id] for one in self.masters}
        self.active: dict[int, int] = {}  # master → execution
        self.slots: dict[int, datetime] = {}
        with transaction() as session:  # what happens in the first moment belongs to the hour before
            session.add(CoordinatorHour(hour=self.now - HOUR, opened_at=self.now))

    def one_hour(self) -> None:
        hour = self.now
        with transaction() as session:
            session.add(CoordinatorHour(hour=hour, opened_at=hour))
        while self.now < hour + HOUR:
            with transaction() as session:
                self._event(session)
            for _ in range(self.random.choice((0, 0, 1, 2))):
                ledger.close_due(self.now)
            self.now = min(hour + HOUR, self.now + timedelta(seconds=self.random.choice((0, 70, 130, 900, 1700))))

    def settle(self) -> None:
        assert ledger.close_due(self.now + ledger.SETTLED) > 0

    def _event(self, session: Session) -> None:
        master = self.random.choice(self.masters)
        act = self.random.choice(("begin", "end", "end", "skip"))
        if act == "begin" and master.id not in self.active:
            self.slots[master.id] = max(self.now, self.slots.get(master.id, self.now) + timedelta(seconds=1))
            trigger = self.random.choice(list(Trigger))
            self.active[master.id] = add_run(session, master, self.slots[master.id], None, trigger=trigger)
        elif act == "end" and master.id in self.active:
            self._end(session, master, session.get_one(Execution, self.active.pop(master.id)))
        elif act == "skip":
            self._skip(session, master)

    def _end(self, session: Session, master: WorkflowNode, run: Execution) -> None:
        run.status = self.random.choice([ExecutionStatus.SUCCESS, ExecutionStatus.FAILED, ExecutionStatus.INTERRUPTED])
        waited = timedelta(seconds=self.random.choice((0, 0, 100)))  # for the lock, with the time of the end in hand
        run.finished_at, run.delay_ms = self.now - waited, self.random.choice((None, 0, 900))
        reasons = (None, SkipReason.OLT_DISABLED, SkipReason.CANCELLED)
        run.skip_reason = self.random.choice(reasons) if run.status is ExecutionStatus.INTERRUPTED else None
        nodes = [master.id, *self.chains[master.id]]
        add_tries(session, run, [[self._step(node) for node in nodes] for _ in range(self.random.randrange(3))])

    def _step(self, node_id: int) -> tuple[int, StepStatus, int, int, int]:
        read = self.random.randrange(50)
        return node_id, self.random.choice(list(StepStatus)), self.random.randrange(5000), read, read // 3

    def _skip(self, session: Session, master: WorkflowNode) -> None:
        slots = self.random.choice((1, 1, 5, 40))
        first = self.now - (slots - 1) * timedelta(minutes=15)
        decisions.record(
            session, EventType.SLOT_SKIPPED, "x", self.now, olt_id=master.workflow.olt_id, node_id=master.id,
            reason=self.random.choice((SkipReason.OLT_BUSY, SkipReason.SCHEDULER_DOWN, SkipReason.OLT_PAUSED)),
            details={"slots": slots, "first": first.isoformat(), "last": self.now.isoformat()},
        )  # fmt: skip

    def expected(self) -> dict[tuple[int, datetime], dict[str, Any]]:
        """Counted again, row by row, in Python."""
        names = ("runs", "failures", "duration_ms", "delay_ms", "values_read", "values_changed")
        found: dict[tuple[int, datetime], dict[str, Any]] = defaultdict(
            lambda: dict.fromkeys(names, 0) | {"skips": defaultdict(int)}
        )
        for run in self.session.scalars(select(Execution).where(Execution.finished_at.is_not(None))):
            assert run.finished_at is not None and run.node_id is not None
            day = ledger.day_of(quota.hour_of(run.finished_at))
            row = found[run.node_id, day]
            row["runs"] += 1
            row["failures"] += run.status is ExecutionStatus.FAILED
            row["delay_ms"] += run.delay_ms or 0
            if run.status is ExecutionStatus.INTERRUPTED and run.trigger is Trigger.SCHEDULE:
                row["skips"][quota.cause_of_skip(run.skip_reason).value] += 1
            for step in (step for attempt in run.attempts for step in attempt.steps):
                self._expect_step(found[step.node_id or 0, day], step, chained=step.node_id != run.node_id)
        for log in self.session.scalars(select(CoordinatorLog).where(CoordinatorLog.event_type == "SLOT_SKIPPED")):
            first = datetime.fromisoformat(log.details["first"])
            for number in range(log.details["slots"]):
                day = ledger.day_of(quota.hour_of(first + number * timedelta(minutes=15)))
                found[log.node_id or 0, day]["skips"][quota.cause_of_skip(log.reason).value] += 1
        return {key: row | {"skips": dict(row["skips"])} for key, row in found.items()}

    @staticmethod
    def _expect_step(row: dict[str, Any], step: ExecutionStep, *, chained: bool) -> None:
        row["runs"] += chained and step.status is not StepStatus.SKIPPED
        row["failures"] += chained and step.status is StepStatus.FAILED
        row["duration_ms"] += step.duration_ms
        row["values_read"] += step.values_read
        row["values_changed"] += step.values_changed
