"""Credentials, users and keys: secrets are kept, hidden and rotated."""

from datetime import datetime

import pytest
from cryptography.fernet import Fernet
from flask import Flask
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from portal.domain.statuses import Role
from portal.extensions import KeyringError, keyring
from portal.services import keys
from portal.services.errors import Invalid, NotFound
from portal.services.network import credentials
from portal.services.people import users
from portal.tables import AuditLog, Channel, User
from testing.builders import make_credential, make_olt, make_user
from testing.cast import ACTOR, COMMUNITY, PASSWORD
from testing.databases import FERNET_KEY

V3 = {
    "name": "secure", "version": "3", "username": "facho", "auth_protocol": "SHA", "auth_password": "planted-auth",
    "priv_protocol": "AES", "priv_password": "planted-priv",
}  # fmt: skip


def test_a_secret_is_neither_in_the_table_nor_in_the_audit(session: Session, now: datetime) -> None:
    make_credential()
    credentials.save(V3, ACTOR, now)
    for table in ("credentials", "audit_log"):
        assert "planted" not in str(session.execute(text(f"SELECT * FROM {table}")).all())  # noqa: S608  (two literals)
    row = session.scalars(select(AuditLog).where(AuditLog.subject_name == "lab")).one()
    assert row.changes["community"] == [None, "***"]


def test_an_empty_secret_on_a_change_keeps_what_is_stored(session: Session, now: datetime) -> None:
    row = make_credential()
    credentials.save({"name": "lab", "version": "2c", "community": ""}, ACTOR, now, row.id)
    assert row.community == COMMUNITY
    assert len(session.scalars(select(AuditLog)).all()) == 1
    credentials.save({"community": "planted too"}, ACTOR, now, row.id)
    assert row.community == "planted too"


def test_another_version_forgets_the_secrets_it_does_not_use(session: Session, now: datetime) -> None:
    row = make_credential()
    credentials.save(V3 | {"name": "lab"}, ACTOR, now, row.id)
    assert (row.community, row.auth_password) == (None, "planted-auth")
    credentials.save({"priv_protocol": ""}, ACTOR, now, row.id)
    assert (row.priv_password, row.auth_password) == (None, "planted-auth")
    with pytest.raises(Invalid) as caught:
        credentials.save({"version": "2c"}, ACTOR, now, row.id)
    assert caught.value.errors.keys() == {"community"}


def test_a_credentials_name_is_unique_also_in_a_race(
    session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_credential()
    again = {"name": "lab", "community": "x"}
    with pytest.raises(Invalid) as caught:
        credentials.save(again, ACTOR, now)
    assert caught.value.errors == {"name": credentials.NAME_TAKEN}
    monkeypatch.setattr(credentials, "taken", lambda *_: {})
    with pytest.raises(Invalid) as caught:
        credentials.save(again, ACTOR, now)
    assert caught.value.errors == {"name": credentials.NAME_TAKEN}


def test_a_credential_in_use_is_not_deleted(session: Session, now: datetime) -> None:
    olt = make_olt()
    spare = make_credential("spare")
    with pytest.raises(Invalid, match="1 OLTs use it"):
        credentials.delete(olt.credential_id, ACTOR, now)
    credentials.delete(spare.id, ACTOR, now)
    with pytest.raises(NotFound):
        credentials.save({"name": "x"}, ACTOR, now, spare.id)


def test_only_the_right_password_of_an_active_user_lets_in(session: Session, now: datetime) -> None:
    user = make_user()
    assert users.authenticate("nobody", PASSWORD, now) is None
    assert users.authenticate(ACTOR, PASSWORD + "x", now) is None
    assert users.authenticate(ACTOR, "", now) is None
    found = users.authenticate(f" {ACTOR.upper()} ", PASSWORD, now)
    assert found is not None
    assert (found.id, found.last_login_at) == (user.id, now)
    make_user("luis")
    users.update(user.id, {"active": False}, "luis", now)
    assert users.authenticate(ACTOR, PASSWORD, now) is None


def test_an_unknown_name_costs_a_hash_too(session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    monkeypatch.setattr(users, "fits", lambda known, _password: checked.append(known))
    users.authenticate("nobody", PASSWORD, now)
    assert checked[0].startswith("$argon2id$")


def test_a_new_password_ends_all_sessions(session: Session, now: datetime) -> None:
    user = make_user()
    before = user.get_id()
    users.set_password(user.id, "another password", ACTOR, now)
    assert user.get_id() != before
    assert users.authenticate(ACTOR, "another password", now) is not None
    with pytest.raises(Invalid):
        users.set_password(user.id, "short", ACTOR, now)


def test_a_user_needs_a_usable_name_password_and_role(session: Session, now: datetime) -> None:
    with pytest.raises(Invalid) as caught:
        users.create("no spaces", "short", "boss", "cli", now)
    assert caught.value.errors.keys() == {"username", "password", "role"}
    make_user()
    with pytest.raises(Invalid) as caught:
        users.create(ACTOR.upper(), PASSWORD, Role.VIEWER, "cli", now)
    assert caught.value.errors == {"username": users.NAME_TAKEN}


def test_the_last_administrator_stays(session: Session, now: datetime) -> None:
    user = make_user()
    for change in ({"role": "viewer"}, {"active": False}):
        with pytest.raises(Invalid, match="last active administrator"):
            users.update(user.id, change, ACTOR, now)
    assert (user.role, user.active) == (Role.ADMIN, True)
    users.update(user.id, {"language": "es"}, ACTOR, now)
    assert user.language == "es"


def test_the_first_start_makes_one_administrator_with_a_password_of_its_own(session: Session, now: datetime) -> None:
    password = users.ensure_admin(now)
    assert password is not None
    assert users.ensure_admin(now) is None
    admin = session.scalars(select(User)).one()
    assert (admin.username, admin.role) == ("admin", Role.ADMIN)
    assert users.authenticate("admin", password, now) is not None
    assert password not in str(session.execute(text("SELECT * FROM audit_log")).all())


def test_a_name_with_a_nul_is_the_name_without_it_also_for_the_tries_at_the_login(
    session: Session, now: datetime
) -> None:
    make_user("ana")
    assert users.authenticate("an\x00a\x00", PASSWORD, now) is not None
    assert users.authenticate("\x00", PASSWORD, now) is None
    assert users.stored_name(" A\x00na\x00 ") == "ana"


def test_a_credential_can_be_loaded_without_its_key_and_its_secret_cannot(app: Flask, session: Session) -> None:
    row = make_credential()
    keyring.load(app, [Fernet.generate_key().decode()])
    session.expire_all()
    assert (row.name, row.holds("community"), row.holds("auth_password")) == ("lab", True, False)
    assert row.auth_password is None
    with pytest.raises(KeyringError):
        _ = row.community


def test_a_secret_whose_key_was_lost_must_be_given_again_and_nothing_else(
    app: Flask, session: Session, now: datetime
) -> None:
    row, v3 = make_credential(), credentials.save(V3, ACTOR, now)
    keyring.load(app, [Fernet.generate_key().decode()])
    with pytest.raises(Invalid) as caught:
        credentials.save({"name": "other"}, ACTOR, now, row.id)
    assert "enter it again" in caught.value.errors["community"]
    credentials.save({"community": "fresh"}, ACTOR, now, row.id)
    assert row.community == "fresh"
    with pytest.raises(Invalid) as caught:
        credentials.save({"auth_password": "fresh and long"}, ACTOR, now, v3)
    assert caught.value.errors.keys() == {"priv_password"}
    credentials.save({"version": "2c", "community": "fresh too"}, ACTOR, now, v3)
    assert credentials.existing(session, v3).auth_password is None


def test_rotation_encrypts_every_secret_with_the_newest_key(app: Flask, session: Session, now: datetime) -> None:
    row = make_credential()
    session.add(Channel(name="night", kind="webhook", target="https://planted"))
    session.commit()
    fresh = Fernet.generate_key().decode()
    keyring.load(app, [fresh, FERNET_KEY])
    assert keys.rotate(ACTOR, now) == 2
    keyring.load(app, [fresh])
    session.expire_all()
    assert row.community == COMMUNITY
    assert session.scalars(select(Channel)).one().target == "https://planted"
    keyring.load(app, [FERNET_KEY])
    session.expire_all()
    with pytest.raises(KeyringError):
        _ = row.community


def test_rotation_writes_nothing_when_one_secret_cannot_be_read(session: Session, now: datetime) -> None:
    make_credential("a")
    make_credential("b")
    stored = "SELECT community FROM credentials ORDER BY id"
    good = session.execute(text(stored)).scalars().first()
    session.execute(text("UPDATE credentials SET community = :bad WHERE name = 'b'"), {"bad": b"damaged"})
    session.commit()
    with pytest.raises(KeyringError):
        keys.rotate(ACTOR, now)
    assert session.execute(text(stored)).scalars().first() == good


def test_every_encrypted_column_takes_part_in_a_rotation() -> None:
    found = {f"{table.name}.{column.name}" for table, column in keys.encrypted_columns()}
    assert found >= {"credentials.community", "credentials.auth_password", "credentials.priv_password",
                     "channels.target"}  # fmt: skip
