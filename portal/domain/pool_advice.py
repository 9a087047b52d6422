"""How many pollers are enough: the last arrivals, run again through pools of other sizes. Pure.

What waits for its OLT (one composite at a time) waits however many pollers there are, so only the wait for a poller is
judged: from the moment at which the OLT was free for it.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

GOAL_MS = 5_000  # 95 of 100 composites find a poller within so much
_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Arrival:
    """A composite that came to be done: when (ms, any origin), how long it took (ms), on which OLT."""

    at_ms: int
    duration_ms: int
    olt_id: int


@dataclass(frozen=True)
class PoolAdvice:
    """`needed`: the fewest pollers for the goal; waits for a poller (p95, ms) with those and with as many as now."""

    arrivals: int
    busy_ms: int  # of all of them together
    present: int
    present_p95_ms: int | None  # None: there is no poller
    needed: int
    needed_p95_ms: int


def waits(arrivals: Sequence[Arrival], pollers: int) -> list[int]:
    """For each, in order of time: how long (ms) it waits for one of so many pollers. At least one poller."""
    free = [0] * pollers  # heap: when each poller is free
    olt_free: dict[int, int] = {}
    # An OLT is ready when it is free and something waits on it; pollers take the OLT that is ready longest.
    queues: dict[int, deque[Arrival]] = {}
    events = [(one.at_ms, number, one.olt_id) for number, one in enumerate(arrivals)]
    for one in arrivals:
        queues.setdefault(one.olt_id, deque()).append(one)
    heapq.heapify(events)
    found: list[int] = []
    while events:
        ready, number, olt = heapq.heappop(events)
        held = olt_free.get(olt, ready)
        if held > ready:  # its OLT still runs another: it comes again when that ends
            heapq.heappush(events, (held, number, olt))
            continue
        one = queues[olt].popleft()
        start = max(ready, free[0])
        found.append(start - ready)
        end = start + one.duration_ms
        heapq.heapreplace(free, end)
        olt_free[olt] = end
    return found


def p95(values: Sequence[int]) -> int:
    """The value that 95 of 100 do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[-(-len(ordered) * 95 // 100) - 1] if ordered else 0


def advise(arrivals: Sequence[Arrival], present: int) -> PoolAdvice:
    """The fewest pollers with which 95 of 100 find one within GOAL_MS, by bisection. At least one."""
    ordered = sorted(arrivals, key=lambda one: one.at_ms)
    now = p95(waits(ordered, present)) if present else None
    low, high = 1, max(1, len({one.olt_id for one in ordered}))
    while low < high:
        middle = (low + high) // 2
        if _enough(ordered, middle):
            high = middle
        else:
            low = middle + 1
    busy = sum(one.duration_ms for one in ordered)
    return PoolAdvice(len(ordered), busy, present, now, low, p95(waits(ordered, low)))


def _enough(ordered: Sequence[Arrival], pollers: int) -> bool:
    """Whether p95 of the waits is within the goal."""
    late = sum(wait > GOAL_MS for wait in waits(ordered, pollers))
    return late <= len(ordered) * (1 - _SHARE)
