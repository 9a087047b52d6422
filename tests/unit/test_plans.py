"""What one OLT will do in an hour, as the product itself would have it, and how the hour is expected to end."""

import json
from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain import plans
from portal.domain.forecast import Forecast, Open, Slower, forecast, from_json, sentence, slower
from portal.domain.pace import Pace
from portal.domain.plans import Occupied, PlannedSlot, PlanNode, Waiting, simulate
from portal.domain.quota import Counts
from portal.domain.statuses import LossCause
from testing.cast import HOUR, SECOND, TEN, at
from testing.tables import differing

END = TEN + HOUR


def node(ident: int, first: str = "10:05", every: int | None = 300, seconds: float = 10, **more: Any) -> PlanNode:
    pace = Pace(round(seconds * 1000), round(seconds * 2000), 25)
    given: dict[str, Any] = {"key": f"n{ident}", "task_type": f"get_n{ident}", "priority": 40, "pace": pace}
    return PlanNode(node_id=ident, next_run_at=at(first), interval_seconds=every, **(given | more))


def told(slots: Iterable[PlannedSlot]) -> list[tuple[int, str, str]]:
    """Node, slot and expected start of each, or what it is lost to."""
    return [
        (s.node_id, str(s.scheduled_for.time()), str(s.expected_start.time() if s.expected_start else s.lost))
        for s in slots
    ]


def of_drawn(drawn: list[tuple[int, int, int, int]], p95: float = 1.0) -> list[PlanNode]:
    return [
        PlanNode(i, f"n{i}", "", priority, TEN + first * SECOND, every, Pace(took * 1000, round(took * 1000 * p95)))
        for i, (priority, first, every, took) in enumerate(drawn)
    ]


def test_a_node_every_five_minutes_has_twelve_slots_the_last_at_the_full_hour() -> None:
    slots = simulate([node(1)], TEN, END)
    assert [f"{slot.scheduled_for:%H:%M}" for slot in slots][::11] == ["10:05", "11:00"]
    assert all(slot.wait_ms == 0 and slot.lost is None for slot in slots)


def planned(*nodes: PlanNode, end: str = "11:00") -> list[tuple[int, str, str]]:
    return told(simulate(nodes, TEN, at(end)))


def test_runs_of_an_olt_follow_each_other_by_the_rules_of_its_queue() -> None:
    once, long = 3600, node(3, "10:04:50", 3600, seconds=60)
    low, high = node(1, "10:00:30", 60, priority=10), node(2, "10:01:00", once, priority=90)
    blocked = [node(1, every=60), node(2, "10:04:50", once, seconds=100)]
    cron = node(1, "10:30", None, times=(at("10:15"), at("10:30"), at("11:30")))
    cases = {
        "of one moment the higher priority goes first and the other waits for its end": (
            sorted(planned(node(1, every=once), node(2, every=once, priority=90, seconds=30))),
            [(1, "10:05:00", "10:05:30"), (2, "10:05:00", "10:05:00")],
        ),
        "of equal priority the older slot goes first": (
            planned(long, node(1, "10:05:20", once), node(2, "10:05:10", once))[1:],
            [(2, "10:05:10", "10:05:50"), (1, "10:05:20", "10:06:00")],
        ),
        "what has waited a whole interval goes before a higher priority": (
            [
                one
                for one in planned(low, high, node(3, "10:00:10", once, seconds=100), end="10:01:49")
                if ":" in one[2]
            ][1:],
            [(1, "10:00:30", "10:01:50"), (2, "10:01:00", "10:02:00")],
        ),
        "a slot that finds its node running is lost to its overrun": (
            [lost for *_, lost in planned(node(1, every=60, seconds=70), end="10:08")],
            ["10:05:00", "overrun", "10:07:00", "overrun"],
        ),
        "a slot that finds its node waiting is lost to the busy OLT": (
            planned(*blocked, end="10:06")[1:],
            [(1, "10:05:00", "10:06:30"), (1, "10:06:00", "olt_busy")],
        ),
        "what runs when the plan begins is waited for": (
            told(simulate([node(1), node(2)], at("10:05"), at("10:06"), Occupied(1, at("10:05:40")))),
            [(1, "10:05:00", "overrun"), (2, "10:05:00", "10:05:40")],
        ),
        "what waits when the plan begins starts first": (
            told(simulate([node(1, "10:10")], at("10:06"), at("10:10"), waiting=[Waiting(1, at("10:05"))])),
            [(1, "10:05:00", "10:06:00"), (1, "10:10:00", "10:10:00")],
        ),
        "of slots that passed unseen only the latest is planned": (
            told(simulate([node(1, "08:00")], at("10:07"), at("10:10"))),
            [(1, "10:05:00", "10:07:00"), (1, "10:10:00", "10:10:00")],
        ),
        "a cron node has the slots of its line and one without a clock none": (
            planned(cron, PlanNode(2, "x", "get_x", 40, None, 60, Pace(1, 1))),
            [(1, "10:30:00", "10:30:00")],
        ),
    }
    assert differing(cases) == {}


def test_a_run_that_ends_in_the_very_moment_of_the_next_slot_loses_nothing() -> None:
    assert not any(slot.lost for slot in simulate([node(1, every=60, seconds=60)], TEN, END))


def test_slow_runs_take_their_p95() -> None:
    two = [node(1, every=3600), node(2, every=3600)]
    assert [simulate(two, TEN, END, slow=slow)[1].wait_ms for slow in (True, False)] == [20_000, 10_000]


NODES = st.lists(
    st.tuples(st.integers(1, 100), st.integers(1, 900), st.integers(30, 1800), st.integers(1, 200)),
    min_size=1, max_size=6,
)  # fmt: skip


@pytest.mark.slow
@given(NODES, st.booleans())
def test_nothing_overlaps_and_every_slot_is_planned_or_lost_exactly_once(
    drawn: list[tuple[int, int, int, int]], slow: bool
) -> None:
    nodes = of_drawn(drawn, 1.5)
    slots = simulate(nodes, TEN, END, slow=slow)
    assert sorted((s.node_id, s.scheduled_for) for s in slots) == sorted(
        (n.node_id, at) for n in nodes for at in n.slots(TEN, END)
    )
    assert all((slot.expected_start is None) is (slot.lost is not None) for slot in slots)
    assert all(slot.expected_start is None or slot.expected_start >= slot.scheduled_for for slot in slots)
    took = {n.node_id: timedelta(milliseconds=n.pace.p95_ms if slow else n.pace.p50_ms) for n in nodes}
    runs = sorted((s.expected_start, s.node_id) for s in slots if s.expected_start)
    assert all(sooner + took[ident] <= later for (sooner, ident), (later, _) in pairwise(runs))


@pytest.mark.slow
@given(NODES)
def test_the_olt_is_never_idle_while_something_waits(drawn: list[tuple[int, int, int, int]]) -> None:
    slots = simulate(of_drawn(drawn), TEN, END)
    runs = sorted((s.expected_start, s.scheduled_for, s.expected_end) for s in slots if s.expected_start)
    ends = [TEN, *(end for _, _, end in runs if end)]
    for (start, slot, _), before in zip(runs, ends, strict=False):
        assert start is not None
        assert start == max(slot, before)


def test_a_plan_made_again_keeps_what_was_planned_before_now() -> None:
    before = plans.make([node(1), node(2, seconds=30)], TEN, TEN)
    again = plans.make([node(1, "10:35", 300)], TEN, at("10:32"), before=before, why="node 2 was disabled")
    kept, as_before = ([slot for slot in one.slots if slot.scheduled_for <= at("10:32")] for one in (again, before))
    assert kept == as_before
    assert {slot.node_id for slot in again.slots if slot.scheduled_for > at("10:32")} == {1}
    assert len(again) == 18


def test_a_slot_that_waits_is_planned_anew_not_twice() -> None:
    before = plans.make([node(1)], TEN, TEN)
    again = plans.make([node(1, "10:10")], TEN, at("10:06"), waiting=[Waiting(1, at("10:05"))], before=before)
    assert told(again.slots)[0] == (1, "10:05:00", "10:06:00")
    assert len(again) == 12


def test_a_plan_comes_back_from_json_as_it_was() -> None:
    made = plans.make([node(1, every=60, seconds=70), node(2), node(3, "10:01", None, times=(at("10:20"),))], TEN, TEN)
    stored = json.loads(json.dumps(plans.as_json(made)))
    again = plans.from_json(stored, TEN)
    assert sorted(again.slots, key=str) == sorted(made.slots, key=str)
    assert (again.keys, again.why) == (made.keys, made.why)
    assert any(slot.lost is LossCause.OVERRUN for slot in again.slots)


def test_eight_nodes_of_twelve_slots_take_less_than_3_kb() -> None:
    keys = [f"onu_rx_power_{i}" for i in range(8)]
    nodes = [node(100_000 + i, seconds=20, key=key, task_type=f"get_{key}") for i, key in enumerate(keys)]
    made = plans.make(nodes, TEN, TEN, why="task_interval_changed")
    assert len(made) == 96
    assert len(json.dumps(plans.as_json(made), separators=(",", ":"))) < 3000


@pytest.mark.parametrize("text", ["10:00", "10:59:59"])
def test_slots_outside_of_the_hour_are_not_in_its_plan(text: str) -> None:
    made = plans.make([node(1, text)], TEN, at("09:59"))
    assert all(TEN < slot.scheduled_for <= END for slot in made.slots)


NOW = TEN + timedelta(minutes=30)
CLOSE = END + timedelta(minutes=5)


def clocked(ident: int, key: str, every: int, seconds: float, priority: int = 40) -> PlanNode:
    pace = Pace(round(seconds * 1000), round(seconds * 1000), 25)
    return PlanNode(ident, key, f"get_{key}", priority, NOW + timedelta(seconds=every), every, pace)


def of(
    counts: Counts, nodes: list[PlanNode], usual: int | None = None, blocked: LossCause | None = None, **tracked: Any
) -> Forecast:
    """How the hour of get_rx is expected to end. `usual`: seconds that a discovery takes otherwise."""
    took = {one.key: one.pace.p50_ms for one in nodes} | ({"discovery": 1000 * usual} if usual else {})
    slow = [slower(one, took[one.key], 3600 // (one.interval_seconds or 1)) for one in nodes]
    types = {one.node_id: one.task_type for one in nodes}
    trackers, rest = [Open("get_rx", counts, **tracked)], simulate(nodes, NOW, END)
    (told,) = forecast(trackers, types, rest, slow, CLOSE, blocked)
    return told


RX = [clocked(1, "rx", 300, 10)]
LONG_DISCOVERY = [clocked(1, "discovery", 300, 280, priority=90), clocked(2, "rx", 60, 30)]


def test_an_olt_in_its_usual_pace_keeps_its_promise() -> None:
    told = of(Counts(completed=6, pending=6), RX)
    assert told == Forecast("get_rx", 12, 12)
    assert sentence(told) == "will end at 12 of 12"


def test_a_discovery_that_runs_longer_than_usual_is_named_with_its_seconds() -> None:
    counts = Counts(completed=25, skipped=5, pending=30)
    told = of(counts, LONG_DISCOVERY, usual=240, losses={LossCause.OLT_BUSY: 5})
    assert told.completed < 40
    assert (told.node, told.seconds) == ("discovery", 40)
    assert sentence(told).endswith("of 60: discovery runs 40 s longer than usual")


def test_without_a_slower_node_the_one_that_takes_most_of_the_time_is_named() -> None:
    told = of(Counts(completed=25, pending=30, skipped=5), LONG_DISCOVERY)
    assert (told.node, told.seconds) == ("discovery", 0)
    assert "OLT busy, most of its time goes to discovery" in sentence(told)


def test_what_is_expected_follows_from_what_there_was() -> None:
    half, waits = Counts(completed=3, failed=3, pending=6), Counts(completed=6, pending=6)
    cases = {
        "runs that fail go on failing in the same share and way": (
            of(half, RX, losses={LossCause.TIMEOUT: 3}, failing=0.5),
            Forecast("get_rx", 6, 12, LossCause.TIMEOUT),
        ),
        "what is lost already is told with its cause": (
            of(Counts(completed=4, skipped=2, pending=6), RX, losses={LossCause.RESTART: 2}),
            Forecast("get_rx", 10, 12, LossCause.RESTART),
        ),
        "nothing more is completed on a paused OLT": (
            of(waits, RX, blocked=LossCause.PAUSED),
            Forecast("get_rx", 6, 12, LossCause.PAUSED),
        ),
        "a run that is on counts although the plan does not hold it": (
            of(Counts(completed=5, pending=7), RX).completed,
            12,
        ),
        "what would end after the close is not completed": (
            of(Counts(completed=1, pending=1), [clocked(1, "rx", 1800, 900)]).completed,
            1,
        ),
    }
    assert differing(cases) == {}


def test_a_little_more_than_usual_is_not_blamed() -> None:
    assert [Slower("rx", above * 1000, 100_000, 1).notable for above in (3, 10)] == [False, False]


def test_a_forecast_comes_back_from_what_is_stored() -> None:
    told = Forecast("get_rx", 9, 12, LossCause.OLT_BUSY, "discovery", 40)
    assert from_json("get_rx", 9, 12, told.as_json()) == told


@given(
    st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.floats(0, 1), st.integers(1, 400)
)
def test_a_forecast_lies_between_what_is_done_and_what_was_promised(
    completed: int, failed: int, skipped: int, pending: int, failing: float, seconds: int
) -> None:
    counts = Counts(completed, failed, skipped, pending)
    told = of(counts, [clocked(1, "rx", 120, seconds)], failing=failing)
    assert completed <= told.completed <= completed + pending
    assert (told.cause is None) is (told.completed == told.required)
