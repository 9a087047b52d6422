"""How an hour is expected to end, and the cause that is named for it."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.domain.forecast import Forecast, Open, Slower, forecast, from_json, sentence, slower
from portal.domain.pace import Pace
from portal.domain.plans import PlanNode, simulate
from portal.domain.quota import HOUR, Counts
from portal.domain.statuses import LossCause
from testing.cast import TEN

END = TEN + HOUR
NOW = TEN + timedelta(minutes=30)
CLOSE = END + timedelta(minutes=5)


def node(ident: int, key: str, every: int, seconds: float, priority: int = 40) -> PlanNode:
    pace = Pace(round(seconds * 1000), round(seconds * 1000), 25)
    return PlanNode(ident, key, f"get_{key}", priority, NOW + timedelta(seconds=every), every, pace)


def of(
    trackers: list[Open], nodes: list[PlanNode], usual: dict[str, float] | None = None, **more: Any
) -> dict[str, Forecast]:
    rest = simulate(nodes, NOW, END)
    known = {key: round(1000 * seconds) for key, seconds in (usual or {}).items()}
    slow = [slower(one, known.get(one.key, one.pace.p50_ms), 3600 // (one.interval_seconds or 1)) for one in nodes]
    types = {one.node_id: one.task_type for one in nodes}
    return {one.task_type: one for one in forecast(trackers, types, rest, slow, CLOSE, **more)}


def test_an_olt_in_its_usual_pace_keeps_its_promise() -> None:
    found = of([Open("get_rx", Counts(completed=6, pending=6))], [node(1, "rx", 300, 10)])
    assert found["get_rx"] == Forecast("get_rx", 12, 12)
    assert sentence(found["get_rx"]) == "will end at 12 of 12"


def test_a_discovery_that_runs_longer_than_usual_is_named_with_its_seconds() -> None:
    nodes = [node(1, "discovery", 300, 280, priority=90), node(2, "rx", 60, 30)]
    found = of(
        [Open("get_rx", Counts(completed=25, skipped=5, pending=30), {LossCause.OLT_BUSY: 5})],
        nodes,
        {"discovery": 240},
    )
    told = found["get_rx"]
    assert told.completed < 40
    assert (told.node, told.seconds) == ("discovery", 40)
    assert sentence(told).endswith("of 60: discovery runs 40 s longer than usual")


def test_without_a_slower_node_the_one_that_takes_most_of_the_time_is_named() -> None:
    nodes = [node(1, "discovery", 300, 280, priority=90), node(2, "rx", 60, 30)]
    told = of([Open("get_rx", Counts(completed=25, pending=30, skipped=5))], nodes)["get_rx"]
    assert (told.node, told.seconds) == ("discovery", 0)
    assert "OLT busy, most of its time goes to discovery" in sentence(told)


def test_runs_that_fail_go_on_failing_in_the_same_share_and_way() -> None:
    tracker = Open("get_rx", Counts(completed=3, failed=3, pending=6), {LossCause.TIMEOUT: 3}, failing=0.5)
    told = of([tracker], [node(1, "rx", 300, 10)])["get_rx"]
    assert (told.completed, told.required, told.cause) == (6, 12, LossCause.TIMEOUT)


def test_what_is_lost_already_is_told_with_its_cause() -> None:
    tracker = Open("get_rx", Counts(completed=4, skipped=2, pending=6), {LossCause.RESTART: 2})
    told = of([tracker], [node(1, "rx", 300, 10)])["get_rx"]
    assert (told.completed, told.cause, told.node) == (10, LossCause.RESTART, "")


def test_nothing_more_is_completed_on_a_paused_olt() -> None:
    tracker = Open("get_rx", Counts(completed=6, pending=6))
    told = of([tracker], [node(1, "rx", 300, 10)], blocked=LossCause.PAUSED)["get_rx"]
    assert (told.completed, told.cause) == (6, LossCause.PAUSED)


def test_a_run_that_is_on_counts_although_the_plan_does_not_hold_it() -> None:
    told = of([Open("get_rx", Counts(completed=5, pending=7))], [node(1, "rx", 300, 10)])["get_rx"]
    assert told.completed == 12


def test_what_would_end_after_the_close_is_not_completed() -> None:
    told = of([Open("get_rx", Counts(completed=1, pending=1))], [node(1, "rx", 1800, 900)])["get_rx"]
    assert (told.completed, told.required) == (1, 2)


@pytest.mark.parametrize("above", [3, 10])
def test_a_little_more_than_usual_is_not_blamed(above: int) -> None:
    assert not Slower("rx", above * 1000, 100_000, 1).notable


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
    told = of([Open("get_rx", counts, failing=failing)], [node(1, "rx", 120, seconds)])["get_rx"]
    assert completed <= told.completed <= completed + pending
    assert (told.cause is None) is (told.completed == told.required)
