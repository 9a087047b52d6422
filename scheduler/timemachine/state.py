"""What all parts of the time machine share: its clock, its coming events, its books, and the few ways to write them."""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from heapq import heappush
from typing import Any

from portal.domain import schedule
from portal.domain.quota import HOUR
from portal.domain.slots import NextCron
from portal.domain.statuses import EventType, SkipReason
from portal.domain.tickets import Ticket
from scheduler.coordinator.decide import Snapshot
from scheduler.timemachine.book import Book, Trouble
from scheduler.timemachine.durations import Fortune
from scheduler.timemachine.figures import Figures
from scheduler.timemachine.ledger import Ledger
from scheduler.timemachine.queues import Queues
from scheduler.timemachine.world import ALL_SITES, Node, Olt, Run, World, build_node, build_olt

SECOND = timedelta(seconds=1)
CRONS_KEPT = 65_536

# What comes first of several things at the same moment.
OPEN, END, EDIT, UPKEEP, PASS, JUDGE, TICK_RANK, CLOSE = range(8)

Action = Callable[[Any], None]


@dataclass(frozen=True)
class Decision:
    """One row of the decision log."""

    timestamp: datetime
    event: EventType
    reason: SkipReason | None
    message: str
    olt_id: int
    node_id: int | None = None
    execution_id: int | None = None
    scheduled_for: datetime | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class State:
    """One world at one moment. `book`: None where a whole history would not fit into memory."""

    def __init__(
        self, world: World, begin: datetime, fortune: Fortune, next_cron: NextCron, *,
        keep_all: bool = False, keep_hours: int = 0, keep_log: int = 10_000,
    ) -> None:  # fmt: skip
        self.rules, self.fortune, self.now, self.begin = world.rules, fortune, begin, begin
        self.next_cron: NextCron = lru_cache(CRONS_KEPT)(next_cron)
        self.olts = {spec.olt_id: build_olt(spec) for spec in world.olts}
        self.nodes: dict[int, Node] = {}
        self.runs: dict[int, Run] = {}  # the ACTIVE ones
        self.queues = Queues()
        keep = None if keep_all else keep_hours
        self.ledger = Ledger(self.times, keep=keep, from_end=self.rules.from_end, watched=world.watched)
        self.book = Book(self.times) if keep_all else None
        self.figures = Figures(begin, world.watched)
        self.log: deque[Decision] = deque(maxlen=None if keep_all else keep_log)
        self.logged: Counter[EventType] = Counter()
        self.coming: list[tuple[datetime, int, int, Action, Any]] = []
        self.due: list[tuple[datetime, int]] = []  # (next_run_at, node id): clocks as they were set; some have moved
        self.ripe: list[tuple[datetime, int]] = []  # (not_before, execution id)
        self.sites = {site: number for number, site in enumerate(sorted({olt.site for olt in self.olts.values()}), 1)}
        self.pollers = dict(self.rules.pollers)
        self.free = dict(self.pollers)
        self.serving = self._serving(world)
        self.generation = 0  # of pollers: it rises when they go
        self.pollers_up = self.scheduler_up = True
        self.last_tick = begin - SECOND
        self.executions = self._events = 0
        self.seen: dict[int, Snapshot] = {}  # OLT → what the coordinator saw last, of those that were changed
        self.stirred: set[int] = set()  # OLTs that its next pass looks at
        self._people(world)

    def _serving(self, world: World) -> dict[str, int]:
        """The pollers that serve OLTs which are watched."""
        sites = {ALL_SITES, *(olt.site for olt in self.olts.values() if world.watches(olt.olt_id))}
        return {group: size for group, size in self.pollers.items() if group in sites}

    def _people(self, world: World) -> None:
        for spec in world.nodes:
            node = build_node(spec, self.olts[spec.olt_id])
            self.nodes[spec.node_id] = node
            if node.runs:
                first = spec.first or schedule.first_run(self.begin, spec.olt_id, spec.key, many_olts=True)
                self.set_clock(node, first)

    # Time

    def at(self, moment: datetime, rank: int, action: Action, payload: Any = None) -> None:
        """`action(payload)` is to happen at a moment; at once where that has passed."""
        self._events += 1
        heappush(self.coming, (max(moment, self.now), rank, self._events, action, payload))

    def next_round(self, moment: datetime) -> datetime:
        """The first pass of the periodic jobs at or after a moment."""
        return ceiling(moment, self.rules.reap_every)

    def times(self, line: str, after: datetime, up_to: datetime) -> tuple[datetime, ...]:
        """The firings of a cron line in (after, up to]."""
        found = []
        while (after := self.next_cron(line, after)) <= up_to:
            found.append(after)
        return tuple(found)

    def set_clock(self, node: Node, moment: datetime | None, change: Callable[[], None] = lambda: None) -> None:
        """Move a clock off its grid; `change` is what changes of the node with it."""
        if self.book is not None:
            self.book.clock(node, moment, self.now)
        self.ledger.set_clock(node, moment, change)
        if moment is not None:
            heappush(self.due, (moment, node.node_id))
        if self.book is not None:
            self.book.wound(node)

    # Facts

    def new_id(self) -> int:
        """The next execution's."""
        self.executions += 1
        return self.executions

    def ticket(self, run: Run) -> Ticket:
        """What the queue is to know of a PENDING execution; remembered with it."""
        node = run.node
        made = Ticket(run.execution_id, run.attempt + 1, node.olt.olt_id, node.priority, run.scheduled_for,
                      run.overdue_at, False, node.olt.site)  # fmt: skip
        run.ticket = made
        return made

    def push(self, run: Run) -> None:
        """Queue it."""
        run.queued_at = self.now
        self.queues.push(self.ticket(run))

    def free_pollers(self, site: str | None = None) -> int:
        """How many wait for work: all, or those that serve OLTs of this site."""
        return sum(free for group, free in self.free.items() if site is None or group in (ALL_SITES, site))

    def turn(self, trouble: Trouble, ident: int, on: bool) -> None:
        """Something begins to be so, or ends."""
        if self.book is not None:
            self.book.turn(trouble, ident, on, self.now)

    def pool_changed(self) -> None:
        """The number of free pollers did: of all (FULL, 0), and of those that serve each site (FULL, its number)."""
        self.figures.pool(sum(self.free[group] for group in self.serving), self.now)
        if self.book is None:
            return
        self.turn(Trouble.FULL, 0, self.free_pollers() == 0)
        for site, number in self.sites.items():
            self.turn(Trouble.FULL, number, self.free_pollers(site) == 0)

    def record(
        self, event: EventType, message: str, olt: Olt, *, run: Run | None = None, node: Node | None = None,
        slot: datetime | None = None, reason: SkipReason | None = None, **details: Any,
    ) -> None:  # fmt: skip
        """Add one decision to the log."""
        about = run.node if run is not None else node
        self.logged[event] += 1
        self.log.append(
            Decision(
                self.now, event, reason, message, olt.olt_id, about.node_id if about else None,
                run.execution_id if run else None, run.scheduled_for if run else slot, details,
            )
        )  # fmt: skip

    def hours(self) -> list[datetime]:
        """The hours that are open when the machine starts: on the full hour also the one that ends with it."""
        hour = self.begin.replace(minute=0, second=0, microsecond=0)
        return [hour - HOUR, hour] if hour == self.begin else [hour]


def ceiling(moment: datetime, seconds: int) -> datetime:
    """The first whole multiple of so many seconds at or after a moment."""
    whole = moment.replace(microsecond=0)
    if whole < moment:
        whole += SECOND
    rest = int(whole.timestamp()) % seconds
    return whole + timedelta(seconds=(seconds - rest) % seconds)
