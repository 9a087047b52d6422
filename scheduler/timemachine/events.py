"""What people and accidents do to the world of the time machine, as data, and a seeded mix of it. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from portal.domain.statuses import NodeKind
from scheduler.timemachine.world import NodeSpec, World


@dataclass(frozen=True)
class SetNodeEnabled:
    """A person enables or disables a node."""

    node_id: int
    enabled: bool


@dataclass(frozen=True)
class SetOltEnabled:
    """A person enables or disables an OLT."""

    olt_id: int
    enabled: bool


@dataclass(frozen=True)
class ChangeInterval:
    """A person gives a node another interval, or a cron line."""

    node_id: int
    interval_seconds: int | None
    cron: str | None = None


@dataclass(frozen=True)
class AddNode:
    """A person adds a master; its `first` is not used: it runs by rule 1."""

    spec: NodeSpec


@dataclass(frozen=True)
class DeleteNode:
    """A person deletes a master."""

    node_id: int


@dataclass(frozen=True)
class PauseOlt:
    """A person pauses an OLT; None = until it is resumed."""

    olt_id: int
    until: datetime | None = None


@dataclass(frozen=True)
class ResumeOlt:
    """A person ends a pause, or asks an unreachable OLT at once."""

    olt_id: int


@dataclass(frozen=True)
class Silence:
    """An OLT answers no more, or again."""

    olt_id: int
    silent: bool


@dataclass(frozen=True)
class Pace:
    """Everything on an OLT takes `factor` times as long; 1 = as usual."""

    olt_id: int
    factor: float


@dataclass(frozen=True)
class Errors:
    """With this chance a composite of the OLT ends with an error of the device."""

    olt_id: int
    chance: float


@dataclass(frozen=True)
class SchedulerUp:
    """The scheduler stops ticking, or ticks again."""

    up: bool


@dataclass(frozen=True)
class PollersUp:
    """All pollers go, or come back. `killed`: without a word, so that only their leases tell; else they hand over."""

    up: bool
    killed: bool = False


Event = (
    SetNodeEnabled | SetOltEnabled | ChangeInterval | AddNode | DeleteNode | PauseOlt | ResumeOlt | Silence | Pace
    | Errors | SchedulerUp | PollersUp
)  # fmt: skip
OfNode = SetNodeEnabled | ChangeInterval | DeleteNode
Timed = tuple[datetime, Event]


@dataclass(frozen=True)
class Havoc:
    """How much goes wrong, per day: edits, outages and slow times of OLTs, restarts of scheduler and pollers."""

    edits: float = 60
    switches: float = 6  # OLTs disabled, enabled, paused, resumed
    outages: float = 20
    slow: float = 20
    restarts: float = 4


def scenario(world: World, begin: datetime, end: datetime, seed: int, havoc: Havoc) -> list[Timed]:
    """A seeded history of trouble between two moments, in order of time."""
    author = _Author(world, begin, end, Random(seed))  # noqa: S311  (repeatable, no secret)
    return sorted(author.write(havoc), key=lambda one: one[0])


@dataclass
class _Author:
    world: World
    begin: datetime
    end: datetime
    chance: Random

    def write(self, havoc: Havoc) -> Iterator[Timed]:
        days = (self.end - self.begin) / timedelta(days=1)
        for each, rate in (
            (self.edit, havoc.edits), (self.switch, havoc.switches), (self.outage, havoc.outages),
            (self.slow, havoc.slow), (self.restart, havoc.restarts),
        ):  # fmt: skip
            for number in range(round(rate * days)):
                yield from each(number)

    def moment(self) -> datetime:
        """Mostly any millisecond; now and then the very second of many slots, or the change of the hour."""
        length = int((self.end - self.begin).total_seconds() * 1000)
        at = self.begin + timedelta(milliseconds=self.chance.randrange(length))
        kind = self.chance.random()
        if kind < 0.1:
            return at.replace(minute=0, second=0, microsecond=0)
        return at.replace(second=0, microsecond=0) if kind < 0.2 else at

    def span(self, shortest: float, longest: float) -> tuple[datetime, datetime]:
        """A time that is more often short than long."""
        start = self.moment()
        length = shortest * (longest / shortest) ** self.chance.random()
        return start, start + timedelta(seconds=round(length, 3))

    def node(self) -> NodeSpec:
        return self.chance.choice(self.world.nodes)

    def olt_id(self) -> int:
        return self.chance.choice(self.world.olts).olt_id

    def edit(self, number: int) -> Iterator[Timed]:
        node, (start, end) = self.node(), self.span(5, 7200)
        kind = self.chance.randrange(4)
        if kind == 0:
            yield from ((start, SetNodeEnabled(node.node_id, False)), (end, SetNodeEnabled(node.node_id, True)))
        elif kind == 1:
            yield start, ChangeInterval(node.node_id, self.chance.choice(_INTERVALS))
        elif kind == 2:
            ident = max(one.node_id for one in self.world.nodes) + 1 + number
            key, interval = f"added-{number}", self.chance.choice(_INTERVALS)
            yield start, AddNode(NodeSpec(ident, node.olt_id, key, NodeKind.GET, interval, median=node.median))
            yield end, DeleteNode(ident)
        else:
            cron = self.chance.choice(("*/5 * * * *", "0,7 * * * *", "*/20 * * * *"))
            yield from ((start, ChangeInterval(node.node_id, None, cron)), (end, ChangeInterval(node.node_id, 300)))

    def switch(self, _number: int) -> Iterator[Timed]:
        olt, (start, end) = self.olt_id(), self.span(5, 7200)
        kind = self.chance.randrange(3)
        if kind == 0:
            yield from ((start, SetOltEnabled(olt, False)), (end, SetOltEnabled(olt, True)))
        elif kind == 1:
            yield start, PauseOlt(olt, end)
        else:
            yield from ((start, PauseOlt(olt)), (end, ResumeOlt(olt)))

    def outage(self, _number: int) -> Iterator[Timed]:
        olt, (start, end) = self.olt_id(), self.span(10, 14_400)
        yield from ((start, Silence(olt, True)), (end, Silence(olt, False)))

    def slow(self, number: int) -> Iterator[Timed]:
        olt, (start, end) = self.olt_id(), self.span(300, 14_400)
        if number % 3 == 0:
            yield from ((start, Errors(olt, self.chance.uniform(0.1, 0.7))), (end, Errors(olt, 0)))
        else:
            yield from ((start, Pace(olt, self.chance.uniform(2, 40))), (end, Pace(olt, 1)))

    def restart(self, number: int) -> Iterator[Timed]:
        start, end = self.span(3, 5400)
        if number % 2:
            yield from ((start, SchedulerUp(False)), (end, SchedulerUp(True)))
        else:
            yield from ((start, PollersUp(False, killed=self.chance.random() < 0.5)), (end, PollersUp(True)))


_INTERVALS: Sequence[int] = (60, 120, 300, 420, 900, 3600)
