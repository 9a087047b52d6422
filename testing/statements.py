"""What work costs the database."""

from collections.abc import Callable

from sqlalchemy import event

from portal.extensions import db


def statements_in(work: Callable[[], object]) -> list[str]:
    """The SQL statements that it takes."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        seen.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        event.remove(db.engine, "before_cursor_execute", note)
    return seen


def statements_of(work: Callable[[], object]) -> int:
    """How many SQL statements it takes."""
    return len(statements_in(work))
