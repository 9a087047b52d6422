"""How many values each step read, and how many of them said something new, on both databases."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.composite import ColumnReadings, CompositeResult, CompositeWork, ReadingSpec, StepResult
from portal.domain.formulas import IndexFormula
from portal.domain.readings import Reading, ValueSpec, ValueType
from portal.domain.statuses import StepStatus
from portal.extensions import transaction
from portal.services.collecting.readings import Books
from portal.services.dispatch import executions, run_requests
from portal.tables import ExecutionStep
from testing.builders import make_chained, make_node, make_olt
from testing.cast import ACTOR, NOW

PORT = 4194312448  # GPON 0/1/1
STATES = {"1": "online", "2": "offline"}
FORMULA = IndexFormula.from_dict({
    "name": "huawei_gpon", "kind": "bitshift", "checks": [{"shift": 25, "bits": 7, "value": 125}],
    "fields": {"slot": {"shift": 13, "bits": 6}, "port": {"shift": 8, "bits": 5}, "onu": {"part": 2, "bits": 12}},
})  # fmt: skip
STATE = ReadingSpec("onu_state", "1.1", ValueSpec(ValueType.STATE), FORMULA)
SERIAL = ReadingSpec("onu_serial", "1.2", ValueSpec(ValueType.SERIAL), FORMULA)
TEXT = ReadingSpec("onu_description", "1.4", ValueSpec(ValueType.TEXT), FORMULA)

Rows = dict[int, str]


class Reads:
    """A Huawei OLT: its discovery, and descriptions after it."""

    def __init__(self, session: Session) -> None:
        self.session, self.now = session, NOW
        self.node = make_node(make_olt())
        self.texts = make_chained(self.node)

    def states(self, rows: Rows) -> tuple[ColumnReadings, StepStatus]:
        """ONU number → raw state."""
        readings = tuple(Reading(f"{PORT}.{n}", STATES[raw], raw, online=raw == "1") for n, raw in rows.items())
        return ColumnReadings(STATE, readings, True), StepStatus.SUCCESS

    def descriptions(self, rows: dict[int, str | None], *, complete: bool = True) -> tuple[ColumnReadings, StepStatus]:
        """ONU number → description; None: a sentinel."""
        readings = tuple(
            Reading(f"{PORT}.{n}", text, text or "-", reason="" if text else "sentinel -") for n, text in rows.items()
        )
        return ColumnReadings(TEXT, readings, complete), StepStatus.SUCCESS if complete else StepStatus.FAILED

    def serials(self, rows: dict[int, str]) -> tuple[ColumnReadings, StepStatus]:
        """ONU number → serial, a letter here."""
        readings = tuple(Reading(f"{PORT}.{n}", letter * 16, letter * 16) for n, letter in rows.items())
        return ColumnReadings(SERIAL, readings, True), StepStatus.SUCCESS

    def _start(self) -> CompositeWork:
        self.now += timedelta(minutes=1)
        execution_id, _ = run_requests.run_now(self.node.id, ACTOR, self.now)
        work = executions.start(execution_id, 1, "poller-1", self.now, self.now)
        assert work is not None
        return work

    def steps(self, *columns: tuple[ColumnReadings, StepStatus]) -> list[StepResult]:
        nodes = (self.node.id, self.texts.id)
        return [
            StepResult(node_id, status, (column,), started_at=self.now, finished_at=self.now, pdus=1)
            for node_id, (column, status) in zip(nodes, columns, strict=False)
        ]

    def run(self, *columns: tuple[ColumnReadings, StepStatus]) -> dict[int, tuple[int, int]]:
        """Node id → (read, changed) of the steps that were written."""
        work = self._start()
        executions.finish(work.execution_id, 1, CompositeResult(tuple(self.steps(*columns))), self.now)
        return self.written(work.execution_id)

    def written(self, execution_id: int) -> dict[int, tuple[int, int]]:
        self.session.rollback()
        self.session.expire_all()
        query = select(ExecutionStep).join(ExecutionStep.attempt).where(
            ExecutionStep.attempt.has(execution_id=execution_id)
        )  # fmt: skip
        return {step.node_id or 0: (step.values_read, step.values_changed) for step in self.session.scalars(query)}


@pytest.fixture
def olt(session: Session) -> Iterator[Reads]:
    yield Reads(session)


def test_what_is_seen_for_the_first_time_is_new(olt: Reads) -> None:
    """Of each ONU a discovery reads its presence and its state."""
    found = olt.run(olt.states({1: "1", 2: "1"}), olt.descriptions({1: "Ana", 2: None}))
    assert found == {olt.node.id: (4, 4), olt.texts.id: (2, 2)}


def test_what_is_read_again_as_it_was_is_not_new(olt: Reads) -> None:
    states, texts = olt.states({1: "1", 2: "1"}), olt.descriptions({1: "Ana", 2: None})
    olt.run(states, texts)
    assert olt.run(states, texts) == {olt.node.id: (4, 0), olt.texts.id: (2, 0)}


def test_only_values_that_differ_are_new(olt: Reads) -> None:
    olt.run(olt.states({1: "1", 2: "1", 3: "1"}), olt.descriptions({1: "Ana", 2: None, 3: "Eva"}))
    found = olt.run(olt.states({1: "2", 2: "1", 3: "1"}), olt.descriptions({1: "Ana", 2: "Luis", 3: "Eva"}))
    assert found == {olt.node.id: (6, 1), olt.texts.id: (3, 1)}


def test_a_column_that_was_cut_writes_all_it_read_and_yet_little_is_new(olt: Reads) -> None:
    olt.run(olt.states({1: "1", 2: "1"}), olt.descriptions({1: "Ana", 2: "Eva"}))
    found = olt.run(olt.states({1: "1", 2: "1"}), olt.descriptions({1: "Ana", 2: "Eve"}, complete=False))
    assert found[olt.texts.id] == (2, 1)


def test_no_value_for_another_reason_is_no_news(olt: Reads) -> None:
    column, status = olt.descriptions({1: None})
    olt.run(olt.states({1: "1"}), (column, status))
    other = tuple(reading._replace(reason="empty") for reading in column.readings)
    found = olt.run(olt.states({1: "1"}), (ColumnReadings(column.spec, other, True), status))
    assert found[olt.texts.id] == (1, 0)


def test_a_value_that_a_whole_table_holds_no_longer_is_news_once(olt: Reads) -> None:
    olt.run(olt.states({1: "1", 2: "1"}), olt.descriptions({1: "Ana", 2: "Eva"}))
    states, texts = olt.states({1: "1", 2: "1"}), olt.descriptions({1: "Ana"})
    assert olt.run(states, texts)[olt.texts.id] == (2, 1)
    assert olt.run(states, texts)[olt.texts.id] == (1, 0)


def test_an_onu_that_goes_and_one_that_comes_back_are_news(olt: Reads) -> None:
    olt.run(olt.states({1: "1", 2: "1"}))
    assert olt.run(olt.states({1: "1"}))[olt.node.id] == (3, 1)  # two presences, one state
    assert olt.run(olt.states({1: "1", 2: "1"}))[olt.node.id] == (4, 1)


def test_a_serial_that_stands_elsewhere_is_news_although_it_is_the_same(olt: Reads) -> None:
    states = olt.states({1: "1", 2: "1"})
    assert olt.run(states, olt.serials({1: "A", 2: "B"}))[olt.texts.id] == (2, 2)
    assert olt.run(states, olt.serials({1: "A", 2: "B"}))[olt.texts.id] == (2, 0)
    assert olt.run(states, olt.serials({1: "B", 2: "A"}))[olt.texts.id] == (2, 2)
    assert olt.run(states, olt.serials({1: "B", 2: "C"}))[olt.texts.id] == (2, 1)


@pytest.mark.parametrize("seed", range(4))
def test_never_is_more_new_than_was_read(olt: Reads, seed: int) -> None:
    """ONUs come, go, move, are replaced and change their states at random."""
    rng = random.Random(seed)
    for _ in range(12):
        there = rng.sample(range(1, 9), rng.randrange(1, 9))
        letters = rng.sample("ABCDEF0123456789", len(there))
        states = olt.states({number: rng.choice("12") for number in there})
        found = olt.run(states, olt.serials(dict(zip(there, letters, strict=True))))
        assert all(0 <= changed <= read for read, changed in found.values()), found


def test_names_of_interfaces_are_values(session: Session, now: datetime) -> None:
    node = make_node(make_olt(), "ports", now, kind="table", oid="huawei.onu_state")
    counts = []
    for names in (["a", "b"], ["a", "b"], ["a", "c"]):
        now += timedelta(minutes=1)
        execution_id, _ = run_requests.run_now(node.id, ACTOR, now)
        work = executions.start(execution_id, 1, "poller-1", now, now)
        assert work is not None
        readings = tuple(Reading(str(PORT + 256 * n), name, name) for n, name in enumerate(names))
        column = ColumnReadings(work.steps[0].specs[0], readings, True)
        step = StepResult(node.id, StepStatus.SUCCESS, (column,), finished_at=now, pdus=1)
        executions.finish(execution_id, 1, CompositeResult((step,)), now)
        session.rollback()
        row = session.scalars(select(ExecutionStep).order_by(ExecutionStep.id.desc())).first()
        assert row is not None
        counts.append((row.values_read, row.values_changed))
    assert counts == [(2, 2), (2, 0), (2, 1)]


def test_a_step_that_was_kept_while_the_composite_went_on_is_counted(olt: Reads) -> None:
    """Also when a later step's transaction was rolled back and the books began afresh."""
    columns = olt.states({1: "1"}), olt.descriptions({1: "Ana"})
    work = olt._start()
    first, second = olt.steps(*columns)
    books = Books(work.olt_id, work.execution_id)
    executions.keep_step(work.execution_id, 1, books, first, olt.now, olt.now)
    with pytest.raises(RuntimeError), transaction() as session:
        books.enter(session, second, olt.texts.kind, olt.now)
        raise RuntimeError("the database went away")
    executions.finish(work.execution_id, 1, CompositeResult((first, second)), olt.now, books.afresh())
    assert olt.written(work.execution_id) == {olt.node.id: (2, 2), olt.texts.id: (1, 1)}


def test_a_step_that_read_nothing_counts_nothing(olt: Reads) -> None:
    work = olt._start()
    step = StepResult(olt.node.id, StepStatus.FAILED, finished_at=olt.now, pdus=1, timeouts=1)
    executions.finish(work.execution_id, 1, CompositeResult((step,)), olt.now)
    assert olt.written(work.execution_id) == {olt.node.id: (0, 0)}
