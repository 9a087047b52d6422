"""Whether an OLT can keep what its workflow promises: busy share of the hour, delays, failing quotas. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from portal.domain import plans
from portal.domain.pace import Pace
from portal.domain.plans import PlannedSlot, PlanNode
from portal.domain.quota import HOUR, MET

TIGHT_ABOVE = 0.75
IMPOSSIBLE_ABOVE = 1.00


class Verdict(StrEnum):
    """How an OLT's work fits into the hour."""

    FITS = "fits"
    TIGHT = "tight"
    IMPOSSIBLE = "impossible"


class Kept(NamedTuple):
    """Slots of an hour that run in time, of those promised."""

    runs: int
    required: int

    @property
    def kept(self) -> bool:
        return self.runs >= self.required * MET


@dataclass(frozen=True)
class NodeLoad:
    """What one master asks of its OLT. `share` of the hour by its p95; delays in ms as the plan expects them."""

    node_id: int
    key: str
    task_type: str
    runs_per_hour: float
    p50_ms: int
    p95_ms: int
    pace: Pace
    share: float
    delay_ms: int
    longest_delay_ms: int
    lost: int  # slots of an hour that will not run

    @property
    def known(self) -> bool:
        """Its own pace, not a guess."""
        return self.pace.known


@dataclass(frozen=True)
class Feasibility:
    """One OLT. `failing`: task types that will miss their quota; `endangered`: those that miss it in a slow hour."""

    share: float
    verdict: Verdict
    nodes: tuple[NodeLoad, ...]
    failing: tuple[str, ...]
    endangered: tuple[str, ...]
    blame: NodeLoad | None  # None when it fits


def busy_share(nodes: Sequence[PlanNode], start: datetime) -> float:
    """Sum of runs × p95 of an hour, as a share of it."""
    return sum(_share(node, start) for node in nodes)


def verdict(share: float) -> Verdict:
    """More than 75 % of the hour is tight, more than all of it impossible."""
    if share > IMPOSSIBLE_ABOVE:
        return Verdict.IMPOSSIBLE
    return Verdict.TIGHT if share > TIGHT_ABOVE else Verdict.FITS


def runs_per_hour(node: PlanNode, start: datetime) -> float:
    """By the interval, or the firings of a cron line in the hour after `start`."""
    if node.next_run_at is None:
        return 0.0
    if node.interval_seconds is not None:
        return 3600 / node.interval_seconds
    return float(sum(start < at <= start + HOUR for at in node.times))


def _share(node: PlanNode, start: datetime) -> float:
    return runs_per_hour(node, start) * node.pace.p95_ms / 3_600_000


def assess(nodes: Sequence[PlanNode], start: datetime) -> Feasibility:
    """From `start` on. The hour that is judged begins when all clocks have struck once, two hours later at most.

    So that nodes just enabled do not look idle. A cron line's `times` reach three hours ahead.
    """
    clocked = [node for node in nodes if node.next_run_at is not None]
    first = max((node.next_run_at for node in clocked if node.next_run_at), default=start)
    begin = min(max(first, start) - timedelta(seconds=1), start + 2 * HOUR)
    usual, slow = (_hour(clocked, start, begin, slow=slow) for slow in (False, True))
    loads = tuple(_load(node, begin, usual) for node in clocked)
    total = sum(load.share for load in loads)
    worst = max(loads, key=lambda load: load.share, default=None)
    fits = verdict(total) is Verdict.FITS
    failing = _failing(clocked, usual)
    endangered = tuple(one for one in _failing(clocked, slow) if one not in failing)
    return Feasibility(total, verdict(total), loads, failing, endangered, None if fits and not failing else worst)


def _hour(nodes: Sequence[PlanNode], start: datetime, begin: datetime, *, slow: bool) -> list[PlannedSlot]:
    slots = plans.simulate(nodes, start, begin + HOUR, slow=slow)
    return [slot for slot in slots if begin < slot.scheduled_for <= begin + HOUR]


def _load(node: PlanNode, begin: datetime, slots: Sequence[PlannedSlot]) -> NodeLoad:
    own = [slot for slot in slots if slot.node_id == node.node_id]
    waits = [slot.wait_ms for slot in own if slot.lost is None]
    return NodeLoad(
        node.node_id, node.key, node.task_type, runs_per_hour(node, begin), node.pace.p50_ms, node.pace.p95_ms,
        node.pace, _share(node, begin), round(sum(waits) / len(waits)) if waits else 0, max(waits, default=0),
        sum(slot.lost is not None for slot in own),
    )  # fmt: skip


def _failing(nodes: Sequence[PlanNode], slots: Sequence[PlannedSlot]) -> tuple[str, ...]:
    types = {node.node_id: node.task_type for node in nodes}
    promised: dict[str, Kept] = {}
    for slot in slots:
        kept = promised.get(types[slot.node_id], Kept(0, 0))
        promised[types[slot.node_id]] = Kept(kept.runs + (slot.lost is None), kept.required + 1)
    return tuple(task for task, kept in promised.items() if not kept.kept)


def starting(node: PlanNode, now: datetime) -> PlanNode:
    """A node that has no clock yet, as if it had been saved now."""
    first = now + timedelta(seconds=60)
    if node.next_run_at is not None:
        return node
    return replace(node, next_run_at=first if node.interval_seconds else min(node.times, default=None))
