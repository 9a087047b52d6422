"""How an hour will end: what is completed, what the rest of its plan will bring, and to what others are lost. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from portal.domain.messages import N_, Message
from portal.domain.plans import PlannedSlot, PlanNode
from portal.domain.quota import Counts
from portal.domain.statuses import LossCause
from portal.domain.words import LOSSES

NOTABLE_MS = 5_000  # a run is longer than usual from so much on …
NOTABLE_SHARE = 1.1  # … and by more than so much of the usual
_FAILURES = frozenset(
    {LossCause.TIMEOUT, LossCause.UNREACHABLE, LossCause.DEVICE, LossCause.WORKER_LOST, LossCause.INTERNAL}
)
_CROWDED = frozenset({LossCause.OLT_BUSY, LossCause.OVERRUN})


@dataclass(frozen=True)
class Open:
    """A tracker in the middle of its hour. `losses`: its lost slots so far by cause.

    `failing`: the share of its recent runs that failed, 0 to 1.
    """

    task_type: str
    counts: Counts
    losses: Mapping[LossCause, int] = field(default_factory=dict)
    failing: float = 0.0


@dataclass(frozen=True)
class Slower:
    """By how much a node runs longer than usual, and what part of the OLT's time it takes."""

    key: str
    above_ms: int
    usual_ms: int
    share_ms: int

    @property
    def notable(self) -> bool:
        return self.above_ms >= NOTABLE_MS and self.usual_ms + self.above_ms > self.usual_ms * NOTABLE_SHARE


@dataclass(frozen=True)
class Forecast:
    """Expected completed of required, and why not all. `node`: whose runs crowd the OLT; `seconds`: above its usual."""

    task_type: str
    completed: int
    required: int
    cause: LossCause | None = None
    node: str = ""
    seconds: int = 0

    @property
    def share(self) -> float:
        """0 to 1; 1 when nothing was promised."""
        return self.completed / self.required if self.required else 1.0

    def as_json(self) -> dict[str, Any]:
        """For the tracker's `forecast_details`."""
        return {"cause": self.cause.value if self.cause else None, "node": self.node, "seconds": self.seconds}


def from_json(task_type: str, completed: int, required: int, stored: Mapping[str, Any]) -> Forecast:
    """A stored forecast."""
    cause = LossCause(stored["cause"]) if stored["cause"] else None
    return Forecast(task_type, completed, required, cause, stored["node"], stored["seconds"])


def sentence(of: Forecast) -> Message:
    """`will end at 9 of 12: discovery runs 40 s longer than usual`."""
    so = {"completed": of.completed, "required": of.required}
    if of.cause is None:
        return N_("will end at %(completed)d of %(required)d", **so)
    if of.node and of.seconds:
        return N_("will end at %(completed)d of %(required)d: %(node)s runs %(seconds)d s longer than usual",
                  **so, node=of.node, seconds=of.seconds)  # fmt: skip
    if of.node:
        return N_("will end at %(completed)d of %(required)d: %(cause)s, most of its time goes to %(node)s",
                  **so, cause=LOSSES[of.cause], node=of.node)  # fmt: skip
    return N_("will end at %(completed)d of %(required)d: %(cause)s", **so, cause=LOSSES[of.cause])


def slower(node: PlanNode, usual_ms: int, runs: int) -> Slower:
    """How a node's present pace stands to what it usually takes; `usual_ms` 0 = nothing to compare with."""
    above = node.pace.p50_ms - usual_ms if usual_ms else 0
    return Slower(node.key, max(0, above), usual_ms, node.pace.p50_ms * runs)


def forecast(
    trackers: Iterable[Open], task_types: Mapping[int, str], rest: Sequence[PlannedSlot], slow: Sequence[Slower],
    close_at: datetime, blocked: LossCause | None = None,
) -> list[Forecast]:  # fmt: skip
    """Of each open tracker of one OLT.

    `task_types`: of each node. `rest`: the simulated rest of the hour, with what waits now. What starts but would not
    end until `close_at` is not completed in time. `blocked`: nothing of the OLT runs any more, for this cause.
    """
    lost: dict[str, Counter[LossCause]] = {}
    for slot in rest:
        cause = slot.lost or (None if (slot.expected_end or close_at) <= close_at else LossCause.OLT_BUSY)
        if cause is not None and slot.node_id in task_types:
            lost.setdefault(task_types[slot.node_id], Counter())[cause] += 1
    return [_of(one, lost.get(one.task_type, Counter()), slow, blocked) for one in trackers]


def _of(one: Open, coming: Counter[LossCause], slow: Sequence[Slower], blocked: LossCause | None) -> Forecast:
    counts = one.counts
    if blocked is not None:
        coming = Counter({blocked: counts.pending})
    runs = max(0, counts.pending - coming.total())
    failures = round(runs * one.failing)
    completed = counts.completed + runs - failures
    if completed >= counts.required:
        return Forecast(one.task_type, completed, counts.required)
    all_lost = Counter(one.losses) + coming
    all_lost[_way_of_failing(one)] += failures
    cause = max(all_lost, key=lambda each: all_lost[each])
    node, seconds = _to_blame(slow) if cause in _CROWDED else ("", 0)
    return Forecast(one.task_type, completed, counts.required, cause, node, seconds)


def _way_of_failing(one: Open) -> LossCause:
    seen = {cause: lost for cause, lost in one.losses.items() if cause in _FAILURES}
    return max(seen, key=lambda cause: seen[cause]) if seen else LossCause.DEVICE


def _to_blame(slow: Sequence[Slower]) -> tuple[str, int]:
    """The node that is most above its usual over the hour; if none is, the one that takes most of the OLT's time."""
    notable = [one for one in slow if one.notable]
    if notable:
        worst = max(notable, key=lambda one: one.above_ms * one.share_ms / max(1, one.usual_ms + one.above_ms))
        return worst.key, round(worst.above_ms / 1000)
    return (max(slow, key=lambda one: one.share_ms).key, 0) if slow else ("", 0)
