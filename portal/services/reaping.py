"""What the reaper repairs, in the database: tries whose lease is gone, executions that no queue knows."""

from datetime import datetime, timedelta

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from portal.domain.statuses import ExecutionStatus
from portal.extensions import db, transaction
from portal.models import Execution, Olt
from portal.queueing import Ticket
from portal.services.tickets import tickets_for

QUEUED_GRACE = timedelta(seconds=8)  # between the commit and the push, and between the claim and RUNNING
LIMIT = 5000


def running() -> list[tuple[int, int, int]]:
    """(execution id, olt id, token) of everything RUNNING."""
    query = select(Execution.id, Execution.olt_id, Execution.token).where(Execution.status == ExecutionStatus.RUNNING)
    rows = [(row.id, row.olt_id, row.token or 0) for row in db.session.execute(query)]
    db.session.rollback()
    return rows


def running_on_disabled() -> list[int]:
    """OLTs that were disabled or deleted while something runs on them."""
    query = (
        select(Execution.olt_id)
        .join(Olt)
        .where(
            Execution.status == ExecutionStatus.RUNNING, or_(Olt.enabled.is_(False), Olt.deleted_at.is_not(None))
        )
    )  # fmt: skip
    ids = list(db.session.scalars(query))
    db.session.rollback()
    return ids


def to_queue(now: datetime) -> list[Ticket]:
    """Tickets of PENDING executions that may run now and should be queued by now."""
    session: Session = db.session()
    query = (
        select(Execution)
        .where(
            Execution.status == ExecutionStatus.PENDING,
            or_(Execution.not_before.is_(None), Execution.not_before <= now),
            or_(Execution.queued_at.is_(None), Execution.queued_at <= now - QUEUED_GRACE),
        )
        .order_by(Execution.scheduled_for)
        .limit(LIMIT)
    )
    tickets = tickets_for(session, list(session.scalars(query)))
    session.rollback()
    return tickets


def mark_queued(tickets: list[Ticket], now: datetime) -> None:
    """These were pushed."""
    if tickets:
        with transaction() as session:
            ids = [ticket.execution_id for ticket in tickets]
            session.execute(update(Execution).where(Execution.id.in_(ids)).values(queued_at=now))


def waiting_olts() -> list[int]:
    """OLTs with something PENDING."""
    query = select(Execution.olt_id).where(Execution.status == ExecutionStatus.PENDING).distinct()
    ids = list(db.session.scalars(query))
    db.session.rollback()
    return ids
