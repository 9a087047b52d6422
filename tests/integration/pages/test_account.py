"""My account: the own password, the end of other sessions, and who sees which pages of Settings."""

import pytest
from flask import Flask
from sqlalchemy import select

from portal.extensions import db, limiter
from portal.tables import AuditLog, User
from testing.cast import password_of
from testing.pages import Visitor, path_of, soup, text_of, texts
from testing.web import complaints, english, written

PAGE = "/settings/account/"
NEW = "four unrelated words here"


@pytest.fixture
def operator(built: Flask) -> Visitor:
    return english(built)


def change(person: Visitor, old: str = "", new: str = NEW, again: str = NEW) -> tuple[int, dict[str, str]]:
    answer = person.post(PAGE, old=old or password_of("operator"), new=new, again=again)
    return answer.status_code, complaints(answer)


def knows(person: Visitor) -> bool:
    return person.get(PAGE).status_code == 200


def test_a_new_password_ends_the_other_sessions_and_not_this_one(built: Flask, operator: Visitor) -> None:
    other = english(built)
    assert change(operator)[0] == 303
    assert "The password was changed" in text_of(operator.get(PAGE))
    assert (knows(operator), knows(other)) == (True, False)
    assert Visitor(built).login("operator").status_code == 401
    assert Visitor(built).login("operator", NEW).status_code == 303
    assert operator.post("/settings/account/sessions").status_code == 303, "its form token still counts"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"old": "a wrong password"}, "old"),
        ({"new": "short", "again": "short"}, "new"),
        ({"new": "x" * 257, "again": "x" * 257}, "new"),
        ({"again": "another one than that"}, "again"),
        ({"new": password_of("operator"), "again": password_of("operator")}, "new"),
        ({"new": "", "again": ""}, "new"),
    ],
)
def test_what_cannot_be_the_new_password_is_said_beside_its_field(
    built: Flask, operator: Visitor, given: dict[str, str], field: str
) -> None:
    status, said = change(operator, **given)
    assert (status, list(said)) == (422, [field])
    assert Visitor(built).login("operator").status_code == 303


def test_no_password_is_sent_back_to_the_browser(operator: Visitor) -> None:
    answer = operator.post(PAGE, old="guess of the old", new="half of it", again="other half")
    assert not any(text in answer.text for text in ("guess of the old", "half of it", "other half"))


def test_guesses_of_the_present_password_are_counted_as_at_the_login(built: Flask, operator: Visitor) -> None:
    tries = [change(operator, old=f"guess number {n}")[0] for n in range(11)]
    assert tries == [422] * 10 + [429]
    with built.app_context():
        limiter.reset()


def test_the_other_sessions_end_and_the_language_chosen_in_this_one_stays(built: Flask, operator: Visitor) -> None:
    other = english(built)
    assert path_of(operator.post("/settings/account/sessions")) == PAGE
    assert "All your other sessions have ended" in text_of(operator.get(PAGE))
    assert not knows(other)
    with built.app_context():
        done = db.session.scalars(select(AuditLog.action).order_by(AuditLog.id.desc()).limit(3)).all()
    assert "user.end_sessions" in done


@pytest.mark.parametrize(
    ("username", "tabs"),
    [("viewer", []), ("operator", []), ("admin", ["My account", "Users", "Tokens", "Installation", "Audit"])],
)
def test_who_has_one_page_of_the_settings_sees_no_row_of_them(built: Flask, username: str, tabs: list[str]) -> None:
    page = soup(english(built, username).get(PAGE))
    assert texts(page, ".pe-tabs a") == tabs
    assert page.select_one('.fx-rail a[aria-current="page"]').get_text() == "Settings"
    assert page.select_one(f'.fx-account a[href="{PAGE}"]').get_text() == "My account"


def test_a_person_who_was_deactivated_meanwhile_changes_nothing(built: Flask, operator: Visitor) -> None:
    with written(built) as session:
        session.query(User).filter_by(username="operator").update({"active": False})
    assert path_of(operator.post(PAGE, old="x", new=NEW, again=NEW)).startswith("/login")
