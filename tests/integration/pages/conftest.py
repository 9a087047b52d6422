"""Pages on SQLite, with templates compiled once; that each page works on PostgreSQL is one test of test_frame.py."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from flask import Flask

from portal.web import audience
from portal.web.audience import Board
from portal.web.shared import Shelf
from tests.conftest import Databases
from tests.support import builders, seed
from tests.support.web import Clock, quick


@pytest.fixture
def database_url(databases: Databases, tmp_path: Path) -> str:
    """URL of an empty SQLite database with the schema."""
    return databases.sqlite(tmp_path)


@pytest.fixture
def app(app: Flask) -> Flask:
    """The product; its templates are not compiled anew."""
    return quick(app)


@pytest.fixture
def seeded(app: Flask) -> Flask:
    """Two OLTs as after a day; pool vm1 of three pollers, one of them busy, with an hour of history."""
    seed.seed(app, "few")
    return app


@pytest.fixture
def built(app: Flask) -> Iterator[Flask]:
    """OLT-LIMA with a discovery, made through the services."""
    with app.app_context():
        seed.add_users(datetime.now(UTC))
        builders.make_node(builders.make_olt())
    yield app


@pytest.fixture
def board(app: Flask) -> Iterator[Flask]:
    """OLT-LIMA: a discovery (1), and a GET of the power (2) to which description (3) and serial (4) are chained."""
    with app.app_context():
        seed.add_users(datetime.now(UTC))
        olt = builders.make_olt()
        builders.make_node(olt)
        master = builders.make_node(olt, "rx", kind="get", oid="huawei.onu_rx_power", name="Potencia RX")
        builders.make_chained(master)
        builders.make_chained(master, "serial")
    yield app


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shared(seeded: Flask, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Flask:
    """The seeded portal, sharing fragments; for the shelf, and for the cookie of whoever writes, the clock stands."""
    seeded.config["LIVE_SHARED"] = True
    board: Board = seeded.extensions["live"]
    board.shelf = Shelf(clock=clock)
    monkeypatch.setattr(audience, "wall_clock", lambda: clock() + 1_800_000_000)
    return seeded
