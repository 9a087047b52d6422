"""What is known of a due master, which of its slots have come, and what can be decided about them. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from portal.domain import quota, schedule
from portal.domain.statuses import SkipReason

FIRINGS = 2000  # of one cron line that are counted at once; the rest is the next tick's

NextCron = Callable[[str, datetime], datetime]  # cron line, moment → first time strictly after it


@dataclass(frozen=True)
class DueMaster:
    """A master whose slot has come. `active_*` describe its execution that is still PENDING or RUNNING, if any.

    `blocked`: why nothing of its OLT runs at present. `site`: of its OLT, "" = none. `task_type`: what its slots count
    for (portal.domain.quota).
    """

    node_id: int
    node_name: str
    olt_id: int
    device_key: str
    priority: int
    next_run_at: datetime
    interval_seconds: int | None
    cron: str | None
    active_id: int | None = None
    active_waits_to_retry: bool = False
    site: str = ""
    blocked: SkipReason | None = None
    task_type: str = ""


@dataclass(frozen=True)
class NewExecution:
    """The slot runs: an execution is to be inserted, PENDING."""

    master: DueMaster
    scheduled_for: datetime
    overdue_at: datetime  # the node's next slot: from then on it goes first in its OLT
    supersedes: int | None = None  # an older execution that waits for a retry; it ends FAILED
    not_before: datetime | None = None  # late with many others: it starts in its turn; None = at once


@dataclass(frozen=True)
class SkippedSlots:
    """`count` slots from `first` to `last` do not run, for one reason.

    `hours`: of a cron line, whose firings need not be evenly spaced: how many of them belong to which hour.
    """

    master: DueMaster
    reason: SkipReason
    first: datetime
    last: datetime
    count: int = 1
    supersedes: int | None = None  # as in NewExecution: a retry never outlives the node's next slot
    hours: Mapping[datetime, int] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # what was seen when it was decided, for the log


@dataclass(frozen=True)
class Plan:
    """All that one tick decided."""

    new: tuple[NewExecution, ...]
    skipped: tuple[SkippedSlots, ...]
    next_runs: dict[int, datetime | None]  # node id → next_run_at


@dataclass(frozen=True)
class Passed:
    """The slots of one master up to now: the latest, how many came before it, and the one that follows.

    `hours`: of a cron line with several: how many of those before the latest belong to which hour.
    """

    latest: datetime
    earlier: int
    before_latest: datetime
    following: datetime
    hours: Mapping[datetime, int] | None = None

    def with_latest(self) -> Mapping[datetime, int] | None:
        """`hours` and the latest."""
        if self.hours is None:
            return None
        return Counter(self.hours) + Counter([quota.hour_of(self.latest)])


def passed_on_grid(master: DueMaster, now: datetime) -> Passed:
    """Of a due master with an interval."""
    first, seconds = master.next_run_at, master.interval_seconds
    assert seconds is not None  # noqa: S101  (the table's one_clock check)
    step = timedelta(seconds=seconds)
    if now < first + step:
        return Passed(first, 0, first, first + step)
    latest = schedule.latest_on_grid(first, seconds, now)
    return Passed(latest, round((latest - first) / step), latest - step, latest + step)


def passed_of_line(line: str, first: datetime, now: datetime, next_cron: NextCron) -> Passed:
    """Of a due master with a cron line; of very many firings the first FIRINGS."""
    latest = before = first
    earlier: Counter[datetime] = Counter()
    count = 0
    while (candidate := next_cron(line, latest)) <= now and count < FIRINGS:
        earlier[quota.hour_of(latest)] += 1
        count += 1
        before, latest = latest, candidate
    return Passed(latest, count, before, candidate, earlier or None)


def left_behind(
    master: DueMaster, now: datetime, next_cron: NextCron, off: SkipReason | None = None
) -> tuple[list[SkippedSlots], datetime | None]:
    """What becomes of the due slots of a master whose clock is about to be wound: those skipped, and what stays due.

    What passed while nothing ticked is skipped. The slot of this moment stays, for the next tick to take, unless the
    master is switched off: then it is skipped for that (`off`).
    """
    down = master.blocked or SkipReason.SCHEDULER_DOWN
    passed = (
        passed_on_grid(master, now) if master.cron is None
        else passed_of_line(master.cron, master.next_run_at, now, next_cron)
    )  # fmt: skip
    if schedule.passed_unseen(passed.latest, now):
        count, hours = passed.earlier + 1, passed.with_latest()
        return [SkippedSlots(master, down, master.next_run_at, passed.latest, count, hours=hours)], None
    skipped = []
    if passed.earlier:
        first, last = master.next_run_at, passed.before_latest
        skipped.append(SkippedSlots(master, down, first, last, passed.earlier, hours=passed.hours))
    if off is None:
        return skipped, passed.latest
    return [*skipped, SkippedSlots(master, off, passed.latest, passed.latest)], None
