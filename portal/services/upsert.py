"""INSERT … ON CONFLICT for both databases, in batches."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from portal.extensions import Base

BATCH = 500  # rows a statement: SQLite allows 32,766 variables


def upsert(
    session: Session, model: type[Base], rows: Iterable[dict[str, Any]], key: Sequence[str], update: Sequence[str]
) -> None:
    """Insert the rows; where `key` exists already, set the `update` columns to the new values."""
    listed = list(rows)
    dialect = session.get_bind().dialect.name
    insert: Any = sqlite.insert if dialect == "sqlite" else postgresql.insert
    for start in range(0, len(listed), BATCH):
        statement = insert(model).values(listed[start : start + BATCH])
        values = {column: statement.excluded[column] for column in update}
        session.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))
