"""Thousands of rows at once by the fastest way of each database. Tables and columns are named by our own code only.

Measured (bench.collect): SQLite takes rows fastest a hundred to a statement, PostgreSQL by COPY of text into a temporary
table and one statement from there. SQLAlchemy's per-row work would cost as much again as the database's own.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from portal.extensions import Base

ROWS = 100  # of one statement; SQLite's limit is 32,766 values
COPY_FROM = 64  # rows; below, making a temporary table costs more than it saves
_UNSAFE = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})  # in the text format of COPY

Rows = Sequence[tuple[Any, ...]]


def moment(session: Session, value: datetime) -> Any:
    """`value` as the driver wants it in a row: what portal.models.types.UTCDateTime would bind."""
    if session.get_bind().dialect.name == "sqlite":
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return value.astimezone(UTC)


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
    if connection.dialect.name == "postgresql" and len(rows) >= COPY_FROM:
        insert = f"INSERT INTO {table} ({names}) SELECT {names} FROM {{}} {conflict}"  # noqa: S608
        _by_copy(connection, table, names, rows, insert)
    else:
        _by_values(connection, f"INSERT INTO {table} ({names}) VALUES {{}} {conflict}", len(columns), rows)


def update_rows(
    session: Session, model: type[Base], columns: Sequence[str], rows: Rows, key: Sequence[str],
    update: Sequence[str],
) -> None:  # fmt: skip
    """Like `upsert_rows` for rows that are known to exist; one that is gone meanwhile is left out where that is free.

    On PostgreSQL a join costs half of what ON CONFLICT does.
    """
    connection = session.connection()
    if connection.dialect.name != "postgresql" or len(rows) < COPY_FROM:
        upsert_rows(session, model, columns, rows, key, update)
        return
    table, names = _name(model), ", ".join(columns)
    values = ", ".join(f"{column} = given.{column}" for column in update)
    same = " AND ".join(f"kept.{column} = given.{column}" for column in key)
    statement = f"UPDATE {table} AS kept SET {values} FROM {{}} AS given WHERE {same}"  # noqa: S608
    _by_copy(connection, table, names, rows, statement)


def _name(model: type[Base]) -> str:
    return str(model.__table__.name)  # type: ignore[attr-defined]


def _on_conflict(key: Sequence[str], update: Sequence[str]) -> str:
    if not update:
        return f"ON CONFLICT ({', '.join(key)}) DO NOTHING"
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET " + ", ".join(f"{c} = excluded.{c}" for c in update)


def _by_values(connection: Connection, statement: str, width: int, rows: Rows) -> None:
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    group = f"({', '.join([mark] * width)})"
    whole = len(rows) - len(rows) % ROWS
    for start in range(0, whole, ROWS):
        flat = tuple(value for row in rows[start : start + ROWS] for value in row)
        connection.exec_driver_sql(statement.format(", ".join([group] * ROWS)), flat)
    if whole < len(rows):
        connection.exec_driver_sql(statement.format(group), list(rows[whole:]))


def _by_copy(connection: Connection, table: str, names: str, rows: Rows, statement: str) -> None:
    incoming = f"incoming_{table}"
    like = f"SELECT {names} FROM {table}"  # noqa: S608
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor:
        # Made anew each time: a pooler may give each transaction another connection.
        cursor.execute(f"CREATE TEMPORARY TABLE {incoming} ON COMMIT DROP AS {like} WITH NO DATA")
        with cursor.copy(f"COPY {incoming} ({names}) FROM STDIN") as copy:
            copy.write(_as_text(rows))
        cursor.execute(statement.format(incoming))
        cursor.execute(f"DROP TABLE {incoming}")


def _as_text(rows: Rows) -> str:
    """Rows in the text format of COPY. All values of a column have one type, or are None."""
    columns = [_writer(column) for column in zip(*rows, strict=True)]
    return "\n".join(map("\t".join, zip(*columns, strict=True))) + "\n"


def _writer(values: tuple[Any, ...]) -> list[str]:
    first = next((value for value in values if value is not None), None)
    write: Callable[[Any], str] = _text if isinstance(first, str) else str
    if isinstance(first, datetime):
        write = datetime.isoformat
    return ["\\N" if value is None else write(value) for value in values]


def _text(value: str) -> str:
    return value.translate(_UNSAFE) if "\\" in value or not value.isprintable() else value
