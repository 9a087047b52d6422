"""Pages on SQLite, with templates compiled once; that each page works on PostgreSQL is one test of test_frame.py."""

from dataclasses import replace
from datetime import timedelta

import pytest
from flask import Flask

from config import Settings
from portal import clock
from portal.web import audience
from portal.web.audience import Board
from portal.web.shared import Shelf
from testing import builders, seed
from testing.cast import NOW
from testing.databases import Databases
from testing.pages import Visitor
from testing.web import Clock, english


@pytest.fixture
def database_url(databases: Databases) -> str:
    """URL of an empty SQLite database with the schema."""
    return databases.url("sqlite")


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared rows keep their age, so that "a minute ago" stays a minute ago; what services made is two days old."""
    monkeypatch.setattr(clock, "now", lambda: NOW + timedelta(days=2))


def few(app: Flask) -> None:
    seed.seed(app, "few")


def users_only(app: Flask) -> None:
    with app.app_context():
        seed.add_users(clock.now())


def one_olt(app: Flask) -> None:
    with app.app_context():
        seed.add_users(clock.now())
        builders.make_node(builders.make_olt())


def one_board(app: Flask) -> None:
    with app.app_context():
        seed.add_users(clock.now())
        olt = builders.make_olt()
        builders.make_node(olt)
        master = builders.make_node(olt, "rx", kind="get", oid="huawei.onu_rx_power", name="Potencia RX")
        builders.make_chained(master)
        builders.make_chained(master, "serial")


@pytest.fixture
def postgresql(settings: Settings, databases: Databases) -> Flask:
    """The whole product on an empty PostgreSQL database."""
    return databases.app(replace(settings, database_url=databases.url("postgresql")))


@pytest.fixture
def people(app: Flask, databases: Databases) -> Flask:
    """Users only."""
    return databases.prepare(app, users_only)


@pytest.fixture
def seeded(app: Flask, databases: Databases) -> Flask:
    """Two OLTs as after a day; pool vm1 of three pollers, one of them busy, with an hour of history."""
    return databases.prepare(app, few)


@pytest.fixture
def built(app: Flask, databases: Databases) -> Flask:
    """OLT-LIMA with a discovery, made through the services."""
    return databases.prepare(app, one_olt)


@pytest.fixture
def admin(built: Flask) -> Visitor:
    """The administrator of `built`."""
    return english(built, "admin")


@pytest.fixture
def board(app: Flask, databases: Databases) -> Flask:
    """OLT-LIMA: a discovery (1), and a GET of the power (2) to which description (3) and serial (4) are chained."""
    return databases.prepare(app, one_board)


@pytest.fixture
def shelf_clock() -> Clock:
    return Clock()


@pytest.fixture
def shared(seeded: Flask, shelf_clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Flask:
    """The seeded portal, sharing fragments; for the shelf, and for the cookie of whoever writes, the clock stands."""
    seeded.config["LIVE_SHARED"] = True
    board: Board = seeded.extensions["live"]
    board.shelf = Shelf(clock=shelf_clock)
    monkeypatch.setattr(audience, "wall_clock", lambda: shelf_clock() + 1_800_000_000)
    return seeded
