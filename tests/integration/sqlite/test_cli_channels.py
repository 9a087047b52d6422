"""Commands channel add, list, test and delete: what they print, and that the address is never among it."""

import json
from typing import Any

import pytest
from click.testing import Result
from flask import Flask

from portal import notify
from portal.extensions import db
from portal.tables import Channel
from testing.commands import Run, commands

SECRET = "planted-hook-token"
TARGET = f"json://127.0.0.1:1/{SECRET}"


@pytest.fixture
def run(app: Flask) -> Run:
    """Runs `flask channel <words>`; expects exit code `code`, and that nothing secret is printed."""

    def command(*words: str, **more: Any) -> Result:
        result = commands(app, "channel")(*words, **more)
        assert SECRET not in result.output
        return result

    return command


def test_add_asks_for_the_address_without_showing_it(app: Flask, run: Run) -> None:
    result = run("add", "noc", "--kind", "system", "--severity", "HIGH", "--quiet", "22:00-07:00", text=f"{TARGET}\n")
    assert "channel noc added" in result.output
    with app.app_context():
        row = db.session.query(Channel).one()
        assert (row.target, row.alert_kinds, row.min_severity) == (TARGET, ["system"], "HIGH")
        assert (row.quiet_start, row.quiet_end) == (1320, 420)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--target", f"gopher://{SECRET}"), "target: begins with no service that is known"),
        (("--target", TARGET, "--quiet", "22-7"), "must be a time of day"),
        (("--target", TARGET, "--quiet", "22:00"), "quiet_end: is the start too"),
        (("--target", TARGET, "--per-hour", "0"), "per_hour: must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(run: Run, words: tuple[str, ...], told: str) -> None:
    assert told in run("add", "noc", *words, code=1).stderr


def test_list_shows_service_host_and_state(run: Run) -> None:
    assert "there is no channel" in run("list").output
    run("add", "noc", "--target", TARGET)
    assert "json://127.0.0.1  not tried" in run("list").output
    (row,) = json.loads(run("list", "--json").stdout)
    assert (row["name"], row["address"], row["per_hour"], row["quiet"]) == ("noc", "json://127.0.0.1", 30, "")


def test_test_prints_the_true_answer_and_fails_when_it_is_no(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("add", "noc", "--target", TARGET)
    sent: list[str] = []
    monkeypatch.setattr(notify, "send", lambda url, title, body: sent.append(url))
    assert "the receiver took the test message" in run("test", "noc").output

    def refuse(*_message: str) -> None:
        raise notify.DeliveryFailed(notify.WHO_ARE_YOU, "error=401")

    monkeypatch.setattr(notify, "send", refuse)
    assert "refused the user, password or token: error=401" in run("test", "noc", code=1).stderr
    assert sent == [TARGET]


def test_delete_asks_first_and_names_what_is_not_there(app: Flask, run: Run) -> None:
    run("add", "noc", "--target", TARGET)
    run("delete", "noc", code=1, text="n\n")
    run("delete", "noc", "--yes")
    assert "there is no channel of this name" in run("delete", "noc", "--yes", code=1).stderr
    with app.app_context():
        assert db.session.query(Channel).count() == 0
