"""The start page in numbers: OLTs by state, which to look at, latest failures, the pool's last hour. Reads only."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select

from portal.domain.pool import SATURATED_ABOVE
from portal.domain.statuses import ErrorKind, ExecutionStatus
from portal.extensions import db
from portal.models import Execution, Olt, PollerStats, Workflow, WorkflowNode
from portal.queries import executions, olts

TILES = 24
FAILURES = 8
LATEST = 12
ROOM_BELOW = 10  # with more OLTs than this the page is full without the latest executions
RECENT = timedelta(days=1)
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Failure:
    """One execution that failed."""

    id: int
    olt_id: int
    olt_name: str
    node_name: str
    finished_at: datetime
    error_kind: ErrorKind | None
    error_message: str


@dataclass(frozen=True)
class Point:
    """Busy percent of the pool at one moment, and how many composites waited."""

    at: datetime
    busy: float
    waiting: int


@dataclass(frozen=True)
class Overview:
    """All that the start page shows. `last_success`: OLT id → when any of its nodes last succeeded."""

    counts: dict[str, int]
    rows: tuple[olts.OltRow, ...]
    last_success: dict[int, datetime]
    failures: list[Failure]
    pool: list[Point]
    latest: tuple[executions.Row, ...]

    @property
    def hidden(self) -> int:
        """OLTs that are not among the rows."""
        return self.counts.get("", 0) - len(self.rows)


def overview(now: datetime) -> Overview:
    """At most eight SQL statements whatever the number of OLTs."""
    rows = olts.page(olts.OltFilter(sort="state"), size=TILES).rows
    return Overview(
        counts=olts.counts(olts.OltFilter()),
        rows=rows,
        last_success=_last_success([row.id for row in rows]),
        failures=_failures(now),
        pool=_pool(now),
        latest=executions.page(executions.Filter(), size=LATEST).rows if len(rows) <= ROOM_BELOW else (),
    )


def _last_success(olt_ids: list[int]) -> dict[int, datetime]:
    query = (
        select(Workflow.olt_id, func.max(WorkflowNode.last_success_at))
        .join(WorkflowNode, WorkflowNode.workflow_id == Workflow.id)
        .where(Workflow.olt_id.in_(olt_ids))
        .group_by(Workflow.olt_id)
    )
    return {olt_id: last for olt_id, last in db.session.execute(query) if last is not None}


def _failures(now: datetime) -> list[Failure]:
    query = (
        select(
            Execution.id, Execution.olt_id, Olt.name, Execution.node_name, Execution.finished_at,
            Execution.error_kind, Execution.error_message,
        )
        .join(Olt, Olt.id == Execution.olt_id)
        .where(Execution.status == ExecutionStatus.FAILED)
        .order_by(Execution.id.desc())
        .limit(FAILURES)
    )  # fmt: skip
    # The age is compared here: in SQL it would walk all failures of a month when the last day had none.
    return [Failure(*row) for row in db.session.execute(query) if row.finished_at and row.finished_at > now - RECENT]


def _pool(now: datetime) -> list[Point]:
    query = (
        select(PollerStats.timestamp, PollerStats.busy_percentage, PollerStats.queue_size)
        .where(PollerStats.timestamp > now - HOUR)
        .order_by(PollerStats.timestamp)
    )
    return [Point(*row) for row in db.session.execute(query)]


def spark(points: list[Point], now: datetime) -> list[str]:
    """Polylines "x,y x,y" in a box of 360 × 100 (a unit is 10 s, a percent); gaps over a minute stay gaps.

    The right edge moves every ten seconds, as the history does: else each look at the page would differ.
    """
    edge = now.timestamp() // 10 * 10
    lines: list[list[str]] = []
    before: datetime | None = None
    for point in points:
        if before is None or point.at - before > timedelta(minutes=1):
            lines.append([])
        x = min(360.0, 360 - (edge - point.at.timestamp()) / 10)
        lines[-1].append(f"{x:.1f},{100 - min(100.0, point.busy):.1f}")
        before = point.at
    return [" ".join(line) for line in lines if len(line) > 1]


def saturated_line() -> float:
    """Height of the line of saturation in the box of `spark`."""
    return 100 - SATURATED_ABOVE
