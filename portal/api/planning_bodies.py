"""What the API answers about plans and feasibility, as dataclasses. No work is done here."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from portal.domain.feasibility import Verdict
from portal.domain.statuses import LossCause, PlanStatus


@dataclass(frozen=True)
class PlannedRun:
    """One slot of a plan."""

    node_id: int
    node_key: str
    task_type: str
    scheduled_for: datetime
    expected_start: Annotated[datetime | None, "Null: it will not run."]
    p50_ms: Annotated[int, "How long its node's runs take."]
    p95_ms: Annotated[int, "What 19 of 20 of them do not exceed."]
    lost: Annotated[LossCause | None, "To what it is lost, when it will not run."]


@dataclass(frozen=True)
class ExecutionPlan:
    """What an OLT was expected to do in one hour. A superseded plan was made before something changed."""

    id: int
    status: PlanStatus
    period_start: datetime
    period_end: datetime
    why: Annotated[str, "What it was made anew for; empty at the beginning of the hour."]
    total_tasks: int
    completed_tasks: Annotated[int, "Filled in when the hour is judged."]
    failed_tasks: Annotated[int, "Filled in when the hour is judged; what is missing of the total was skipped."]
    created_at: datetime
    slots: list[PlannedRun]


@dataclass(frozen=True)
class PlanList:
    """The newest first."""

    items: list[ExecutionPlan]


@dataclass(frozen=True)
class NodeLoad:
    """What one master asks of its OLT."""

    node_id: int
    node_key: str
    task_type: str
    runs_per_hour: float
    p50_ms: int
    p95_ms: int
    guessed: Annotated[bool, "It has hardly run: its pace is taken from others of its kind."]
    predicted_runs: Annotated[int, "Runs that were predicted before they ran."]
    covered_percentage: Annotated[float | None, "How many of them took no longer than their p95."]
    error_ms: Annotated[int, "By how much the usual duration was off, on average."]
    busy_percentage: Annotated[float, "Of the hour, by its p95."]
    delay_ms: Annotated[int, "How long its runs are expected to wait, on average."]
    longest_delay_ms: int
    lost_per_hour: Annotated[int, "Slots of an hour that will not run."]


@dataclass(frozen=True)
class Feasibility:
    """How the work of one OLT fits into its hours."""

    olt_id: int
    olt_name: str
    busy_percentage: Annotated[float, "Of the hour, by the p95 of each run."]
    verdict: Annotated[Verdict, "tight: above 75 %, or a quota fails; impossible: above 100 %."]
    failing: Annotated[list[str], "Task types that will not keep their quota."]
    endangered: Annotated[list[str], "Task types that will not keep it in a slow hour."]
    blame: Annotated[str | None, "Key of the master that takes most, or holds the OLT for too long."]
    nodes: Annotated[list[NodeLoad], "Empty in a list for OLTs that fit: ask for the OLT alone."]
    detailed: Annotated[bool, "False: one of many that may lose slots, of which only the share was looked at."]


@dataclass(frozen=True)
class FeasibilityList:
    """Those that cannot keep their promises first, then the busiest."""

    items: list[Feasibility]
    total: Annotated[int, "OLTs in service that were looked at."]
