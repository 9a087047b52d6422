"""What one OLT will do up to a moment: its slots in the order the rules give, one composite at a time. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from portal.domain import schedule
from portal.domain.pace import Pace
from portal.domain.quota import HOUR
from portal.domain.statuses import LossCause

_MS = timedelta(milliseconds=1)
_NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A master as a plan sees it. Either `interval_seconds`, or `times`: what its cron line says up to the end."""

    node_id: int
    key: str
    task_type: str
    priority: int
    next_run_at: datetime | None  # None: it has no clock at present, so no slots
    interval_seconds: int | None
    pace: Pace
    times: tuple[datetime, ...] = ()
    name: str = ""  # as people call it

    def slots(self, start: datetime, end: datetime) -> list[datetime]:
        """Its slots up to `end`. Of those that passed before `start` only the latest: it still may run (rule 11)."""
        if self.next_run_at is None:
            return []
        if self.interval_seconds is None:
            return [at for at in self.times if self.next_run_at <= at <= end]
        first, step = self.next_run_at, timedelta(seconds=self.interval_seconds)
        if first < start:
            first = schedule.latest_on_grid(first, self.interval_seconds, start)
        count = (end - first) // step + 1
        return [first + number * step for number in range(count)]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A slot that came before the plan begins and has not started yet."""

    node_id: int
    scheduled_for: datetime


@dataclass(frozen=True, slots=True)
class Occupied:
    """The OLT is taken when the plan begins: by which node (None: unknown) and until when."""

    node_id: int | None
    until: datetime


@dataclass(frozen=True, slots=True)
class Blocked:
    """Nothing is started before `until` (None: no end is known); slots of that time are lost, for `cause`."""

    until: datetime | None
    cause: LossCause

    def covers(self, slot: datetime) -> bool:
        return self.until is None or slot < self.until


@dataclass(frozen=True, slots=True)
class PlannedSlot:
    """A slot, when it is expected to start (None: it will not run, for `lost`), and how long it will take."""

    node_id: int
    scheduled_for: datetime
    expected_start: datetime | None
    p50_ms: int
    p95_ms: int
    lost: LossCause | None = None

    @property
    def wait_ms(self) -> int:
        """Expected delay; 0 for one that will not run."""
        return round((self.expected_start - self.scheduled_for) / _MS) if self.expected_start else 0

    @property
    def expected_end(self) -> datetime | None:
        """None for one that will not run."""
        return self.expected_start + self.p50_ms * _MS if self.expected_start else None


def simulate(
    nodes: Sequence[PlanNode], start: datetime, end: datetime, occupied: Occupied | None = None,
    waiting: Iterable[Waiting] = (), *, slow: bool = False, blocked: Blocked | None = None,
) -> list[PlannedSlot]:  # fmt: skip
    """The slots from `start` up to `end` and the `waiting` ones, by their time.

    As the product does it: what has waited a whole interval first, then priority, then the older slot; a slot
    that finds its node waiting or running is lost. Each run takes its p50; with `slow` its p95. What is `blocked` takes
    no part: it waits for nothing and is in nobody's way.
    """
    place = {node.node_id: index for index, node in enumerate(nodes)}
    arrivals = [(one.scheduled_for, place[one.node_id]) for one in waiting if one.node_id in place]
    arrivals += [(at, index) for index, node in enumerate(nodes) for at in node.slots(start, end)]
    arrivals.sort()
    left_out = [(at, index) for at, index in arrivals if blocked is not None and blocked.covers(at)]
    arrivals = arrivals[len(left_out) :]
    times = [round((at - start) / _MS) for at, _ in arrivals]
    durations = [node.pace.p95_ms if slow else node.pace.p50_ms for node in nodes]
    queue = _Queue([node.priority for node in nodes], durations, [_step(node) for node in nodes])
    if occupied is not None:
        queue.occupy(place.get(occupied.node_id or 0), max(0, round((occupied.until - start) / _MS)))
    starts = queue.run([(at, index) for at, (_, index) in zip(times, arrivals, strict=True)])
    lost = [(None, blocked.cause) for _ in left_out] if blocked is not None else []
    return [
        PlannedSlot(
            nodes[index].node_id, at, None if begun is None else start + begun * _MS,
            nodes[index].pace.p50_ms, nodes[index].pace.p95_ms, cause,
        )
        for (at, index), (begun, cause) in zip([*left_out, *arrivals], [*lost, *starts], strict=True)
    ]  # fmt: skip


def _step(node: PlanNode) -> int:
    return _NEVER if node.interval_seconds is None else node.interval_seconds * 1000


class _Queue:
    """One OLT and what waits for it. Times are milliseconds since the start of the plan, nodes their places."""

    def __init__(self, priorities: Sequence[int], durations: Sequence[int], steps: Sequence[int]) -> None:
        self.priorities, self.durations, self.steps = priorities, durations, steps
        self.running = -1
        self.free_at = 0
        self.waiting: list[tuple[int, int, int]] = []  # (slot, node, number of the arrival)

    def occupy(self, node: int | None, until: int) -> None:
        """Something runs when it begins."""
        self.running, self.free_at = -1 if node is None else node, until

    def run(self, arrivals: Sequence[tuple[int, int]]) -> list[tuple[int | None, LossCause | None]]:
        """For each (time, node), in order of time: when it starts, or to what it is lost."""
        found: list[tuple[int | None, LossCause | None]] = [(None, None)] * len(arrivals)
        for number, (at, node) in enumerate(arrivals):
            if node == self.running and self.free_at > at:
                found[number] = (None, LossCause.OVERRUN)
            elif any(node == other for _, other, _ in self.waiting):
                found[number] = (None, LossCause.OLT_BUSY)
            else:
                self.waiting.append((at, node, number))
            following = arrivals[number + 1][0] if number + 1 < len(arrivals) else _NEVER
            self._start(max(at, 0), following, found)  # nothing before the last of one moment: they compete
        return found

    def _start(self, now: int, until: int, found: list[tuple[int | None, LossCause | None]]) -> None:
        while self.waiting:
            begun = max(now, self.free_at)
            if begun >= until:
                return
            if len(self.waiting) == 1:
                _, node, number = self.waiting.pop()
            else:
                best = min(self.waiting, key=lambda one: self._rank(one, begun))
                self.waiting.remove(best)
                _, node, number = best
            found[number] = (begun, None)
            self.running, self.free_at = node, begun + self.durations[node]

    def _rank(self, one: tuple[int, int, int], now: int) -> tuple[bool, int, int, int]:
        slot, node, number = one
        return (slot + self.steps[node] > now, -self.priorities[node], slot, number)


@dataclass(frozen=True)
class Plan:
    """The slots of one OLT in one hour (start, end]. `keys`: node id → (key, task type) of their nodes."""

    hour: datetime
    slots: tuple[PlannedSlot, ...]
    keys: Mapping[int, tuple[str, str]]
    why: str = ""

    def __len__(self) -> int:
        return len(self.slots)


def make(
    nodes: Sequence[PlanNode], hour: datetime, now: datetime, occupied: Occupied | None = None,
    waiting: Iterable[Waiting] = (), *, before: Plan | None = None, why: str = "", blocked: Blocked | None = None,
) -> Plan:  # fmt: skip
    """The plan of an hour, made at `now`. What `before` planned up to now stays in it: that is not to be changed."""
    end = hour + HOUR
    made = [
        slot
        for slot in simulate(nodes, now, end, occupied, waiting, blocked=blocked)
        if hour < slot.scheduled_for <= end
    ]
    keys = {node.node_id: (node.key, node.task_type) for node in nodes}
    if before is not None:
        anew = {(slot.node_id, slot.scheduled_for) for slot in made}
        kept = [slot for slot in before.slots if slot.scheduled_for <= now
                and (slot.node_id, slot.scheduled_for) not in anew]  # fmt: skip
        made = sorted([*kept, *made], key=lambda slot: (slot.scheduled_for, slot.node_id))
        keys = {**before.keys, **keys}
    used = {slot.node_id for slot in made}
    return Plan(hour, tuple(made), {node: named for node, named in keys.items() if node in used}, why)


def until(plan: Plan, moment: datetime) -> Plan:
    """The part of it up to a moment."""
    return replace(plan, slots=tuple(slot for slot in plan.slots if slot.scheduled_for <= moment))


def as_json(plan: Plan) -> dict[str, Any]:
    """Compact: per node its paces, and per slot [seconds after the hour, wait in ms] or [seconds, null, cause].

    Paces are those of the node's latest slot. 8 nodes of 12 slots take about 2 kB.
    """
    rows: dict[int, list[list[Any]]] = {node: [] for node in plan.keys}
    paces: dict[int, list[int]] = {}
    for slot in plan.slots:
        at = round((slot.scheduled_for - plan.hour).total_seconds())
        rows[slot.node_id].append([at, slot.wait_ms] if slot.lost is None else [at, None, slot.lost.value])
        paces[slot.node_id] = [slot.p50_ms, slot.p95_ms]
    nodes = [
        {"id": node, "key": key, "type": task_type, "pace": paces[node], "slots": rows[node]}
        for node, (key, task_type) in plan.keys.items()
    ]
    return {"why": plan.why, "nodes": nodes}


def from_json(stored: Mapping[str, Any], hour: datetime) -> Plan:
    """As `as_json` made it."""
    slots = [_slot(node, row, hour) for node in stored["nodes"] for row in node["slots"]]
    slots.sort(key=lambda slot: (slot.scheduled_for, slot.node_id))
    keys = {node["id"]: (node["key"], node["type"]) for node in stored["nodes"]}
    return Plan(hour, tuple(slots), keys, stored["why"])


def _slot(node: Mapping[str, Any], row: Sequence[Any], hour: datetime) -> PlannedSlot:
    at = hour + timedelta(seconds=row[0])
    start = None if row[1] is None else at + row[1] * _MS
    p50, p95 = node["pace"]
    return PlannedSlot(node["id"], at, start, p50, p95, LossCause(row[2]) if len(row) > 2 else None)
