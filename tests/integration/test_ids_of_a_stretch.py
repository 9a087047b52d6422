"""Where only some rows count, their first and last ids are not looked for from the ends of the table (PostgreSQL)."""

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.orm import Session

from portal.queries import pollers, quota_slots
from portal.services import decision_file
from portal.services.decision_file import Position
from testing.cast import NOW

ROW: Any = SimpleNamespace(olt_id=1, task_type="get_rx", hour=NOW - timedelta(hours=1), end=NOW)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    "ask",
    [
        lambda: quota_slots._executions(ROW),
        lambda: pollers.history(NOW - timedelta(hours=1), 10),
        lambda: decision_file._renumbered(Position(id=5, newest=NOW.timestamp(), at=NOW.timestamp())),
    ],
    ids=["slots of an hour", "history of the pool", "log that was renumbered"],
)
def test_no_index_of_ids_is_walked(session: Session, ask: Callable[[], object]) -> None:
    asked: list[tuple[str, Any]] = []
    engine = session.get_bind()
    listener = lambda _c, _cursor, statement, given, *_rest: asked.append((statement, given))  # noqa: E731
    event.listen(engine, "before_cursor_execute", listener)
    ask()
    event.remove(engine, "before_cursor_execute", listener)
    (searched,) = ((text, given) for text, given in asked if "min(" in text)
    connection = session.connection()
    connection.exec_driver_sql("SET LOCAL enable_seqscan = off")  # there are too few rows here for any index to pay
    plan = "\n".join(str(row[0]) for row in connection.exec_driver_sql("EXPLAIN " + searched[0], searched[1]))
    assert " + " in searched[0] and "pk_" not in plan, plan
