"""One ONU that its OLT lists in two tables, or under two forms of index, is one ONU; on both databases."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.composite import ReadingSpec
from portal.domain.formulas import IndexFormula
from portal.domain.statuses import OnuEventKind, Presence
from portal.tables import Onu, OnuEvent
from testing.builders import make_chained, make_node
from testing.cast import NOW
from tests.integration.test_onu_inventory import FORMULA, POWER, SERIAL, STATE, Line, Raw, at

SERIALS = (b"HWTCaaaa", b"HWTCbbbb", b"HWTCcccc")
NUMBERS = range(1, len(SERIALS) + 1)

# The same places in another arithmetic: slot and port in octets, as the trees of one ZTE differ.
OCTETS = IndexFormula.from_dict({
    "name": "octets", "kind": "bitshift", "checks": [{"shift": 16, "bits": 16, "value": 0x1101}],
    "fields": {"slot": {"shift": 8, "bits": 8}, "port": {"shift": 0, "bits": 8}, "onu": {"part": 2, "bits": 12}},
})  # fmt: skip


def octets(number: int) -> str:
    return f"{0x11010000 | 1 << 8 | 1}.{number}"


def negative(number: int) -> str:
    return f"{4194312448 - (1 << 32)}.{number}"


def running(number: int) -> str:
    return f"1.0.1.{number + 40}.1"


def specs(formula: IndexFormula | None, root: str) -> tuple[ReadingSpec, ReadingSpec, ReadingSpec]:
    state, serial, power = (replace(one, formula=formula, oid=f"{root}.{one.oid}") for one in (STATE, SERIAL, POWER))
    return state, serial, power


@dataclass
class Listed:
    """A discovery with its chain: how it numbers ONUs, and whether it reads their serials."""

    line: Line
    index: Callable[[int], str]
    state: ReadingSpec
    serial: ReadingSpec
    power: ReadingSpec
    names: bool = True

    def run(self, power: int = -2000, serials: Mapping[int, bytes] | None = None, numbers: range = NUMBERS) -> None:
        line, found = self.line, dict(zip(NUMBERS, SERIALS, strict=True)) | dict(serials or {})
        columns = [line.column(self.power, {self.index(number): power for number in numbers})]
        if self.names:
            given: dict[str, Raw] = {self.index(number): found[number] for number in numbers}
            columns.append(line.column(self.serial, given))
        states: dict[str, Raw] = dict.fromkeys(map(self.index, numbers), 1)
        line.run(None, *columns, states_column=line.column(self.state, states))


@pytest.fixture
def line(session: Session) -> Line:
    return Line(session, NOW)


def first_of(line: Line, *, names: bool = True) -> Listed:
    return Listed(line, at, *specs(FORMULA, "1"), names)


def second_of(line: Line, index: Callable[[int], str], formula: IndexFormula | None, *, names: bool = True) -> Listed:
    other = copy(line)
    other.master = make_node(line.olt, "other")
    other.chained = make_chained(other.master, "other_get")
    return Listed(other, index, *specs(formula, "2"), names)


def told(session: Session) -> list[tuple[OnuEventKind, str, str]]:
    query = select(OnuEvent).order_by(OnuEvent.id)
    return [(event.kind, event.before, event.after) for event in session.scalars(query)]


def stored(session: Session) -> list[tuple[str | None, Presence]]:
    return [(onu.serial, onu.presence) for onu in session.scalars(select(Onu).order_by(Onu.id))]


ALL = [(serial.hex().upper(), Presence.ENABLED) for serial in SERIALS]

# How the other table numbers them, its formula, and which of the two chains reads serials.
FORMS = [
    pytest.param(octets, OCTETS, True, True, id="another formula, serials in both"),
    pytest.param(octets, OCTETS, True, False, id="another formula, serials in the first"),
    pytest.param(octets, OCTETS, False, True, id="another formula, serials in the second"),
    pytest.param(negative, FORMULA, True, True, id="the same number with a sign"),
    pytest.param(negative, FORMULA, True, False, id="the same number with a sign, serials in the first"),
    pytest.param(running, None, True, True, id="a running number that tells no place"),
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("index", "formula", "first_names", "second_names"), FORMS)
def test_an_onu_in_two_tables_of_its_olt_is_one_onu_that_never_moves(
    line: Line, index: Callable[[int], str], formula: IndexFormula | None, first_names: bool, second_names: bool,
    turned: bool,
) -> None:  # fmt: skip
    both = [first_of(line, names=first_names), second_of(line, index, formula, names=second_names)]
    for turn in range(3):
        for place, one in enumerate(reversed(both) if turned else both):
            one.line.now = line.now = max(each.line.now for each in both)
            one.run(-2000 - 100 * place - turn)
            powers = {data for data in line.powers_kept()}
            assert powers == {(-2000 - 100 * place - turn) / 100}, "each table's readings are the one ONU's"
    assert stored(line.session) == ALL
    assert told(line.session) == []


def test_two_columns_of_one_discovery_that_list_the_same_onus_make_one_of_each(line: Line) -> None:
    first, second = first_of(line), specs(OCTETS, "2")[0]
    for _ in range(2):
        columns = (
            line.column(first.state, dict.fromkeys(map(at, NUMBERS), 1)),
            line.column(second, dict.fromkeys(map(octets, NUMBERS), 1)),
        )
        line.run(None, line.serials(dict(zip(map(at, NUMBERS), SERIALS, strict=True))), states_columns=columns)
        assert (stored(line.session), told(line.session)) == (ALL, [])


def test_a_table_that_numbers_its_onus_anew_keeps_them(line: Line) -> None:
    old = first_of(line)
    old.run(-2000)
    before = {onu.serial: onu.id for onu in line.session.scalars(select(Onu))}
    new = Listed(line, octets, *specs(OCTETS, "2"))
    for power in (-2100, -2200):
        new.run(power)
        onus = list(line.session.scalars(select(Onu).order_by(Onu.id)))
        assert {onu.serial: onu.id for onu in onus} == before
        assert [onu.index_key for onu in onus] == list(map(octets, NUMBERS))
        assert (line.powers_kept(), told(line.session)) == ([power / 100] * 3, [])


def test_another_serial_under_the_new_number_of_a_place_is_another_onu(line: Line) -> None:
    first_of(line).run()
    Listed(line, octets, *specs(OCTETS, "2")).run(-2100, {2: b"HWTCzzzz"})
    serials = {
        onu.index_key: onu.serial for onu in line.session.scalars(select(Onu)) if onu.presence is Presence.ENABLED
    }
    assert serials[octets(2)] == b"HWTCzzzz".hex().upper()
    assert len(serials) == 3
    assert not [kind for kind, *_ in told(line.session) if kind is OnuEventKind.MOVED]


def test_two_onus_whose_places_are_alike_and_whose_serials_differ_stay_two(line: Line) -> None:
    first, second = first_of(line), second_of(line, octets, OCTETS)
    others = dict(zip(NUMBERS, (b"ZTEGaaaa", b"ZTEGbbbb", b"ZTEGcccc"), strict=True))
    for _ in range(2):
        first.run()
        second.line.now = line.now
        second.run(-1500, others)
        line.now = second.line.now
    assert len(stored(line.session)) == 6
    assert {presence for _, presence in stored(line.session)} == {Presence.ENABLED}
    assert [kind for kind, *_ in told(line.session)] == []


def test_what_one_table_lost_and_the_other_lists_is_there_and_does_not_come_and_go(line: Line) -> None:
    first, second = first_of(line), second_of(line, octets, OCTETS)
    first.run()
    second.line.now = line.now
    second.run()
    for _ in range(3):
        line.now = second.line.now
        first.run(numbers=range(1, 3))
        second.line.now = line.now
        second.run()
    assert stored(line.session) == ALL
    moved = [kind for kind, *_ in told(line.session) if kind is not OnuEventKind.PRESENCE]
    assert len(told(line.session)) <= 3, "it is told once, not at each run"
    assert len(moved) <= 1
