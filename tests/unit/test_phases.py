"""Phase advice: masters of one OLT apart, the pool level, and no slot of any hour lost by a move."""

import json
import random
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.domain import phases
from portal.domain.phases import PhasedNode, Spread, advise, advise_within, levels, measure
from portal.domain.quota import hour_of
from testing.cast import MINUTE, SECOND, TEN


def node(
    ident: int, olt: int = 1, first: int = 60, every: int = 300, seconds: int = 10, fixed: bool = False
) -> PhasedNode:
    return PhasedNode(ident, olt, TEN + first * SECOND, every, seconds * 1000, fixed)


def test_masters_of_one_olt_that_strike_together_are_set_apart() -> None:
    nodes = [node(1), node(2), node(3)]
    found = advise(nodes)
    assert (found.before.meeting_seconds, found.before.meetings) == (12 * 10, 12 * 10 * 3)
    assert found.after.meeting_seconds == 0
    assert len({one.next_run_at + found.shifts.get(one.node_id, 0) * SECOND for one in nodes}) == 3


def test_olts_that_strike_together_are_spread_over_the_interval() -> None:
    found = advise([node(ident, olt=ident) for ident in range(24)])
    assert (found.before.peak, found.after.peak) == (24, 1)


def test_of_one_olt_only_its_own_masters_meet_or_are_stuck_but_the_pool_is_everybody_s() -> None:
    stuck, asked = [node(ident, olt=1, first=300) for ident in (1, 2)], [node(ident, olt=2) for ident in (3, 4)]
    found = advise([*stuck, *asked], [2])
    assert (found.before.meeting_seconds, found.after.meeting_seconds, found.stuck) == (120, 0, 0)
    assert found.before.peak == 2
    assert list(found.shifts) == [4] or list(found.shifts) == [3]
    assert measure([*stuck, *asked], {}, [2]) == found.before
    assert advise([*stuck, *asked], [1]).stuck == 2


def test_within_a_known_pool_some_olts_get_the_advice_that_all_clocks_would_give_them() -> None:
    others, asked = [node(ident, olt=1, first=60 * ident) for ident in (1, 2)], [node(ident, olt=2) for ident in (3, 4)]
    known = advise([*others, *asked], [2])
    assert advise_within(asked, levels([*others, *asked], {})) == known
    assert known.helps
    assert phases.advice_from_json(json.loads(json.dumps(phases.advice_to_json(known)))) == known


def test_what_is_well_placed_is_left_alone_and_what_has_no_room_is_told_of() -> None:
    assert not advise([node(1, first=60), node(2, first=120)]).helps
    assert node(1, first=300).room == 0  # at the full hour it cannot move without losing a slot
    found = advise([node(1, first=300), node(2, first=300)])
    assert (found.shifts, found.stuck) == ({}, 2)


def test_a_cron_line_is_counted_but_never_moved() -> None:
    found = advise([node(1, every=3600, seconds=30, fixed=True), node(2, every=3600)])
    assert list(found.shifts) == [2]
    assert found.after.meeting_seconds == 0


def test_the_room_is_what_is_left_after_the_last_slot_of_the_hour() -> None:
    rooms = {(60, 300): 240, (60, 3600): 3540, (3590, 300): 10, (60, 420): 180}
    assert {(first, every): node(1, first=first, every=every).room for first, every in rooms} == rooms


def test_a_run_longer_than_its_interval_does_not_confuse_it() -> None:
    assert advise([node(1, every=60, seconds=500), node(2, every=7200, seconds=5000)]).after.peak == 2


def test_first_runs_of_one_olt_do_not_meet_while_there_is_room() -> None:
    spread = Spread([])
    assert [spread.place(1, TEN, 300, 10_000, 60) - TEN for _ in range(6)] == [10 * n * SECOND for n in range(6)]


def test_first_runs_of_many_olts_level_the_pool_within_a_minute() -> None:
    spread = Spread([])
    firsts = Counter(spread.place(olt, TEN, 300, 1000, 60) for olt in range(120))
    assert set(firsts.values()) == {2} and TEN <= min(firsts) <= max(firsts) < TEN + MINUTE


def test_a_first_run_stays_away_from_what_runs_already() -> None:
    assert Spread([node(1, first=0, seconds=30)]).place(2, TEN, 300, 10_000, 60) == TEN + 30 * SECOND
    assert Spread([node(1, first=0, seconds=59)]).place(1, TEN, 900, 1000, 60) == TEN + 59 * SECOND


NODES = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 4000), st.sampled_from([30, 60, 300, 420, 900, 3600, 7200, 86_400]),
              st.integers(1, 400), st.booleans()),
    max_size=14,
)  # fmt: skip


def drawn_nodes(drawn: list[tuple[int, int, int, int, bool]]) -> list[PhasedNode]:
    return [node(i, olt, first, every, seconds, fixed) for i, (olt, first, every, seconds, fixed) in enumerate(drawn)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(NODES)
def test_the_advice_is_never_worse_than_now_by_its_own_measure(drawn: list[tuple[int, int, int, int, bool]]) -> None:
    nodes = drawn_nodes(drawn)
    found = advise(nodes)
    assert found.after.cost < found.before.cost if found.shifts else found.after == found.before
    assert found.after.meetings <= found.before.meetings
    assert found.before.meeting_seconds <= 3600 * len({one.olt_id for one in nodes})
    assert (found.before, found.after) == (measure(nodes, {}), measure(nodes, found.shifts))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(NODES)
def test_clocks_move_forward_by_less_than_an_interval_and_no_hour_loses_a_slot(
    drawn: list[tuple[int, int, int, int, bool]],
) -> None:
    nodes = drawn_nodes(drawn)
    for one in nodes:
        shift = advise(nodes).shifts.get(one.node_id, 0)
        assert 0 <= shift < one.interval_seconds
        step, count = timedelta(seconds=one.interval_seconds), 4 * 3600 // one.interval_seconds + 1
        before = [hour_of(one.next_run_at + number * step) for number in range(count)]
        after = [hour_of(one.next_run_at + timedelta(seconds=shift) + number * step) for number in range(count)]
        first_hour = hour_of(one.next_run_at)
        assert Counter(before)[first_hour] == Counter(after)[first_hour]
        if 3600 % one.interval_seconds == 0:
            assert before == after


def test_the_advice_for_many_olts_levels_the_pool() -> None:
    chance = random.Random(3)  # noqa: S311  (no secret)
    nodes = [node(olt * 10 + number, olt, 60 + chance.randrange(60), 300, chance.randrange(3, 12))
             for olt in range(60) for number in range(8)]  # fmt: skip
    found = advise(nodes)
    assert found.after.meeting_seconds < found.before.meeting_seconds / 20
    assert found.after.peak < found.before.peak / 2
