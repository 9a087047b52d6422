"""What changed on an OLT, and what follows from it. Pure: two snapshots in, changes and intents out."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from portal.domain.messages import N_
from portal.domain.quota import task_type
from portal.domain.statuses import EventType, NodeKind

VERSION = 2  # of the canonical form; a digest of another version says nothing about a change


@dataclass(frozen=True)
class Task:
    """A node as far as its work goes: no result, and of its clock the anchor, which people move and ticks do not.

    `on`: it, its workflow and template are enabled. `anchor`: seconds since 1970.
    """

    id: int
    key: str
    kind: NodeKind
    on: bool
    interval: int | None
    cron: str | None
    priority: int
    master_id: int | None
    anchor: int | None = None

    @property
    def task_type(self) -> str:
        """What its slots count for."""
        return task_type(self.kind, self.key)

    @property
    def pace(self) -> str:
        """Interval or cron line as people read it; a Message where it is a word."""
        return f"{self.interval} s" if self.interval is not None else self.cron or N_("chained")


@dataclass(frozen=True)
class Snapshot:
    """All that an OLT has to do: whether it is in service, and its tasks by id."""

    enabled: bool
    tasks: dict[int, Task]


def canonical(enabled: bool, lines: list[str]) -> str:
    """The text that is hashed: the OLT's line, then one for each node in the order of their ids."""
    return "\n".join(["1" if enabled else "0", *lines])


def digest(text: str) -> str:
    """SHA-256 of a canonical text and the version of its form."""
    return hashlib.sha256(f"{VERSION}\n{text}".encode()).hexdigest()


def parse(text: str) -> Snapshot:
    """A canonical text as a snapshot. Fields of a line: id, key, kind, on, interval, cron, priority, master, anchor."""
    head, *lines = text.split("\n")
    tasks = (_task(line) for line in lines)
    return Snapshot(head == "1", {task.id: task for task in tasks})


def _task(line: str) -> Task:
    ident, key, kind, on, interval, cron, priority, master, anchor = line.split("|")
    return Task(
        int(ident), key, NodeKind(kind), on == "1", int(interval) if interval else None, cron or None,
        int(priority), int(master) if master else None, int(anchor) if anchor else None,
    )  # fmt: skip


class ChangeKind(StrEnum):
    """The five changes that the coordinator knows."""

    TASK_ADDED = "task_added"
    TASK_REMOVED = "task_removed"
    TASK_INTERVAL_CHANGED = "task_interval_changed"
    OLT_ENABLED = "olt_enabled"
    OLT_DISABLED = "olt_disabled"

    @property
    def event(self) -> EventType:
        """The word under which it stands in the decision log."""
        return EventType[self.name]


@dataclass(frozen=True)
class Change:
    """One of the five. `before`, `after`: the task then and now."""

    kind: ChangeKind
    before: Task | None = None
    after: Task | None = None

    @property
    def task(self) -> Task | None:
        """The task that it is about; None when it is about the OLT."""
        return self.after or self.before


@dataclass(frozen=True)
class Decision:
    """What follows from an observation. Each part may be applied again without harm.

    `abort`: nodes whose waiting executions end. `interrupt`, `resume`: the OLT went out of service, came back.
    `recount`: its promises have to be reckoned anew, also where only a clock was wound (switched off and on between
    two looks, shifted). `replan`: so has its plan; `reorder` when nothing but the order or a clock changed.
    """

    changes: tuple[Change, ...]
    abort: tuple[int, ...] = ()
    interrupt: bool = False
    resume: bool = False
    recount: bool = False
    replan: bool = False

    @property
    def reorder(self) -> bool:
        """True when there is a new plan though none of the five changes came about."""
        return self.replan and not self.changes


def decide(before: Snapshot | None, after: Snapshot) -> Decision:
    """The changes from `before` (None: never seen) to `after`, and what is to be done about them."""
    changes = tuple(_changes(before or Snapshot(after.enabled, {}), after))
    removed = tuple(
        change.before.id for change in changes if change.kind is ChangeKind.TASK_REMOVED and change.before is not None
    )
    kinds = {change.kind for change in changes}
    return Decision(
        changes,
        abort=removed,
        interrupt=ChangeKind.OLT_DISABLED in kinds,
        resume=ChangeKind.OLT_ENABLED in kinds,
        recount=bool(changes) or _anchors(before) != _anchors(after),
        replan=before != after,
    )


def _anchors(snapshot: Snapshot | None) -> dict[int, int | None]:
    return {task.id: task.anchor for task in snapshot.tasks.values() if task.on} if snapshot is not None else {}


def _changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    if before.enabled is not after.enabled:
        yield Change(ChangeKind.OLT_ENABLED if after.enabled else ChangeKind.OLT_DISABLED)
    for ident in sorted(before.tasks.keys() | after.tasks.keys()):
        yield from _of_task(before.tasks.get(ident), after.tasks.get(ident))


def _of_task(before: Task | None, after: Task | None) -> Iterator[Change]:
    was = before if before is not None and before.on else None
    now = after if after is not None and after.on else None
    if was is not None and now is not None and was.task_type == now.task_type:
        if (was.interval, was.cron) != (now.interval, now.cron):
            yield Change(ChangeKind.TASK_INTERVAL_CHANGED, was, now)
        return
    if was is not None:  # a node that counts for another task type is one task less and another more
        yield Change(ChangeKind.TASK_REMOVED, before=was)
    if now is not None:
        yield Change(ChangeKind.TASK_ADDED, after=now)
