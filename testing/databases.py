"""Databases for tests: one of each kind per worker, put back between tests, with one app that keeps what it compiled.

A state (the empty schema, or what a function has built on it) is made once and then copied in. Making the app, an
engine without compiled statements and the rows of a fixture anew cost more than most tests.
"""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
from argon2 import PasswordHasher
from flask import Flask
from psycopg import sql
from sqlalchemy import create_engine

from app import create_app
from config import Settings, flask_config
from portal.extensions import Base, db, keyring, limiter, prepare_engine
from portal.services.people import users
from testing.postgres import PostgresCluster, postgres_cluster
from testing.web import COMPILED_TEMPLATES

KINDS = ("sqlite", "postgresql")
FERNET_KEY = "c2VjcmV0LWtleS1mb3ItdGVzdHMtb25seS0zMi1ieSE="
KEPT_EXTENSIONS = {"static_urls"}  # digests of files, the same for every test

Build = Callable[[Flask], object]


def settings_for(database_url: str, instance: Path) -> Settings:
    """Settings of a test: nothing outside of `instance`, a Redis that is not there."""
    return Settings(
        database_url=database_url,
        redis_url=f"unix://{instance}/no-redis.sock?db=0",
        secret_key="a secret key for tests",
        fernet_keys=(FERNET_KEY,),
        timezone="America/Lima",
        olt_networks=("0.0.0.0/0", "::/0"),
        instance=instance,
    )


def make_schema(url: str) -> None:
    """All tables in an empty database."""
    engine = create_engine(url)
    prepare_engine(engine)
    Base.metadata.create_all(engine)
    engine.dispose()


def _app(settings: Settings) -> Flask:
    app = create_app(settings)
    app.jinja_env.bytecode_cache = COMPILED_TEMPLATES
    return app


class SharedApp:
    """The product on the worker's database of one kind; before each test it is as after create_app()."""

    def __init__(self, settings: Settings) -> None:
        self.app = _app(settings)
        with self.app.app_context():  # room for the statements of all tests, or each file compiles its own anew
            db.engine.update_execution_options(compiled_cache={})
        self._config, self._extensions = dict(self.app.config), set(self.app.extensions)

    def reset(self, settings: Settings) -> Flask:
        """The app with these settings, and nothing that it remembered of another test."""
        app = self.app
        app.config.clear()
        app.config.update(self._config | flask_config(settings))
        for name in set(app.extensions) - self._extensions - KEPT_EXTENSIONS:
            del app.extensions[name]
        app.extensions["live"].__init__()
        keyring.load(app, settings.fernet_keys)
        with app.app_context():
            limiter.reset()
        return app

    def release(self) -> None:
        """Close SQLite's connections; PostgreSQL's stay, as a new one would read the server's catalogue anew."""
        with self.app.app_context():
            db.session.remove()
            if db.engine.dialect.name == "sqlite":
                db.engine.dispose()


class SqliteStates:
    """One file; a state is a copy of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "facho.db"
        self.url = f"sqlite:///{self.file}"
        make_schema(self.url)
        self.keep("empty")

    def restore(self, name: str) -> None:
        """By SQLite itself: a connection that a test left open would spoil a file that is copied under it."""
        with closing(sqlite3.connect(self.path(name))) as state, closing(sqlite3.connect(self.file, 10)) as target:
            target.execute("PRAGMA synchronous=OFF")
            state.backup(target)

    def keep(self, name: str) -> None:
        engine = create_engine(self.url)
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        engine.dispose()
        shutil.copy(self.file, self.path(name))

    def copy(self, folder: Path) -> str:
        shutil.copy(self.path("empty"), folder / "facho.db")
        return f"sqlite:///{folder / 'facho.db'}"

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.state"


class PostgresStates:
    """One database; a state is the rows of each table that has some, and where its ids go on."""

    def __init__(self, cluster: PostgresCluster) -> None:
        self._cluster, template = cluster, cluster.create_database()
        make_schema(template)
        self._template = template.partition("?")[0].rpartition("/")[2]
        self.url = self.copy()
        self._connection = psycopg.connect(self.url.replace("+psycopg", ""), autocommit=True)
        self._tables = [table.name for table in Base.metadata.sorted_tables]
        self._delete = ";".join(f'DELETE FROM "{name}"' for name in reversed(self._tables))  # noqa: S608  (our own names)
        self._states: dict[str, list[tuple[str, bytes]]] = {}
        self._sequences: dict[str, list[tuple[str, int | None]]] = {}
        self.keep("empty")

    def restore(self, name: str) -> None:
        """Deleting is far cheaper than TRUNCATE, which makes new files for each table."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute(self._delete)
            for table, rows in self._states[name]:
                with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table))) as copy:
                    copy.write(rows)
            values = self._sequences[name]
            cursor.execute(
                "SELECT setval(name::regclass, coalesce(value, 1), value IS NOT NULL)"
                " FROM unnest(%s::text[], %s::bigint[]) AS each (name, value)",
                ([sequence for sequence, _value in values], [value for _sequence, value in values]),
            )

    def keep(self, name: str) -> None:
        self._states[name] = [(table, rows) for table in self._tables if (rows := self._rows(table))]
        found = self._connection.execute("SELECT schemaname || '.' || sequencename, last_value FROM pg_sequences")
        self._sequences[name] = [(str(row[0]), row[1]) for row in found]

    def _rows(self, table: str) -> bytes:
        statement = sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            return b"".join(bytes(part) for part in copy)

    def copy(self, _folder: Path | None = None) -> str:
        return self._cluster.create_database(self._template)


class Databases:
    """What one worker has: each kind is made at first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        users.hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)  # its cost is the library's business
        self._cluster: PostgresCluster | None = None
        self._kinds: dict[str, SqliteStates | PostgresStates] = {}
        self._apps: dict[str, SharedApp] = {}
        self._built: set[tuple[str, str]] = set()

    def url(self, kind: str) -> str:
        """URL of the worker's database of this kind, with the schema and no rows."""
        self._restore(kind, "empty")
        return self._states(kind).url

    def app(self, settings: Settings) -> Flask:
        """The product with these settings. On the worker's own database it is one app for all tests."""
        if settings.database_url not in {states.url for states in self._kinds.values()}:
            return _app(settings)
        shared = self._apps.get(settings.database_url)
        if shared is None:
            shared = self._apps[settings.database_url] = SharedApp(settings)
        return shared.reset(settings)

    def prepare(self, app: Flask, build: Build) -> Flask:
        """The app, its database in the state that `build` makes of an empty one; it is called once per kind."""
        kind = "sqlite" if app.config["DATABASE_URL"].startswith("sqlite") else "postgresql"
        name = build.__name__
        if (kind, name) in self._built:
            self._restore(kind, name)
            return app
        build(app)
        self._release(kind)
        self._states(kind).keep(name)
        self._built.add((kind, name))
        return app

    def own(self, kind: str, folder: Path) -> str:
        """URL of a database with the schema that no other test uses; SQLite's is facho.db under `folder`."""
        return self._states(kind).copy(folder)

    def blank_postgresql(self) -> str:
        """URL of a new database without tables."""
        return self._server().create_database()

    def close(self) -> None:
        """Stop what was started."""
        for shared in self._apps.values():
            shared.release()
        self._stack.close()

    def _states(self, kind: str) -> SqliteStates | PostgresStates:
        if kind not in self._kinds:
            self._kinds[kind] = SqliteStates(self._folder) if kind == "sqlite" else PostgresStates(self._server())
        return self._kinds[kind]

    def _restore(self, kind: str, name: str) -> None:
        states = self._states(kind)
        self._release(kind)
        states.restore(name)

    def _release(self, kind: str) -> None:
        shared = self._apps.get(self._states(kind).url)
        if shared is not None:
            shared.release()

    def _server(self) -> PostgresCluster:
        if self._cluster is None:
            self._cluster = self._stack.enter_context(postgres_cluster())
        return self._cluster
