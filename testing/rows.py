"""Rows changed behind the services' back, and those of the decision log."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select, update

from portal.domain.statuses import EventType
from portal.extensions import Base, db
from portal.services.collecting import history
from portal.tables import CoordinatorLog


def set_rows(table: type[Base], *where: ColumnElement[bool], **values: Any) -> None:
    """Set columns of the rows for which `where` holds, and commit."""
    db.session.execute(update(table).where(*where).values(**values))
    db.session.commit()


def logged(*events: EventType) -> list[CoordinatorLog]:
    """The decisions of these kinds, or all of them, oldest first."""
    db.session.rollback()
    query = select(CoordinatorLog).order_by(CoordinatorLog.id)
    return list(db.session.scalars(query.where(CoordinatorLog.event_type.in_(events)) if events else query))


def thinned(now: datetime) -> int:
    """The history thinned to its end; how many rows went."""
    return sum(history.thin(now))
