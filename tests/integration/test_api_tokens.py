"""API tokens: what is stored of one, whom it speaks for, and when it ends (S17)."""

from datetime import timedelta
from functools import partial

import pytest
from flask import Flask
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from portal.domain.statuses import Role
from portal.extensions import Base, db
from portal.services.errors import Invalid, NotFound
from portal.services.people import tokens
from portal.tables import ApiToken, AuditLog
from testing.api import Client
from testing.cast import NOW
from testing.refusals import errors_of
from testing.statements import statements_in


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
