"""Many rows in one statement with one parameter, on both databases: no driver's work for each row. No rules here.

The rows travel as JSON text, which PostgreSQL and SQLite read themselves. Measured with 1,000 rows, that takes a fifth
of the time of VALUES lists on PostgreSQL, and half of it on SQLite.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import JSON, Column, Dialect, Row, Select, Subquery, Table, column, func, literal, select, true, update
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

Values = Mapping[str, Any]


def insert(session: Session, table: Table, rows: Sequence[Values]) -> None:
    """Insert the rows. All name the same columns; the others get their defaults."""
    if rows:
        session.connection().execute(_insert(session, table, rows))


def insert_new(session: Session, table: Table, rows: Sequence[Values], returning: Sequence[str]) -> list[Row[Any]]:
    """Insert the rows that break no unique index; the `returning` columns of those, in any order."""
    if not rows:
        return []
    statement = _insert(session, table, rows).on_conflict_do_nothing().returning(*(table.c[name] for name in returning))
    return list(session.connection().execute(statement))


def insert_or_hold(
    session: Session, table: Table, rows: Sequence[Values], key: Sequence[str], held: str, returning: Sequence[str]
) -> list[Row[Any]]:
    """Insert the rows; one whose `key` exists stays as it is (`held`: a column that is set to what it is) and is

    locked until the transaction ends. In the order given, so that nobody waits in a circle. The `returning` columns of
    all, in any order.
    """
    if not rows:
        return []
    statement = _insert(session, table, rows)
    statement = statement.on_conflict_do_update(index_elements=list(key), set_={held: table.c[held]})
    return list(session.connection().execute(statement.returning(*(table.c[name] for name in returning))))


def given(session: Session, table: Table, names: Sequence[str], rows: Sequence[Values]) -> Subquery | None:
    """The rows as a subquery with these columns of `table`, to update or join by; None when there are none."""
    if not rows:
        return None
    return _given(session.connection().dialect, [table.c[name] for name in names], rows).subquery()


def set_column(session: Session, table: Table, name: str, values: Mapping[int, Any]) -> None:
    """Set one column of the rows with these ids."""
    rows = given(session, table, ("id", name), [{"id": ident, name: value} for ident, value in values.items()])
    if rows is None:
        return
    session.connection().execute(update(table).where(table.c.id == rows.c.id).values({name: rows.c[name]}))


def _insert(session: Session, table: Table, rows: Sequence[Values]) -> Any:
    dialect = session.connection().dialect
    into: Any = sqlite.insert(table) if dialect.name == "sqlite" else postgresql.insert(table)
    return into.from_select(list(rows[0]), _given(dialect, [table.c[name] for name in rows[0]], rows))


def _given(dialect: Dialect, columns: Sequence[Column[Any]], rows: Sequence[Values]) -> Select[Any]:
    """SELECT of the rows out of one parameter. Values are those that the columns' types would bind."""
    names = [one.name for one in columns]
    encoded = zip(*(_encoded(dialect, one, rows) for one in columns), strict=True)
    if dialect.name == "sqlite":
        each = func.json_each(json.dumps(list(encoded), default=datetime.isoformat)).table_valued("value")
        picked = (func.json_extract(each.c.value, f"$[{at}]").label(name) for at, name in enumerate(names))
        return select(*picked).where(true())  # WHERE: without one SQLite takes ON CONFLICT for the condition of a join
    text = json.dumps([dict(zip(names, row, strict=True)) for row in encoded], default=datetime.isoformat)
    listed = func.json_to_recordset(sql_cast(literal(text), postgresql.JSON))
    typed = listed.table_valued(*(column(one.name, one.type) for one in columns)).render_derived(with_types=True)
    return select(typed)


def _encoded(dialect: Dialect, one: Column[Any], rows: Sequence[Values]) -> list[Any]:
    """One column's values, as JSON can carry them."""
    values = [row[one.name] for row in rows]
    encode = one.type.dialect_impl(dialect).bind_processor(dialect)
    if encode is None or (isinstance(one.type, JSON) and dialect.name == "postgresql"):
        return values
    if not isinstance(one.type, JSON):  # most rows share their times and words
        encode = cache(encode)
    return [encode(value) for value in values]
