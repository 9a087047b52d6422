"""The prediction of durations: how often the next run stays below its p95, whatever the OLT's pace does."""

import math
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from portal.domain import pace
from portal.domain.pace import KEPT, Pace, learn, predict, prior
from portal.domain.statuses import NodeKind
from testing.tables import differing

RUNS = 3000
USUAL = 8000

Level = Callable[[int, random.Random], float]


def sine(amplitude: float, period: int) -> Level:
    return lambda run, _: 1 + amplitude * math.sin(2 * math.pi * run / period)


def stepping(run: int, _: random.Random) -> float:
    return (1, 1.7, 1.2, 0.8)[run // 250 % 4]


def wandering(step: float) -> Level:
    at = 0.0

    def level(_: int, chance: random.Random) -> float:
        nonlocal at
        at = max(-1.5, min(1.5, at + chance.gauss(0, step)))
        return math.exp(at)

    return level


def noise(sigma: float) -> Callable[[random.Random], float]:
    return lambda chance: math.exp(chance.gauss(0, sigma))


def heavy(chance: random.Random) -> float:
    return 0.7 + 0.3 * chance.paretovariate(1.5)


def durations(level: Level, spread: Callable[[random.Random], float], seed: int) -> Iterator[int]:
    chance, run = random.Random(seed), 0  # noqa: S311  (no secret)
    while True:
        yield round(USUAL * level(run, chance) * spread(chance))
        run += 1


def flat(_run: int, _chance: random.Random) -> float:
    return 1


PATTERNS = {
    "independent, lognormal": (flat, noise(0.25)),
    "independent, nearly constant": (flat, noise(0.03)),
    "a slow wave of 30 % over a day": (sine(0.3, 288), noise(0.1)),
    "the same with little noise": (sine(0.3, 288), noise(0.03)),
    "a wave of 30 % over eight hours": (sine(0.3, 96), noise(0.1)),
    "a random walk": (wandering(0.05), noise(0.05)),
    "steps as after ONUs were added": (stepping, noise(0.1)),
    "heavy tails": (flat, heavy),
}


def coverage(series: Iterator[int]) -> float:
    """Percent of RUNS that took no longer than the p95 from the runs before."""
    known = [next(series) for _ in range(KEPT)]
    covered = 0
    for _ in range(RUNS):
        expected, real = predict(known), next(series)
        covered += real <= expected.p95_ms
        known = learn(known, real)
    return 100 * covered / RUNS


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_p95_covers_93_to_97_percent_of_the_next_runs(pattern: str) -> None:
    level, spread = PATTERNS[pattern]
    assert 93 <= coverage(durations(level, spread, seed=5)) <= 97


@pytest.mark.slow
@pytest.mark.parametrize("runs", [5, 8, 12, 20])
def test_few_runs_already_cover_nearly_as_much(runs: int) -> None:
    covered = 0
    for seed in range(RUNS):
        series = durations(flat, noise(0.2), seed)
        covered += predict([next(series) for _ in range(runs)]).p95_ms >= next(series)
    assert 89 <= 100 * covered / RUNS <= 98


def test_the_median_follows_a_drift() -> None:
    series = [round(8000 * 1.02**run) for run in range(60)]
    assert predict(series).p50_ms == pytest.approx(series[-1] * 1.02, rel=0.05)


@pytest.mark.parametrize("times", [1.5, 3, 8])
def test_a_jump_is_not_expected_once_more(times: float) -> None:
    new = round(5_000 * times)
    found = [predict([5_000] * 20 + [new] * after) for after in range(3, 23)]
    assert {(expected.p50_ms, expected.p95_ms) for expected in found} == {(new, new)}


def test_after_a_jump_the_spread_of_before_still_counts() -> None:
    before = [5_000, 5_200, 4_800, 5_100, 4_900] * 4
    expected = predict([*before, *(8 * each for each in before[:6])])
    assert 40_000 < expected.p95_ms < 46_000


def test_what_little_is_known_is_predicted_without_guessing() -> None:
    cases = {
        "a single slow run is no jump": (predict([*[5_000] * 20, 20_000, *[5_000] * 6]).p95_ms, 20_000),
        "one run says what is expected but little of how bad it can be": (predict([4000]), Pace(4000, 12_000, 1)),
        "and counts as unknown": (predict([4000]).known, False),
        "the same duration each time is predicted exactly": (predict([700] * 30), Pace(700, 700, KEPT)),
        "the usual leaves the recent runs out": (pace.usual([5000] * 10 + [45_000] * 3), 5000),
        "and is not known of recent runs only": (pace.usual([45_000]), 0),
    }
    assert differing(cases) == {}


def test_no_more_durations_are_kept_than_are_used() -> None:
    stored: list[int] = []
    for run in range(100):
        stored = learn(stored, run)
    assert stored == list(range(100 - KEPT, 100))


@pytest.mark.slow
@given(st.lists(st.integers(0, 10_000_000), min_size=1, max_size=60))
@example([5, 0, 0, 2, 0])
def test_the_p95_is_never_below_the_median(given_durations: list[int]) -> None:
    expected = predict(given_durations)
    assert 0 < expected.p50_ms <= expected.p95_ms


@pytest.mark.slow
@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=60))
def test_only_the_kept_runs_count(given_durations: list[int]) -> None:
    assert predict(given_durations) == predict(given_durations[-KEPT:])


def test_a_new_node_is_as_slow_as_its_like_on_olts_of_its_size_and_slower_on_a_larger_one() -> None:
    others = [(1000, Pace(10_000, 15_000, 25)), (1020, Pace(11_000, 14_000, 25)), (980, Pace(9_000, 16_000, 25))]
    guess = prior(NodeKind.GET, 1000, others)
    assert 9_000 < guess.p50_ms < 11_000 and 15_000 < guess.p95_ms < 17_000 and not guess.known
    assert prior(NodeKind.GET, 950, [(100, Pace(3_000, 5_000, 25))]).p50_ms == 20_000


def test_without_any_other_the_kind_and_the_onus_decide() -> None:
    small, large = prior(NodeKind.GET, 100, ()), prior(NodeKind.GET, 2000, ())
    assert small.p50_ms < large.p50_ms < large.p95_ms
    assert prior(NodeKind.TABLE, 2000, ()).p50_ms < large.p50_ms
