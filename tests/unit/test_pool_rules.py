"""How busy a poller was lately, told from what its own row knows."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from portal.domain.pool import WINDOW, Samples, busy_lately, sampled


def watched(edges: list[float], until: float, each: float = 10.0) -> tuple[Samples, float]:
    """Samples each ten seconds of a poller that is busy from the first edge to the second, from the third to the

    fourth, and so on; and for how long at the end.
    """

    def busy(at: float) -> float:
        runs = list(pairwise(edges))[::2]
        return sum(max(0.0, min(end, at) - start) for start, end in runs)

    samples: list[list[float]] = [[0.0, 0.0]]
    at = each
    while at < until:
        samples = sampled(samples, at, busy(at))
        at += each
    return samples, busy(until)


@given(st.lists(st.floats(0, 600), unique=True).map(sorted).filter(lambda edges: len(edges) % 2 == 0))
def test_sampled_each_ten_seconds_it_is_what_its_runs_of_the_last_minute_sum_up_to(edges: list[float]) -> None:
    until = 600.0
    samples, busy = watched(edges, until)
    truth = sum(max(0.0, end - max(start, until - WINDOW)) for start, end in list(pairwise(edges))[::2])
    assert abs(busy_lately(samples, until, busy) - truth) < 1e-6
    assert len(samples) <= 8


def test_a_poller_that_was_not_looked_at_is_taken_to_have_been_evenly_busy_and_a_clock_ahead_is_forgotten() -> None:
    assert busy_lately([[0, 0]], 30, 20) == 20  # it started half a minute ago
    assert busy_lately([], 30, 20) == 0  # nothing is known
    assert busy_lately([[0, 0]], 600, 300) == 30  # not looked at for ten minutes
    assert busy_lately([[0, 500], [50, 520]], 60, 5) == 0  # its counter began anew
    assert sampled([[0, 0], [9000, 30]], 70, 35) == [[0, 0], [70, 35]]
