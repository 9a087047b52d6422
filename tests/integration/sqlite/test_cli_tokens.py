"""Commands token add, list and revoke: what they print where, and with which exit code."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask
from sqlalchemy import update

from portal.extensions import transaction
from portal.services.people import tokens
from portal.tables import ApiToken
from testing.commands import Run, commands


@pytest.fixture
def run(app: Flask) -> Run:
    """Runs `flask token <words>`; expects exit code `code`."""
    return commands(app, "token")


def test_add_prints_the_token_alone_on_stdout_and_what_it_is_on_stderr(app: Flask, run: Run) -> None:
    result = run("add", "CI", "--role", "operator")
    clear = result.stdout.removesuffix("\n")
    assert "token ci with role operator" in result.stderr
    with app.app_context():
        found = tokens.authenticate(clear, datetime.now(UTC))
    assert found is not None
    assert (found.name, found.role) == ("ci", "operator")


def test_a_token_is_shown_once_and_never_listed(run: Run) -> None:
    clear = run("add", "ci").stdout.strip()
    for listed in (run("list").output, run("list", "--json").output):
        assert clear not in listed
        assert clear[:12] in listed


def test_add_in_json_says_when_it_ends(run: Run) -> None:
    made = json.loads(run("add", "ci", "--expires", "30", "--json").stdout)
    assert made.keys() == {"name", "role", "expires_at", "token"}
    left = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29, hours=23) < left <= timedelta(days=30)


def test_list_tells_active_expired_and_revoked_apart(app: Flask, run: Run) -> None:
    assert "flask token add NAME" in run("list").stdout
    assert json.loads(run("list", "--json").stdout) == []
    for name in ("active", "old", "stolen"):
        run("add", name, "--expires", "1")
    run("revoke", "stolen")
    with app.app_context(), transaction() as session:
        past = datetime.now(UTC) - timedelta(days=1)
        session.execute(update(ApiToken).where(ApiToken.name == "old").values(expires_at=past))
    states = {row["name"]: row["state"] for row in json.loads(run("list", "--json").stdout)}
    assert states == {"active": "active", "old": "expired", "stolen": "revoked"}
    assert run("list").stdout.splitlines()[0].split() == [
        "NAME", "PREFIX", "ROLE", "STATE", "CREATED", "EXPIRES", "LAST", "USED", "REVOKED",
    ]  # fmt: skip


def test_revoke_says_whether_it_had_been_done_before(run: Run) -> None:
    run("add", "ci")
    assert run("revoke", "ci").stdout == "token revoked\n"
    assert run("revoke", "ci").stdout == "this token had been revoked before\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("add", "two words"), 1, "name: must be 1 to 64 letters"),
        (("add", "taken"), 1, "choose another name"),
        (("add", "ci", "--role", "root"), 2, "'viewer', 'operator', 'admin'"),
        (("add", "ci", "--expires", "0"), 2, "1<=x<=3650"),
        (("add", "ci", "--expires", "soon"), 2, "not a valid integer"),
        (("add",), 2, "NAME"),
        (("revoke", "nobody"), 1, "there is no token nobody: `flask token list` shows them"),
    ],
)
def test_a_mistake_is_told_on_stderr(run: Run, words: tuple[str, ...], code: int, told: str) -> None:
    run("add", "taken")
    result = run(*words, code=code)
    assert told in result.stderr
    assert result.stdout == ""
