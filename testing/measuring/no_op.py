"""Composites that read nothing, for measures of what a composite costs besides its OLT."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, insert, select

from jobs import poller
from portal import queueing
from portal.domain.composite import CompositeResult, CompositeWork, StepResult
from portal.domain.statuses import ExecutionStatus, NodeKind, StepStatus, Trigger
from portal.extensions import db, transaction
from portal.queueing import Ticket
from portal.tables import Execution, Olt, Workflow, WorkflowNode

TEMPLATE = """
      - {key: uptime, kind: get, oid: generic.sys_up_time, interval: 5m}
"""


def table(model: Any) -> Any:
    """The table of a model: inserts into it take one statement for all rows."""
    return model.__table__


def olts(count: int, nodes: int) -> list[tuple[int, int]]:
    """`count` further OLTs like the first one, without an agent, each with `nodes` masters; (node id, OLT id)."""
    with transaction() as session:
        like = session.scalars(select(Olt).order_by(Olt.id).limit(1)).one()
        start = session.scalar(select(func.max(Olt.id))) or 0
        same = {"brand_id": like.brand_id, "credential_id": like.credential_id, "created_at": like.created_at}
        # Ids are the database's own: with given ones a PostgreSQL sequence would stay behind.
        session.execute(insert(table(Olt)), [
            {"name": f"NOOP-{n}", "address": f"10.0.{n // 256}.{n % 256}", "port": 161, **same}
            for n in range(start + 1, start + 1 + count)
        ])  # fmt: skip
        ids = list(session.scalars(select(Olt.id).where(Olt.id > start)))
        session.execute(insert(table(Workflow)), [{"olt_id": olt} for olt in ids])
        workflows = session.scalars(select(Workflow.id).where(Workflow.olt_id.in_(ids))).all()
        session.execute(insert(table(WorkflowNode)), [
            {"workflow_id": workflow, "key": f"k{k}", "name": f"k{k}", "kind": NodeKind.GET,
             "oid": "generic.sys_up_time", "interval_seconds": 300, "priority": 40}
            for workflow in workflows for k in range(nodes)
        ])  # fmt: skip
    query = select(WorkflowNode.id, Workflow.olt_id).join(Workflow).where(Workflow.olt_id > start)
    return [(row.id, row.olt_id) for row in db.session.execute(query)]


def queue(nodes: list[tuple[int, int]], now: datetime) -> None:
    """One PENDING execution for each (node, OLT), committed and pushed."""
    with transaction() as session:
        keys = {row.id: row.device_key for row in session.scalars(select(Olt))}
        session.execute(insert(table(Execution)), [
            {"node_id": node, "olt_id": olt, "node_name": "bench", "device_key": keys[olt], "priority": 40,
             "scheduled_for": now, "queued_at": now, "trigger": Trigger.SCHEDULE}
            for node, olt in nodes
        ])  # fmt: skip
        waiting = select(Execution).where(Execution.status == ExecutionStatus.PENDING)
        tickets = [Ticket(e.id, 1, e.olt_id, e.priority, e.scheduled_for, None) for e in session.scalars(waiting)]
    queueing.push(tickets)


def done() -> int:
    """Composites that have succeeded so far."""
    query = select(func.count()).select_from(Execution).where(Execution.status == ExecutionStatus.SUCCESS)
    return db.session.scalar(query) or 0


def _nothing(work: CompositeWork, *_: object) -> CompositeResult:
    now = datetime.now(UTC)
    return CompositeResult(
        tuple(StepResult(s.node_id, StepStatus.SUCCESS, started_at=now, finished_at=now, pdus=1) for s in work.steps)
    )


@contextmanager
def reading_nothing() -> Iterator[None]:
    """In the pollers that are forked meanwhile."""
    real, poller.run = poller.run, _nothing  # type: ignore[assignment]
    try:
        yield
    finally:
        poller.run = real
