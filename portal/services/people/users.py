"""Verbs on people: create, passwords, logging in, the first administrator. Passwords are kept as Argon2 hashes."""

import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from portal.domain import fields
from portal.domain.fields import FieldError, Reader, read_all
from portal.domain.messages import N_, Message
from portal.domain.statuses import Role
from portal.extensions import transaction
from portal.services import audit
from portal.services.errors import Invalid, NotFound
from portal.services.uniqueness import unique_or_invalid
from portal.tables import User

SHORTEST_PASSWORD = 8
LONGEST_PASSWORD = 256
FIRST_ADMIN = "admin"
ONE_TIME_BYTES = 12

NAME_TAKEN = N_("another user has this name")
GONE = N_("the user does not exist any more")
LAST_ADMIN = N_("this is the last active administrator: make another one first")
ONESELF = N_("nobody deactivates the own account: another administrator can do it")
_UNIQUE = dict.fromkeys(("uq_users_username", "users.username"), ("username", NAME_TAKEN))
_USERNAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,79}", re.ASCII)
_RESERVED = frozenset({"cli"})  # by this name the audit log calls the command line
_LANGUAGES = ("", "es", "en")

hasher = PasswordHasher()


@lru_cache(maxsize=1)
def _decoy() -> str:
    """A hash that no password fits: checking it takes as long for an unknown user as for a known one."""
    return hasher.hash(secrets.token_urlsafe(32))


def _language(value: object) -> str:
    text = str(value or "")
    if text not in _LANGUAGES:
        raise FieldError(N_("must be one of %(accepted)s, not %(given)s", accepted=", ".join(_LANGUAGES[1:]),
                            given=fields.shown(text)))  # fmt: skip
    return text


_CHANGEABLE: Mapping[str, Reader] = {
    "role": fields.choice(Role),
    "active": fields.flag,
    "language": _language,
}


def create(username: str, password: str, role: Role | str, actor: str, now: datetime) -> int:
    """A new user; returns the id. Names are lower case. Invalid names each wrong field."""
    name = username.strip().lower()
    errors = _check_name(name) | check_password(password)
    values, wrong = read_all({"role": _CHANGEABLE["role"]}, {"role": role})
    if errors or wrong:
        raise Invalid(errors | wrong)
    password_hash = hasher.hash(password)
    with unique_or_invalid(_UNIQUE), transaction() as session:
        if session.scalar(select(User.id).where(User.username == name)):
            raise Invalid({"username": NAME_TAKEN})
        return _add(session, name, password_hash, values["role"], actor, now)


def _add(session: Session, name: str, password_hash: str, role: Role, actor: str, now: datetime) -> int:
    user = User(username=name, password_hash=password_hash, role=role, created_at=now)
    session.add(user)
    session.flush()
    audit.record(session, actor=actor, action="user.create", subject=user, changes={"role": role}, now=now)
    return user.id


def set_password(user_id: int, password: str, actor: str, now: datetime) -> None:
    """A new password; every session of the user ends."""
    errors = check_password(password)
    if errors:
        raise Invalid(errors)
    password_hash = hasher.hash(password)
    with transaction() as session:
        user = existing(session, user_id)
        store(user, password_hash)
        audit.record(session, actor=actor, action="user.password", subject=user, changes=None, now=now)


def store(user: User, password_hash: str) -> None:
    """Write a new password; every session of the user ends."""
    user.password_hash = password_hash
    user.session_epoch += 1


def update(user_id: int, given: Mapping[str, Any], actor: str, now: datetime) -> None:
    """Change role, active or language. A new role or a deactivation ends the user's sessions.

    Invalid: it would leave no active administrator, or `actor` deactivates the own account.
    """
    with transaction() as session:
        _hold_admins(session)
        user = existing(session, user_id)
        values, errors = read_all(_CHANGEABLE, given)
        if errors:
            raise Invalid(errors)
        changes = audit.difference({name: getattr(user, name) for name in values}, values)
        for name in changes:
            setattr(user, name, values[name])
        session.flush()
        if not _admins(session):
            raise Invalid({"": LAST_ADMIN})
        if user.username == actor and changes.get("active") == [True, False]:
            raise Invalid({"": ONESELF})
        if changes.keys() & {"role", "active"}:
            user.session_epoch += 1
        if changes:
            audit.record(session, actor=actor, action="user.update", subject=user, changes=changes, now=now)


def stored_name(username: str) -> str:
    """What is typed as it would be stored: in lower case, without blanks around it and without NUL.

    PostgreSQL refuses a NUL, and a name that meets another only there would have tries of its own.
    """
    return username.replace("\x00", "").strip().lower()


def authenticate(username: str, password: str, now: datetime) -> User | None:
    """The active user with this name and password, or None. Takes the same time whether the name exists or not."""
    name = stored_name(username)
    with transaction() as session:
        user = session.scalar(select(User).where(User.username == name))
        known = user.password_hash if user else _decoy()
        ident = user.id if user and user.active else None
    _decoy()  # made once; without this the first unknown name would take longer
    if not fits(known, password) or ident is None:
        return None
    return _note_login(ident, password, now)


def fits(password_hash: str, password: str) -> bool:
    """Is it the password of this hash? What is longer than any password is cut: hashing megabytes is work."""
    try:
        return hasher.verify(password_hash, password[: LONGEST_PASSWORD + 1])
    except (VerificationError, InvalidHashError):
        return False


def _note_login(user_id: int, password: str, now: datetime) -> User | None:
    with transaction() as session:
        user = session.get(User, user_id)
        if user is None or not user.active:
            return None
        user.last_login_at = now
        if hasher.check_needs_rehash(user.password_hash):
            user.password_hash = hasher.hash(password)
        audit.record(session, actor=user.username, action="user.login", subject=user, changes=None, now=now)
        return user


def ensure_admin(now: datetime) -> str | None:
    """When there is no user at all: create `admin` and return its one-time password. Otherwise None."""
    password = secrets.token_urlsafe(ONE_TIME_BYTES)
    with transaction() as session:
        if session.scalar(select(func.count()).select_from(User)):
            return None
        _add(session, FIRST_ADMIN, hasher.hash(password), Role.ADMIN, "cli", now)
    return password


def by_name(session: Session, username: str) -> User:
    """The user of this name, or NotFound."""
    user = session.scalar(select(User).where(User.username == username.strip().lower()))
    if user is None:
        raise NotFound(N_("there is no user %(name)s", name=fields.shown(username)))
    return user


def existing(session: Session, user_id: int) -> User:
    """The user, or NotFound."""
    user = session.get(User, user_id)
    if user is None:
        raise NotFound(GONE)
    return user


def _hold_admins(session: Session) -> None:
    """Until the end of the transaction nobody else changes an active administrator.

    Two of them who demote each other at the same moment would each still count the other (PostgreSQL; SQLite has one
    writer at a time).
    """
    held = select(User.id).where(User.role == Role.ADMIN, User.active).order_by(User.id).with_for_update()
    session.execute(held).all()


def _admins(session: Session) -> int:
    query = select(func.count()).select_from(User).where(User.role == Role.ADMIN, User.active)
    return session.scalar(query) or 0


def _check_name(name: str) -> dict[str, Message]:
    if name in _RESERVED:
        return {"username": N_("stands for the command line in the audit log: choose another name")}
    if _USERNAME.fullmatch(name):
        return {}
    return {"username": N_("must be 1 to 80 letters, digits or . _ @ - (first a letter or digit)")}


def check_password(password: str) -> dict[str, Message]:
    """What is wrong with a new password, under `password`."""
    if len(password) < SHORTEST_PASSWORD:
        return {"password": N_("must have at least %(least)d characters", least=SHORTEST_PASSWORD)}
    if len(password) > LONGEST_PASSWORD:
        return {"password": N_("is longer than %(longest)d characters", longest=LONGEST_PASSWORD)}
    return {}
