"""Every page of the URL map costs at most twelve SQL statements, and no more with many rows than with few."""

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import event

from portal import clock
from portal.extensions import db
from testing import routes, seed
from testing.web import english, written

BUDGET = 12
# What still costs more. A number here may only fall; a page that keeps to the budget must leave the list.
DEBTS: dict[str, int] = {}
MANY = seed.Size(olts=14, executions=240, onus=40, pollers=8, busy=5, pending=12)


def seeded(app: Flask, size: str) -> Flask:
    seed.seed(app, size)
    with written(app) as session:
        routes.furnish(session, clock.now())
    return app


def costs(app: Flask) -> dict[str, int]:
    """Statements of each page, asked by an administrator; pages that cannot be asked are -1."""
    seed.keep_alive(app)
    person, seen = english(app, "admin"), list[str]()
    with app.app_context():
        engine, found = db.engine, list(routes.addresses(app, db.session()))
        db.session.remove()

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    made = {}
    event.listen(engine, "before_cursor_execute", note)
    try:
        for one in found:
            seen.clear()
            status = person.get(one.path).status_code if one.path else 0
            counted = [text for text in seen if not text.startswith(("BEGIN", "SELECT 1"))]
            made[one.name] = len(counted) if status in (200, 302) else -1
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return made


def allowed(name: str) -> int:
    return DEBTS.get(name.partition("?")[0], BUDGET)


def test_every_page_is_known_to_the_tests_and_the_bench(app: Flask) -> None:
    here = {rule.endpoint for rule in routes.rules(app)}
    assert here - set(routes.QUERIES) == set(), "add them to QUERIES in testing/routes.py"
    assert set(routes.QUERIES) - here == set(), "these are no more"


@pytest.mark.timeout(300)
def test_no_page_costs_more_than_twelve_statements_or_more_with_many_rows(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(seed.SIZES, "some", MANY)
    few = costs(seeded(app, "few"))
    with app.app_context():
        db.session.remove()
        db.drop_all()
    many = costs(seeded(app, "some"))
    assert [name for name, cost in (few | many).items() if cost < 0] == [], "no answer"
    assert {name: cost for name, cost in many.items() if cost > allowed(name)} == {}
    assert {name: (few[name], cost) for name, cost in many.items() if cost > few[name]} == {}, "more with more rows"
    assert [name for name in DEBTS if max(many[one] for one in many if one.partition("?")[0] == name) <= BUDGET] == []
