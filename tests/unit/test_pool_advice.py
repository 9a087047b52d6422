"""How many pollers are enough, from arrivals run again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.domain.pool_advice import GOAL_MS, Arrival, advise, p95, waits
from testing.tables import differing


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


def test_ten_olts_at_once_need_a_poller_each() -> None:
    found = advise([at(0, 60, olt) for olt in range(10)], present=4)
    assert (found.needed, found.present_p95_ms, found.needed_p95_ms) == (10, 120_000, 0)


def test_spread_over_time_one_poller_is_enough() -> None:
    assert advise([at(20 * olt, 10, olt) for olt in range(100)], present=10).needed == 1


def test_nothing_to_do_needs_one_poller() -> None:
    found = advise([], present=0)
    assert (found.needed, found.present_p95_ms, found.arrivals) == (1, None, 0)


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
