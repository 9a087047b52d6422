"""Alembic's entry: runs the migrations on the app's own engine. Started by `flask db …` only."""

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from flask import current_app
from sqlalchemy import Connection

from portal.models.types import EncryptedText, UTCDateTime, Word


def render_item(kind: str, item: Any, _autogen: AutogenContext) -> str | Literal[False]:
    """Migrations name plain column types: a script must still mean the same when our types have changed."""
    if kind == "type":
        if isinstance(item, UTCDateTime):
            return "sa.DateTime(timezone=True)"
        if isinstance(item, EncryptedText):
            return "sa.LargeBinary()"
        if isinstance(item, Word):
            return f"sa.String(length={item.impl.length})"  # type: ignore[attr-defined]
    return False


def include_object(_item: Any, name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
    """The index of trigrams is there only where PostgreSQL has the extension: no model names it."""
    return not (kind == "index" and name == "ix_onus_search")


def foreign_keys(connection: Connection, *, on: bool) -> None:
    """On SQLite: a table that batch mode rebuilds is dropped for a moment; cascades must not run on that.

    To the driver itself: within a transaction, which SQLAlchemy begins before any statement, SQLite ignores it.
    """
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.dbapi_connection
        driver.execute(f"PRAGMA foreign_keys={'ON' if on else 'OFF'}")


def run() -> None:
    """Upgrade or downgrade in one transaction."""
    extension = current_app.extensions["migrate"]
    with extension.db.engine.connect() as connection:
        foreign_keys(connection, on=False)
        context.configure(
            connection=connection,
            target_metadata=extension.db.metadata,
            render_item=render_item,
            include_object=include_object,
            **extension.configure_args,
        )
        try:
            with context.begin_transaction():
                context.run_migrations()
        finally:
            foreign_keys(connection, on=True)


run()
