"""Flask extensions and the key ring, created unbound; create_app binds them. Nothing here does work at import."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from flask import Flask, current_app
from flask_babel import Babel
from flask_htmx import HTMX
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from flask_login import LoginManager
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from flask_wtf import CSRFProtect
from sqlalchemy import Connection, Engine, MetaData, event
from sqlalchemy.orm import DeclarativeBase, Session

from portal.domain.masking import unmasked

NAMING = {
    "ix": "ix_%(column_0_N_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Declarative base; constraint names are fixed so that migrations can drop them on both databases."""

    metadata = MetaData(naming_convention=NAMING)


class KeyringError(RuntimeError):
    """A secret cannot be read with the keys that are configured."""


class Keyring:
    """Fernet keys of the current app, newest first. The first encrypts, all decrypt."""

    def load(self, app: Flask, keys: Sequence[str]) -> None:
        """Give `app` its keys. They are the app's and not the process': two apps may live side by side (tests do)."""
        app.extensions["facho-keyring"] = MultiFernet([Fernet(key) for key in keys])

    def _ring(self) -> MultiFernet:
        ring: MultiFernet | None = current_app.extensions.get("facho-keyring")
        if ring is None:
            raise KeyringError("no FERNET_KEYS are loaded")
        return ring

    def encrypt(self, text: str) -> bytes:
        return self._ring().encrypt(text.encode())

    def decrypt(self, token: bytes) -> str:
        """Clear text of `token`; KeyringError when no configured key fits."""
        try:
            return self._ring().decrypt(token).decode()
        except InvalidToken:
            raise KeyringError(
                "a stored SNMP secret does not fit any of FERNET_KEYS: "
                "restore instance/fernet_keys, or enter the credential again"
            ) from None


class MaskedCSRF(CSRFProtect):  # type: ignore[misc]  # Flask-WTF ships no types
    """Takes tokens as pages show them: masked (portal.domain.masking)."""

    def _get_csrf_token(self) -> str | None:
        given = super()._get_csrf_token()
        return unmasked(given) if given else None


db = SQLAlchemy(model_class=Base, engine_options={"pool_pre_ping": True})
migrate = Migrate(render_as_batch=True, compare_type=True)
login_manager = LoginManager()
csrf = MaskedCSRF()
babel = Babel()
htmx = HTMX()
limiter = Limiter(get_remote_address)
keyring = Keyring()

IMMEDIATE = "facho_immediate"
Work = TypeVar("Work", bound=Callable[[], object])


def _sqlite_connect(connection: Any, _record: Any) -> None:
    # The driver's own BEGIN comes too late for BEGIN IMMEDIATE; ours is sent by _sqlite_begin.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "busy_timeout=60000", "foreign_keys=ON", "synchronous=NORMAL"):
        connection.execute(f"PRAGMA {pragma}").close()


def _sqlite_begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get(IMMEDIATE)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def prepare_engine(engine: Engine) -> None:
    """Make SQLite behave: WAL, waiting writers, foreign keys, and real BEGINs. Does nothing to PostgreSQL."""
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _sqlite_connect)
        event.listen(engine, "begin", _sqlite_begin)


@contextmanager
def transaction() -> Iterator[Session]:
    """One writing transaction on the scoped session: commit at the end, roll back on any error.

    It starts afresh: what was read before is expired, since between that read and the write lock another
    process may have changed it; a read snapshot cannot be upgraded on SQLite (SQLITE_BUSY_SNAPSHOT).
    Transactions do not nest: a service that needs another's work calls its inner function with the session.
    """
    session: Session = db.session()
    if session.info.get("writing"):
        raise RuntimeError("transaction() inside transaction()")
    session.rollback()
    session.connection(execution_options={IMMEDIATE: True})
    session.info["writing"] = True
    to_follow: list[Callable[[], object]] = []
    session.info["to_follow"] = to_follow
    to_precede: dict[str, Callable[[], object]] = {}
    session.info["to_precede"] = to_precede
    try:
        yield session
        for work in to_precede.values():
            work()
        session.commit()
    except BaseException:
        session.rollback()
        raise
    finally:
        session.info.pop("writing", None)
        session.info.pop("to_follow", None)
        session.info.pop("to_precede", None)
    for work in to_follow:
        work()


def after_commit(session: Session, work: Callable[[], object]) -> None:
    """Call `work` once the transaction that `session` is in has been committed; never when it is rolled back."""
    session.info["to_follow"].append(work)


def before_commit(session: Session, name: str, make: Callable[[], Work]) -> Work:
    """The work of this name that is called at the end of the transaction that `session` is in; made at first asking.

    It may write. After a rollback it is forgotten, and never called.
    """
    work: Work = session.info["to_precede"].setdefault(name, None) or make()
    session.info["to_precede"][name] = work
    return work


def init_extensions(app: Flask) -> None:
    """Bind every extension to `app`."""
    keyring.load(app, app.config["FERNET_KEYS"])
    db.init_app(app)
    migrate.init_app(app, db)
    login_manager.init_app(app)
    csrf.init_app(app)
    htmx.init_app(app)
    limiter.init_app(app)
    with app.app_context():
        prepare_engine(db.engine)
