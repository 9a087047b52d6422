"""API tokens: what is stored of one, whom it speaks for, and when it ends (S17)."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import event, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from portal.domain.statuses import Role
from portal.extensions import Base, db
from portal.services.errors import Invalid, NotFound
from portal.services.people import tokens
from portal.tables import ApiToken, AuditLog
from testing.api import Client


def dump(session: Session) -> str:
    """All rows of all tables as text."""
    names = [table.name for table in Base.metadata.sorted_tables]
    return "\n".join(str(session.execute(text(f'SELECT * FROM "{name}"')).all()) for name in names)  # noqa: S608


def test_a_token_holds_32_random_bytes_and_says_what_it_is(session: Session, now: datetime) -> None:
    made = {tokens.create(f"t{number}", "viewer", "cli", now) for number in range(5)}
    assert len(made) == 5
    assert all(clear.startswith("facho_") and len(clear) == len("facho_") + 43 for clear in made)


def test_a_dump_of_the_database_gives_no_token_that_can_be_used(app: Flask, now: datetime) -> None:
    client = Client(app)
    with app.app_context():
        clear = tokens.create("ci", "admin", "cli", now)
        row = db.session.scalars(select(ApiToken)).one()
        stolen = dump(db.session())
        found = (row.digest, row.prefix, row.name, clear[:-1], clear.swapcase())
    assert clear not in stolen
    assert clear.removeprefix(row.prefix) not in stolen
    for guess in found:
        assert client.get("/pollers/", headers={"Authorization": f"Bearer {guess}"}).status_code == 401
    assert client.get("/pollers/", headers={"Authorization": f"Bearer {clear}"}).status_code == 200


def test_a_token_speaks_with_its_name_and_role(session: Session, now: datetime) -> None:
    clear = tokens.create("  CI-Runner ", "operator", "cli", now)
    found = tokens.authenticate(clear, now)
    assert found is not None
    assert (found.name, found.actor, found.role) == ("ci-runner", "token:ci-runner", Role.OPERATOR)
    assert tokens.authenticate(clear + "x", now) is None
    assert tokens.authenticate("", now) is None


def test_the_moment_of_expiry_is_no_longer_valid(session: Session, now: datetime) -> None:
    end = now + timedelta(days=1)
    clear = tokens.create("short", "viewer", "cli", now, end)
    assert tokens.authenticate(clear, end - timedelta(seconds=1)) is not None
    assert tokens.authenticate(clear, end) is None


def test_revoking_works_at_once_and_is_told_apart_the_second_time(session: Session, now: datetime) -> None:
    clear = tokens.create("gone", "viewer", "cli", now)
    assert tokens.authenticate(clear, now) is not None
    assert tokens.revoke("Gone", "cli", now) is True
    assert tokens.authenticate(clear, now) is None
    assert tokens.revoke("gone", "cli", now + timedelta(days=1)) is False
    assert session.scalars(select(ApiToken.revoked_at)).one() == now
    with pytest.raises(NotFound, match="token list"):
        tokens.revoke("never", "cli", now)


def test_making_and_revoking_are_audited_without_the_secret(session: Session, now: datetime) -> None:
    clear = tokens.create("ci", "operator", "rosa", now, now + timedelta(days=9))
    tokens.revoke("ci", "juan", now)
    tokens.revoke("ci", "juan", now)
    rows = session.scalars(select(AuditLog).order_by(AuditLog.id)).all()
    assert [(row.action, row.actor, row.subject_type, row.subject_name) for row in rows] == [
        ("token.create", "rosa", "token", "ci"),
        ("token.revoke", "juan", "token", "ci"),
    ]
    assert rows[0].changes == {"role": "operator", "expires_at": "2026-12-06T10:00:00+00:00"}
    assert clear[12:] not in dump(session)


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"name": ""}, {"name"}),
        ({"name": "two words"}, {"name"}),
        ({"name": "token:x"}, {"name"}),
        ({"name": "x" * 65}, {"name"}),
        ({"name": "ñ"}, {"name"}),
        ({"name": "a\x00"}, {"name"}),
        ({"role": "root"}, {"role"}),
        ({"days": 0}, {"expires_at"}),
        ({"days": -1}, {"expires_at"}),
        ({"days": 3651}, {"expires_at"}),
        ({"name": "-", "role": "", "days": 0}, {"name", "role", "expires_at"}),
    ],
)
def test_each_wrong_field_is_named(session: Session, now: datetime, given: dict[str, Any], fields: set[str]) -> None:
    days = given.get("days")
    end = now + timedelta(days=days) if days is not None else None
    with pytest.raises(Invalid) as caught:
        tokens.create(given.get("name", "ci"), given.get("role", "viewer"), "cli", now, end)
    assert caught.value.errors.keys() == fields
    assert session.scalars(select(ApiToken)).all() == []


def test_a_name_is_never_used_twice_not_even_after_revoking_or_in_a_race(
    session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens.create("ci", "viewer", "cli", now)
    tokens.revoke("ci", "cli", now)
    with pytest.raises(Invalid, match="choose another name"):
        tokens.create("CI", "viewer", "cli", now)
    monkeypatch.setattr(type(session), "scalar", lambda *_args, **_options: None)  # the look before found nothing
    with pytest.raises(Invalid, match="choose another name"):
        tokens.create("ci", "viewer", "cli", now)


def test_last_use_is_noted_at_most_once_a_minute(session: Session, now: datetime) -> None:
    clear = tokens.create("ci", "viewer", "cli", now)
    noted = []
    for seconds in (0, 1, 59, 60, 61, 119, 120):
        assert tokens.authenticate(clear, now + timedelta(seconds=seconds)) is not None
        noted.append(session.scalars(select(ApiToken.last_used_at)).one())
    assert noted == [now] * 3 + [now + timedelta(minutes=1)] * 3 + [now + timedelta(minutes=2)]


def test_a_second_request_in_the_same_minute_writes_nothing(session: Session, now: datetime) -> None:
    clear = tokens.create("ci", "viewer", "cli", now)
    tokens.authenticate(clear, now)
    seen: list[str] = []
    listener = lambda _c, _cursor, statement, *_rest: seen.append(statement)  # noqa: E731
    event.listen(db.engine, "before_cursor_execute", listener)
    try:
        tokens.authenticate(clear, now + timedelta(seconds=5))
    finally:
        event.remove(db.engine, "before_cursor_execute", listener)
    assert [one.split()[0] for one in seen if not one.startswith("BEGIN")] == ["SELECT"]


def test_a_database_that_cannot_be_written_does_not_cost_the_answer(
    session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    clear = tokens.create("ci", "viewer", "cli", now)

    def refuse() -> None:
        raise OperationalError("BEGIN IMMEDIATE", {}, Exception("attempt to write a readonly database"))

    monkeypatch.setattr(tokens, "transaction", refuse)
    assert tokens.authenticate(clear, now) is not None
