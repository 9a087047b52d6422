"""What a tick knows of a due master, and what it can decide about it. Plain data shared by scheduler and services."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from portal.domain.statuses import SkipReason


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
