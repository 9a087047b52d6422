"""From an execution row to what the queue must know of it."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.statuses import Trigger
from portal.queueing import Ticket
from portal.tables import Execution, Olt


def tickets_for(session: Session, executions: list[Execution]) -> list[Ticket]:
    """A ticket for each execution. One query for all of them."""
    sites = _sites(session, {e.olt_id for e in executions})
    return [
        Ticket(
            execution_id=e.id,
            attempt=e.attempt + 1,
            olt_id=e.olt_id,
            priority=e.priority,
            scheduled_for=e.scheduled_for,
            overdue_at=e.overdue_at,
            manual=e.trigger is Trigger.MANUAL or bool(e.requested_by),
            site=sites.get(e.olt_id, ""),
        )
        for e in executions
    ]


def _sites(session: Session, olt_ids: set[int]) -> dict[int, str]:
    if not olt_ids:
        return {}
    rows = session.execute(select(Olt.id, Olt.site).where(Olt.id.in_(olt_ids), Olt.site != ""))
    return {row.id: row.site for row in rows}
