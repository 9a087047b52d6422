"""The inventory of ONUs as composites fill it, on both databases: identity, moves, presence, readings and history."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from portal.domain.composite import ColumnReadings, CompositeResult, Progress, ReadingSpec, StepResult, telling
from portal.domain.formulas import IndexFormula
from portal.domain.readings import NO_SUCH_INSTANCE, Reading, StateLabel, ValueSpec, ValueType, decode, decoder
from portal.domain.statuses import ErrorKind, OltState, OnuEventKind, Presence, StepStatus
from portal.models.onu import METRIC_LENGTH
from portal.queries import onus as pages
from portal.services.collecting.readings import Books
from portal.services.dispatch import executions, run_requests
from portal.tables import ExecutionStep, OltRead, Onu, OnuData, OnuEvent, OnuHistory, WorkflowNode
from testing.builders import make_chained, make_node, make_olt
from testing.cast import ACTOR, MINUTE, NOW
from testing.rows import set_rows

PORT = 4194312448  # GPON 0/1/1
OTHER_PORT = 4194312704  # GPON 0/1/2
A, B, C = b"HWTCaaaa", b"HWTCbbbb", b"HWTCcccc"
NAMES = {raw.hex().upper(): raw.decode()[-1] for raw in (A, B, C)}

FORMULA = IndexFormula.from_dict({
    "name": "huawei_gpon", "kind": "bitshift", "checks": [{"shift": 25, "bits": 7, "value": 125}],
    "fields": {"slot": {"shift": 13, "bits": 6}, "port": {"shift": 8, "bits": 5}, "onu": {"part": 2, "bits": 12}},
})  # fmt: skip
STATES = {1: StateLabel("online", True), 2: StateLabel("offline", False)}
STATE = ReadingSpec("onu_state", "1.1", ValueSpec(ValueType.STATE, states=STATES), FORMULA)
SERIAL = ReadingSpec("onu_serial", "1.2", ValueSpec(ValueType.SERIAL), FORMULA)
POWER = ReadingSpec("onu_rx_power", "1.3", ValueSpec(ValueType.NUMBER, 0.01, unit="dBm"), FORMULA, dead_band=0.3)
TEXT = ReadingSpec("onu_description", "1.4", ValueSpec(ValueType.TEXT), FORMULA)

Raw = int | bytes | None


def at(number: int, port: int = PORT) -> str:
    return f"{port}.{number}"


@dataclass
class Line:
    """An OLT whose composites bring what the test says: a discovery, then a GET in its chain."""

    session: Session
    now: datetime
    name: str = "OLT-LIMA"
    address: str = "192.0.2.10"

    def __post_init__(self) -> None:
        self.olt = make_olt(self.name, address=self.address)
        self.master = make_node(self.olt)
        self.chained = make_chained(self.master, "get")

    def column(self, spec: ReadingSpec, rows: Mapping[str, Raw], complete: bool = True) -> ColumnReadings:
        return ColumnReadings(spec, decoder(spec.value)(rows.items()), complete)

    def run(
        self, states: Mapping[str, Raw] | None, *columns: ColumnReadings, complete: bool = True,
        states_column: ColumnReadings | None = None, continues: datetime | None = None,
        states_columns: tuple[ColumnReadings, ...] = (),
    ) -> dict[str, int]:  # fmt: skip
        """One composite: a discovery of `states` (None: it brought nothing), then `columns`."""
        self.now += 15 * MINUTE
        first = states_column or (self.column(STATE, states, complete) if states is not None else None)
        return self.run_steps(
            StepResult(
                self.master.id, StepStatus.SUCCESS if complete else StepStatus.FAILED,
                (first,) if first else states_columns,
                finished_at=self.now, pdus=1, continues=continues,
            ),
            StepResult(self.chained.id, StepStatus.SUCCESS, columns, finished_at=self.now, pdus=1),
        )  # fmt: skip

    def run_steps(self, *steps: StepResult) -> dict[str, int]:
        execution_id, _ = run_requests.run_now(self.master.id, ACTOR, self.now)
        assert executions.start(execution_id, 1, "poller-1", self.now, self.now) is not None
        books = Books(self.olt.id, execution_id, telling(steps))
        for step in steps[:-1]:
            executions.keep_step(execution_id, 1, books, step, self.now, self.now)
        executions.finish(execution_id, 1, CompositeResult(steps), self.now, books)
        self.session.rollback()
        self.session.expire_all()
        return books.counts

    def serials(self, serials: Mapping[str, Raw], complete: bool = True) -> ColumnReadings:
        return self.column(SERIAL, serials, complete)

    def powers(self, powers: Mapping[str, Raw], complete: bool = True) -> ColumnReadings:
        return self.column(POWER, powers, complete)

    def onus(self) -> dict[str, Onu]:
        """By the last letter of the serial."""
        query = select(Onu).where(Onu.olt_id == self.olt.id).order_by(Onu.id)
        return {NAMES.get(onu.serial or "", "?"): onu for onu in self.session.scalars(query)}

    def events(self) -> list[tuple[OnuEventKind, str, str]]:
        query = select(OnuEvent).where(OnuEvent.kind != OnuEventKind.PRESENCE).order_by(OnuEvent.id)
        return [(event.kind, event.before, event.after) for event in self.session.scalars(query)]

    def latest(self, onu: Onu, metric: str = "onu_rx_power") -> OnuData | None:
        return self.session.get(OnuData, (onu.id, metric))

    def at(self, index: str) -> Onu:
        return self.session.scalars(select(Onu).where(Onu.index_key == index)).one()

    def page(self, index: str) -> pages.OnuRow:
        """What the page of the ONU at this index shows."""
        return pages.get(self.at(index).id)  # type: ignore[return-value]

    def powers_kept(self) -> list[float]:
        """The latest of each ONU that has one, the weakest first."""
        rows = self.session.scalars(select(OnuData).where(OnuData.metric == "onu_rx_power"))
        return sorted(row.number for row in rows if row.number is not None)

    def kept(self, onu: Onu) -> list[float | None]:
        query = select(OnuHistory).where(OnuHistory.onu_id == onu.id).order_by(OnuHistory.collected_at)
        return [row.mean for row in self.session.scalars(query)]


@pytest.fixture
def line(session: Session) -> Line:
    return Line(session, NOW)


UP = {at(1): 1}
BOTH: dict[str, Raw] = {at(1): 1, at(2): 1}


# Identity


def test_a_serial_at_an_index_names_its_onu(line: Line) -> None:
    line.run(UP, line.serials({at(1): A}))
    assert line.onus()["a"].index_key == at(1)
    assert line.events() == []


def test_another_serial_on_the_same_index_is_another_onu_and_the_old_readings_go_with_the_old_one(line: Line) -> None:
    line.run(UP, line.serials({at(1): A}), line.powers({at(1): -2000}))
    line.run(UP, line.serials({at(1): B}), line.powers({at(1): -1500}))
    old, new = line.onus()["a"], line.onus()["b"]
    assert (old.index_key, old.presence, old.slot, old.onu_number) == (None, Presence.DISABLED, 1, 1)
    assert (new.index_key, new.presence, new.slot, new.onu_number) == (at(1), Presence.ENABLED, 1, 1)
    assert [line.latest(onu).number for onu in (old, new)] == [-20.0, -15.0]  # type: ignore[union-attr]
    assert line.events() == [(OnuEventKind.REPLACED, A.hex().upper(), B.hex().upper())]


def test_the_same_serial_on_another_port_is_one_onu_with_one_move_event_and_its_history(line: Line) -> None:
    line.run(BOTH, line.serials({at(1): A, at(2): B}), line.powers({at(1): -2000, at(2): -1800}))
    before, new = line.onus()["a"].id, at(7, OTHER_PORT)
    line.run({at(2): 1, new: 1}, line.serials({at(2): B, new: A}), line.powers({at(2): -1800, new: -2100}))
    onu = line.onus()["a"]
    assert (onu.id, onu.index_key, onu.presence) == (before, at(7, OTHER_PORT), Presence.ENABLED)
    assert (onu.port, onu.onu_number) == (2, 7)
    assert line.events() == [(OnuEventKind.MOVED, "OLT-LIMA 0/1/1:1", "OLT-LIMA 0/1/2:7")]
    assert line.kept(onu) == [-20.0, -21.0]
    assert line.session.scalar(select(func.count()).select_from(Onu)) == 2


def test_an_onu_that_moves_to_another_olt_is_one_onu_with_one_move_event(session: Session) -> None:
    lima, cusco = Line(session, NOW), Line(session, NOW, "OLT-CUSCO", "192.0.2.11")
    lima.run(BOTH, lima.serials({at(1): A, at(2): B}))
    before = lima.onus()["a"].id
    lima.run({at(2): 1}, lima.serials({at(2): B}))
    cusco.run({at(5): 1}, cusco.serials({at(5): A}))
    onu = cusco.onus()["a"]
    assert (onu.id, onu.olt_id, onu.presence) == (before, cusco.olt.id, Presence.ENABLED)
    assert cusco.events() == [(OnuEventKind.MOVED, "OLT-LIMA 0/1/1:1", "OLT-CUSCO 0/1/1:5")]


@pytest.mark.parametrize("how", ["missing", "replaced"])
def test_an_onu_whose_new_olt_was_read_first_is_one_onu_with_one_move_event_too(session: Session, how: str) -> None:
    lima, cusco = Line(session, NOW), Line(session, NOW + MINUTE, "OLT-CUSCO", "192.0.2.11")
    lima.run(BOTH, lima.serials({at(1): A, at(2): B}), lima.powers({at(1): -2000, at(2): -1800}))
    first_seen = lima.onus()["a"].first_seen
    cusco.run({at(5): 1}, cusco.serials({at(5): A}), cusco.powers({at(5): -2300}))
    there = cusco.onus()["a"].id
    if how == "missing":
        lima.run({at(2): 1}, lima.serials({at(2): B}))
    else:
        lima.run(BOTH, lima.serials({at(1): C, at(2): B}))
    session.expire_all()
    onu = cusco.onus()["a"]
    assert (onu.id, onu.presence, onu.first_seen) == (there, Presence.ENABLED, first_seen)
    assert "a" not in lima.onus()
    moved = (OnuEventKind.MOVED, "OLT-LIMA 0/1/1:1", "OLT-CUSCO 0/1/1:5")
    assert [event for event in cusco.events() if event[0] is OnuEventKind.MOVED] == [moved]
    assert cusco.latest(onu).number == -23.0  # type: ignore[union-attr]
    assert cusco.kept(onu) == [-20.0, -23.0]
    gone = select(func.count()).where(OnuEvent.kind == OnuEventKind.PRESENCE, OnuEvent.after == Presence.DISABLED)
    assert session.scalar(gone) == 0


def test_a_deleted_or_silent_olt_inherits_nobody(session: Session) -> None:
    lima, cusco = Line(session, NOW), Line(session, NOW + MINUTE, "OLT-CUSCO", "192.0.2.11")
    lima.run(BOTH, lima.serials({at(1): A, at(2): B}))
    cusco.run({at(5): 1, at(6): 1}, cusco.serials({at(5): A, at(6): B}))
    cusco.olt.deleted_at = NOW
    session.commit()
    lima.run({at(2): 1}, lima.serials({at(2): B}))
    assert lima.onus()["a"].presence is Presence.DISABLED
    cusco.olt.deleted_at, cusco.olt.state = None, OltState.UNREACHABLE
    session.commit()
    lima.run({}, lima.serials({}))
    assert lima.onus()["b"].presence is Presence.DISABLED
    assert all(kind is not OnuEventKind.MOVED for kind, *_ in lima.events())


def test_an_onu_that_moves_inside_its_olt_is_not_given_to_another_that_lists_it_too(session: Session) -> None:
    lima, cusco = Line(session, NOW), Line(session, NOW + MINUTE, "OLT-CUSCO", "192.0.2.11")
    lima.run(UP, lima.serials({at(1): A}), lima.powers({at(1): -2000}))
    before = lima.onus()["a"].id
    cusco.run({at(5): 1}, cusco.serials({at(5): A}))
    lima.run({at(7, OTHER_PORT): 1}, lima.serials({at(7, OTHER_PORT): A}))
    assert (lima.onus()["a"].id, lima.onus()["a"].index_key) == (before, at(7, OTHER_PORT))
    assert cusco.onus()["a"].id != before


def test_an_onu_that_both_olts_wrote_of_at_once_is_put_right_at_the_next_run(session: Session) -> None:
    """On PostgreSQL neither of two transactions sees that the other OLT names it, or has lost it."""
    lima, cusco = Line(session, NOW), Line(session, NOW + MINUTE, "OLT-CUSCO", "192.0.2.11")
    lima.run(BOTH, lima.serials({at(1): A, at(2): B}))
    lima.run({at(2): 1}, lima.serials({at(2): B}))
    cusco.run({at(5): 1})
    set_rows(Onu, Onu.olt_id == cusco.olt.id, serial=A.hex().upper())
    lima.run({at(2): 1}, lima.serials({at(2): B}))
    assert "a" not in lima.onus()
    assert cusco.events() == [(OnuEventKind.MOVED, "OLT-LIMA 0/1/1:1", "OLT-CUSCO 0/1/1:5")]


def test_what_was_read_at_the_old_olt_is_not_shown_as_a_reading_of_the_new_one(session: Session) -> None:
    lima, cusco = Line(session, NOW), Line(session, NOW + MINUTE, "OLT-CUSCO", "192.0.2.11")
    lima.run(BOTH, lima.serials({at(1): A, at(2): B}), lima.powers({at(1): -2000, at(2): -1800}))
    cusco.run({at(5): 2, at(6): 1}, cusco.serials({at(5): A}), cusco.powers({at(6): -2100}))
    lima.run({at(2): 1}, lima.serials({at(2): B}))
    onu = cusco.onus()["a"]
    assert cusco.latest(onu) is None
    assert cusco.kept(onu) == [-20.0]


def test_an_onu_that_two_olts_list_at_once_stays_what_each_of_them_says(session: Session) -> None:
    lima, cusco = Line(session, NOW), Line(session, NOW, "OLT-CUSCO", "192.0.2.11")
    lima.run(UP, lima.serials({at(1): A}))
    cusco.run({at(5): 1}, cusco.serials({at(5): A}))
    assert lima.onus()["a"].id != cusco.onus()["a"].id
    assert lima.events() == []


def test_two_onus_that_changed_places_keep_their_pasts(line: Line) -> None:
    line.run(BOTH, line.serials({at(1): A, at(2): B}), line.powers({at(1): -2000, at(2): -1500}))
    ids = {name: onu.id for name, onu in line.onus().items()}
    line.run(BOTH, line.serials({at(1): B, at(2): A}), line.powers({at(1): -1510, at(2): -2010}))
    places = {name: (onu.id, onu.index_key) for name, onu in line.onus().items()}
    assert places == {"a": (ids["a"], at(2)), "b": (ids["b"], at(1))}
    assert [line.latest(line.onus()[name]).number for name in "ab"] == [-20.1, -15.1]  # type: ignore[union-attr]
    assert [kind for kind, *_ in line.events()] == [OnuEventKind.MOVED, OnuEventKind.MOVED]


def test_one_whose_place_was_taken_comes_back_elsewhere_as_itself(line: Line) -> None:
    line.run(UP, line.serials({at(1): A}))
    first = line.onus()["a"].id
    line.run(UP, line.serials({at(1): B}))
    line.run(BOTH, line.serials({at(1): B, at(2): A}))
    back = line.onus()["a"]
    assert (back.id, back.index_key, back.presence) == (first, at(2), Presence.ENABLED)


def test_a_serial_that_stands_twice_is_told_once(line: Line) -> None:
    for _ in range(2):
        line.run(BOTH, line.serials({at(1): A, at(2): A}))
    assert line.events() == [(OnuEventKind.DUPLICATE, at(2), at(1))]
    assert line.session.scalar(select(func.count()).select_from(Onu)) == 2


def test_epon_onus_are_told_by_their_mac_address(line: Line) -> None:
    spec = replace(SERIAL, metric="onu_mac", value=ValueSpec(ValueType.MAC))
    line.run(UP, line.column(spec, {at(1): bytes.fromhex("0013250A0B0C")}))
    line.run(UP, line.column(spec, {at(1): b"00:13:25:ff:00:01"}))
    assert line.session.scalars(select(Onu.serial).order_by(Onu.id)).all() == ["0013250A0B0C", "001325FF0001"]


# Presence


def test_a_walk_that_was_cut_marks_nobody_missing(line: Line) -> None:
    line.run({at(number): 1 for number in range(1, 11)})
    line.run({at(number): 1 for number in range(1, 7)}, complete=False)
    assert {onu.presence for onu in line.session.scalars(select(Onu))} == {Presence.ENABLED}


def test_one_that_really_vanishes_is_disabled_at_the_next_complete_walk_and_was_last_seen_before_it(line: Line) -> None:
    line.run(BOTH, line.serials({at(1): A, at(2): B}))
    line.run(BOTH)
    seen = line.now
    line.run({at(1): 1})
    gone = line.onus()["b"]
    assert (gone.presence, gone.misses, gone.last_seen, gone.presence_since) == (Presence.DISABLED, 1, seen, line.now)
    event = line.session.scalars(select(OnuEvent).where(OnuEvent.kind == OnuEventKind.PRESENCE)).one()
    assert (event.onu_id, event.before, event.after) == (gone.id, "ENABLED", "DISABLED")


def test_two_parts_of_a_walk_that_was_cut_are_together_a_whole_one(line: Line) -> None:
    line.run({at(number): 1 for number in range(1, 6)})
    begun = line.now + 15 * MINUTE
    line.run({at(1): 1, at(2): 1}, complete=False)
    line.run(None, states_column=replace(line.column(STATE, {at(3): 1, at(4): 1}), continued=True), continues=begun)
    gone = [onu.index_key for onu in line.session.scalars(select(Onu)) if onu.presence is Presence.DISABLED]
    assert gone == [at(5)]


def test_what_was_seen_before_the_first_part_counts_for_nothing(line: Line) -> None:
    line.run({at(number): 1 for number in range(1, 6)})
    rest = replace(line.column(STATE, {at(3): 1, at(4): 1, at(5): 1}), continued=True)
    line.run(None, states_column=rest, continues=line.now + 15 * MINUTE)
    gone = {onu.index_key for onu in line.session.scalars(select(Onu)) if onu.presence is Presence.DISABLED}
    assert gone == {at(1), at(2)}


def test_two_discoveries_of_one_olt_do_not_take_each_others_onus_away(line: Line) -> None:
    epon = make_node(line.olt, "epon")
    line.run(BOTH)
    for _ in range(2):
        line.now += MINUTE
        execution_id, _started = run_requests.run_now(epon.id, ACTOR, line.now)
        executions.start(execution_id, 1, "poller-1", line.now, line.now)
        column = line.column(STATE, {at(3, OTHER_PORT): 1})
        step = StepResult(epon.id, StepStatus.SUCCESS, (column,), finished_at=line.now, pdus=1)
        executions.finish(execution_id, 1, CompositeResult((step,)), line.now)
        line.run(BOTH)
    assert {onu.presence for onu in line.session.scalars(select(Onu))} == {Presence.ENABLED}
    assert line.page(at(3, OTHER_PORT)).seen_at < line.now, "its own discovery did not run since"


def test_onus_of_a_discovery_that_was_switched_off_are_answered_for_by_the_other(line: Line) -> None:
    line.run(BOTH)
    line.session.execute(update(Onu).values(found_by=4711))
    line.session.commit()
    line.run({at(1): 1})
    assert [line.at(at(number)).presence for number in (1, 2)] == [Presence.ENABLED, Presence.DISABLED]


def test_the_time_limit_is_remembered_with_the_node_and_forgotten_after_a_whole_reading(line: Line) -> None:
    cut = StepResult(line.master.id, StepStatus.FAILED, error_kind=ErrorKind.TIME_LIMIT, finished_at=line.now, pdus=1,
                     progress=Progress({"1.1": at(4)}, line.now, by_port=True))  # fmt: skip
    line.run_steps(cut)
    stored = line.session.get_one(WorkflowNode, line.master.id).progress
    assert Progress.from_json(stored) == Progress({"1.1": at(4)}, line.now, by_port=True)
    line.now += MINUTE
    line.run_steps(replace(cut, status=StepStatus.SUCCESS, error_kind=None, progress=Progress()))
    assert line.session.get_one(WorkflowNode, line.master.id).progress is None


# Readings


def test_a_value_that_did_not_change_is_not_written_again_but_counts_as_read(line: Line) -> None:
    first = line.run(UP, line.powers({at(1): -2000}))
    second = line.run(UP, line.powers({at(1): -2000}))
    assert (first["changed"], second["changed"], second["values"]) == (2, 0, 2)
    row = line.page(at(1))
    assert row.readings["onu_rx_power"].collected_at == row.seen_at == line.now
    assert line.latest(line.at(at(1))).collected_at == line.now - 15 * MINUTE  # type: ignore[union-attr]


def test_one_that_came_back_shows_the_age_of_its_own_reading_not_of_the_others(line: Line) -> None:
    line.run(BOTH, line.powers({at(1): -2000, at(2): -1800}))
    read = line.now
    line.run({at(1): 1}, line.powers({at(1): -2000}))
    line.run(BOTH, complete=True)
    assert line.page(at(2)).readings["onu_rx_power"].collected_at == read


def test_of_a_column_that_was_cut_only_what_was_read_is_fresh(line: Line) -> None:
    line.run(BOTH, line.powers({at(1): -2000, at(2): -1800}))
    read = line.now
    line.run(BOTH, line.powers({at(1): -2000}, complete=False))
    assert [line.page(index).readings["onu_rx_power"].collected_at for index in BOTH] == [line.now, read]


def test_a_complete_table_without_a_row_for_an_onu_leaves_it_without_a_reading(line: Line) -> None:
    line.run(BOTH, line.powers({at(1): -2000, at(2): -1800}))
    line.run(BOTH, line.powers({at(1): -2000}))
    second = line.at(at(2))
    data = line.latest(second)
    assert (data.number, data.reason) == (None, "not in the table")
    assert second.online is True, "no reading is not offline (quirk 30)"


def test_the_rest_of_a_column_that_was_cut_says_nothing_of_the_onus_of_its_first_part(line: Line) -> None:
    line.run(BOTH, line.serials({at(1): A, at(2): B}), line.powers({at(1): -2000, at(2): -1800}))
    rest = replace(line.powers({at(2): -1800}), continued=True)
    line.run(BOTH, rest, replace(line.serials({at(2): A}), continued=True))
    first = line.at(at(1))
    assert line.latest(first).number == -20.0  # type: ignore[union-attr]
    assert NAMES[first.serial or ""] == "a", "its place was not read in this part: nothing says that it moved"


def test_history_keeps_what_leaves_the_dead_band_and_what_stops_being_read(line: Line) -> None:
    for power in (-2000, -2020, -2029, -2031, -2005, None, None, -2005):
        line.run(UP, line.powers({at(1): power}))
    assert line.kept(line.at(at(1))) == [-20.0, -20.31, None, -20.05]


def test_readings_that_drift_slowly_are_measured_against_the_last_one_kept(line: Line) -> None:
    for power in (-2000, -2015, -2030, -2045, -2060):
        line.run(UP, line.powers({at(1): power}))
    assert line.kept(line.at(at(1))) == [-20.0, -20.3, -20.6]


def test_quirk_38_octets_with_a_nul_never_reach_the_database(line: Line) -> None:
    line.run(UP, line.column(TEXT, {at(1): b"casa\x00\x00\x00"}))
    onu = line.at(at(1))
    assert (onu.description, line.latest(onu, "onu_description").raw) == ("casa", "0x63617361000000")  # type: ignore[union-attr]


def test_an_index_that_nothing_decodes_is_kept_with_its_raw_text_and_a_flag(line: Line) -> None:
    line.run({"12.85.66": 1, at(1): 1})
    flags = {onu.index_key: (onu.decoded, onu.slot) for onu in line.session.scalars(select(Onu))}
    assert flags == {"12.85.66": (False, None), at(1): (True, 1)}


def test_a_thousand_values_are_written_in_bulk_and_equal_those_written_one_by_one(line: Line) -> None:
    many: dict[str, Raw] = {at(number, port): 1 for port in (PORT, OTHER_PORT) for number in range(128)}
    powers: dict[str, Raw] = {index: -1500 - place for place, index in enumerate(many)}
    odd = {index: f"tab\there \\N back\\slash {place} ñ".encode() for place, index in enumerate(many)}
    line.run(many, line.powers(powers), line.column(TEXT, odd))
    query = select(Onu.index_key, OnuData.number).join(OnuData).where(OnuData.metric == "onu_rx_power")
    found: dict[str | None, float | None] = {index: number for index, number in line.session.execute(query)}
    assert found == {index: raw / 100 for index, raw in powers.items() if isinstance(raw, int)}
    texts = line.session.scalars(select(OnuData.text).where(OnuData.metric == "onu_description")).all()
    assert set(texts) == {f"tab here \\N back\\slash {place} ñ" for place in range(256)}


def test_the_reads_of_an_olt_go_with_it(line: Line) -> None:
    line.run(UP, line.powers({at(1): -2000}))
    reads = sorted((read.metric, read.read_at) for read in line.session.scalars(select(OltRead)))
    assert reads == [(name, line.now) for name in ("onu_rx_power", "onu_state", f"presence:{line.master.id}")]


def test_a_step_that_was_kept_is_not_entered_a_second_time_by_the_end(line: Line) -> None:
    counts = line.run(BOTH, line.powers({at(1): -2000}))
    assert (counts["onus_seen"], counts["onus_new"], counts["values"]) == (2, 2, 3)


def test_books_that_lost_their_transaction_go_on_with_what_was_committed(line: Line) -> None:
    line.run(BOTH)
    line.now += MINUTE
    execution_id, _ = run_requests.run_now(line.master.id, ACTOR, line.now)
    executions.start(execution_id, 1, "poller-1", line.now, line.now)
    books = Books(line.olt.id, execution_id)
    column = line.column(STATE, {**BOTH, at(3): 1})
    step = StepResult(line.master.id, StepStatus.SUCCESS, (column,), finished_at=line.now, pdus=1)
    with pytest.raises(executions.StaleToken):
        executions.keep_step(execution_id, 99, books, step, line.now, line.now)
    books = books.afresh()
    executions.keep_step(execution_id, 1, books, step, line.now, line.now)
    executions.finish(execution_id, 1, CompositeResult((step,)), line.now, books)
    assert books.counts["onus_new"] == 1
    line.session.rollback()
    assert line.session.scalar(select(func.count()).select_from(Onu)) == 3


def test_the_encoding_of_an_olts_texts_is_a_setting_of_the_olt(line: Line) -> None:
    line.session.execute(update(type(line.olt)).values(text_encoding="gbk"))
    line.session.commit()
    execution_id, _ = run_requests.run_now(line.master.id, ACTOR, line.now)
    work = executions.start(execution_id, 1, "poller-1", line.now, line.now)
    assert {spec.value.encoding for step in work.steps for spec in step.specs} == {"gbk"}
    assert decode(replace(TEXT.value, encoding="gbk"), "1", "客户".encode("gbk")) == Reading("1", "客户", "0xBFCDBBA7")


# Tables that are whole and yet say nearly nothing


def sparse(line: Line) -> dict[str, list[int]] | None:
    step = line.session.scalars(select(ExecutionStep).order_by(ExecutionStep.id.desc()).limit(1)).one()
    assert step.status is StepStatus.SUCCESS
    return step.sparse


def test_quirk_09_a_table_that_ends_after_a_row_or_two_is_kept_and_told_of(line: Line) -> None:
    there: dict[str, Raw] = {at(number): 1 for number in range(1, 32)}
    line.run(there, line.powers({at(1): -2000}))
    assert sparse(line) == {"onu_rx_power": [1, 31]}
    assert line.powers_kept() == [-20.0], "what it said is kept"
    line.run(there, line.powers({index: -2000 for index in there}))
    assert sparse(line) is None


def test_quirk_09_no_value_in_every_row_of_a_table_is_told_of(line: Line) -> None:
    there: dict[str, Raw] = {at(number): 1 for number in range(1, 32)}
    line.run(there, line.powers({index: 2147483647 for index in there}))
    assert sparse(line) == {"onu_rx_power": [0, 31]}


@pytest.mark.parametrize(
    ("online", "offline", "complete"), [(2, 29, True), (31, 0, False), (7, 0, True)], ids=["dark", "cut", "few"]
)
def test_onus_without_light_a_cut_walk_and_a_handful_of_onus_are_no_reason_to_doubt_a_table(
    line: Line, online: int, offline: int, complete: bool
) -> None:
    states: dict[str, Raw] = {at(number): 1 if number <= online else 2 for number in range(1, online + offline + 1)}
    line.run(states, line.powers({at(1): -2000}, complete=complete))
    assert sparse(line) is None


# Two tables of ONUs on one OLT: GPON's and EPON's


def beside(line: Line) -> Line:
    """The same OLT with its other discovery and a GET of its own."""
    other = copy(line)
    other.master = make_node(line.olt, "epon")
    other.chained = make_chained(other.master, "epon_get")
    return other


EPON: dict[str, Raw] = {f"epon.{number}": 1 for number in range(1, 4)}


def test_two_tables_of_one_reading_leave_each_other_alone(line: Line) -> None:
    epon = beside(line)
    for _ in range(2):
        line.run(BOTH, line.powers({at(1): -2000, at(2): -2100}))
        epon.run(EPON, epon.powers(dict.fromkeys(EPON, -1500)))
    assert line.powers_kept() == [-21.0, -20.0, -15.0, -15.0, -15.0]
    assert line.session.execute(select(OnuData.reason).where(OnuData.metric == "onu_rx_power")).all() == [("",)] * 5
    assert line.session.scalar(select(func.count()).select_from(OnuHistory)) == 5
    assert line.run(BOTH, line.powers({at(1): -2000, at(2): -2100}))["changed"] == 0


def test_two_columns_of_one_reading_in_one_step_are_both_kept(line: Line) -> None:
    beside(line).run(EPON)
    line.run(BOTH, line.powers({at(1): -2000, at(2): -2100}), line.powers(dict.fromkeys(EPON, -1500)))
    assert line.powers_kept() == [-21.0, -20.0, -15.0, -15.0, -15.0]


def test_a_get_that_finds_nothing_of_the_other_tables_onus_says_nothing_of_them(line: Line) -> None:
    epon = beside(line)
    epon.run(EPON, epon.powers(dict.fromkeys(EPON, -1500)))
    nothing = tuple(Reading(index, None, "", NO_SUCH_INSTANCE) for index in EPON)
    column = line.powers({at(1): -2000, at(2): -2100})
    line.run(BOTH, replace(column, readings=(*column.readings, *nothing)))
    assert line.powers_kept() == [-21.0, -20.0, -15.0, -15.0, -15.0]


def test_when_a_table_was_read_is_told_of_its_own_onus(line: Line) -> None:
    epon = beside(line)
    epon.run(EPON, epon.powers(dict.fromkeys(EPON, -1500)))
    read_at = epon.now
    line.run(BOTH)
    line.now += 30 * MINUTE
    line.run(BOTH, line.powers({at(1): -2000, at(2): -2100}))
    assert line.page("epon.1").readings["onu_rx_power"].collected_at == read_at


def test_a_long_name_of_a_reading_is_no_obstacle_where_there_are_two_tables(line: Line) -> None:
    spec = ReadingSpec("m" * METRIC_LENGTH, "1.9", ValueSpec(ValueType.NUMBER), FORMULA)
    beside(line).run(EPON)
    line.run(BOTH, line.column(spec, {at(1): 5, at(2): 6}))
    assert line.page(at(1)).readings["m" * METRIC_LENGTH].number == 5


def test_the_smaller_of_two_tables_is_no_sparse_one(line: Line) -> None:
    epon = beside(line)
    line.run({at(number): 1 for number in range(1, 41)})
    epon.run(EPON, epon.powers(dict.fromkeys(EPON, -1500)))
    assert sparse(line) is None


# What does not fit


def test_numbers_and_indexes_beyond_any_shelf_cost_nobody_else_a_reading(line: Line) -> None:
    """4294967295 is how some devices write -1; PostgreSQL refuses what SQLite would store."""
    long = "1" * 200
    line.run({at(1): 4294967295, at(2): 1, long: 1}, line.powers({at(2): -2000}))
    onus = {onu.index_key: onu for onu in line.session.scalars(select(Onu))}
    assert set(onus) == {at(1), at(2)}
    assert (onus[at(1)].state, onus[at(2)].state) == (None, 1)


def test_a_text_that_happens_to_be_called_a_serial_is_nobodys_identity(line: Line) -> None:
    text = ReadingSpec("onu_serial", "1.9", ValueSpec(ValueType.TEXT), FORMULA)
    line.run(UP, line.column(text, {at(1): b"1,ZTEGC8000001"}))
    assert line.at(at(1)).serial is None
