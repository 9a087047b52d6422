"""Credentials, users and their passwords, sessions and tokens: what is kept, refused, handed over and told."""

import threading
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from cryptography.fernet import Fernet
from flask import Flask
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from portal.domain.statuses import Role
from portal.extensions import Base, KeyringError, db, keyring
from portal.services import keys
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.network import credentials
from portal.services.people import passwords, sessions, tokens, users
from portal.tables import ApiToken, AuditLog, Channel, User
from testing.api import Client
from testing.builders import make_credential, make_olt, make_user
from testing.cast import ACTOR, COMMUNITY, NOW, PASSWORD
from testing.databases import FERNET_KEY
from testing.refusals import errors_of
from testing.statements import statements_in
from testing.threads import at_once

V3 = {
    "name": "secure", "version": "3", "username": "facho", "auth_protocol": "SHA", "auth_password": "planted-auth",
    "priv_protocol": "AES", "priv_password": "planted-priv",
}  # fmt: skip


def test_a_secret_is_neither_in_the_table_nor_in_the_audit(session: Session) -> None:
    make_credential()
    credentials.save(V3, ACTOR, NOW)
    for table in ("credentials", "audit_log"):
        assert "planted" not in str(session.execute(text(f"SELECT * FROM {table}")).all())  # noqa: S608  (two literals)
    row = session.scalars(select(AuditLog).where(AuditLog.subject_name == "lab")).one()
    assert row.changes["community"] == [None, "***"]


def test_an_empty_secret_on_a_change_keeps_what_is_stored(session: Session) -> None:
    row = make_credential()
    credentials.save({"name": "lab", "version": "2c", "community": ""}, ACTOR, NOW, row.id)
    assert row.community == COMMUNITY
    assert len(session.scalars(select(AuditLog)).all()) == 1
    credentials.save({"community": "planted too"}, ACTOR, NOW, row.id)
    assert row.community == "planted too"


def test_another_version_forgets_the_secrets_it_does_not_use(session: Session) -> None:
    row = make_credential()
    credentials.save(V3 | {"name": "lab"}, ACTOR, NOW, row.id)
    assert (row.community, row.auth_password) == (None, "planted-auth")
    credentials.save({"priv_protocol": ""}, ACTOR, NOW, row.id)
    assert (row.priv_password, row.auth_password) == (None, "planted-auth")
    assert errors_of(credentials.save, {"version": "2c"}, ACTOR, NOW, row.id).keys() == {"community"}


def test_a_credentials_name_is_unique_also_in_a_race(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    make_credential()
    again = {"name": "lab", "community": "x"}
    assert errors_of(credentials.save, again, ACTOR, NOW) == {"name": credentials.NAME_TAKEN}
    monkeypatch.setattr(credentials, "taken", lambda *_: {})
    assert errors_of(credentials.save, again, ACTOR, NOW) == {"name": credentials.NAME_TAKEN}


def test_a_credential_in_use_is_not_deleted(session: Session) -> None:
    olt, spare = make_olt(), make_credential("spare")
    with pytest.raises(Invalid, match="1 OLTs use it"):
        credentials.delete(olt.credential_id, ACTOR, NOW)
    credentials.delete(spare.id, ACTOR, NOW)
    with pytest.raises(NotFound):
        credentials.save({"name": "x"}, ACTOR, NOW, spare.id)


def test_only_the_right_password_of_an_active_user_lets_in(session: Session) -> None:
    user = make_user()
    assert users.authenticate("nobody", PASSWORD, NOW) is None
    assert users.authenticate(ACTOR, PASSWORD + "x", NOW) is None
    assert users.authenticate(ACTOR, "", NOW) is None
    found = users.authenticate(f" {ACTOR.upper()} ", PASSWORD, NOW)
    assert (found.id, found.last_login_at) == (user.id, NOW)
    make_user("luis")
    users.update(user.id, {"active": False}, "luis", NOW)
    assert users.authenticate(ACTOR, PASSWORD, NOW) is None


def test_an_unknown_name_costs_a_hash_too(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    monkeypatch.setattr(users, "fits", lambda known, _password: checked.append(known))
    users.authenticate("nobody", PASSWORD, NOW)
    assert checked[0].startswith("$argon2id$")


def test_a_new_password_ends_all_sessions(session: Session) -> None:
    user = make_user()
    before = user.get_id()
    users.set_password(user.id, "another password", ACTOR, NOW)
    assert user.get_id() != before
    assert users.authenticate(ACTOR, "another password", NOW) is not None
    with pytest.raises(Invalid):
        users.set_password(user.id, "short", ACTOR, NOW)


def test_a_user_needs_a_usable_name_password_and_role(session: Session) -> None:
    assert errors_of(users.create, "no spaces", "short", "boss", "cli", NOW).keys() == {"username", "password", "role"}
    make_user()
    assert errors_of(users.create, ACTOR.upper(), PASSWORD, Role.VIEWER, "cli", NOW) == {"username": users.NAME_TAKEN}


def test_the_last_administrator_stays(session: Session) -> None:
    user = make_user()
    for change in ({"role": "viewer"}, {"active": False}):
        with pytest.raises(Invalid, match="last active administrator"):
            users.update(user.id, change, ACTOR, NOW)
    assert (user.role, user.active) == (Role.ADMIN, True)
    users.update(user.id, {"language": "es"}, ACTOR, NOW)
    assert user.language == "es"


def test_the_first_start_makes_one_administrator_with_a_password_of_its_own(session: Session) -> None:
    password = users.ensure_admin(NOW)
    assert password is not None
    assert users.ensure_admin(NOW) is None
    admin = session.scalars(select(User)).one()
    assert (admin.username, admin.role) == ("admin", Role.ADMIN)
    assert users.authenticate("admin", password, NOW) is not None
    assert password not in str(session.execute(text("SELECT * FROM audit_log")).all())


def test_a_name_with_a_nul_is_the_name_without_it_also_for_the_tries_at_the_login(session: Session) -> None:
    make_user("ana")
    assert users.authenticate("an\x00a\x00", PASSWORD, NOW) is not None
    assert users.authenticate("\x00", PASSWORD, NOW) is None
    assert users.stored_name(" A\x00na\x00 ") == "ana"


def test_a_credential_can_be_loaded_without_its_key_and_its_secret_cannot(app: Flask, session: Session) -> None:
    row = make_credential()
    keyring.load(app, [Fernet.generate_key().decode()])
    session.expire_all()
    assert (row.name, row.holds("community"), row.holds("auth_password")) == ("lab", True, False)
    assert row.auth_password is None
    with pytest.raises(KeyringError):
        _ = row.community


def test_a_secret_whose_key_was_lost_must_be_given_again_and_nothing_else(app: Flask, session: Session) -> None:
    row, v3 = make_credential(), credentials.save(V3, ACTOR, NOW)
    keyring.load(app, [Fernet.generate_key().decode()])
    assert "enter it again" in errors_of(credentials.save, {"name": "other"}, ACTOR, NOW, row.id)["community"]
    credentials.save({"community": "fresh"}, ACTOR, NOW, row.id)
    assert row.community == "fresh"
    assert errors_of(credentials.save, {"auth_password": "fresh and long"}, ACTOR, NOW, v3).keys() == {"priv_password"}
    credentials.save({"version": "2c", "community": "fresh too"}, ACTOR, NOW, v3)
    assert credentials.existing(session, v3).auth_password is None


def test_rotation_encrypts_every_secret_with_the_newest_key(app: Flask, session: Session) -> None:
    row = make_credential()
    session.add(Channel(name="night", kind="webhook", target="https://planted"))
    session.commit()
    fresh = Fernet.generate_key().decode()
    keyring.load(app, [fresh, FERNET_KEY])
    assert keys.rotate(ACTOR, NOW) == 2
    keyring.load(app, [fresh])
    session.expire_all()
    assert row.community == COMMUNITY
    assert session.scalars(select(Channel)).one().target == "https://planted"
    keyring.load(app, [FERNET_KEY])
    session.expire_all()
    with pytest.raises(KeyringError):
        _ = row.community


def test_rotation_writes_nothing_when_one_secret_cannot_be_read(session: Session) -> None:
    make_credential("a")
    make_credential("b")
    stored = "SELECT community FROM credentials ORDER BY id"
    good = session.execute(text(stored)).scalars().first()
    session.execute(text("UPDATE credentials SET community = :bad WHERE name = 'b'"), {"bad": b"damaged"})
    session.commit()
    with pytest.raises(KeyringError):
        keys.rotate(ACTOR, NOW)
    assert session.execute(text(stored)).scalars().first() == good


def test_every_encrypted_column_takes_part_in_a_rotation() -> None:
    found = {f"{table.name}.{column.name}" for table, column in keys.encrypted_columns()}
    assert found >= {"credentials.community", "credentials.auth_password", "credentials.priv_password",
                     "channels.target"}  # fmt: skip


NEW = "four unrelated words here"


def last_action(session: Session) -> tuple[str, str]:
    return session.execute(select(AuditLog.action, AuditLog.actor).order_by(AuditLog.id)).tuples().all()[-1]


def test_the_own_password_is_changed_by_who_knows_the_present_one(session: Session) -> None:
    user, epoch = make_user(), 0
    assert errors_of(passwords.change_own, user.id, "not it", NEW, NOW) == {"old": passwords.WRONG}
    passwords.change_own(user.id, PASSWORD, NEW, NOW)
    assert user.session_epoch == epoch + 1
    assert last_action(session) == ("user.password", ACTOR)
    assert users.authenticate(ACTOR, PASSWORD, NOW) is None
    assert users.authenticate(ACTOR, NEW, NOW) is not None


def test_a_password_that_was_changed_while_the_old_one_was_checked_stays(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, check = make_user(), users.fits

    def slow(known: str, given: str) -> bool:
        monkeypatch.setattr(users, "fits", check)
        passwords.hand_over(user.id, "cli", NOW)
        return check(known, given)

    monkeypatch.setattr(users, "fits", slow)
    with pytest.raises(Conflict):
        passwords.change_own(user.id, PASSWORD, NEW, NOW)
    assert users.authenticate(ACTOR, NEW, NOW) is None


def test_a_password_is_handed_over_once_and_never_to_oneself(session: Session) -> None:
    user = make_user()
    first, second = passwords.hand_over(user.id, "boss", NOW), passwords.hand_over(user.id, "boss", NOW)
    assert first != second
    assert last_action(session) == ("user.hand_over", "boss")
    assert users.authenticate(ACTOR, first, NOW) is None
    assert users.authenticate(ACTOR, second, NOW) is not None
    with pytest.raises(Invalid):
        passwords.hand_over(user.id, ACTOR, NOW)
    with pytest.raises(NotFound):
        passwords.hand_over(999, "boss", NOW)


def test_who_is_invited_can_log_in_with_what_is_returned(session: Session) -> None:
    password = passwords.invite("Rosa", Role.VIEWER, "boss", NOW)
    assert users.authenticate("rosa", password, NOW) is not None
    assert password not in str(session.scalars(select(AuditLog.changes)).all())


def test_nobody_deactivates_the_own_account_also_where_others_could_go_on(session: Session) -> None:
    user, other = make_user(), make_user("other")
    with pytest.raises(Invalid, match="nobody deactivates"):
        users.update(user.id, {"active": False}, ACTOR, NOW)
    users.update(user.id, {"active": False}, other.username, NOW)
    assert not user.active
    users.update(user.id, {"active": True}, other.username, NOW)


def test_the_end_of_sessions_is_told_from_a_logout(session: Session) -> None:
    user = make_user()
    sessions.end_others(user.id, "boss", NOW)
    assert last_action(session) == ("user.end_sessions", "boss")
    sessions.end_all(user.id, ACTOR, NOW)
    assert (user.session_epoch, last_action(session)) == (2, ("user.logout", ACTOR))


def test_a_token_is_revoked_by_its_id_once(session: Session) -> None:
    tokens.create("ci", Role.VIEWER, ACTOR, NOW)
    ident = session.scalars(select(ApiToken.id)).one()
    assert (tokens.revoke_by_id(ident, ACTOR, NOW), tokens.revoke_by_id(ident, ACTOR, NOW)) == (True, False)
    with pytest.raises(NotFound):
        tokens.revoke_by_id(999, ACTOR, NOW)


def test_two_administrators_who_take_the_role_from_each_other_at_one_moment_leave_one(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    with app.app_context():
        admins = [make_user(name).id for name in ("anna", "bert")]
    together, count, refused = threading.Barrier(2, timeout=1), users._admins, list[str]()

    def counted(session: Session) -> int:
        """As late as can be: each has written, and counts before the other commits, if that is possible at all."""
        with suppress(threading.BrokenBarrierError):
            together.wait()
        return count(session)

    def demote(ident: int, actor: str) -> None:
        try:
            users.update(ident, {"role": "viewer"}, actor, NOW)
        except Invalid as error:
            refused.append(str(error))

    monkeypatch.setattr(users, "_admins", counted)
    at_once(app, [partial(demote, *pair) for pair in zip(admins, ("bert", "anna"), strict=True)])
    with app.app_context():
        left = db.session.scalars(select(User.role).where(User.role == Role.ADMIN)).all()
    assert (len(left), refused) == (1, [str(users.LAST_ADMIN)])


def dump(session: Session) -> str:
    """All rows of all tables as text."""
    names = [table.name for table in Base.metadata.sorted_tables]
    return "\n".join(str(session.execute(text(f'SELECT * FROM "{name}"')).all()) for name in names)  # noqa: S608


def test_a_token_holds_32_random_bytes_and_says_what_it_is(session: Session) -> None:
    made = {tokens.create(f"t{number}", "viewer", "cli", NOW) for number in range(5)}
    assert len(made) == 5
    assert all(clear.startswith("facho_") and len(clear) == len("facho_") + 43 for clear in made)


def test_a_dump_of_the_database_gives_no_token_that_can_be_used(app: Flask) -> None:
    client = Client(app)
    with app.app_context():
        clear = tokens.create("ci", "admin", "cli", NOW)
        row = db.session.scalars(select(ApiToken)).one()
        stolen = dump(db.session())
        found = (row.digest, row.prefix, row.name, clear[:-1], clear.swapcase())
    assert clear not in stolen
    assert clear.removeprefix(row.prefix) not in stolen
    for guess in found:
        assert client.get("/pollers/", headers={"Authorization": f"Bearer {guess}"}).status_code == 401
    assert client.get("/pollers/", headers={"Authorization": f"Bearer {clear}"}).status_code == 200


def test_a_token_speaks_with_its_name_and_role(session: Session) -> None:
    clear = tokens.create("  CI-Runner ", "operator", "cli", NOW)
    found = tokens.authenticate(clear, NOW)
    assert (found.name, found.actor, found.role) == ("ci-runner", "token:ci-runner", Role.OPERATOR)
    assert tokens.authenticate(clear + "x", NOW) is None
    assert tokens.authenticate("", NOW) is None


def test_the_moment_of_expiry_is_no_longer_valid(session: Session) -> None:
    end = NOW + timedelta(days=1)
    clear = tokens.create("short", "viewer", "cli", NOW, end)
    assert tokens.authenticate(clear, end - timedelta(seconds=1)) is not None
    assert tokens.authenticate(clear, end) is None


def test_revoking_works_at_once_and_is_told_apart_the_second_time(session: Session) -> None:
    clear = tokens.create("gone", "viewer", "cli", NOW)
    assert tokens.authenticate(clear, NOW) is not None
    assert tokens.revoke("Gone", "cli", NOW) is True
    assert tokens.authenticate(clear, NOW) is None
    assert tokens.revoke("gone", "cli", NOW + timedelta(days=1)) is False
    assert session.scalars(select(ApiToken.revoked_at)).one() == NOW
    with pytest.raises(NotFound, match="token list"):
        tokens.revoke("never", "cli", NOW)


def test_making_and_revoking_are_audited_without_the_secret(session: Session) -> None:
    clear = tokens.create("ci", "operator", "rosa", NOW, NOW + timedelta(days=9))
    tokens.revoke("ci", "juan", NOW)
    tokens.revoke("ci", "juan", NOW)
    rows = session.scalars(select(AuditLog).order_by(AuditLog.id)).all()
    found = [(row.action, row.actor, row.subject_type, row.subject_name) for row in rows]
    assert found == [("token.create", "rosa", "token", "ci"), ("token.revoke", "juan", "token", "ci")]
    assert rows[0].changes == {"role": "operator", "expires_at": "2026-12-06T10:00:00+00:00"}
    assert clear[12:] not in dump(session)


def test_each_wrong_field_is_named(session: Session) -> None:
    def wrong(name: str = "ci", role: str = "viewer", days: int = 1) -> list[str]:
        return sorted(errors_of(tokens.create, name, role, "cli", NOW, NOW + timedelta(days=days)))

    assert [wrong(name) for name in ("", "two words", "token:x", "x" * 65, "ñ", "a\x00")] == [["name"]] * 6
    assert wrong(role="root") == ["role"]
    assert [wrong(days=days) for days in (0, -1, 3651)] == [["expires_at"]] * 3
    assert wrong("-", "", 0) == ["expires_at", "name", "role"]
    assert session.scalars(select(ApiToken)).all() == []


def test_no_name_is_used_twice_after_revoking_or_in_a_race(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens.create("ci", "viewer", "cli", NOW)
    tokens.revoke("ci", "cli", NOW)
    with pytest.raises(Invalid, match="choose another name"):
        tokens.create("CI", "viewer", "cli", NOW)
    monkeypatch.setattr(type(session), "scalar", lambda *_args, **_options: None)  # the look before found nothing
    with pytest.raises(Invalid, match="choose another name"):
        tokens.create("ci", "viewer", "cli", NOW)


def test_last_use_is_noted_at_most_once_a_minute(session: Session) -> None:
    clear = tokens.create("ci", "viewer", "cli", NOW)
    noted = []
    for seconds in (0, 1, 59, 60, 61, 119, 120):
        assert tokens.authenticate(clear, NOW + timedelta(seconds=seconds)) is not None
        noted.append(session.scalars(select(ApiToken.last_used_at)).one())
    assert noted == [NOW] * 3 + [NOW + timedelta(minutes=1)] * 3 + [NOW + timedelta(minutes=2)]


def test_a_second_request_in_the_same_minute_writes_nothing(session: Session) -> None:
    clear = tokens.create("ci", "viewer", "cli", NOW)
    tokens.authenticate(clear, NOW)
    seen = statements_in(partial(tokens.authenticate, clear, NOW + timedelta(seconds=5)))
    assert [one.split()[0] for one in seen if not one.startswith("BEGIN")] == ["SELECT"]


def test_a_database_that_cannot_be_written_costs_no_answer(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    clear = tokens.create("ci", "viewer", "cli", NOW)

    def refuse() -> None:
        raise OperationalError("BEGIN IMMEDIATE", {}, Exception("attempt to write a readonly database"))

    monkeypatch.setattr(tokens, "transaction", refuse)
    assert tokens.authenticate(clear, NOW) is not None
