"""INSERT … ON CONFLICT for both databases."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from portal.extensions import Base

BATCH = 500  # values in one IN (…)


def upsert(
    session: Session, model: type[Base], rows: Iterable[dict[str, Any]], key: Sequence[str], update: Sequence[str]
) -> None:
    """Insert the rows; where `key` exists already, set the `update` columns to the new values.

    One short statement, prepared once and executed for each row: a long VALUES list would be compiled anew for each
    number of rows, which took ten times as long as writing them (bench.path).
    """
    listed = list(rows)
    if not listed:
        return
    dialect = session.get_bind().dialect.name
    insert: Any = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement = insert(model.__table__)
    values = {column: statement.excluded[column] for column in update}
    session.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values), listed)
