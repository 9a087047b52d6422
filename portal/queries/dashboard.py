"""The start page in numbers: OLTs by state, which to look at, latest failures, the pool's last hour. Reads only."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select

from portal.domain.statuses import ErrorKind, ExecutionStatus
from portal.extensions import db
from portal.models import Execution, Olt, Workflow, WorkflowNode
from portal.queries import executions, olts, pollers

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
class Overview:
    """All that the start page shows. `last_success`: OLT id → when any of its nodes last succeeded."""

    counts: dict[str, int]
    rows: tuple[olts.OltRow, ...]
    last_success: dict[int, datetime]
    failures: list[Failure]
    pool: list[pollers.StatsPoint]
    latest: tuple[executions.Row, ...]

    @property
    def hidden(self) -> int:
        """OLTs that are not among the rows."""
        return self.counts.get("", 0) - len(self.rows)


def overview(now: datetime) -> Overview:
    """At most nine SQL statements whatever the number of OLTs."""
    rows = olts.page(olts.OltFilter(sort="state"), size=TILES).rows
    return Overview(
        counts=olts.counts(olts.OltFilter()),
        rows=rows,
        last_success=_last_success([row.id for row in rows]),
        failures=_failures(now),
        pool=pollers.history(now - HOUR),
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
