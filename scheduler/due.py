"""Which masters are due: one indexed select, plain rows out. Its cost grows with what is due, not with what exists."""

from datetime import datetime

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from portal.domain.slots import DueMaster
from portal.domain.statuses import ACTIVE, ExecutionStatus
from portal.models import Execution, Olt, Workflow, WorkflowNode

LIMIT = 5000  # a tick takes no more than this; the rest comes a second later


def _due(now: datetime) -> ColumnElement[bool]:
    return and_(
        WorkflowNode.next_run_at <= now,
        WorkflowNode.master_id.is_(None),
        WorkflowNode.enabled.is_(True),
        Workflow.enabled.is_(True),
        Olt.enabled.is_(True),
        Olt.deleted_at.is_(None),
    )


def anything_due(session: Session, now: datetime) -> bool:
    """True when a tick at `now` would have something to decide. Takes no lock."""
    query = select(WorkflowNode.id).join(Workflow).join(Olt).where(_due(now)).limit(1)
    return session.scalar(query) is not None


def select_due(session: Session, now: datetime) -> list[DueMaster]:
    """The due masters with what their plan depends on, locked against a second scheduler's tick (PostgreSQL)."""
    active = and_(Execution.node_id == WorkflowNode.id, Execution.status.in_(ACTIVE))
    query = (
        select(WorkflowNode, Olt, Execution)
        .join(Workflow, WorkflowNode.workflow_id == Workflow.id)
        .join(Olt, Workflow.olt_id == Olt.id)
        .outerjoin(Execution, active)
        .where(_due(now))
        .order_by(WorkflowNode.next_run_at)
        .limit(LIMIT)
        .with_for_update(of=WorkflowNode, skip_locked=True)
    )
    return [_row(node, olt, running) for node, olt, running in session.execute(query)]


def _row(node: WorkflowNode, olt: Olt, active: Execution | None) -> DueMaster:
    assert node.next_run_at is not None  # noqa: S101  (the select asks for it)
    return DueMaster(
        node_id=node.id,
        node_name=node.name,
        olt_id=olt.id,
        device_key=olt.device_key,
        priority=node.priority,
        next_run_at=node.next_run_at,
        interval_seconds=node.interval_seconds,
        cron=node.cron,
        active_id=active.id if active else None,
        active_waits_to_retry=active is not None and active.status is ExecutionStatus.PENDING and active.attempt > 0,
    )
