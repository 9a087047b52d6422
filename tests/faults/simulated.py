"""Pollers, OLTs and nodes on a clock of their own; push, claim and release are the product's, on a real Redis.

No process, no database, no waiting: minutes of dispatch are decided in seconds, and the same each time.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

from redis import Redis

from jobs import claim as claims
from jobs.claim import Claim
from portal import queueing
from portal.queueing import Ticket
from testing.cast import TEN

NEVER = datetime(2100, 1, 1, tzinfo=UTC)  # by the clock of Redis; the simulated one decides what is overdue
LEASE_SECONDS = 3600.0  # likewise


@dataclass(frozen=True)
class Node:
    """A master: every `interval` seconds from `first` on, each run takes `service` seconds of its OLT and a poller."""

    ident: int
    olt: int
    priority: int
    interval: int
    service: float
    first: int = 0


@dataclass(frozen=True)
class Run:
    """One execution. Seconds since the beginning."""

    ident: int
    node: Node
    slot: int
    overdue_at: float
    manual: bool = False

    @property
    def order(self) -> tuple[int, int]:
        """Priority, then the older slot."""
        return -self.node.priority, self.slot


@dataclass(frozen=True)
class Started:
    """A run that a poller took, with what else waited on that OLT at that moment."""

    run: Run
    at: float
    beside: tuple[Run, ...]

    @property
    def waited(self) -> float:
        """Seconds since its slot."""
        return self.at - self.run.slot

    @property
    def in_turn(self) -> bool:
        """Inside an OLT: manual runs first, then what is overdue (the longest so first), then priority and age."""
        return self.run in _first((self.run, *self.beside), self.at)


def _first(runs: tuple[Run, ...], at: float) -> list[Run]:
    """Those among them that may go first; several where they are equal."""
    manual = [run for run in runs if run.manual]
    overdue = [run for run in runs if not run.manual and run.overdue_at <= at]
    if manual:
        best = min(run.order for run in manual)
        return [run for run in manual if run.order == best]
    if overdue:
        longest = min(run.overdue_at for run in overdue)
        return [run for run in overdue if run.overdue_at == longest]
    best = min(run.order for run in runs)
    return [run for run in runs if run.order == best]


@dataclass
class World:
    """What happens is in `started`, `skipped` (slots that found their node active) and `met` (two at one OLT)."""

    redis: Redis
    pollers: int
    now: float = 0.0
    started: list[Started] = field(default_factory=list)
    skipped: int = 0
    met: int = 0
    waiting: dict[int, dict[int, Run]] = field(default_factory=lambda: defaultdict(dict))  # OLT → its runs by id
    _events: list[tuple[float, int, Node | Claim | Run]] = field(default_factory=list)
    _order: "count[int]" = field(default_factory=count)
    _idents: "count[int]" = field(default_factory=lambda: count(1))
    _free: list[str] = field(default_factory=list)
    _active: set[int] = field(default_factory=set)
    _holders: dict[str, Run] = field(default_factory=dict)  # poller → what it runs
    _slots: dict[int, int] = field(default_factory=dict)  # node → its next slot

    def __post_init__(self) -> None:
        self._free = [f"poller-{number}" for number in range(self.pollers)]

    def add(self, nodes: Iterable[Node]) -> None:
        """Nodes whose clocks start."""
        for node in nodes:
            self._slots[node.ident] = node.first
            self._at(node.first, node)

    def ask_for(self, nodes: Iterable[Node]) -> None:
        """Somebody asks for one run of each, now; those that are active stay as they are."""
        found = [self._new(node, int(self.now), manual=True) for node in nodes if node.ident not in self._active]
        self._push(found)
        self._claim_all()

    def go_on(self, until: float) -> None:
        """Let time pass. Slots after `until` do not come; what waits then still runs in a later call."""
        while self._events and self._events[0][0] <= until:
            self.now = self._events[0][0]
            due: list[Run] = []
            while self._events and self._events[0][0] == self.now:
                self._happen(heapq.heappop(self._events)[2], due)
            self._push(due)
            self._claim_all()
        self.now = max(self.now, until)

    def stop_clocks(self) -> None:
        """No slot comes any more; what waits stays."""
        self._events = [event for event in self._events if not isinstance(event[2], Node)]
        heapq.heapify(self._events)

    def drain(self) -> None:
        """No more slots; all that waits is run."""
        self.stop_clocks()
        while any(self.waiting.values()) or self._holders:
            self.go_on(self._events[0][0])

    def _at(self, moment: float, what: Node | Claim | Run) -> None:
        heapq.heappush(self._events, (moment, next(self._order), what))

    def _happen(self, what: Node | Claim | Run, due: list[Run]) -> None:
        if isinstance(what, Claim):
            self._end(what)
        elif isinstance(what, Run):
            self._grow_overdue(what)
        else:
            self._come_due(what, due)

    def _come_due(self, node: Node, due: list[Run]) -> None:
        slot = self._slots[node.ident]
        self._slots[node.ident] = slot + node.interval
        self._at(slot + node.interval, node)
        if node.ident in self._active:
            self.skipped += 1
        else:
            due.append(self._new(node, slot))

    def _new(self, node: Node, slot: int, *, manual: bool = False) -> Run:
        run = Run(next(self._idents), node, slot, slot + node.interval, manual)
        self._active.add(node.ident)
        self.waiting[node.olt][run.ident] = run
        if not manual:
            self._at(run.overdue_at, run)
        return run

    def _push(self, runs: list[Run]) -> None:
        queueing.push([
            Ticket(run.ident, 1, run.node.olt, run.node.priority, TEN + timedelta(seconds=run.slot), NEVER, run.manual)
            for run in runs
        ])  # fmt: skip

    def _grow_overdue(self, run: Run) -> None:
        """What the clock of Redis would bring about."""
        if run.ident in self.waiting[run.node.olt]:
            job = queueing.job_id(run.ident, 1)
            self.redis.zadd(f"facho:overdue:{run.node.olt}", {job: run.overdue_at}, xx=True)

    def _claim_all(self) -> None:
        while self._free:
            mine = claims.claim(self.redis, self._free[-1], LEASE_SECONDS, 0.0)
            if mine is None:
                return
            self._free.pop()
            self._begin(mine)

    def _begin(self, mine: Claim) -> None:
        waiting = self.waiting[mine.olt_id]
        run = waiting.pop(queueing.execution_of(mine.job_id))
        self.met += any(held.node.olt == mine.olt_id for held in self._holders.values())
        self._holders[mine.owner] = run
        self.started.append(Started(run, self.now, tuple(waiting.values())))
        self._at(self.now + run.node.service, mine)

    def _end(self, mine: Claim) -> None:
        run = self._holders.pop(mine.owner)
        self._active.discard(run.node.ident)
        self._free.append(mine.owner)
        claims.release(self.redis, mine)
