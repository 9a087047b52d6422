"""Fixtures of all tests. The product is loaded when a fixture first needs it: most unit tests do without."""

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testing import host_clock
from testing.cast import NOW

if TYPE_CHECKING:
    from flask import Flask
    from redis import Redis
    from sqlalchemy.orm import Session

    from config import Settings
    from testing.databases import Databases
    from testing.redis_server import RedisServer


def pytest_configure(config: pytest.Config) -> None:
    """Workers are started with the clock's shim: what they fork may see a clock of its own without a start of seconds.

    Their children by other ways are not.
    """
    if hasattr(config, "workerinput"):
        os.environ.pop("LD_PRELOAD", None)
    elif config.getoption("numprocesses", None) and shutil.which("cc"):
        os.environ["LD_PRELOAD"] = str(host_clock.library())


def pytest_collection_finish() -> None:
    """Random cases are not judged by the clock: a busy machine is no fault. Only where they are used: loading costs.

    Garbage is looked for seldom, and not in what was loaded: that took a tenth of the run.
    """
    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is not None:
        hypothesis.settings.register_profile("patient", deadline=None)
        hypothesis.settings.load_profile("patient")
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.fixture
def now() -> datetime:
    """The moment at which all tests take place."""
    return NOW


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Databases]":
    """The worker's databases and apps."""
    from testing.databases import Databases

    made = Databases(tmp_path_factory.mktemp("databases"))
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, databases: "Databases") -> str:
    """URL of an empty database with the schema: a test that uses it runs on SQLite and on PostgreSQL."""
    return databases.url(request.param)


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> "Settings":
    """Settings whose instance is a folder of the test's own."""
    from testing.databases import settings_for

    instance = tmp_path / "instance"
    instance.mkdir()
    return settings_for(database_url, instance)


@pytest.fixture
def app(settings: "Settings", databases: "Databases") -> "Flask":
    """The whole product on an empty database. No context is pushed: a test client needs to push its own."""
    app = databases.app(settings)
    app.config["TESTING"] = True
    app.config["LIVE_SHARED"] = False  # a test that writes behind the portal's back sees it at once
    return app


@pytest.fixture
def session(app: "Flask") -> "Iterator[Session]":
    """The scoped session inside a pushed app context, as services see it. Do not mix with a test client."""
    from portal.extensions import db

    with app.app_context():
        yield db.session()
        db.session.remove()


@pytest.fixture(scope="session")
def server() -> "Iterator[RedisServer]":
    """A real Redis for all tests of the run that do it no harm; each empties it before use."""
    from testing.redis_server import redis_server

    with redis_server() as running:
        yield running


@pytest.fixture
def redis(server: "RedisServer", monkeypatch: pytest.MonkeyPatch) -> "Redis":
    """That Redis, empty, as the queues' connection. Needs no app."""
    from portal import queueing

    connection = queueing.connect(server.url)
    connection.flushall()
    monkeypatch.setattr(queueing, "connection", lambda: connection)
    return connection
