"""Whether an OLT can keep what its workflow promises: busy share of the hour, delays, failing quotas. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
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
    name: str
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
    """One OLT. `failing`: task types that will miss their quota; `endangered`: those that miss it in a slow hour.

    `blame`: None when it fits; `blocks`: it does not take too much of the hour, but too long at once.
    """

    share: float
    verdict: Verdict
    nodes: tuple[NodeLoad, ...]
    failing: tuple[str, ...]
    endangered: tuple[str, ...]
    blame: NodeLoad | None
    blocks: bool = False

    @property
    def keeps(self) -> bool:
        """Whether every promise can be kept, as far as it was looked at."""
        return self.verdict is not Verdict.IMPOSSIBLE and not self.failing


def busy_share(nodes: Sequence[PlanNode], start: datetime) -> float:
    """Sum of runs × p95 of the hour that is judged, as a share of it."""
    begin = judged_from(nodes, start)
    return sum(_share(node, begin) for node in nodes)


def judged_from(nodes: Sequence[PlanNode], start: datetime) -> datetime:
    """The beginning of the hour that is judged: when all clocks have struck once, two hours after `start` at most.

    So that nodes just enabled do not look idle. A cron line's `times` reach three hours ahead.
    """
    first = max((node.next_run_at for node in nodes if node.next_run_at), default=start)
    return min(max(first, start) - timedelta(seconds=1), start + 2 * HOUR)


def may_lose(nodes: Sequence[PlanNode]) -> bool:
    """Whether the runs of others, one after the other, may keep a node from its OLT for longer than its interval."""
    clocked = [node for node in nodes if node.next_run_at is not None]
    total = sum(node.pace.p95_ms for node in clocked)
    gaps = ((node, _gap(node)) for node in clocked)
    return any(gap is not None and total - node.pace.p95_ms > 1000 * gap for node, gap in gaps)


def _gap(node: PlanNode) -> float | None:
    """Seconds between two of its runs; of a cron line between the next two. None: it runs once at most."""
    if node.interval_seconds is not None:
        return node.interval_seconds
    return (node.times[1] - node.times[0]).total_seconds() if len(node.times) > 1 else None


def verdict(share: float) -> Verdict:
    """More than 75 % of the hour is tight, more than all of it impossible."""
    if share > IMPOSSIBLE_ABOVE:
        return Verdict.IMPOSSIBLE
    return Verdict.TIGHT if share > TIGHT_ABOVE else Verdict.FITS


def runs_per_hour(node: PlanNode, start: datetime) -> float:
    """By the interval, or the firings of a cron line in the hour after `start`; of a rare one on average, too."""
    if node.next_run_at is None:
        return 0.0
    gap = _gap(node)
    if gap is not None and (node.interval_seconds is not None or gap > HOUR.total_seconds()):
        return 3600 / gap
    return float(sum(start < at <= start + HOUR for at in node.times))


def _share(node: PlanNode, start: datetime) -> float:
    return runs_per_hour(node, start) * node.pace.p95_ms / 3_600_000


def assess(nodes: Sequence[PlanNode], start: datetime) -> Feasibility:
    """From `start` on, by the hour that `judged_from` says. Where a quota fails it is TIGHT at least."""
    clocked = [node for node in nodes if node.next_run_at is not None]
    begin = judged_from(clocked, start)
    usual, slow = (_hour(clocked, start, begin, slow=slow) for slow in (False, True))
    loads = tuple(_load(node, begin, usual) for node in clocked)
    total = sum(load.share for load in loads)
    failing = _failing(clocked, usual)
    endangered = tuple(one for one in _failing(clocked, slow) if one not in failing)
    fits = verdict(total) is Verdict.FITS
    blame = None if fits and not failing else _to_blame(loads, failing, blocks=fits)
    found = Verdict.TIGHT if fits and failing else verdict(total)
    return Feasibility(total, found, loads, failing, endangered, blame, fits and blame is not None)


def _to_blame(loads: Sequence[NodeLoad], failing: Sequence[str], *, blocks: bool) -> NodeLoad | None:
    """Who takes most of the hour; where there is enough of it, who holds the OLT for longest at once."""
    if not blocks:
        return max(loads, key=lambda load: load.share, default=None)
    others = [load for load in loads if load.task_type not in failing]
    return max(others or loads, key=lambda load: load.p50_ms, default=None)


def _hour(nodes: Sequence[PlanNode], start: datetime, begin: datetime, *, slow: bool) -> list[PlannedSlot]:
    slots = plans.simulate(nodes, start, begin + HOUR, slow=slow)
    return [slot for slot in slots if begin < slot.scheduled_for <= begin + HOUR]


def _load(node: PlanNode, begin: datetime, slots: Sequence[PlannedSlot]) -> NodeLoad:
    own = [slot for slot in slots if slot.node_id == node.node_id]
    waits = [slot.wait_ms for slot in own if slot.lost is None]
    return NodeLoad(
        node.node_id, node.key, node.name or node.key, node.task_type, runs_per_hour(node, begin), node.pace.p50_ms,
        node.pace.p95_ms, node.pace, _share(node, begin), round(sum(waits) / len(waits)) if waits else 0,
        max(waits, default=0), sum(slot.lost is not None for slot in own),
    )  # fmt: skip


def _failing(nodes: Sequence[PlanNode], slots: Sequence[PlannedSlot]) -> tuple[str, ...]:
    types = {node.node_id: node.task_type for node in nodes}
    promised: dict[str, Kept] = {}
    for slot in slots:
        kept = promised.get(types[slot.node_id], Kept(0, 0))
        promised[types[slot.node_id]] = Kept(kept.runs + (slot.lost is None), kept.required + 1)
    return tuple(task for task, kept in promised.items() if not kept.kept)
