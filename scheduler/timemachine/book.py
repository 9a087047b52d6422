"""The whole history of every slot, for small worlds: what became of it, who held its OLT, whether all adds up. Pure.

The grid is reckoned here from the clocks alone, not from what the machine decided.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from portal.domain import quota, schedule
from portal.domain.quota import Counts, Settlement, TrackerKey
from portal.domain.slots import SkippedSlots
from portal.domain.statuses import TERMINAL, LossCause, SkipReason
from scheduler.timemachine.ledger import TICK, Times
from scheduler.timemachine.world import Hold, Node, Run

Kept = TypeVar("Kept")
SECOND = timedelta(seconds=1)


class Trouble(StrEnum):
    """What can be so for a while: of the whole (id 0), of an OLT, or of a node."""

    DOWN = "down"  # nothing ticks
    FULL = "full"  # no poller is free
    SILENT = "silent"
    PAUSED = "paused"
    UNREACHABLE = "unreachable"
    OLT_OFF = "olt_off"
    NODE_OFF = "node_off"


@dataclass
class Span:
    """From when to when it was so; `until` None: it still is."""

    since: datetime
    until: datetime | None = None


@dataclass(frozen=True)
class Skip:
    """What a tick logged of slots that do not run. `active_id`: the node's execution that was alive then."""

    node: Node
    reason: SkipReason
    first: datetime
    last: datetime
    count: int
    decided_at: datetime
    facts: dict[str, Any]
    slots: tuple[datetime, ...]
    active_id: int | None


@dataclass
class Segment:
    """A clock between two changes: its slots from `first` on. `stopped_at`, `next_then`: when and where it stood."""

    node: Node
    first: datetime
    interval_seconds: int | None
    cron: str | None
    stopped_at: datetime | None = None
    next_then: datetime | None = None


@dataclass
class Book:
    """Everything that happened. Grows with time."""

    times: Times
    segments: list[Segment] = field(default_factory=list)
    clocks: dict[int, Segment] = field(default_factory=dict)
    runs: dict[tuple[int, datetime], list[Run]] = field(default_factory=lambda: defaultdict(list))
    skips: list[Skip] = field(default_factory=list)
    skipped: dict[tuple[int, datetime], list[Skip]] = field(default_factory=lambda: defaultdict(list))
    holds: dict[int, list[Hold]] = field(default_factory=lambda: defaultdict(list))  # OLT → tries, in order
    spans: dict[tuple[Trouble, int], list[Span]] = field(default_factory=lambda: defaultdict(list))
    pool: list[tuple[datetime, int]] = field(default_factory=list)  # (moment, free pollers) each 10 s
    folded: datetime | None = None  # slots up to then are forgotten

    def clock(self, node: Node, moment: datetime | None, now: datetime) -> None:
        """A clock is about to move off its grid to `moment`; `node` still says where it stands."""
        old = self.clocks.pop(node.node_id, None)
        if old is not None:
            old.stopped_at, old.next_then = now, node.next_run_at
            if moment is not None and moment <= now:  # the slot of this second is the new clock's first
                old.stopped_at = moment - TICK

    def wound(self, node: Node) -> None:
        """It has moved."""
        if node.next_run_at is not None:
            made = Segment(node, node.next_run_at, node.interval_seconds, node.cron)
            self.clocks[node.node_id] = made
            self.segments.append(made)

    def take(self, run: Run) -> None:
        """A slot became an execution."""
        self.runs[run.node.node_id, run.scheduled_for].append(run)

    def skip(self, node: Node, one: SkippedSlots, now: datetime) -> None:
        """Slots were skipped, before their clock moved on."""
        slots, active = tuple(self._between(node, one.first, one.last)), one.master.active_id
        made = Skip(node, one.reason, one.first, one.last, one.count, now, dict(one.facts), slots, active)
        self.skips.append(made)
        for slot in slots:
            self.skipped[node.node_id, slot].append(made)

    def _between(self, node: Node, first: datetime, last: datetime) -> Iterator[datetime]:
        if node.cron:
            yield from self.times(node.cron, first - TICK, last)
        elif node.interval_seconds:
            slot = first
            while slot <= last:
                yield slot
                slot += timedelta(seconds=node.interval_seconds)

    def hold(self, run: Run, now: datetime) -> None:
        """A try has let its OLT go."""
        if run.started_at is not None:
            node = run.node
            self.holds[node.olt.olt_id].append(Hold(run.execution_id, node.node_id, node.key, run.started_at, now))

    def turn(self, trouble: Trouble, ident: int, on: bool, now: datetime) -> None:
        """It begins to be so, or ends."""
        spans = self.spans[trouble, ident]
        lasts = bool(spans) and spans[-1].until is None
        if on and not lasts:
            spans.append(Span(now))
        elif not on and lasts:
            spans[-1].until = now

    def fold(self, before: datetime) -> None:
        """Forget every slot up to a moment, and who held which OLT then. Nothing of them may be alive."""
        self.runs = _since(self.runs, before)
        self.skipped = _since(self.skipped, before)
        self.skips = [skip for skip in self.skips if skip.last > before]
        self.pool = [sample for sample in self.pool if sample[0] > before]
        for olt, holds in self.holds.items():
            self.holds[olt] = [hold for hold in holds if hold.until is None or hold.until > before]
        self.segments = [one for one in self.segments if one.stopped_at is None or one.stopped_at > before]
        for one in self.segments:
            if one.interval_seconds:
                one.first = schedule.next_on_grid(one.first, one.interval_seconds, before)
            else:
                one.first = max(one.first, before + 2 * TICK)
        self.folded = before

    # Judgement

    def wrong_slots(self, now: datetime) -> list[str]:
        """Slots of the grid that are not in exactly one state, and states that lie off the grid."""
        ticked = self.ticked(now)
        grid = Counter(slot for segment in self.segments for slot in self._slots(segment, now, ticked))
        ways: Counter[tuple[int, datetime]] = Counter()
        for kept in (self.runs, self.skipped):
            ways.update({slot: len(found) for slot, found in kept.items()})
        ways = Counter({slot: count for slot, count in ways.items() if count})
        return [
            f"node {node} slot {moment:%d %H:%M:%S}: {grid[node, moment]} on the grid, {ways[node, moment]} states"
            for node, moment in sorted(grid.keys() | ways.keys())
            if (grid[node, moment], ways[node, moment]) != (1, 1)
        ]

    def ticked(self, now: datetime) -> datetime:
        """The last second that a scheduler must have decided, going by its own ups and downs alone."""
        downs, whole = self.spans[Trouble.DOWN, 0][-1:], now.replace(microsecond=0)
        for down in downs:
            if down.until is None or down.until > whole:
                whole = down.since.replace(microsecond=0)
                return whole - SECOND if whole == down.since else whole
        return whole

    def _slots(self, segment: Segment, now: datetime, ticked: datetime) -> Iterator[tuple[int, datetime]]:
        """The slots that a clock came to, by arithmetic: those it had passed, and those that came before it stopped.

        One that stands before what must have been decided is behind: those slots are on the grid, and in no state.
        """
        node, end = segment.node, segment.stopped_at or now
        if segment.stopped_at is None and node.next_run_at is not None:
            end = max(node.next_run_at - TICK, ticked)
        if segment.next_then is not None:
            end = max(end, segment.next_then - TICK)
        if segment.cron:
            moments: Iterator[datetime] = iter(self.times(segment.cron, segment.first - TICK, end))
        else:
            moments = _grid(segment.first, segment.interval_seconds or 1, end)
        return ((node.node_id, slot) for slot in moments if self.folded is None or slot > self.folded)

    def recount(self) -> dict[TrackerKey, tuple[Counts, Counter[LossCause]]]:
        """Every tracker anew from executions and skips, as `flask quotas audit` does from rows; without `pending`."""
        settled = [*self._of_runs(), *self._of_skips()]
        sums = quota.total(settled)
        losses: dict[TrackerKey, Counter[LossCause]] = defaultdict(Counter)
        for one in settled:
            if one.cause is not None:
                losses[one.key][one.cause] += one.slots
        return {key: (counts, losses[key]) for key, counts in sums.items()}

    def _of_runs(self) -> Iterator[Settlement]:
        for run in (run for runs in self.runs.values() for run in runs if run.status in TERMINAL):
            cause = quota.cause_of_end(run.status, run.error_kind, run.skip_reason)
            yield Settlement(_key(run.node, run.scheduled_for), run.status, cause, duration_ms=run.duration_ms or 0)

    def _of_skips(self) -> Iterator[Settlement]:
        for (_, slot), skips in self.skipped.items():
            for one in skips:
                yield Settlement(_key(one.node, slot), None, quota.cause_of_skip(one.reason))

    def pending(self) -> Counter[TrackerKey]:
        """Slots by tracker whose execution is alive."""
        alive = (run for runs in self.runs.values() for run in runs if run.status not in TERMINAL)
        return Counter(_key(run.node, run.scheduled_for) for run in alive)

    def slots(self) -> list[tuple[int, datetime]]:
        """Every slot that came, as (node id, moment), in order."""
        decided = {name for kept in (self.runs, self.skipped) for name, found in kept.items() if found}
        return sorted(decided)


def _since(kept: Mapping[tuple[int, datetime], list[Kept]], before: datetime) -> Any:
    found: dict[tuple[int, datetime], list[Kept]] = defaultdict(list)
    found.update((name, one) for name, one in kept.items() if name[1] > before)
    return found


def _key(node: Node, slot: datetime) -> TrackerKey:
    return TrackerKey(node.olt.olt_id, node.task_type, quota.hour_of(slot))


def _grid(first: datetime, interval: int, end: datetime) -> Iterator[datetime]:
    count = 0 if end < first else int((end - first).total_seconds() // interval) + 1
    return (first + timedelta(seconds=k * interval) for k in range(count))
