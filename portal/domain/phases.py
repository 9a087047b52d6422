"""Phase advice: where in its interval each master strikes best: those of one OLT apart, the pool level. Pure.

Greedy: one OLT after the other, its heaviest master first, each goes to the second at which its runs meet the least.
The measure is over one hour of one-second buckets: for each OLT the seconds in which two of its masters would want it,
and for all of them the squares of the pollers in use. A move is taken only when it lowers the measure, so that the
whole is never worse than before, by its own measure.

A clock is only ever moved forward, by less than its interval, and only so far that the last slot of the hour that its
next run belongs to stays in that hour: each slot of that hour moves within it, no hour loses one, and no two runs
come closer together than before. A master whose slots lie at the full hour exactly can therefore not be moved.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from operator import sub
from typing import Any

from portal.domain.quota import HOUR, hour_of

SHOWN = 200  # moves that are shown before they are applied
PERIOD = 3600  # seconds; what is longer than an hour strikes once in it
_APART = 1_000_000  # a second that two masters of one OLT both want outweighs whatever the pool gains by it
_ROUNDS = 2  # the second only for an OLT whose masters still meet
_LONGEST = 900  # seconds of a run that are looked at


@dataclass(frozen=True, slots=True)
class PhasedNode:
    """A master with an interval, as the advice sees it. `fixed`: it has a cron line; it is counted, never moved."""

    node_id: int
    olt_id: int
    next_run_at: datetime
    interval_seconds: int
    duration_ms: int
    fixed: bool = False

    @property
    def room(self) -> int:
        """By how many seconds its clock may be moved forward at most."""
        if self.fixed:
            return 0
        end = hour_of(self.next_run_at) + HOUR
        left = int((end - self.next_run_at).total_seconds())
        return min(left % self.interval_seconds, self.interval_seconds - 1)


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of a master inside the period: whole seconds. `step`: between two of them; `first`: its phase."""

    node_id: int
    first: int
    step: int
    seconds: int
    room: int

    @classmethod
    def of(cls, node: PhasedNode) -> "_Runs":
        step = min(node.interval_seconds, PERIOD)
        seconds = max(1, min(_LONGEST, -(-node.duration_ms // 1000), step))
        return cls(node.node_id, int(node.next_run_at.timestamp()) % step, step, seconds, node.room)


@dataclass(frozen=True)
class Measure:
    """Seconds of an hour in which masters of one OLT meet, and pollers in use: at most, and mean of their squares.

    Where three meet in a second it is one second, but three `meetings`: each two of them.
    """

    meeting_seconds: int
    meetings: int
    peak: int
    unevenness: float

    @property
    def cost(self) -> float:
        """What the advice lowers."""
        return self.meetings * 2 * _APART + self.unevenness * PERIOD


@dataclass(frozen=True)
class Advice:
    """Node id → seconds to move its clock forward (those to be moved only), and the measure before and after."""

    shifts: Mapping[int, int]
    before: Measure
    after: Measure
    stuck: int  # masters that meet others and cannot be moved without losing a slot

    @property
    def helps(self) -> bool:
        """True when there is something to apply."""
        return bool(self.shifts)


def advice_to_json(advice: Advice) -> dict[str, Any]:
    """As it is stored."""
    return {
        "shifts": {str(node): shift for node, shift in advice.shifts.items()},
        "before": asdict(advice.before), "after": asdict(advice.after), "stuck": advice.stuck,
    }  # fmt: skip


def advice_from_json(stored: Mapping[str, Any]) -> Advice:
    """What `advice_to_json` made."""
    shifts = {int(node): shift for node, shift in stored["shifts"].items()}
    return Advice(shifts, Measure(**stored["before"]), Measure(**stored["after"]), stored["stuck"])


def advise(nodes: Iterable[PhasedNode], olt_ids: Collection[int] | None = None) -> Advice:
    """For all OLTs together. A second or two for a thousand OLTs of eight masters.

    `olt_ids`: only masters of these are moved, and only theirs are said to meet or to be stuck; the pool is of all.
    """
    olts = _by_olt(nodes)
    asked = {olt: members for olt, members in olts.items() if olt_ids is None or olt in olt_ids}
    return _advise(asked, _levels(olts, {}))


def advise_within(nodes: Iterable[PhasedNode], pool: Sequence[int]) -> Advice:
    """For some OLTs, where it is known how the pool is used: `pool` as `levels` has it, these OLTs among them."""
    return _advise(_by_olt(nodes), list(pool))


def levels(nodes: Iterable[PhasedNode], shifts: Mapping[int, int]) -> list[int]:
    """Pollers in use in each second of an hour, clocks moved by `shifts` (node id → seconds)."""
    return _levels(_by_olt(nodes), shifts)


def _advise(asked: Mapping[int, Sequence[_Runs]], pool: list[int]) -> Advice:
    """`pool` is changed to what it would be."""
    shifts: dict[int, int] = {}
    before = _measure(asked, pool, shifts)
    for members in asked.values():
        _place(members, pool, shifts)
    after = _measure(asked, pool, shifts)
    moved = {node: shift for node, shift in shifts.items() if shift}
    stuck = sum(_meets(runs, members, shifts) for members in asked.values() for runs in members if not runs.room)
    return Advice(moved, before, after, stuck)


def _levels(olts: Mapping[int, Sequence[_Runs]], shifts: Mapping[int, int]) -> list[int]:
    pool = [0] * PERIOD
    for members in olts.values():
        for runs in members:
            _add(pool, runs, shifts.get(runs.node_id, 0), 1)
    return pool


def _by_olt(nodes: Iterable[PhasedNode]) -> dict[int, list[_Runs]]:
    olts: dict[int, list[_Runs]] = {}
    for node in nodes:
        olts.setdefault(node.olt_id, []).append(_Runs.of(node))
    return olts


def measure(
    nodes: Iterable[PhasedNode], shifts: Mapping[int, int], olt_ids: Collection[int] | None = None
) -> Measure:  # fmt: skip
    """Of these nodes, with their clocks moved by `shifts` (node id → seconds); meetings of these OLTs only."""
    olts = _by_olt(nodes)
    asked = {olt: members for olt, members in olts.items() if olt_ids is None or olt in olt_ids}
    return _measure(asked, _levels(olts, shifts), shifts)


def _measure(asked: Mapping[int, Sequence[_Runs]], pool: Sequence[int], shifts: Mapping[int, int]) -> Measure:
    seconds = meetings = 0
    for members in asked.values():
        own = [0] * PERIOD
        for runs in members:
            _add(own, runs, shifts.get(runs.node_id, 0), 1)
        if max(own) > 1:
            met = [each for each in own if each > 1]
            seconds += len(met)
            meetings += sum(each * (each - 1) // 2 for each in met)
    return Measure(seconds, meetings, max(pool), sum(each * each for each in pool) / PERIOD)


class Spread:
    """First runs of new masters, one after the other: each where the pool, and its OLT, have least to do."""

    def __init__(self, known: Iterable[PhasedNode]) -> None:
        self._pool = [0] * PERIOD
        self._own: dict[int, list[_Runs]] = {}
        for node in known:
            self._count(node.olt_id, _Runs.of(node))

    def place(self, olt_id: int, first: datetime, interval_seconds: int, duration_ms: int, choices: int) -> datetime:
        """One of the `choices` seconds from `first` on; the first of equals. It is counted from then on."""
        runs = _Runs.of(PhasedNode(0, olt_id, first, interval_seconds, duration_ms))
        both = self._pool.copy()
        for other in self._own.get(olt_id, ()):
            _add(both, other, 0, _APART)
        costs = _costs(both, runs.step, runs.seconds, runs.first)[:choices]
        found = first + timedelta(seconds=costs.index(min(costs)))
        self._count(olt_id, _Runs.of(PhasedNode(0, olt_id, found, interval_seconds, duration_ms)))
        return found

    def _count(self, olt_id: int, runs: _Runs) -> None:
        _add(self._pool, runs, 0, 1)
        self._own.setdefault(olt_id, []).append(runs)


def _add(pool: list[int], runs: _Runs, shift: int, count: int) -> None:
    for lap in _laps(runs.step):
        start = (runs.first + shift + lap) % PERIOD
        end = start + runs.seconds
        pool[start:end] = [level + count for level in pool[start:end]]  # one past the end of the hour goes on …
        for second in range(end - PERIOD):  # … at its beginning
            pool[second] += count


def _costs(pool: Sequence[int], step: int, seconds: int, phase: int) -> list[int]:
    """For each shift from `phase`: the levels that its runs would meet, added up. Folded first, so that it is fast."""
    turned = [*pool[phase:], *pool[:phase]] * 2
    folded = [sum(levels) for levels in zip(*(turned[at : at + step + seconds] for at in _laps(step)), strict=True)]
    sums = [0, *accumulate(folded)]
    return list(map(sub, sums[seconds:], sums))[:step]


def _laps(step: int) -> range:
    return range(0, step * (PERIOD // step), step)


def _place(members: Sequence[_Runs], pool: list[int], shifts: dict[int, int]) -> None:
    """Move the masters of one OLT to where they meet least, the heaviest first."""
    movable = sorted((runs for runs in members if runs.room), key=lambda runs: -runs.seconds / runs.step)
    if not movable:
        return
    both = pool.copy()  # the pool, and in it this OLT's own runs with their weight
    for runs in members:
        _add(both, runs, 0, _APART)
    for _ in range(_ROUNDS):
        if not sum([_move(runs, both, pool, shifts) for runs in movable]):
            return


def _move(runs: _Runs, both: list[int], pool: list[int], shifts: dict[int, int]) -> bool:
    """One master to the first of its best places; True where it may still meet others of its OLT there."""
    was = shifts.get(runs.node_id, 0)
    _add(both, runs, was, -1 - _APART)
    costs = _costs(both, runs.step, runs.seconds, runs.first)[: runs.room + 1]
    cheapest = min(costs)
    best = was if costs[was] == cheapest else costs.index(cheapest)
    _add(both, runs, best, 1 + _APART)
    if best != was:
        _add(pool, runs, was, -1)
        _add(pool, runs, best, 1)
        shifts[runs.node_id] = best
    return costs[best] >= _APART


def _meets(runs: _Runs, members: Sequence[_Runs], shifts: Mapping[int, int]) -> bool:
    own = [0] * PERIOD
    for other in members:
        if other is not runs:
            _add(own, other, shifts.get(other.node_id, 0), 1)
    starts = (runs.first + lap for lap in _laps(runs.step))
    return any(own[second % PERIOD] for start in starts for second in range(start, start + runs.seconds))
