"""How the database goes about each statement: which tables it reads from end to end, and how much it looks at."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import event

from portal.extensions import db

EVERY = 100  # steps of SQLite's machine between two counts


@dataclass
class Explained:
    """A statement, the tables of which it reads every row, and how much it looked at.

    On PostgreSQL a small table is one of them only if no index would serve once it has grown. `looked_at`: there rows
    (of what only reads), on SQLite steps of its machine.
    """

    statement: str
    scans: frozenset[str]
    looked_at: int = 0


@contextmanager
def explained() -> Iterator[list[Explained]]:
    """Every statement of this engine meanwhile, explained on the spot: with its values, and the rows as they are."""
    seen: list[Explained] = []
    postgres = db.engine.dialect.name == "postgresql"

    def step() -> None:
        if seen:
            seen[-1].looked_at += EVERY

    def note(connection: Any, _cursor: object, statement: str, given: Any, *_more: object) -> None:
        driver = connection.connection.driver_connection
        if not re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", statement):
            return
        values = given[0] if isinstance(given, list) else given
        if postgres:
            seen.append(_by_postgresql(driver.cursor(), statement, values))
            return
        driver.set_progress_handler(None, 0)
        rows = driver.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
        seen.append(Explained(statement, _scans([row[3] for row in rows], statement)))
        driver.set_progress_handler(step, EVERY)

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(db.engine, "before_cursor_execute", note)
        db.session.remove()
        db.engine.dispose()  # with the handlers of its connections


def _scans(plan: list[str], statement: str) -> frozenset[str]:
    found = (re.match(r"SCAN (\w+)", line) for line in plan)
    return frozenset(_table(one[1], statement) for one in found if one)


def _table(alias: str, statement: str) -> str:
    """The table behind an alias of the statement."""
    named = re.search(rf'(?:FROM|JOIN|,)\s+"?(\w+)"? AS "?{alias}"?\b', statement)
    return named[1] if named else alias


def _by_postgresql(cursor: Any, statement: str, values: Any) -> Explained:
    reads = re.match(r"\s*(SELECT|WITH)\b", statement) is not None
    nodes = _plan(cursor, f"EXPLAIN (FORMAT JSON, ANALYZE {reads}) {statement}", values)
    scans = _scanned(nodes)
    if scans:
        cursor.execute("SELECT relname FROM pg_class WHERE relname = ANY(%s) AND reltuples < 5000", [list(scans)])
        small = {row[0] for row in cursor.fetchall()}
        cursor.execute("SET enable_seqscan = off")
        scans = scans - small | small & _scanned(_plan(cursor, f"EXPLAIN (FORMAT JSON) {statement}", values))
        cursor.execute("SET enable_seqscan = on")
    return Explained(statement, scans, sum(_rows(node) for node in nodes if "Relation Name" in node))


def _plan(cursor: Any, explain: str, values: Any) -> list[dict[str, Any]]:
    cursor.execute(explain, values)
    return list(_nodes(cursor.fetchone()[0][0]["Plan"]))


def _scanned(nodes: list[dict[str, Any]]) -> frozenset[str]:
    return frozenset(node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan")


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for part in node.get("Plans", ()):
        yield from _nodes(part)


def _rows(node: dict[str, Any]) -> int:
    parts = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")
    return int(sum(node.get(part, 0) for part in parts) * node.get("Actual Loops", 0))
