"""What the API answers, as dataclasses: their annotations are the published schema. No work is done here."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from portal.domain.ledger import Verdict
from portal.domain.statuses import (
    AttemptStatus,
    ErrorKind,
    ExecutionStatus,
    NodeKind,
    PollerStatus,
    SkipReason,
    StepStatus,
    Trigger,
)
from portal.queries.queue import Cause, Lane

Count = Annotated[int, "Since the poller started."]
Site = Annotated[str | None, 'null: every OLT is served; "": only OLTs without a site; else only those of this site.']
Next = Annotated[str | None, "Path of the next page; null on the last one."]


@dataclass(frozen=True)
class Error:
    """What went wrong and what to do about it."""

    code: Annotated[str, "A word for programs; does not change."]
    message: Annotated[str, "For people: what happened and what to do."]
    fields: Annotated[dict[str, str], "Argument or field → what is wrong with it; empty where no field is to blame."]


@dataclass(frozen=True)
class ErrorBody:
    """The one shape of all errors."""

    error: Error


@dataclass(frozen=True)
class PoolRef:
    """The pool of pollers that one process keeps alive."""

    id: int
    name: str
    host: str
    site: Site


@dataclass(frozen=True)
class Poller:
    """One poller: a worker process that runs one composite at a time."""

    id: int
    poller_id: Annotated[int, "Its number inside its pool."]
    status: PollerStatus
    alive: Annotated[bool, "false: not seen for 30 s."]
    pool: PoolRef
    worker: str
    pid: int
    busy_percentage: Annotated[float, "Of the last minute."]
    busy_percentage_since_start: float
    busy_time: Annotated[float, "Seconds with a composite since the poller started."]
    total_time: Annotated[float, "Seconds since the poller started."]
    tasks_completed: Count
    tasks_delayed: Count
    current_execution_id: int | None
    current_node_id: int | None
    current_node_name: Annotated[str, "Empty when it is free."]
    current_olt_id: int | None
    current_olt_name: Annotated[str, "Empty when it is free."]
    busy_since: datetime | None
    restart_requested: bool
    created_at: Annotated[datetime, "When the process started."]
    updated_at: Annotated[datetime, "When it was last seen."]


@dataclass(frozen=True)
class PollerList:
    """All pollers, by host, pool and number."""

    items: list[Poller]
    next: Annotated[str | None, "Always null: all pollers are in one answer."]


@dataclass(frozen=True)
class ExecutionRef:
    """An execution that another one waits for."""

    execution_id: int
    node_name: str


@dataclass(frozen=True)
class QueuedNode:
    """One execution that waits, and why."""

    execution_id: int
    node_id: int | None
    node_name: str
    olt_id: int
    olt_name: str
    site: str
    trigger: Trigger
    lane: Lane
    priority: int
    scheduled_for: Annotated[datetime, "Its slot."]
    due_at: Annotated[datetime, "From when on it can run: later than its slot for a repeated try."]
    waiting_seconds: Annotated[float, "Since due_at; 0 before."]
    delayed: Annotated[bool, "The node's next slot has come already."]
    attempt: Annotated[int, "Tries so far."]
    cause: Annotated[Cause, "What keeps it from starting; the first that holds."]
    why: Annotated[str, "The cause as a sentence."]
    waits_for: ExecutionRef | None


@dataclass(frozen=True)
class Queue:
    """What waits, in the order in which it will be taken."""

    size: Annotated[int, "All that waits, also what is not listed."]
    is_overload: Annotated[bool, "Something that is due waits for more than 2 s and no poller is free."]
    next_nodes: list[QueuedNode]


@dataclass(frozen=True)
class PoolStats:
    """One pool of pollers in numbers."""

    id: int
    name: str
    host: str
    site: Site
    size: Annotated[int, "How many pollers it shall keep."]
    total_pollers: Annotated[int, "How many were seen in the last 30 s."]
    free_pollers: int
    busy_pollers: int
    busy_percentage: Annotated[float, "Of the last minute."]
    is_saturated: Annotated[bool, "Busy for more than 75 % of the last minute."]
    updated_at: Annotated[datetime, "When the pool's process was last seen."]


@dataclass(frozen=True)
class StatsPoint:
    """A stretch of the history."""

    timestamp: Annotated[datetime, "End of the stretch."]
    busy_percentage: Annotated[float, "Mean."]
    queue_size: Annotated[int, "The most that waited."]


@dataclass(frozen=True)
class Stats:
    """All pools together at this moment."""

    total_pollers: int
    free_pollers: int
    busy_pollers: int
    busy_percentage: Annotated[float, "Of the last minute."]
    queue_size: int
    is_saturated: Annotated[bool, "Busy for more than 75 % of the last minute."]
    total_tasks_completed: Annotated[int, "By the pollers alive, since each started."]
    total_tasks_delayed: Annotated[int, "By the pollers alive, since each started."]
    timestamp: datetime
    advice: Annotated[str | None, "What to do when a pool is saturated or no poller runs."]
    pools: list[PoolStats]
    history: Annotated[list[StatsPoint], "Oldest first; empty unless since or points is given."]


@dataclass(frozen=True)
class Execution:
    """One slot's, or one requested, run of a composite on an OLT."""

    id: int
    node_id: Annotated[int | None, "null when the node has been deleted."]
    node_name: str
    olt_id: int
    olt_name: str
    status: ExecutionStatus
    trigger: Trigger
    requested_by: Annotated[str, "Who asked for it to run now: a user name, or token:NAME."]
    cancelled_by: Annotated[str, "Who cancelled it; while it is RUNNING: who asked it to stop."]
    priority: int
    scheduled_for: Annotated[datetime, "Its slot."]
    not_before: datetime | None
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    duration_ms: int | None
    delay_ms: Annotated[int | None, "From its slot to its start."]
    attempt: Annotated[int, "Tries so far."]
    worker: Annotated[str, "The poller that ran it last."]
    error_kind: ErrorKind | None
    error_message: str


@dataclass(frozen=True)
class ExecutionList:
    """One page, newest first."""

    items: list[Execution]
    next: Next


@dataclass(frozen=True)
class Step:
    """One node of the chain inside one try."""

    position: int
    node_id: int | None
    node_key: str
    status: StepStatus
    skip_reason: SkipReason | None
    started_at: datetime | None
    duration_ms: int | None
    pdus: Annotated[int, "Datagrams sent."]
    timeouts: int
    rows: Annotated[int, "Values that the OLT returned."]
    error_kind: ErrorKind | None
    error_message: str
    sparse: Annotated[
        dict[str, list[int]] | None,
        "Columns read to their end that hold a value of few ONUs: metric → [ONUs with a value, ONUs expected].",
    ]


@dataclass(frozen=True)
class Attempt:
    """One try of an execution."""

    number: int
    status: AttemptStatus
    worker: str
    started_at: datetime
    finished_at: datetime | None
    duration_ms: int | None
    error_kind: ErrorKind | None
    error_message: str
    steps: list[Step]


@dataclass(frozen=True)
class ExecutionDetail(Execution):
    """One execution with its tries and their steps."""

    result: Annotated[dict[str, Any] | None, "Counts of what it brought; null while nothing was stored."]
    attempts: list[Attempt]


@dataclass(frozen=True)
class Run(ExecutionDetail):
    """The execution that was asked for."""

    created: Annotated[bool, "false: one of this node waits or runs already, and this is that one."]


@dataclass(frozen=True)
class LedgerRow:
    """What one node cost its OLT in the period, and how much of what it read was new."""

    node_id: int
    node_name: str
    kind: NodeKind
    chained: Annotated[bool, "It runs after a master and has no clock of its own."]
    interval_seconds: Annotated[int | None, "null: chained, or by a cron line."]
    olt_id: int
    olt_name: str
    runs: Annotated[int, "Executions that ended, whatever their end; of chained nodes: steps that ran."]
    failures: int
    olt_time_ms: Annotated[int, "Time of its steps, in all tries."]
    olt_time_percentage: Annotated[float, "Of the time of all nodes of its OLT."]
    delay_ms: Annotated[int, "Sum of the delays of its runs; of masters."]
    values_read: int
    values_changed: Annotated[int, "Values that said something new; the first sight of a value too."]
    values_changed_percentage: Annotated[float | None, "null: nothing was read."]
    verdict: Annotated[Verdict | None, "costly: costs much, changes little; failing: most of its runs fail."]
    freed_ms_per_day: Annotated[int | None, "What reading half as often would free; of costly ones."]


@dataclass(frozen=True)
class Ledger:
    """Nodes by what they cost, dearest first."""

    since: Annotated[datetime | None, "Beginning of the period, a UTC day; null: no hour has been entered yet."]
    up_to: Annotated[datetime | None, "End of the last hour that was entered."]
    items: list[LedgerRow]
    next: Next
