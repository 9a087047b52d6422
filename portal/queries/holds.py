"""Who had an OLT when, and how long that usually takes: the tries of its executions. Reads only."""

import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import or_, select

from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from portal.tables import Execution, ExecutionAttempt, NodePace, WorkflowNode

# Slots older than this are not looked at: a run that waits so long for its start has been given up long before.
LOOKED_BACK = timedelta(hours=2)
LAST_RUNS = 20


@dataclass(frozen=True)
class HoldRow:
    """One try of an execution; `until` None: it goes on. `node_id` None: its node was deleted."""

    execution_id: int
    node_id: int | None
    node_name: str
    since: datetime
    until: datetime | None


def nodes_of(olt_workflow_id: int) -> list[int]:
    """Ids of all nodes of a workflow: also a chained one can be run alone. One SQL statement."""
    return list(db.session.scalars(select(WorkflowNode.id).where(WorkflowNode.workflow_id == olt_workflow_id)))


def between(node_ids: Collection[int], since: datetime, until: datetime, without: int = 0) -> list[HoldRow]:
    """Tries of these nodes that overlap with the time, in their order, but not of execution `without`.

    One SQL statement, one stretch of an index for each node.
    """
    tries = ExecutionAttempt
    query = (
        select(Execution.id, Execution.node_id, Execution.node_name, tries.started_at, tries.finished_at)
        .join(tries, tries.execution_id == Execution.id)
        .where(
            Execution.node_id.in_(node_ids), Execution.scheduled_for.between(since - LOOKED_BACK, until),
            tries.started_at < until, or_(tries.finished_at.is_(None), tries.finished_at > since),
            Execution.id != without,
        )
        .order_by(tries.started_at)
    )  # fmt: skip
    return [HoldRow(*row) for row in db.session.execute(query)]


def of_execution(execution_id: int, since: datetime, until: datetime) -> list[HoldRow]:
    """Tries of this execution that overlap with the time. One SQL statement."""
    tries = ExecutionAttempt
    query = (
        select(Execution.id, Execution.node_id, Execution.node_name, tries.started_at, tries.finished_at)
        .join(tries, tries.execution_id == Execution.id)
        .where(
            Execution.id == execution_id, tries.started_at < until,
            or_(tries.finished_at.is_(None), tries.finished_at > since),
        )
        .order_by(tries.started_at)
    )  # fmt: skip
    return [HoldRow(*row) for row in db.session.execute(query)]


def usual(node_ids: Collection[int]) -> dict[int, int]:
    """Node id → how long its composite usually takes (ms): what was learned, else the median of its last runs."""
    query = select(NodePace.node_id, NodePace.p50_ms).where(NodePace.node_id.in_(node_ids), NodePace.p50_ms > 0)
    known = {row.node_id: row.p50_ms for row in db.session.execute(query)}
    for node_id in set(node_ids) - known.keys():
        durations = _last_durations(node_id)
        if durations:
            known[node_id] = round(statistics.median(durations))
    return known


def _last_durations(node_id: int) -> Sequence[int]:
    query = (
        select(Execution.duration_ms)
        .where(Execution.node_id == node_id, Execution.status == ExecutionStatus.SUCCESS)
        .order_by(Execution.scheduled_for.desc())
        .limit(LAST_RUNS)
    )
    return [duration for duration in db.session.scalars(query) if duration is not None]
