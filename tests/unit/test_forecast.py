"""How an hour is expected to end, and the cause that is named for it."""

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from portal.domain.forecast import Forecast, Open, Slower, forecast, from_json, sentence, slower
from portal.domain.pace import Pace
from portal.domain.plans import PlanNode, simulate
from portal.domain.quota import HOUR, Counts
from portal.domain.statuses import LossCause
from testing.cast import TEN
from testing.tables import differing

END = TEN + HOUR
NOW = TEN + timedelta(minutes=30)
CLOSE = END + timedelta(minutes=5)


def node(ident: int, key: str, every: int, seconds: float, priority: int = 40) -> PlanNode:
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


RX = [node(1, "rx", 300, 10)]
LONG_DISCOVERY = [node(1, "discovery", 300, 280, priority=90), node(2, "rx", 60, 30)]


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
            of(Counts(completed=1, pending=1), [node(1, "rx", 1800, 900)]).completed,
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
    told = of(counts, [node(1, "rx", 120, seconds)], failing=failing)
    assert completed <= told.completed <= completed + pending
    assert (told.cause is None) is (told.completed == told.required)
