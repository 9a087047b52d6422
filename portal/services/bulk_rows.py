"""Thousands of rows at once by the fastest way of each database. Tables and columns are named by our own code only.

Measured (bench.bulk_rows): SQLite takes rows fastest a hundred to a statement, PostgreSQL as one array for each column.
COPY into a temporary table is dearer, and writes to its own catalogue at each composite. A statement a row costs four
to nine times as much.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Boolean, Connection, DateTime, Float, Integer, String
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeDecorator

from portal.extensions import Base

ROWS = 100  # of one statement; SQLite's limit is 32,766 values
_UNSAFE = str.maketrans({"\\": "\\\\", '"': '\\"'})  # inside the quotes of an array's element
_ARRAYS = ((Integer, "bigint"), (Float, "float8"), (Boolean, "boolean"), (DateTime, "timestamptz"), (String, "text"))

Rows = Sequence[tuple[Any, ...]]


def moment(session: Session, value: datetime) -> str:
    """`value` as it goes into a row: what portal.models.types.UTCDateTime would bind, as text."""
    utc = value.astimezone(UTC)
    return utc.strftime("%Y-%m-%d %H:%M:%S.%f") if session.get_bind().dialect.name == "sqlite" else utc.isoformat()


def upsert_rows(
    session: Session, model: type[Base], columns: Sequence[str], rows: Rows, key: Sequence[str],
    update: Sequence[str],
) -> None:  # fmt: skip
    """Insert tuples of `columns`; where `key` exists, set the `update` columns (none: leave the row alone).

    The keys of `rows` are distinct. Values go to the driver as they are: times by `moment`, words as plain text.
    """
    if not rows:
        return
    table, names = _name(model), ", ".join(columns)
    conflict = _on_conflict(key, update)
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        given, values = _given(model, columns, rows)
        insert = f"INSERT INTO {table} ({names}) SELECT {names} FROM {given} {conflict}"  # noqa: S608
        connection.exec_driver_sql(insert, values)
    else:
        insert = f"INSERT INTO {table} ({names}) VALUES {{}} {conflict}"  # noqa: S608
        _by_values(connection, insert, len(columns), rows)


def replace_rows(
    session: Session, model: type[Base], columns: Sequence[str], rows: Rows, key: Sequence[str],
    update: Sequence[str],
) -> None:  # fmt: skip
    """Like `upsert_rows` for whole rows that are known to exist. On PostgreSQL a join costs half of ON CONFLICT."""
    if session.get_bind().dialect.name == "sqlite":
        upsert_rows(session, model, columns, rows, key, update)
    else:
        change_rows(session, model, columns, rows, key)


def change_rows(
    session: Session, model: type[Base], columns: Sequence[str], rows: Rows, key: Sequence[str]
) -> None:  # fmt: skip
    """Set the columns that are not of the key, by the key. A row that is gone meanwhile is left out."""
    if not rows:
        return
    table, connection = _name(model), session.connection()
    update = [column for column in columns if column not in key]
    if connection.dialect.name == "postgresql":
        given, values = _given(model, columns, rows)
        changes = ", ".join(f"{column} = given.{column}" for column in update)
        same = " AND ".join(f"kept.{column} = given.{column}" for column in key)
        statement = f"UPDATE {table} AS kept SET {changes} FROM {given} WHERE {same}"  # noqa: S608
        connection.exec_driver_sql(statement, values)
        return
    changes = ", ".join(f"{column} = ?" for column in update)
    same = " AND ".join(f"{column} = ?" for column in key)
    places = [columns.index(column) for column in (*update, *key)]
    ordered = [tuple(row[place] for place in places) for row in rows]
    connection.exec_driver_sql(f"UPDATE {table} SET {changes} WHERE {same}", ordered)  # noqa: S608


def fetch_rows(session: Session, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The rows of a select as the driver gives them, `?` for each value; half the cost of SQLAlchemy's rows."""
    connection = session.connection()
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name == "sqlite":
        return list(driver.execute(statement, tuple(values)).fetchall())
    with driver.cursor() as cursor:
        cursor.execute(statement.replace("?", "%s"), tuple(values))
        return list(cursor.fetchall())


def _name(model: type[Base]) -> str:
    return str(model.__tablename__)


def _on_conflict(key: Sequence[str], update: Sequence[str]) -> str:
    if not update:
        return f"ON CONFLICT ({', '.join(key)}) DO NOTHING"
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET " + ", ".join(f"{c} = excluded.{c}" for c in update)


def _by_values(connection: Connection, statement: str, width: int, rows: Rows) -> None:
    group = f"({', '.join('?' * width)})"
    whole = len(rows) - len(rows) % ROWS
    for start in range(0, whole, ROWS):
        flat = tuple(value for row in rows[start : start + ROWS] for value in row)
        connection.exec_driver_sql(statement.format(", ".join([group] * ROWS)), flat)
    if whole < len(rows):
        connection.exec_driver_sql(statement.format(group), list(rows[whole:]))


def _given(model: type[Base], columns: Sequence[str], rows: Rows) -> tuple[str, tuple[Any, ...]]:
    """SQL of a table `given` that holds the rows, and its values. What all rows share is sent once."""
    shared, listed, constants, arrays = [], [], [], []
    for name, values in zip(columns, zip(*rows, strict=True), strict=True):
        kind = _array_of(model.__table__.c[name].type)
        if values.count(values[0]) == len(values):
            shared.append(f"%s::{kind} AS {name}")
            constants.append(values[0])
        else:
            listed.append((name, f"%s::{kind}[]"))
            arrays.append(_literal(values))
    if not listed:  # a single row
        return f"(SELECT {', '.join(shared)}) AS given", tuple(constants)
    names = ", ".join(name for name, _ in listed)
    source = f"unnest({', '.join(cast for _, cast in listed)}) AS listed ({names})"
    return f"(SELECT {', '.join([*shared, names])} FROM {source}) AS given", (*constants, *arrays)  # noqa: S608


def _array_of(kind: Any) -> str:
    plain = kind.impl if isinstance(kind, TypeDecorator) else kind
    return next(name for known, name in _ARRAYS if isinstance(plain, known))


def _literal(values: tuple[Any, ...]) -> str:
    """An array as PostgreSQL reads it. A column at a time, since nearly all of them need no look at each value."""
    if not any(isinstance(value, str) for value in values):
        return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"
    whole = "".join(filter(None, values))
    if "\\" in whole or '"' in whole:
        values = tuple(value and value.translate(_UNSAFE) for value in values)
    return "{" + ",".join(["NULL" if value is None else f'"{value}"' for value in values]) + "}"
