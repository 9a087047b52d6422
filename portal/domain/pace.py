"""How long a composite will take, from how long it took: median and 95th percentile of the next run. Pure.

Measured (tests/unit/test_pace.py): the largest of the last 20 runs covers 95 % of the next ones as long as nothing
drifts, and 89 % when the OLT slows down over the day. So each run is set against the level of the five before it, and
the largest of the last 20 such ratios is applied to the level of now: 93 to 96 % under drift, steps and heavy tails.
Where the level itself has jumped, the first runs after it say how far, not how much the runs spread: their ratios do
not count, or a jump to k times would be expected once more, k times k, for 20 runs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from portal.domain.statuses import NodeKind

JUDGED = 20  # runs whose ratio to their level is looked at
LEVEL = 5  # runs that make a level
KEPT = JUDGED + LEVEL  # durations stored of a node
ENOUGH = 5  # runs from which on a node is known by its own
LONGEST_READS = 300
_STANDING = LEVEL // 2 + 1  # newest runs after which the median of LEVEL has followed a jump
_APART = 1.3  # so many times a level is another level
_NEAREST = 9  # other nodes that a new one is compared with
_FIXED_ONUS = 50  # what every run costs however few ONUs there are, as so many ONUs

# Where nothing of the kind has ever run: milliseconds a run and a (thousand) ONUs, from the simulated OLTs' own pace.
_FIXED_MS = 2_000
_PER_THOUSAND_ONUS_MS: Mapping[NodeKind, int] = {
    NodeKind.DISCOVERY: 6_000,
    NodeKind.GET: 10_000,
    NodeKind.WALK: 6_000,
    NodeKind.TABLE: 500,
    NodeKind.BULK: 15_000,
}
_UNSURE = 3  # p95 of a guess, as a multiple of its p50


@dataclass(frozen=True, slots=True)
class Pace:
    """Expected duration of the next run, and the one that 19 of 20 do not exceed (ms). `runs` it was learned from.

    `judged` runs were predicted before they ran: `covered` of them took no longer than the p95 had said, and the median
    was off by `error_ms` in all.
    """

    p50_ms: int
    p95_ms: int
    runs: int = 0
    judged: int = 0
    covered: int = 0
    error_ms: int = 0

    @property
    def known(self) -> bool:
        """True when it is the node's own, not a guess from others."""
        return self.runs >= ENOUGH

    @property
    def held(self) -> float | None:
        """Share of the judged runs that its p95 covered; None before there are any."""
        return self.covered / self.judged if self.judged else None

    @property
    def off_by_ms(self) -> int:
        """Mean error of its median."""
        return round(self.error_ms / self.judged) if self.judged else 0


def reads(kind: NodeKind, oid: str) -> str:
    """What a pace was learned of: once the node reads something else, it says nothing of it any more."""
    return f"{kind.value}:{oid}"[:LONGEST_READS]


def learn(durations: Sequence[int], new: int) -> list[int]:
    """The stored durations (ms, oldest first) with one more run."""
    return [*durations[-(KEPT - 1) :], max(0, new)]


def predict(durations: Sequence[int]) -> Pace:
    """The pace of the next run after these (ms, oldest first; the last KEPT count). At least one."""
    last = [max(1, each) for each in durations[-KEPT:]]
    level = median(last[-LEVEL:])
    ratios = sorted(_ratios(last))
    if len(last) < ENOUGH:
        return Pace(round(level), round(max(last) * _UNSURE), len(last))
    # Of fewer than 20 the largest is passed too often: it is moved out by a part of their range.
    missing = max(0, JUDGED - len(ratios)) / (2 * JUDGED)
    high = ratios[-1] * (ratios[-1] / ratios[0]) ** missing
    middle = max(1, round(level * median(ratios)))
    return Pace(middle, max(round(level * high), middle), len(last))


def _ratios(last: Sequence[int]) -> list[float]:
    """Each of the last JUDGED runs to the median of up to LEVEL before it, those apart that began another level."""
    first = max(1, len(last) - JUDGED)
    bases = [(at, median(last[max(0, at - LEVEL) : at])) for at in range(first, len(last))]
    kept = [last[at] / base for at, base in bases if not _jumped(last, at, base)]
    return kept or [last[at] / base for at, base in bases]


def _jumped(last: Sequence[int], at: int, base: float) -> bool:
    """Whether all LEVEL runs from `at` on, of the newest the last three, stand clearly above `base`, or below it."""
    after = last[at : at + LEVEL] if at + LEVEL <= len(last) else last[-_STANDING:]
    return len(last) > LEVEL and (min(after) > base * _APART or max(after) * _APART < base)


def usual(durations: Sequence[int], recent: int = 3) -> int:
    """What a run took (ms, median) before the `recent` ones; 0 where there are none before. To say "longer than"."""
    before = durations[:-recent]
    return round(median(before)) if before else 0


def prior(kind: NodeKind, onus: int, others: Collection[tuple[int, Pace]]) -> Pace:
    """The pace of a node that has hardly run, on an OLT of so many ONUs: `runs` = 0.

    `others`: (ONUs of its OLT, pace) of nodes of the same kind that are known. The nearest in size count, each scaled
    to this size; without any a constant of the kind.
    """
    if not others:
        guess = _FIXED_MS + _PER_THOUSAND_ONUS_MS[kind] * onus // 1000
        return Pace(guess, guess * _UNSURE)
    size = onus + _FIXED_ONUS
    nearest = sorted(others, key=lambda other: abs(other[0] - onus))[:_NEAREST]
    scales = [size / (other_onus + _FIXED_ONUS) for other_onus, _ in nearest]
    paces = [pace for _, pace in nearest]
    middle = median(pace.p50_ms * scale for pace, scale in zip(paces, scales, strict=True))
    high = max(pace.p95_ms * scale for pace, scale in zip(paces, scales, strict=True))
    return Pace(round(middle), max(round(high), round(middle)))
