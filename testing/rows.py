"""Rows changed behind the services' back."""

from typing import Any

from sqlalchemy import ColumnElement, update

from portal.extensions import Base, db


def set_rows(table: type[Base], *where: ColumnElement[bool], **values: Any) -> None:
    """Set columns of the rows for which `where` holds, and commit."""
    db.session.execute(update(table).where(*where).values(**values))
    db.session.commit()
