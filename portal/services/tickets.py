"""From an execution row to what the queue must know of it."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from portal.domain.statuses import Trigger
from portal.models import Execution, WorkflowNode
from portal.queueing import Ticket


def tickets_for(session: Session, executions: list[Execution]) -> list[Ticket]:
    """A ticket for each execution, with the time its whole chain may take. One query for all of them."""
    limits = _time_limits(session, {e.node_id for e in executions if e.node_id is not None})
    return [
        Ticket(
            execution_id=e.id,
            attempt=e.attempt + 1,
            olt_id=e.olt_id,
            priority=e.priority,
            scheduled_for=e.scheduled_for,
            overdue_at=e.overdue_at,
            manual=e.trigger is Trigger.MANUAL,
            time_limit=limits.get(e.node_id or 0, 600.0),
        )
        for e in executions
    ]


def _time_limits(session: Session, masters: set[int]) -> dict[int, float]:
    if not masters:
        return {}
    master = func.coalesce(WorkflowNode.master_id, WorkflowNode.id)
    total = func.sum(WorkflowNode.time_limit)
    rows = session.execute(select(master, total).where(master.in_(masters)).group_by(master))
    return {node_id: float(seconds) for node_id, seconds in rows}
