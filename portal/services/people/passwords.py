"""Passwords that people change themselves, and those an administrator hands over once. No HTTP here."""

import secrets
from datetime import datetime

from sqlalchemy import select

from portal.domain.messages import N_
from portal.domain.statuses import Role
from portal.extensions import db, transaction
from portal.services import audit
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.people import users
from portal.tables import User

WRONG = N_("this is not your present password")
SAME = N_("is the same as before: choose another one")
OWN = N_("your own password is changed under My account, where the present one is asked for")


def invite(username: str, role: Role | str, actor: str, now: datetime) -> str:
    """A new user; returns the password to be handed over, which exists nowhere else. Invalid names each wrong field."""
    password = _made()
    users.create(username, password, role, actor, now)
    return password


def change_own(user_id: int, old: str, new: str, now: datetime) -> None:
    """The password of who asks. All sessions of the user end: the caller renews the one that shall go on.

    Invalid: `old` is wrong, or `new` cannot be used. Conflict: somebody else changed it while it was checked.
    """
    wrong = users.check_password(new)
    if wrong:
        raise Invalid({"new": wrong["password"]})
    known = db.session.scalar(select(User.password_hash).where(User.id == user_id))
    if known is None:
        raise NotFound(users.GONE)
    if not users.fits(known, old):
        raise Invalid({"old": WRONG})
    if new == old:
        raise Invalid({"new": SAME})
    password_hash = users.hasher.hash(new)
    with transaction() as session:
        user = users.existing(session, user_id)
        if user.password_hash != known:
            raise Conflict(N_("the password was changed meanwhile: nothing was saved, log in again"))
        users.store(user, password_hash)
        audit.record(session, actor=user.username, action="user.password", subject=user, changes=None, now=now)


def hand_over(user_id: int, actor: str, now: datetime) -> str:
    """A new password for somebody else, returned in clear this once; every session of that user ends."""
    password = _made()
    password_hash = users.hasher.hash(password)
    with transaction() as session:
        user = users.existing(session, user_id)
        if user.username == actor:
            raise Invalid({"": OWN})
        users.store(user, password_hash)
        audit.record(session, actor=actor, action="user.hand_over", subject=user, changes=None, now=now)
    return password


def _made() -> str:
    return secrets.token_urlsafe(users.ONE_TIME_BYTES)
