"""What the reaper repairs, in the database: tries whose lease is gone, executions that no queue knows."""

from datetime import datetime, timedelta

from flask import current_app
from sqlalchemy import or_, select

from portal.domain import tempo
from portal.domain.statuses import ACTIVE, ExecutionStatus
from portal.extensions import db, transaction
from portal.queueing import Ticket
from portal.services.dispatch import slots
from portal.tables import Execution, Olt

LIMIT = 5000

_RUNNING = Execution.status == ExecutionStatus.RUNNING


def running() -> list[tuple[int, int, int]]:
    """(execution id, olt id, token) of everything RUNNING."""
    query = select(Execution.id, Execution.olt_id, Execution.token).where(_RUNNING)
    rows = [(row.id, row.olt_id, row.token or 0) for row in db.session.execute(query)]
    db.session.rollback()
    return rows


def to_stop() -> list[tuple[int, int]]:
    """(olt id, token) of what is RUNNING though it was cancelled, or though its OLT was disabled or deleted."""
    query = (
        select(Execution.olt_id, Execution.token)
        .join(Olt)
        .where(
            _RUNNING, or_(Execution.cancelled_by != "", Olt.enabled.is_(False), Olt.deleted_at.is_not(None))
        )
    )  # fmt: skip
    rows = [(row.olt_id, row.token or 0) for row in db.session.execute(query)]
    db.session.rollback()
    return rows


def to_queue(now: datetime) -> list[Ticket]:
    """Tickets of PENDING executions that may run now and should be queued by now; those not looked at longest first."""
    session, grace = db.session(), timedelta(seconds=tempo.at(current_app.config["TEMPO"]).queued_grace)
    may_run = or_(Execution.not_before.is_(None), Execution.not_before <= now)
    # Queued in the future: the clock was set back since.
    seen = or_(Execution.queued_at <= now - grace, Execution.queued_at > now + grace)
    by_now = or_(Execution.queued_at.is_(None), seen)
    order = [Execution.queued_at.nulls_first(), Execution.id]
    tickets = slots.pending_tickets(session, may_run & by_now, order=order, limit=LIMIT)
    session.rollback()
    return tickets


def mark_queued(tickets: list[Ticket], now: datetime) -> None:
    """These were pushed, or found in the queue."""
    if tickets:
        with transaction() as session:
            slots.mark_queued(session, tickets, now)


def active_olts() -> list[tuple[int, str]]:
    """(id, site) of the OLTs with something PENDING or RUNNING."""
    query = select(Olt.id, Olt.site).where(Olt.id.in_(select(Execution.olt_id).where(Execution.status.in_(ACTIVE))))
    rows = [(row.id, row.site) for row in db.session.execute(query)]
    db.session.rollback()
    return rows
