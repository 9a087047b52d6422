"""Fixtures shared by all tests: settings, the app on a fresh database of either kind, a session, a fixed now."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from flask import Flask
from redis import Redis
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from app import create_app
from config import Settings
from portal import (
    queueing,
    tables,  # noqa: F401  (all of them must be known before the schema is made)
)
from portal.extensions import Base, db, prepare_engine
from portal.services.people import users
from tests.support.postgres import PostgresCluster, postgres_cluster
from tests.support.redis_server import RedisServer, redis_server

FERNET_KEY = "c2VjcmV0LWtleS1mb3ItdGVzdHMtb25seS0zMi1ieSE="
BOTH = ("sqlite", "postgresql")


class Databases:
    """Hands out empty databases with the schema. What is dear (schema, cluster) is made once and at first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self._sqlite: Path | None = None
        self._postgres: tuple[PostgresCluster, str] | None = None

    def sqlite(self, folder: Path) -> str:
        """URL of a new file under `folder`: a copy of one that has the schema."""
        if self._sqlite is None:
            self._sqlite = self.folder / "schema.db"
            _make_schema(f"sqlite:///{self._sqlite}")
        path = folder / "facho.db"
        shutil.copy(self._sqlite, path)
        return f"sqlite:///{path}"

    def postgresql(self) -> str:
        """URL of the one test database, emptied."""
        if self._postgres is None:
            cluster = self._stack.enter_context(postgres_cluster())
            url = cluster.create_database()
            _make_schema(url)
            self._postgres = (cluster, url)
        else:
            _empty(self._postgres[1])
        return self._postgres[1]

    def blank_postgresql(self) -> str:
        """URL of a new database without tables."""
        self.postgresql()
        assert self._postgres is not None
        return self._postgres[0].create_database()

    def close(self) -> None:
        """Stop what was started."""
        self._stack.close()


def _make_schema(url: str) -> None:
    engine = create_engine(url)
    prepare_engine(engine)
    Base.metadata.create_all(engine)
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()


def _empty(url: str) -> None:
    """Delete all rows and count ids from 1 again; far cheaper than TRUNCATE, which makes new files for each table."""
    engine = create_engine(url)
    names = [table.name for table in reversed(Base.metadata.sorted_tables)]
    with engine.begin() as connection:
        connection.execute(text("SET session_replication_role = replica"))
        connection.execute(text(";".join(f'DELETE FROM "{name}"' for name in names)))  # noqa: S608  (our own names)
        connection.execute(text(
            "SELECT setval(pg_get_serial_sequence(quote_ident(table_name), 'id'), 1, false) FROM"
            " information_schema.columns WHERE table_schema = 'public' AND column_default LIKE 'nextval%'"
        ))  # fmt: skip
    engine.dispose()


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """The maker of databases, one per test run."""
    made = Databases(tmp_path_factory.mktemp("databases"))
    yield made
    made.close()


@pytest.fixture(params=BOTH)
def database_url(request: pytest.FixtureRequest, databases: Databases, tmp_path: Path) -> str:
    """URL of an empty database with the schema: a test that uses it runs on SQLite and on PostgreSQL."""
    return databases.sqlite(tmp_path) if request.param == "sqlite" else databases.postgresql()


def settings_for(database_url: str, instance: Path) -> Settings:
    """Settings of a test: nothing outside of `instance`, a Redis that is not there."""
    return Settings(
        database_url=database_url,
        redis_url=f"unix://{instance}/no-redis.sock?db=0",
        secret_key="a secret key for tests",
        fernet_keys=(FERNET_KEY,),
        timezone="America/Lima",
        instance=instance,
    )


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """Settings whose instance is a folder of the test's own."""
    instance = tmp_path / "instance"
    instance.mkdir()
    return settings_for(database_url, instance)


@pytest.fixture
def app(settings: Settings) -> Iterator[Flask]:
    """The whole product on an empty database. No context is pushed: a test client needs to push its own."""
    made = create_app(settings)
    made.config["TESTING"] = True
    made.config["LIVE_SHARED"] = False  # a test that writes behind the portal's back sees it at once
    yield made
    with made.app_context():
        db.session.remove()
        db.engine.dispose()


@pytest.fixture
def session(app: Flask) -> Iterator[Session]:
    """The scoped session inside a pushed app context, as services see it. Do not mix with a test client."""
    with app.app_context():
        yield db.session()
        db.session.remove()


@pytest.fixture(scope="session")
def server() -> Iterator[RedisServer]:
    """A real Redis for all tests of the run that do it no harm; each empties it before use."""
    with redis_server() as running:
        yield running


@pytest.fixture
def redis(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Redis:
    """That Redis, empty, as the queues' connection. Needs no app."""
    connection = queueing.connect(server.url)
    connection.flushall()
    monkeypatch.setattr(queueing, "connection", lambda: connection)
    return connection


@pytest.fixture
def now() -> datetime:
    """The moment at which all tests take place."""
    return datetime(2026, 11, 27, 10, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Argon2 with the least work: its cost is the library's business, not the tests'."""
    monkeypatch.setattr(users, "hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    users._decoy.cache_clear()
