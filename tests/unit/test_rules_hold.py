"""The rules of time hold together: random workflows, clocks and faults against planner and schedule, no database.

A small world keeps the executions in memory. What it checks: no slot before its time, none twice, and every slot of
the grid ends in exactly one of completed, failed, skipped(cause), pending.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.domain import schedule
from portal.domain.slots import DueMaster, NewExecution, SkippedSlots
from portal.domain.statuses import OltState, SkipReason
from scheduler.planner import plan
from testing.cast import SECOND, TEN

MAX_LOSSES = 3
OLTS = 3


@dataclass(frozen=True)
class Clock:
    """An interval, or the minutes between two firings of a cron line. `first`: seconds after ten."""

    first: int
    interval: int | None
    every: int | None = None

    @property
    def cron(self) -> str | None:
        return f"*/{self.every} * * * *" if self.every else None

    @property
    def step(self) -> timedelta:
        return timedelta(seconds=self.interval or 60 * (self.every or 0))


@dataclass
class Run:
    """One execution, as the table keeps it."""

    slot: datetime
    following: datetime
    not_before: datetime | None
    status: str = "PENDING"
    attempt: int = 0
    failures: int = 0
    losses: int = 0

    @property
    def active(self) -> bool:
        return self.status in ("PENDING", "RUNNING")


@dataclass
class Node:
    """A master with what became of its slots."""

    ident: int
    clock: Clock
    retry_delay: int
    max_retries: int
    first: datetime
    next_run_at: datetime | None
    runs: list[Run] = field(default_factory=list)
    skipped: dict[datetime, SkipReason] = field(default_factory=dict)
    ended_at: datetime | None = None

    @property
    def olt(self) -> int:
        return self.ident % OLTS

    def has(self, slot: datetime) -> bool:
        """Whether that slot was run or skipped already."""
        return slot in self.skipped or any(run.slot == slot for run in self.runs)

    @property
    def active(self) -> tuple[int, Run] | None:
        return next(((at, run) for at, run in enumerate(self.runs) if run.active), None)

    def grid(self) -> Iterator[datetime]:
        """Its slots by arithmetic, from the first on."""
        slot = self.first
        while True:
            yield slot
            slot += self.clock.step


def next_cron(line: str, moment: datetime) -> datetime:
    """`*/n * * * *` in UTC."""
    step = int(line[2 : line.index(" ")]) * 60
    passed = int((moment - TEN).total_seconds()) // step
    return TEN + timedelta(seconds=(passed + 1) * step)


@dataclass
class World:
    """Nodes on three OLTs, a wall clock, a ticker that may be away, and workers that end runs as chance has it."""

    nodes: list[Node]
    chance: Random
    from_end: bool
    now: datetime = TEN
    states: dict[int, OltState] = field(default_factory=lambda: dict.fromkeys(range(OLTS), OltState.UP))

    def tick(self) -> None:
        due = [self._due(node) for node in self.nodes if node.next_run_at is not None and node.next_run_at <= self.now]
        made = plan(due, self.now, next_cron, from_end=self.from_end)
        by_id = {node.ident: node for node in self.nodes}
        for skipped in made.skipped:
            self._skip(by_id[skipped.master.node_id], skipped)
        for new in made.new:
            self._take(by_id[new.master.node_id], new)
        assert set(made.next_runs) == {master.node_id for master in due}
        for ident, moment in made.next_runs.items():
            by_id[ident].next_run_at = moment
            assert moment is None or moment > self.now
        late = [new for new in made.new if schedule.passed_unseen(new.scheduled_for, self.now)]
        assert sum(new.not_before is None for new in late) <= schedule.SPREAD_ABOVE

    def _due(self, node: Node) -> DueMaster:
        assert node.next_run_at is not None
        at, run = node.active or (None, None)
        waits = run is not None and run.status == "PENDING" and run.attempt > 0
        return DueMaster(
            node.ident, "node", node.olt, "device", 40, node.next_run_at, node.clock.interval, node.clock.cron, at,
            waits, blocked=schedule.blocked(self.states[node.olt], None, self.now),
        )  # fmt: skip

    def _supersede(self, node: Node, at: int | None) -> None:
        if at is not None:
            assert node.runs[at].status == "PENDING" and node.runs[at].attempt > 0
            self._end(node, node.runs[at], "FAILED")

    def _skip(self, node: Node, skipped: SkippedSlots) -> None:
        self._supersede(node, skipped.supersedes)
        slots = [slot for slot in self._passed(node) if skipped.first <= slot <= skipped.last]
        assert len(slots) == skipped.count
        for slot in slots:
            assert not node.has(slot), "twice"
            node.skipped[slot] = skipped.reason

    def _passed(self, node: Node) -> list[datetime]:
        """The slots from the node's clock up to now, by arithmetic and not by the planner."""
        slot, passed = node.next_run_at, []
        assert slot is not None
        while slot <= self.now:
            passed.append(slot)
            slot += node.clock.step
        return passed

    def _take(self, node: Node, new: NewExecution) -> None:
        self._supersede(node, new.supersedes)
        assert new.scheduled_for <= self.now, "before its time"
        assert node.active is None, "two of a node at once"
        assert not node.has(new.scheduled_for), "twice"
        assert new.not_before is None or self.now <= new.not_before < new.overdue_at
        if self.from_end and node.ended_at is not None and node.clock.interval is not None:
            assert new.scheduled_for >= schedule.after_end(node.ended_at, node.clock.interval)
        node.runs.append(Run(new.scheduled_for, new.overdue_at, new.not_before))

    def work(self) -> None:
        """Some runs start, one at a time on an OLT; some of those that run end."""
        for node in self.nodes:
            run = node.active[1] if node.active else None
            if run is not None and run.status == "RUNNING" and self.chance.random() < 0.6:
                self._finish(node, run)
            elif run is not None and run.status == "PENDING" and self._may_start(node, run):
                run.status, run.attempt, run.not_before = "RUNNING", run.attempt + 1, None

    def _may_start(self, node: Node, run: Run) -> bool:
        on_olt = [other.active[1] for other in self.nodes if other.active and other.olt == node.olt]
        busy = any(other.status == "RUNNING" for other in on_olt)
        ripe = run.not_before is None or run.not_before <= self.now
        return ripe and not busy and self.chance.random() < 0.8

    def _finish(self, node: Node, run: Run) -> None:
        fate = self.chance.choice(("success", "success", "failure", "lost"))
        if fate == "success":
            self._end(node, run, "SUCCESS")
        elif fate == "lost":
            run.losses += 1
            run.status = "PENDING"
            if run.losses >= MAX_LOSSES:
                self._end(node, run, "FAILED")
        else:
            run.failures += 1
            again = schedule.next_try(self.now, node.retry_delay, run.failures, node.max_retries, run.following)
            run.status, run.not_before = "PENDING", again
            if again is None:
                self._end(node, run, "FAILED")

    def _end(self, node: Node, run: Run, status: str) -> None:
        run.status, node.ended_at = status, self.now
        if self.from_end and node.next_run_at is None and node.clock.interval is not None:
            node.next_run_at = schedule.after_end(self.now, node.clock.interval)

    def live(self, kind: str, amount: int) -> None:
        """One event: time with ticks, time without, a step of the wall clock, an OLT that goes or comes back."""
        if kind == "ticking":
            for _ in range(8):
                soonest = min((node.next_run_at for node in self.nodes if node.next_run_at), default=self.now)
                later = timedelta(seconds=self.chance.uniform(0.8, 1 + amount / 1800))
                self.now = max(self.now, soonest - SECOND) + later
                self.tick()
                self.work()
        elif kind == "away":
            self.now += timedelta(seconds=amount * 2)
            self.work()
        elif kind == "step":
            self.now += timedelta(seconds=(amount - 1800) * 2)
        else:
            states = (OltState.UP, OltState.UP, OltState.UNREACHABLE, OltState.PAUSED)
            self.states[amount % OLTS] = states[amount // OLTS % len(states)]


clocks = st.one_of(
    st.builds(Clock, st.integers(0, 300), st.integers(30, 900)),
    st.builds(Clock, st.just(0), st.none(), st.sampled_from([1, 5, 30])),
)
# Few nodes, or so many that a restart has to spread their starts.
worlds = st.one_of(st.lists(clocks, min_size=1, max_size=6), st.lists(clocks, min_size=25, max_size=35))
events = st.lists(
    st.tuples(st.sampled_from(["ticking", "ticking", "ticking", "away", "step", "state"]), st.integers(0, 3600)),
    min_size=3,
    max_size=12,
)


def lived(made: list[Clock], seed: int, history: list[tuple[str, int]], *, from_end: bool) -> World:
    chance, nodes = Random(seed), []
    for ident, clock in enumerate(made):
        first = TEN + timedelta(seconds=clock.first)
        nodes.append(Node(ident, clock, chance.choice((20, 120)), chance.choice((0, 2)), first, first))
    world = World(nodes, chance, from_end)
    for kind, amount in history:
        world.live(kind, amount)
    return world


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(made=worlds, seed=st.integers(0, 2**32), history=events)
def test_every_slot_of_the_grid_ends_in_exactly_one_way(
    made: list[Clock], seed: int, history: list[tuple[str, int]]
) -> None:
    world = lived(made, seed, history, from_end=False)
    world.now = max([world.now, *(node.next_run_at for node in world.nodes if node.next_run_at)])
    world.tick()
    for node in world.nodes:
        assert node.next_run_at is not None and node.next_run_at > world.now
        ways = Counter([*(run.slot for run in node.runs), *node.skipped])
        for slot in node.grid():
            if slot >= node.next_run_at:
                break
            assert ways.pop(slot, 0) == 1, f"{slot} of node {node.ident}"
        assert not ways, "slots off the grid"
        assert sum(run.active for run in node.runs) <= 1


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(made=worlds, seed=st.integers(0, 2**32), history=events)
def test_from_end_no_node_is_forgotten_and_no_slot_comes_before_its_interval_is_over(
    made: list[Clock], seed: int, history: list[tuple[str, int]]
) -> None:
    for node in lived(made, seed, history, from_end=True).nodes:
        slots = [*(run.slot for run in node.runs), *node.skipped]
        assert len(slots) == len(set(slots))
        assert node.next_run_at is not None or (node.active is not None and node.clock.interval is not None)
