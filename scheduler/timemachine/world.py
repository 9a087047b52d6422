"""What the time machine works on: OLTs, their masters, and the executions that are alive. State, no rules. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from portal.domain import quota
from portal.domain.statuses import ErrorKind, ExecutionStatus, NodeKind, OltState, SkipReason
from portal.domain.tickets import Ticket

ALL_SITES = "*"  # pollers that serve every OLT, as in jobs.claim


@dataclass(frozen=True)
class OltSpec:
    """One OLT as the database or a test gives it."""

    olt_id: int
    name: str
    site: str = ""
    enabled: bool = True
    state: OltState = OltState.UP
    paused_until: datetime | None = None


@dataclass(frozen=True)
class NodeSpec:
    """One master and what its composite takes. Exactly one of `interval_seconds` and `cron`.

    `first`: its next slot, None while it is disabled. `durations`: of its last runs in seconds, oldest first; without
    them `median` is what a run takes. `time_limit`: of the whole composite, seconds; the product knows none. `usual`:
    what promises reckon a run to take where clocks go on from the end, seconds.
    """

    node_id: int
    olt_id: int
    key: str
    kind: NodeKind
    interval_seconds: int | None
    cron: str | None = None
    first: datetime | None = None
    priority: int = 40
    max_retries: int = 2
    retry_delay: int = 120
    time_limit: float = math.inf
    durations: tuple[float, ...] = ()
    median: float = 2.0
    enabled: bool = True
    usual: float = 0.0


@dataclass(frozen=True)
class Rules:
    """The settings that decide, and the paces of the periodic jobs. Times in seconds."""

    pollers: Mapping[str, int] = field(default_factory=lambda: {ALL_SITES: 10})  # site → pollers; "*": serve every OLT
    from_end: bool = False  # NEXTCHECK_MODE
    auto_pause_after: int = 3
    lease_seconds: float = 15.0
    reap_every: int = 5
    give_up: float = 4.0  # how long a composite asks an OLT that does not answer
    turnaround: float = 0.0  # of a poller between two composites
    close_after: timedelta = timedelta(minutes=15)  # an hour is judged so long after its end (coordinating.closing)


@dataclass(slots=True, eq=False)
class Olt:
    """One OLT while time goes by. `silent`, `slow`: the trouble it is in at present."""

    olt_id: int
    name: str
    site: str
    enabled: bool
    state: OltState
    paused_until: datetime | None
    nodes: list["Node"] = field(default_factory=list)
    running: "Run | None" = None
    failures: int = 0  # silent executions in a row
    since: datetime | None = None  # of its state
    probe_at: datetime | None = None
    silent: bool = False
    slow: float = 1.0
    errors: float = 0.0  # chance that a composite ends with an error of the device


@dataclass(slots=True, eq=False)
class Node:
    """One master while time goes by. `draws`: runs whose duration was drawn."""

    node_id: int
    olt: Olt
    key: str
    task_type: str
    kind: NodeKind
    interval_seconds: int | None
    cron: str | None
    priority: int
    max_retries: int
    retry_delay: int
    time_limit: float
    durations: tuple[float, ...]
    median: float
    enabled: bool
    usual: float
    next_run_at: datetime | None = None
    active: "Run | None" = None
    draws: int = 0
    deleted: bool = False
    last_success: datetime | None = None

    @property
    def runs(self) -> bool:
        """Whether the schedule runs it, as `WorkflowNode.runs` says of rows; at first all here do."""
        return self.enabled and self.olt.enabled and not self.deleted


@dataclass(slots=True, eq=False)
class Run:
    """One execution; the columns of its row.

    `ticket`: while the queue knows it. `outcome`: how its present try will end; None when nobody will say (killed).
    """

    execution_id: int
    node: Node
    scheduled_for: datetime
    overdue_at: datetime
    not_before: datetime | None
    queued_at: datetime | None
    status: ExecutionStatus = ExecutionStatus.PENDING
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    first_start: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    delay_ms: int | None = None
    duration_ms: int | None = None
    error_kind: ErrorKind | None = None
    skip_reason: SkipReason | None = None
    ticket: Ticket | None = None
    outcome: "Outcome | None" = None
    poller: tuple[str, int] = ("", 0)  # which pollers it came from, and their generation

    @property
    def pending(self) -> bool:
        return self.status is ExecutionStatus.PENDING

    def not_over(self, now: datetime) -> bool:
        """It had not come to its end by then."""
        return self.finished_at is None or self.finished_at > now

    @property
    def waits_to_retry(self) -> bool:
        """As scheduler.due says of rows."""
        return self.status is ExecutionStatus.PENDING and self.attempt > 0


@dataclass(frozen=True)
class Hold:
    """One try that held its OLT. `until` None: it still does."""

    execution_id: int
    node_id: int
    node_key: str
    since: datetime
    until: datetime | None


@dataclass(frozen=True)
class Outcome:
    """How a try will end unless something comes between. `kind` None: success. `answered`: by the OLT, anything."""

    seconds: float
    kind: ErrorKind | None = None
    answered: bool = True


@dataclass(frozen=True)
class World:
    """Everything a machine is made from.

    `watched`: the OLTs whose figures and verdicts are wanted (None: all); the others are lived along with them.
    `chained`: key of a chained node of theirs → keys of its masters; they run in their masters' composites.
    """

    olts: tuple[OltSpec, ...]
    nodes: tuple[NodeSpec, ...]
    rules: Rules = field(default_factory=Rules)
    watched: frozenset[int] | None = None
    chained: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def watches(self, olt_id: int) -> bool:
        """Whether an OLT is one of those that are looked at."""
        return self.watched is None or olt_id in self.watched


def build_olt(spec: OltSpec) -> Olt:
    """State from a spec."""
    return Olt(spec.olt_id, spec.name, spec.site, spec.enabled, spec.state, spec.paused_until)


def build_node(spec: NodeSpec, olt: Olt) -> Node:
    """State from a spec; entered with its OLT. Its clock is the machine's to set."""
    node = Node(
        spec.node_id, olt, spec.key, quota.task_type(spec.kind, spec.key), spec.kind, spec.interval_seconds, spec.cron,
        spec.priority, spec.max_retries, spec.retry_delay, spec.time_limit, spec.durations, spec.median, spec.enabled,
        spec.usual,
    )  # fmt: skip
    olt.nodes.append(node)
    return node
