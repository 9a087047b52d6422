"""What the tests of pages share: a visitor who reads English, rows written behind the portal's back, SQL counted."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from flask import Flask
from jinja2.bccache import Bucket, BytecodeCache
from sqlalchemy import ColumnElement, Select, delete, event, update
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from portal.extensions import Base, db, transaction
from portal.tables import Workflow
from testing.builders import more_olts
from testing.pages import Visitor, soup
from testing.pages import form_values as form_values

Row = TypeVar("Row", bound=Base)


class Compiled(BytecodeCache):
    """Templates compiled once for all apps of a test run."""

    def __init__(self) -> None:
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._code:
            bucket.bytecode_from_string(self._code[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._code[bucket.key] = bucket.bytecode_to_string()


COMPILED_TEMPLATES = Compiled()


def english(app: Flask, username: str = "operator") -> Visitor:
    """A logged-in visitor who sees the texts as they stand in the sources."""
    return Visitor(app).enter(username, "en")


@contextmanager
def written(app: Flask) -> Iterator[Session]:
    """A transaction in an app context of its own."""
    with app.app_context(), transaction() as session:
        yield session


def update_rows(app: Flask, table: type[Base], *where: ColumnElement[bool], **values: Any) -> None:
    """Set columns of the rows for which `where` holds, behind the portal's back."""
    with written(app) as session:
        session.execute(update(table).where(*where).values(**values))


def delete_rows(app: Flask, *tables: type[Base]) -> None:
    """All rows of these tables, behind the portal's back."""
    with written(app) as session:
        for table in tables:
            session.execute(delete(table))


def add_olts(app: Flask, count: int, **fields: Any) -> list[int]:
    """So many OLTs like the first, each with an empty workflow; their ids."""
    with written(app) as session:
        made = more_olts(session, count, **fields)
        session.add_all(Workflow(olt=olt) for olt in made)
        return [olt.id for olt in made]


def stored(app: Flask, query: Select[Any]) -> list[Any]:
    """What the query finds, the first column of each row."""
    with app.app_context():
        return list(db.session.scalars(query))


def row_of(app: Flask, table: type[Row], ident: int) -> Row:
    """The row of this id as it is now."""
    with app.app_context():
        return db.session.get_one(table, ident)


def values_of(app: Flask, table: type[Base], ident: int) -> dict[str, Any]:
    """All columns of that row."""
    row = row_of(app, table, ident)
    return {column.key: getattr(row, column.key) for column in table.__table__.columns}


@contextmanager
def noted(app: Flask) -> Iterator[list[str]]:
    """The SQL statements that are run meanwhile."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    with app.app_context():
        engine = db.engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)


def cost(seen: list[str]) -> int:
    """How many of these statements are a page's own."""
    return len([one for one in seen if not one.startswith(("BEGIN", "SELECT 1"))])


def statements(app: Flask, person: Visitor, path: str) -> int:
    """How many SQL statements a page costs when nothing that it shows is remembered (queries.remembered)."""
    app.extensions.pop("facho-remembered", None)
    with noted(app) as seen:
        assert person.get(path).status_code == 200
    return cost(seen)


def complaints(answer: TestResponse) -> dict[str, str]:
    """Field → what the form says is wrong with it."""
    tags = soup(answer).select(".invalid-feedback")
    return {str(tag["id"]).removeprefix("f-").removesuffix("-error"): tag.get_text() for tag in tags}


class Clock:
    """Time stands until a test lets it pass."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def reader(app: Flask, clock: Clock, username: str = "viewer") -> Visitor:
    """Somebody who logged in a while ago: the mark of it, which lives for seconds, has left their browser."""
    person = english(app, username)
    clock.now += 10
    person.client.delete_cookie("wrote")
    return person


def copies(person: Visitor, app: Flask, count: int) -> list[Visitor]:
    """As many open tabs of somebody."""
    cookie = person.client.get_cookie("session")
    assert cookie is not None
    made = [Visitor(app) for _ in range(count)]
    for one in made:
        one.client.set_cookie("session", cookie.value)
    return made
