"""Passwords that are changed or handed over, the last administrator in a race, tokens by id."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.statuses import Role
from portal.extensions import db
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.people import passwords, sessions, tokens, users
from portal.tables import ApiToken, AuditLog, User
from testing.builders import make_user
from testing.cast import ACTOR, PASSWORD

NEW = "four unrelated words here"


def last_action(session: Session) -> tuple[str, str]:
    row = session.scalars(select(AuditLog).order_by(AuditLog.id.desc())).first()
    assert row is not None
    return row.action, row.actor


def test_the_own_password_is_changed_by_who_knows_the_present_one(session: Session, now: datetime) -> None:
    user, epoch = make_user(), 0
    with pytest.raises(Invalid) as caught:
        passwords.change_own(user.id, "not it", NEW, now)
    assert caught.value.errors == {"old": passwords.WRONG}
    passwords.change_own(user.id, PASSWORD, NEW, now)
    assert user.session_epoch == epoch + 1
    assert last_action(session) == ("user.password", ACTOR)
    assert users.authenticate(ACTOR, PASSWORD, now) is None
    assert users.authenticate(ACTOR, NEW, now) is not None


def test_a_password_that_was_changed_while_the_old_one_was_checked_stays(
    session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, check = make_user(), users.fits

    def slow(known: str, given: str) -> bool:
        monkeypatch.setattr(users, "fits", check)
        passwords.hand_over(user.id, "cli", now)
        return check(known, given)

    monkeypatch.setattr(users, "fits", slow)
    with pytest.raises(Conflict):
        passwords.change_own(user.id, PASSWORD, NEW, now)
    assert users.authenticate(ACTOR, NEW, now) is None


def test_a_password_is_handed_over_once_and_never_to_oneself(session: Session, now: datetime) -> None:
    user = make_user()
    first, second = passwords.hand_over(user.id, "boss", now), passwords.hand_over(user.id, "boss", now)
    assert first != second
    assert last_action(session) == ("user.hand_over", "boss")
    assert users.authenticate(ACTOR, first, now) is None
    assert users.authenticate(ACTOR, second, now) is not None
    with pytest.raises(Invalid):
        passwords.hand_over(user.id, ACTOR, now)
    with pytest.raises(NotFound):
        passwords.hand_over(999, "boss", now)


def test_who_is_invited_can_log_in_with_what_is_returned(session: Session, now: datetime) -> None:
    password = passwords.invite("Rosa", Role.VIEWER, "boss", now)
    assert users.authenticate("rosa", password, now) is not None
    assert password not in str(session.scalars(select(AuditLog.changes)).all())


def test_nobody_deactivates_the_own_account_also_where_others_could_go_on(session: Session, now: datetime) -> None:
    user, other = make_user(), make_user("other")
    with pytest.raises(Invalid, match="nobody deactivates"):
        users.update(user.id, {"active": False}, ACTOR, now)
    users.update(user.id, {"active": False}, other.username, now)
    assert not user.active
    users.update(user.id, {"active": True}, other.username, now)


def test_the_end_of_sessions_is_told_from_a_logout(session: Session, now: datetime) -> None:
    user = make_user()
    sessions.end_others(user.id, "boss", now)
    assert last_action(session) == ("user.end_sessions", "boss")
    sessions.end_all(user.id, ACTOR, now)
    assert (user.session_epoch, last_action(session)) == (2, ("user.logout", ACTOR))


def test_a_token_is_revoked_by_its_id_once(session: Session, now: datetime) -> None:
    tokens.create("ci", Role.VIEWER, ACTOR, now)
    ident = session.scalars(select(ApiToken.id)).one()
    assert (tokens.revoke_by_id(ident, ACTOR, now), tokens.revoke_by_id(ident, ACTOR, now)) == (True, False)
    with pytest.raises(NotFound):
        tokens.revoke_by_id(999, ACTOR, now)


@pytest.fixture
def admins(app: Flask, now: datetime) -> Iterator[list[int]]:
    """Two administrators."""
    with app.app_context():
        found = [make_user(name).id for name in ("anna", "bert")]
        db.session.remove()
    yield found


def test_two_administrators_who_take_the_role_from_each_other_at_one_moment_leave_one(
    app: Flask, admins: list[int], now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, count, refused = threading.Barrier(2, timeout=1), users._admins, list[str]()

    def counted(session: Session) -> int:
        """As late as can be: each has written, and counts before the other commits, if that is possible at all."""
        with suppress(threading.BrokenBarrierError):
            together.wait()
        return count(session)

    def demote(ident: int, actor: str) -> None:
        with app.app_context():
            try:
                users.update(ident, {"role": "viewer"}, actor, now)
            except Invalid as error:
                refused.append(str(error))
            finally:
                db.session.remove()

    monkeypatch.setattr(users, "_admins", counted)
    both = [threading.Thread(target=demote, args=pair) for pair in zip(admins, ("bert", "anna"), strict=True)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    with app.app_context():
        left = db.session.scalars(select(User.role).where(User.role == Role.ADMIN)).all()
        db.session.remove()
    assert (len(left), refused) == (1, [str(users.LAST_ADMIN)])
