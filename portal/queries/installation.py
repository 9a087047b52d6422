"""What this installation runs on and what was changed in the portal itself. Reads only."""

from datetime import datetime

from sqlalchemy import func, select

from portal.extensions import db
from portal.tables import Setting


def database_version() -> str:
    """What the database's server calls itself: SQLite 3.40.1, PostgreSQL 15.6."""
    if db.engine.dialect.name == "sqlite":
        return f"SQLite {db.session.scalar(select(func.sqlite_version()))}"
    return f"PostgreSQL {db.session.scalar(select(func.current_setting('server_version')))}"


def changed_here() -> dict[str, datetime]:
    """Key of each setting that the portal itself keeps → when it was changed."""
    return {key: at for key, at in db.session.execute(select(Setting.key, Setting.updated_at))}
