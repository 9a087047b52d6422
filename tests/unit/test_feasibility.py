"""What OLTs and pollers can promise: busy share, delays, quotas that will fail, how many pollers are enough."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.domain import feasibility
from portal.domain.feasibility import Verdict, assess
from portal.domain.pace import Pace
from portal.domain.plans import PlanNode
from portal.domain.pool_advice import GOAL_MS, Arrival, advise, p95, waits
from testing.cast import MINUTE, TEN
from testing.tables import differing


def node(ident: int, every: int | None, seconds: float, key: str = "", first: int = 60, **more: Any) -> PlanNode:
    pace = Pace(round(seconds * 800), round(seconds * 1000), 25)
    named = key or f"n{ident}"
    given: dict[str, Any] = {"priority": 40, "task_type": f"get_{named}"}
    return PlanNode(node_id=ident, key=named, next_run_at=TEN + timedelta(seconds=first), interval_seconds=every,
                    pace=pace, **(given | more))  # fmt: skip


def times(*minutes: int) -> tuple[datetime, ...]:
    return tuple(TEN + minute * MINUTE for minute in minutes)


def test_the_busy_share_is_runs_times_p95_of_the_hour() -> None:
    shares = {
        (node(1, 300, 60), node(2, 900, 90)): (12 * 60 + 4 * 90) / 3600,
        (): 0,
        (node(1, 7200, 360),): 0.05,  # read seldom, it counts by its share of an hour
        (node(1, None, 60, first=600, times=times(10, 30, 50, 70, 90, 110)),): 3 * 60 / 3600,
        (node(1, None, 360, first=1800, times=times(30, 24 * 60 + 30)),): 360
        / 86_400,  # a rare cron line by its average
        (PlanNode(1, "rx", "get_rx", 40, None, 60, Pace(50_000, 60_000)),): 0,  # what has no clock asks for nothing
    }
    assert {nodes: assess(nodes, TEN).share for nodes in shares} == pytest.approx(shares)
    fits = [assess(nodes, TEN) for nodes in list(shares)[:2]]
    assert [(found.verdict, found.blame, found.failing) for found in fits] == [(Verdict.FITS, None, ())] * 2


def test_more_than_75_percent_is_tight_and_more_than_100_impossible() -> None:
    verdicts = {225: Verdict.FITS, 228: Verdict.TIGHT, 300: Verdict.TIGHT, 301: Verdict.IMPOSSIBLE}
    assert {seconds: assess([node(1, 300, seconds)], TEN).verdict for seconds in verdicts} == verdicts


def test_the_node_that_takes_most_is_to_blame() -> None:
    found = assess([node(1, 300, 30, "rx"), node(2, 300, 210, "descriptions")], TEN)
    assert (found.verdict, found.blame and found.blame.key) == (Verdict.TIGHT, "descriptions")


def test_the_delay_of_a_node_is_what_it_waits_for_the_others() -> None:
    found = assess([node(1, 900, 50, "rx", priority=90), node(2, 900, 10, "names")], TEN)
    names = next(load for load in found.nodes if load.key == "names")
    assert (names.delay_ms, names.longest_delay_ms, names.lost) == (40_000, 40_000, 0)


def test_a_node_that_takes_longer_than_its_interval_fails_its_quota_or_endangers_it_in_a_slow_hour() -> None:
    fails, slow = assess([node(1, 60, 90, "rx")], TEN), assess([node(1, 60, 70, "rx")], TEN)
    assert (fails.failing, fails.nodes[0].lost) == (("get_rx",), 30)
    assert (slow.failing, slow.endangered) == ((), ("get_rx",))


def test_the_hour_that_is_judged_begins_when_all_run() -> None:
    found = assess([node(1, 300, 100, "rx"), node(2, 3600, 100, "late", first=3655, priority=90)], TEN)
    rx = next(load for load in found.nodes if load.key == "rx")
    assert rx.longest_delay_ms > 0


def test_a_list_and_the_page_of_an_olt_judge_the_same_hour() -> None:
    nodes = [node(1, None, 300, first=6000, times=times(*range(100, 170, 10))), node(2, 300, 100)]
    assert feasibility.busy_share(nodes, TEN) == pytest.approx(assess(nodes, TEN).share)


def test_one_long_run_can_cost_another_its_promise_though_there_is_time_enough() -> None:
    nodes = [node(1, 3600, 1100, "discovery"), node(2, 30, 3, "rx")]
    assert feasibility.verdict(feasibility.busy_share(nodes, TEN)) is Verdict.FITS
    assert feasibility.may_lose(nodes)
    found = assess(nodes, TEN)
    assert (found.failing, found.verdict, found.keeps) == (("get_rx",), Verdict.TIGHT, False)
    assert (found.blame and found.blame.key, found.blocks) == ("discovery", True)


def test_what_is_never_in_another_s_way_needs_no_closer_look() -> None:
    assert not feasibility.may_lose([node(1, 300, 40), node(2, 300, 250), node(3, 3600, 45)])
    assert not feasibility.may_lose([node(1, 60, 50)])


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(60, 3600), st.integers(1, 200), st.integers(1, 3600)), max_size=6))
def test_a_further_node_never_makes_an_olt_less_busy(drawn: list[tuple[int, int, int]]) -> None:
    nodes = [node(i, every, seconds, first=first) for i, (every, seconds, first) in enumerate(drawn)]
    shares = [feasibility.busy_share(nodes[:count], TEN) for count in range(len(nodes) + 1)]
    assert shares == sorted(shares)
    assert assess(nodes, TEN).share == pytest.approx(shares[-1])


def at(seconds: float, took: float, olt: int) -> Arrival:
    return Arrival(round(seconds * 1000), round(took * 1000), olt)


def test_runs_wait_for_a_poller_and_not_for_their_olt() -> None:
    two, same = [at(0, 10, 1), at(1, 10, 2)], [at(0, 10, 1), at(1, 10, 1)]
    cases = {
        "with a free poller nothing waits": (waits(two, 2), [0, 0]),
        "with one poller the second waits for the end of the first": (waits(two, 1), [0, 9000]),
        "the wait for the OLT itself is not counted": (waits(same, 5), [0, 0]),
        "what waits for its OLT takes no poller from others": (waits([*same, at(2, 10, 2)], 2), [0, 0, 0]),
    }
    assert differing(cases) == {}


def test_olts_that_strike_at_once_need_a_poller_each_and_spread_over_time_one_is_enough() -> None:
    found, nothing = advise([at(0, 60, olt) for olt in range(10)], present=4), advise([], present=0)
    assert (found.needed, found.present_p95_ms, found.needed_p95_ms) == (10, 120_000, 0)
    assert advise([at(20 * olt, 10, olt) for olt in range(100)], present=10).needed == 1
    assert (nothing.needed, nothing.present_p95_ms, nothing.arrivals) == (1, None, 0)


def test_the_p95_is_the_value_that_95_of_100_do_not_exceed() -> None:
    assert (p95(range(1, 101)), p95([7])) == (95, 7)


ARRIVALS = st.lists(st.tuples(st.integers(0, 600), st.integers(1, 120), st.integers(1, 8)), min_size=1, max_size=60)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(ARRIVALS)
def test_the_advised_pool_reaches_the_goal_and_one_poller_less_does_not(drawn: list[tuple[int, int, int]]) -> None:
    arrivals = sorted((at(*one) for one in drawn), key=lambda one: one.at_ms)
    needed = advise(arrivals, 1).needed
    assert p95(waits(arrivals, needed)) <= GOAL_MS
    assert needed == 1 or p95(waits(arrivals, needed - 1)) > GOAL_MS
    assert len(waits(arrivals, needed)) == len(arrivals)
