"""Every page of the portal on 1,000 OLTs, 100,000 ONUs and a million executions: server time and SQL statements.

Run: `python -m bench.web` (SQLite) or `python -m bench.web --postgres`. Pages come from the URL map, so that
a new one is measured by itself. Goals: p95 of each page 150 ms and 12 statements; an unchanged live fragment 5 ms.
Prints one line of JSON and names what misses; exit code 1 then.
"""

import argparse
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flask import Flask
from flask_migrate import upgrade
from sqlalchemy import event

from app import create_app
from bench import web_ground
from bench.web_ground import Plan
from config import load_settings
from portal.extensions import db
from portal.web.memory import settle
from testing import routes, seed
from testing.measuring import grounds
from testing.measuring.quantiles import quantile
from testing.pages import Visitor, soup

MIGRATIONS = str(Path(__file__).resolve().parents[1] / "migrations")
GOAL_MS, GOAL_STATEMENTS, GOAL_UNCHANGED_MS = 150, 12, 5


@dataclass(frozen=True)
class Figure:
    """One address: milliseconds of wall clock, and of this process' CPU, which a busy machine does not lengthen."""

    p50: float
    p95: float
    cpu: float
    statements: int
    octets: int


class Meter:
    """Asks as a browser that is logged in, and counts."""

    def __init__(self, app: Flask, asks: int) -> None:
        self.app, self.asks, self.statements = app, asks, 0
        self.person = Visitor(app)
        assert self.person.login("admin").status_code == 303  # noqa: S101
        with app.app_context():
            event.listen(db.engine, "before_cursor_execute", self._note)

    def _note(self, _connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        self.statements += not statement.startswith(("BEGIN", "SELECT 1"))

    def measure(self, ask: Callable[[], Any]) -> Figure:
        """`asks` times, after two to warm up."""
        wall, cpu = [], []
        for number in range(self.asks + 2):
            self.statements = 0
            begun, computed = time.perf_counter(), time.process_time()
            answer = ask()
            if number >= 2:
                wall.append((time.perf_counter() - begun) * 1000)
                cpu.append((time.process_time() - computed) * 1000)
            assert answer.status_code in (200, 204, 302), (answer.request.path, answer.status_code)  # noqa: S101
        p50, p95, own = (round(one, 1) for one in (quantile(wall, 0.5), quantile(wall, 0.95), quantile(cpu, 0.5)))
        return Figure(p50, p95, own, self.statements, len(answer.data))

    def unchanged(self, path: str) -> Iterator[tuple[str, Figure, Figure]]:
        """The fragments of a page that refresh themselves, asked for with the digest that is shown.

        First by one of many: it is there, made by whoever asked first in this second. Then by somebody alone, for whom
        it is made to find that nothing changed.
        """
        shelf = self.app.extensions["live"].shelf
        for tag in soup(self.person.get(path)).select("[data-live]"):
            url, target = str(tag["hx-get"]), str(tag["id"])
            mark = self.person.fragment(url, target).headers.get("X-Digest", "")
            ask = partial(self.person.fragment, url, target, mark)
            with patch.object(shelf, "clock", partial(float, shelf.clock())):  # no time passes
                shared = self.measure(ask)
            with patch.dict(self.app.config, {"LIVE_SHARED": False}):
                yield target, shared, self.measure(ask)


@dataclass
class Found:
    """Figures by page; of fragments that have not changed, for one of many and for one alone; what was not asked."""

    pages: dict[str, Figure] = field(default_factory=dict)
    shared: dict[str, Figure] = field(default_factory=dict)
    alone: dict[str, Figure] = field(default_factory=dict)
    unmeasured: list[str] = field(default_factory=list)


def pages(meter: Meter, only: str) -> Found:
    """All that can be asked."""
    with meter.app.app_context():
        wanted = [one for one in routes.addresses(meter.app, db.session()) if only in one.name]
        db.session.remove()
    found = Found()
    settle(meter.app)  # as each web process does
    for one in wanted:
        seed.keep_alive(meter.app)
        try:
            found.pages[one.name] = meter.measure(partial(meter.person.get, one.path or "/no-such-row"))
        except AssertionError as error:
            logging.error("%s", error)
            found.unmeasured.append(one.name)
            continue
        if "?" in one.name:
            continue
        for target, shared, alone in meter.unchanged(one.path):
            if target != "pulse" or one.endpoint == "dashboard.index":  # the strip is the same on each page
                found.shared[f"{one.name} #{target}"], found.alone[f"{one.name} #{target}"] = shared, alone
    return found


def misses(found: Found) -> dict[str, Any]:
    """Goal → what misses it."""
    return {
        "p95_150_ms": {name: one.p95 for name, one in found.pages.items() if one.p95 > GOAL_MS},
        "statements_12": {
            name: one.statements for name, one in found.pages.items() if one.statements > GOAL_STATEMENTS
        },
        "unchanged_5_ms": {name: one.p95 for name, one in found.shared.items() if one.p95 > GOAL_UNCHANGED_MS},
        "measured": found.unmeasured,
    }


def run(plan: Plan, given: argparse.Namespace) -> dict[str, Any]:
    """One database, filled (or kept from before) and asked."""
    with ExitStack() as exits:
        folder = exits.enter_context(grounds.folder(given.keep))
        url = exits.enter_context(grounds.database(postgres=given.postgres)) or f"sqlite:///{folder}/bench.db"
        logging.getLogger("alembic").setLevel(logging.WARNING)
        settings = {"DATABASE_URL": url, "INSTANCE": str(folder), "SECRET_KEY": "x", "TIMEZONE": "America/Lima"}
        app = create_app(load_settings(os.environ | settings))
        begun, rows = time.monotonic(), {}
        if given.postgres or not (folder / "filled").exists():
            with app.app_context():
                upgrade(MIGRATIONS)
                rows = web_ground.fill(plan, datetime.now(UTC))
                db.session.remove()
            (folder / "filled").touch()
        filled = round(time.monotonic() - begun)
        try:
            found = pages(Meter(app, given.asks), given.only)
        finally:
            with app.app_context():
                db.session.remove()
                db.engine.dispose()
    missed = misses(found)
    return {
        "fill_s": filled, "rows": rows, **asdict(found),
        "worst": dict(sorted(((name, one.p95) for name, one in found.pages.items()), key=lambda one: -one[1])[:8]),
        "missed": missed, "pass": {goal: not what for goal, what in missed.items()},
    }  # fmt: skip


def main() -> None:
    """Fill, ask, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--olts", type=int, default=1000)
    parser.add_argument("--onus", type=int, default=100_000)
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--hours", type=int, default=168, help="of quotas")
    parser.add_argument("--asks", type=int, default=20)
    parser.add_argument("--only", default="", help="pages whose name holds this")
    parser.add_argument("--keep", type=Path, help="folder in which the SQLite database stays, and is found again")
    given = parser.parse_args()
    plan = Plan(**{one.name: getattr(given, one.name) for one in fields(Plan)})
    found = run(plan, given)
    passed = all(found["pass"].values())
    database = "postgresql" if given.postgres else "sqlite"
    print(json.dumps({"bench": "web", "database": database, **asdict(plan), **found, "passed": passed}))
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()
