"""What the API answers about quotas and violations, as dataclasses. No work is done here."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from portal.domain.statuses import ExecutionStatus, LossCause, QuotaStatus, Severity, SkipReason

Next = Annotated[str | None, "Path of the next page; null on the last one."]
Lost = Annotated[dict[str, int], "Lost slots by cause; their sum is failed + skipped."]
TaskType = Annotated[str, "`discovery`, or the kind and key of a node: `get_rx`."]


@dataclass(frozen=True)
class Quota:
    """The runs of one task that an OLT was promised in one hour: required = completed + failed + skipped + pending."""

    id: int
    olt_id: int
    olt_name: str
    task_type: TaskType
    period_start: Annotated[datetime, "A slot at this very time belongs to the hour before."]
    period_end: Annotated[datetime, "A slot at this very time belongs to this hour."]
    status: QuotaStatus
    at_risk: Annotated[bool, "Of its slots 20 % more were due than are completed, or too many are lost already."]
    required: int
    completed: int
    failed: int
    skipped: int
    pending: int
    lost: Lost
    forecast: Annotated[int | None, "How many will be completed; null when nobody reckoned it, or the hour is over."]
    avg_duration_ms: Annotated[int, "Of the runs that have a duration, interrupted ones too."]
    updated_at: datetime


@dataclass(frozen=True)
class QuotaList:
    """One page, newest hour first."""

    items: list[Quota]
    next: Next
    since: Annotated[datetime | None, "No earlier hours were looked at; null: all were."]


@dataclass(frozen=True)
class QuotaBasis:
    """From what a quota was reckoned: a node at one pace."""

    node_id: int
    key: str
    slots: int
    interval_seconds: Annotated[int | None, "null: by a cron line."]
    cron: Annotated[str, "Empty: by an interval."]


@dataclass(frozen=True)
class QuotaSlot:
    """One slot and what became of it."""

    scheduled_for: datetime
    node_id: Annotated[int | None, "null when the node has been deleted."]
    node_name: str
    execution_id: Annotated[int | None, "null: it was skipped and never became an execution."]
    status: Annotated[ExecutionStatus | None, "Of the execution."]
    lost_to: Annotated[LossCause | None, "null: completed, or not ended yet."]
    skip_reason: SkipReason | None


@dataclass(frozen=True)
class QuotaChange:
    """The promise was changed after it was made."""

    at: datetime
    before: int
    after: int


@dataclass(frozen=True)
class QuotaDetail(Quota):
    """One quota with all that it stands for."""

    basis: list[QuotaBasis]
    slots: Annotated[list[QuotaSlot], "Those that have come and are not cleaned up yet, in their order."]
    changes: list[QuotaChange]
    violation_id: int | None


@dataclass(frozen=True)
class Violation:
    """An hour in which too few of the promised runs of a task were completed."""

    id: int
    olt_id: int
    olt_name: str
    task_type: TaskType
    period_start: datetime
    period_end: datetime
    severity: Severity
    required: int
    completed: int
    lost: Annotated[dict[str, int], "Lost slots by cause; their sum is required - completed."]
    notified: bool
    notified_at: datetime | None
    created_at: datetime
    acknowledged_at: Annotated[datetime | None, "null: it is open."]
    acknowledged_by: Annotated[str, "Empty: it is open."]
    note: Annotated[str, "What they said."]


@dataclass(frozen=True)
class ViolationList:
    """One page, newest first."""

    items: list[Violation]
    next: Next


@dataclass(frozen=True)
class ViolationDetail(Violation):
    """One violation with its slots."""

    quota_id: Annotated[int | None, "null when the quota has been cleaned up."]
    lost_slots: Annotated[list[QuotaSlot], "Those that are not cleaned up yet, in their order."]
