"""Readings on both databases: where they are kept, and which values count as read and as changed."""

import random
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.composite import ColumnReadings, CompositeResult, CompositeWork, ReadingSpec, StepResult
from portal.domain.readings import Reading, ValueSpec, ValueType
from portal.domain.statuses import EventType, Presence, StepStatus
from portal.extensions import transaction
from portal.services.collecting import onus
from portal.services.collecting.readings import Books
from portal.services.dispatch import executions, run_requests
from portal.tables import Execution, ExecutionStep, Onu, OnuData, OnuEvent, PonPort, WorkflowNode
from testing.builders import make_chained, make_node, make_olt
from testing.cast import ACTOR, NOW
from testing.rows import logged
from tests.integration.test_onu_inventory import FORMULA, PORT, SERIAL, TEXT

STATES = {"1": "online", "2": "offline"}


def readings_of(states: Mapping[int, str]) -> tuple[Reading, ...]:
    """ONU number on port 0/1/1 → raw state."""
    return tuple(Reading(f"{PORT}.{n}", STATES[raw], raw, online=raw == "1") for n, raw in states.items())


def read(node: WorkflowNode, at: datetime, readings: Iterable[Reading], *, complete: bool = True) -> int:
    """A composite of this node brings these readings; the id of its execution."""
    execution_id, _ = run_requests.run_now(node.id, ACTOR, at)
    work = executions.start(execution_id, 1, "poller-1", at, at)
    status = StepStatus.SUCCESS if complete else StepStatus.FAILED
    column = ColumnReadings(work.steps[0].specs[0], tuple(readings), complete)
    step = StepResult(node.id, status, (column,), finished_at=at, pdus=1)
    executions.finish(execution_id, 1, CompositeResult((step,)), at)
    return execution_id


class Discovery:
    """A Huawei OLT whose discovery finds what the test says."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.olt = make_olt()
        self.node = make_node(self.olt)
        self.now = NOW

    def finds(self, states: Mapping[int, str], *, complete: bool = True) -> dict[str, int]:
        return self.run(readings_of(states), complete=complete)

    def run(self, readings: tuple[Reading, ...], *, complete: bool = True) -> dict[str, int]:
        self.now += timedelta(minutes=15)
        execution_id = read(self.node, self.now, readings, complete=complete)
        self.session.rollback()
        self.session.expire_all()
        return self.session.get_one(Execution, execution_id).result  # type: ignore[return-value]

    def onus(self) -> dict[int | None, Onu]:
        return {onu.onu_number: onu for onu in self.session.scalars(select(Onu))}


@pytest.fixture
def discovery(session: Session) -> Discovery:
    return Discovery(session)


def test_discovered_onus_have_their_slot_port_and_number(discovery: Discovery) -> None:
    result = discovery.finds({2: "1", 5: "2"})
    assert (result["onus_seen"], result["onus_new"]) == (2, 2)
    onus = discovery.onus()
    assert {(onu.slot, onu.port, number) for number, onu in onus.items()} == {(1, 1, 2), (1, 1, 5)}
    assert (onus[2].online, onus[5].online) == (True, False)


def test_the_reading_of_the_discovery_itself_is_kept_as_latest_value(discovery: Discovery) -> None:
    discovery.finds({2: "1"})
    data = discovery.session.scalars(select(OnuData)).one()
    assert (data.metric, data.text, data.raw) == ("onu_state", "online", "1")


def test_a_second_discovery_changes_and_adds_without_doubling(discovery: Discovery) -> None:
    discovery.finds({2: "1"})
    discovery.finds({2: "2", 3: "1"})
    onus = discovery.onus()
    assert sorted(onus) == [2, 3] and onus[2].online is False
    found = [(event.kind, event.after) for event in discovery.session.scalars(select(OnuEvent))]
    assert found == [("state", "offline")]


def test_an_onu_missing_from_a_complete_walk_is_disabled(discovery: Discovery) -> None:
    discovery.finds({2: "1", 3: "1", 4: "1"})
    discovery.finds({2: "1", 3: "1"})
    assert discovery.onus()[4].presence is Presence.DISABLED


def test_an_onu_missing_from_a_cut_walk_is_left_alone(discovery: Discovery) -> None:
    discovery.finds({2: "1", 3: "1", 4: "1"})
    discovery.finds({2: "1"}, complete=False)
    assert {onu.presence for onu in discovery.onus().values()} == {Presence.ENABLED}


def test_an_onu_that_comes_back_is_enabled_again(discovery: Discovery) -> None:
    discovery.finds({2: "1", 3: "1"})
    discovery.finds({3: "1"})
    discovery.finds({2: "1", 3: "1"})
    assert discovery.onus()[2].presence is Presence.ENABLED
    events = discovery.session.scalars(select(OnuEvent).where(OnuEvent.kind == "presence").order_by(OnuEvent.id))
    assert [event.after for event in events] == ["DISABLED", "ENABLED"]


def test_a_table_that_loses_more_than_half_is_held_until_a_second_walk_agrees(discovery: Discovery) -> None:
    discovery.finds(dict.fromkeys(range(12), "1"))
    discovery.finds(dict.fromkeys(range(3), "1"))
    assert {onu.presence for onu in discovery.onus().values()} == {Presence.ENABLED}
    assert set(discovery.session.scalars(select(OnuData.text))) == {"online"}, "their readings are held too"
    suspected = logged(EventType.SUSPECT_TABLE)
    assert [(row.details["missing"], row.details["present"]) for row in suspected] == [(9, 12)]
    discovery.finds(dict.fromkeys(range(3), "1"))
    assert len([number for number, onu in discovery.onus().items() if onu.presence is Presence.DISABLED]) == 9


def test_no_value_is_kept_as_no_reading_and_never_erases_the_state(discovery: Discovery) -> None:
    discovery.finds({2: "1"})
    discovery.run((Reading(f"{PORT}.2", None, "-1", reason="sentinel -1"),))
    assert discovery.onus()[2].online is True
    data = discovery.session.scalars(select(OnuData)).one()
    assert (data.number, data.text, data.reason) == (None, None, "sentinel -1")


def test_an_index_that_no_formula_fits_is_kept_with_its_raw_key(discovery: Discovery) -> None:
    discovery.run((Reading("12.85.66", "online", "1", online=True),))
    onu = discovery.session.scalars(select(Onu)).one()
    assert (onu.index_key, onu.slot, onu.port) == ("12.85.66", None, None)


def test_a_table_walk_lists_the_ports(session: Session) -> None:
    node = make_node(make_olt(), "ports", kind="table", oid="huawei.if_name")
    read(node, NOW, [Reading(str(PORT), "GPON 0/1/1", "GPON 0/1/1")])
    port = session.scalars(select(PonPort)).one()
    assert (port.name, port.slot, port.port) == ("GPON 0/1/1", 1, 1)


def listed(
    session: Session, node: WorkflowNode, at: datetime, names: Mapping[str, str], complete: bool = True
) -> set[str]:
    """A table node walks; the interfaces that are stored then."""
    read(node, at, [Reading(index, name, name) for index, name in names.items()], complete=complete)
    session.expire_all()
    return {port.index_key for port in session.scalars(select(PonPort))}


def test_interfaces_that_a_whole_walk_lists_no_more_are_forgotten(session: Session) -> None:
    """The names of a card that was pulled out would speak against the formula that fits the new one."""
    olt, minute = make_olt(), timedelta(minutes=1)
    node = make_node(olt, "ports", kind="table", oid="huawei.if_name", max_retries=0)
    other = make_node(olt, "others", kind="table", oid="huawei.if_name", max_retries=0)
    assert listed(session, other, NOW, {"9": "ether 9"}) == {"9"}
    assert listed(session, node, NOW + minute, {"1": "GPON 0/1/1", "2": "GPON 0/1/2"}) == {"1", "2", "9"}
    assert listed(session, node, NOW + 2 * minute, {"1": "GPON 0/1/1"}, complete=False) == {"1", "2", "9"}
    assert listed(session, node, NOW + 3 * minute, {}) == {"1", "2", "9"}, "an empty table is no proof"
    assert listed(session, node, NOW + 4 * minute, {"3": "GPON 0/1/3", "1" * 80: "x"}) == {"3", "9"}


def test_interfaces_that_no_node_answers_for_are_forgotten_after_seven_days(session: Session) -> None:
    olt, week = make_olt(), timedelta(days=7)
    node = make_node(olt, "ports", kind="table", oid="huawei.if_name", max_retries=0)
    for index, seen in (("7", NOW - week), ("8", NOW - week - timedelta(seconds=1))):
        session.add(PonPort(olt_id=olt.id, index_key=index, name=f"GPON 0/1/{index}", last_seen=seen))
    session.commit()
    assert listed(session, node, NOW, {"1": "GPON 0/1/1"}) == {"1", "7"}


def test_known_onus_are_read_once_however_many_steps(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    load = onus.load
    olt = make_olt()
    master = make_node(olt)
    for key in ("a", "b", "c"):
        make_chained(master, key)
    execution_id, _ = run_requests.run_now(master.id, ACTOR, NOW)
    work = executions.start(execution_id, 1, "poller-1", NOW, NOW)
    columns = [ColumnReadings(step.specs[0], (Reading(f"{PORT}.2", "1", "1"),), True) for step in work.steps]
    steps = tuple(
        StepResult(step.node_id, StepStatus.SUCCESS, (column,), finished_at=NOW, pdus=1)
        for step, column in zip(work.steps, columns, strict=True)
    )
    loads: list[int] = []

    def noted(session: Session, olt_id: int) -> dict[int, onus.Row]:
        loads.append(olt_id)
        return load(session, olt_id)

    monkeypatch.setattr(onus, "load", noted)
    executions.finish(execution_id, 1, CompositeResult(steps), NOW)
    assert loads == [olt.id]


STATE = ReadingSpec("onu_state", "1.1", ValueSpec(ValueType.STATE), FORMULA)

Rows = dict[int, str]


class Reads:
    """A Huawei OLT: its discovery, and descriptions after it."""

    def __init__(self, session: Session) -> None:
        self.session, self.now = session, NOW
        self.node = make_node(make_olt())
        self.texts = make_chained(self.node)

    def states(self, rows: Rows) -> tuple[ColumnReadings, StepStatus]:
        return ColumnReadings(STATE, readings_of(rows), True), StepStatus.SUCCESS

    def descriptions(self, rows: dict[int, str | None], *, complete: bool = True) -> tuple[ColumnReadings, StepStatus]:
        """ONU number → description; None: a sentinel."""
        told = {n: (text, text or "-", "" if text else "sentinel -") for n, text in rows.items()}
        readings = tuple(Reading(f"{PORT}.{n}", text, raw, reason) for n, (text, raw, reason) in told.items())
        return ColumnReadings(TEXT, readings, complete), StepStatus.SUCCESS if complete else StepStatus.FAILED

    def serials(self, rows: dict[int, str]) -> tuple[ColumnReadings, StepStatus]:
        """ONU number → serial, a letter here."""
        readings = tuple(Reading(f"{PORT}.{n}", letter * 16, letter * 16) for n, letter in rows.items())
        return ColumnReadings(SERIAL, readings, True), StepStatus.SUCCESS

    def _start(self) -> CompositeWork:
        self.now += timedelta(minutes=1)
        execution_id, _ = run_requests.run_now(self.node.id, ACTOR, self.now)
        return executions.start(execution_id, 1, "poller-1", self.now, self.now)  # type: ignore[return-value]

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
        query = select(ExecutionStep).where(ExecutionStep.attempt.has(execution_id=execution_id))
        return {step.node_id or 0: (step.values_read, step.values_changed) for step in self.session.scalars(query)}


@pytest.fixture
def olt(session: Session) -> Reads:
    return Reads(session)


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
    assert olt.run(olt.states({1: "1"}), (ColumnReadings(column.spec, other, True), status))[olt.texts.id] == (1, 0)


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


def test_names_of_interfaces_are_values(session: Session) -> None:
    node = make_node(make_olt(), "ports", kind="table", oid="huawei.if_name")
    counts = []
    for minute, names in enumerate((["a", "b"], ["a", "b"], ["a", "c"]), 1):
        now = NOW + timedelta(minutes=minute)
        read(node, now, [Reading(str(PORT + 256 * n), name, name) for n, name in enumerate(names)])
        session.rollback()
        row = session.scalars(select(ExecutionStep).order_by(ExecutionStep.id.desc())).first()
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
