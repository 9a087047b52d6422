"""The pages of users: list, create with a password shown once, role, deactivation, sessions."""

import pytest
from flask import Flask
from sqlalchemy import select

from portal.extensions import db
from portal.tables import AuditLog, User
from testing.pages import Visitor, path_of, soup, text_of, texts
from testing.web import complaints, english, written

PAGE = "/settings/users/"


def id_of(app: Flask, username: str) -> int:
    with app.app_context():
        return db.session.scalars(select(User.id).where(User.username == username)).one()


def of(app: Flask, username: str) -> str:
    return f"{PAGE}{id_of(app, username)}"


def names(person: Visitor, query: str = "") -> list[str]:
    return texts(person.get(f"{PAGE}?{query}"), "td.c-a a")


def test_the_list_says_who_there_is_and_finds_by_name_role_and_state(built: Flask, admin: Visitor) -> None:
    assert "3 active · 1 administrator" in text_of(admin.get(PAGE))
    assert names(admin) == ["admin", "operator", "viewer"]
    assert names(admin, "q=VIEW") == ["viewer"]
    assert names(admin, "role=operator") == ["operator"]
    assert names(admin, "state=inactive") == []
    assert names(admin, "role=nonsense&state=x&before=garbage") == ["admin", "operator", "viewer"]


def test_a_new_user_gets_a_password_that_is_shown_this_once_and_lets_in(built: Flask, admin: Visitor) -> None:
    answer = admin.post(f"{PAGE}new", username="  Rosa.Quispe ", role="operator")
    secret = str(soup(answer).select_one("#secret")["value"])
    assert (answer.status_code, len(secret) >= 16) == (200, True)
    assert answer.headers["Cache-Control"] == "no-store"
    assert secret not in admin.get(PAGE).text + admin.get("/settings/audit/").text
    assert Visitor(built).login("rosa.quispe", secret).status_code == 303


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"username": "admin", "role": "viewer"}, "username"),
        ({"username": "with blank", "role": "viewer"}, "username"),
        ({"username": "cli", "role": "viewer"}, "username"),
        ({"username": "", "role": "viewer"}, "username"),
        ({"username": "x" * 81, "role": "viewer"}, "username"),
        ({"username": "rosa", "role": "king"}, "role"),
    ],
)
def test_what_is_wrong_with_a_new_user_is_said_beside_its_field(
    built: Flask, admin: Visitor, given: dict[str, str], field: str
) -> None:
    answer = admin.post(f"{PAGE}new", **given)
    assert (answer.status_code, list(complaints(answer))) == (422, [field])
    assert names(admin) == ["admin", "operator", "viewer"]


def test_another_role_is_saved_and_ends_the_sessions(built: Flask, admin: Visitor) -> None:
    operator = english(built)
    assert path_of(admin.post(of(built, "operator"), role="viewer")) == of(built, "operator")
    assert "Viewer" in text_of(admin.get(PAGE))
    assert operator.get("/settings/account/").status_code == 302


def test_who_is_deactivated_is_out_at_once_until_activated_again(built: Flask, admin: Visitor) -> None:
    operator, page = english(built), of(built, "operator")
    admin.post(f"{page}/active", active="0")
    assert operator.get("/settings/account/").status_code == 302
    assert Visitor(built).login("operator").status_code == 401
    assert "Activate" in text_of(admin.get(page))
    admin.post(f"{page}/active", active="1")
    assert Visitor(built).login("operator").status_code == 303


def test_the_last_administrator_and_oneself_stay_and_the_page_says_why(built: Flask, admin: Visitor) -> None:
    page = of(built, "admin")
    assert soup(admin.get(page)).select(f'form[action="{page}/active"]') == []
    assert path_of(admin.post(f"{page}/active", active="0")) == page
    assert "This is the last active administrator" in text_of(admin.get(page))
    answer = admin.post(page, role="viewer")
    assert (answer.status_code, "last active administrator" in text_of(answer)) == (422, True)
    with written(built) as session:
        session.query(User).filter_by(username="operator").update({"role": "admin"})
    admin.post(f"{page}/active", active="0")
    assert "Nobody deactivates the own account" in text_of(admin.get(page))
    admin.post(f"{page}/password")
    assert "changed under My account" in text_of(admin.get(page))
    assert admin.get(PAGE).status_code == 200


def test_a_new_one_time_password_replaces_the_old_one(built: Flask, admin: Visitor) -> None:
    operator = english(built)
    secret = str(soup(admin.post(f"{of(built, 'operator')}/password")).select_one("#secret")["value"])
    assert operator.get("/settings/account/").status_code == 302
    assert Visitor(built).login("operator").status_code == 401
    assert Visitor(built).login("operator", secret).status_code == 303


def test_sessions_end_and_the_password_stays(built: Flask, admin: Visitor) -> None:
    operator = english(built)
    admin.post(f"{of(built, 'operator')}/sessions")
    assert operator.get("/settings/account/").status_code == 302
    assert Visitor(built).login("operator").status_code == 303
    with built.app_context():
        row = db.session.scalars(select(AuditLog).where(AuditLog.action == "user.end_sessions")).one()
    assert (row.actor, row.subject_name) == ("admin", "operator")


@pytest.mark.parametrize("path", ["999", "999/active", "999/password", "999/sessions"])
def test_a_user_who_does_not_exist_is_not_found(admin: Visitor, path: str) -> None:
    assert admin.post(f"{PAGE}{path}", active="0", role="viewer").status_code == 404


def test_a_switch_that_says_neither_is_refused(built: Flask, admin: Visitor) -> None:
    assert admin.post(f"{of(built, 'operator')}/active", active="maybe").status_code == 400


def test_many_users_come_in_pages(built: Flask, admin: Visitor) -> None:
    with written(built) as session:
        made = session.scalars(select(User)).first()
        for n in range(60):
            session.add(User(username=f"u{n:02}", password_hash="x", role="viewer", created_at=made.created_at))
    page = soup(admin.get(PAGE))
    following = page.select_one('a[rel="next"]')["href"]
    assert len(page.select("tbody tr")) == 50
    assert len(soup(admin.get(str(following))).select("tbody tr")) == 13
