"""Pages of people and what opens the portal to them: users, the own account, and tokens of the API."""

from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import select

from portal import clock
from portal.extensions import limiter
from portal.services.people import tokens
from portal.tables import AuditLog, User
from testing.cast import password_of
from testing.pages import Visitor, element, path_of, soup, text_of, texts
from testing.web import complaints, english, stored, update_rows, written

PAGE = "/settings/users/"
ACCOUNT = "/settings/account/"
TOKENS = "/settings/tokens/"
NEW = "four unrelated words here"


def of(app: Flask, username: str) -> str:
    (ident,) = stored(app, select(User.id).where(User.username == username))
    return f"{PAGE}{ident}"


def knows(person: Visitor) -> bool:
    return person.get(ACCOUNT).status_code == 200


# --------------------------------------------------------------------------------------------------------------- users


def names(person: Visitor, query: str = "") -> list[str]:
    return texts(person.get(f"{PAGE}?{query}"), "td.c-a a")


def test_the_list_says_who_there_is_and_finds_by_name_role_and_state(built: Flask, admin: Visitor) -> None:
    assert "3 active · 1 administrator" in text_of(admin.get(PAGE))
    everybody = ["admin", "operator", "viewer"]
    wanted = {"": everybody, "q=VIEW": ["viewer"], "role=operator": ["operator"], "state=inactive": []}
    wanted |= {"role=nonsense&state=x&before=garbage": everybody}
    assert {query: names(admin, query) for query in wanted} == wanted


def test_a_new_user_gets_a_password_that_is_shown_this_once_and_lets_in(built: Flask, admin: Visitor) -> None:
    answer = admin.post(f"{PAGE}new", username="  Rosa.Quispe ", role="operator")
    secret = str(element(answer, "#secret")["value"])
    assert (answer.status_code, len(secret) >= 16) == (200, True)
    assert answer.headers["Cache-Control"] == "no-store"
    assert secret not in admin.get(PAGE).text + admin.get("/settings/audit/").text
    assert Visitor(built).login("rosa.quispe", secret).status_code == 303


def test_what_is_wrong_with_a_new_user_is_said_beside_its_field(built: Flask, admin: Visitor) -> None:
    wrong = [{"username": name, "role": "viewer"} for name in ("admin", "with blank", "cli", "", "x" * 81)]
    for given in (*wrong, {"username": "rosa", "role": "king"}):
        answer = admin.post(f"{PAGE}new", **given)
        field = "role" if given["role"] == "king" else "username"
        assert (answer.status_code, list(complaints(answer))) == (422, [field]), given
    assert names(admin) == ["admin", "operator", "viewer"]


def test_another_role_is_saved_and_ends_the_sessions(built: Flask, admin: Visitor) -> None:
    operator = english(built)
    assert path_of(admin.post(of(built, "operator"), role="viewer")) == of(built, "operator")
    assert "Viewer" in text_of(admin.get(PAGE))
    assert not knows(operator)


def test_who_is_deactivated_is_out_at_once_until_activated_again(built: Flask, admin: Visitor) -> None:
    operator, page = english(built), of(built, "operator")
    admin.post(f"{page}/active", active="0")
    assert not knows(operator)
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
    update_rows(built, User, User.username == "operator", role="admin")
    admin.post(f"{page}/active", active="0")
    assert "Nobody deactivates the own account" in text_of(admin.get(page))
    admin.post(f"{page}/password")
    assert "changed under My account" in text_of(admin.get(page))
    assert admin.get(PAGE).status_code == 200


def test_a_new_one_time_password_replaces_the_old_one(built: Flask, admin: Visitor) -> None:
    operator = english(built)
    secret = str(element(admin.post(f"{of(built, 'operator')}/password"), "#secret")["value"])
    assert not knows(operator)
    assert Visitor(built).login("operator").status_code == 401
    assert Visitor(built).login("operator", secret).status_code == 303


def test_sessions_end_and_the_password_stays(built: Flask, admin: Visitor) -> None:
    operator = english(built)
    admin.post(f"{of(built, 'operator')}/sessions")
    assert not knows(operator)
    assert Visitor(built).login("operator").status_code == 303
    (row,) = stored(built, select(AuditLog).where(AuditLog.action == "user.end_sessions"))
    assert (row.actor, row.subject_name) == ("admin", "operator")


def test_a_user_or_a_token_that_does_not_exist_is_not_found(admin: Visitor) -> None:
    paths = [f"{PAGE}999{rest}" for rest in ("", "/active", "/password", "/sessions")]
    for path in (*paths, f"{TOKENS}999/revoke"):
        assert admin.post(path, active="0", role="viewer").status_code == 404, path


def test_a_switch_that_says_neither_is_refused(built: Flask, admin: Visitor) -> None:
    assert admin.post(f"{of(built, 'operator')}/active", active="maybe").status_code == 400


def test_many_users_come_in_pages(built: Flask, admin: Visitor) -> None:
    with written(built) as session:
        made = session.scalars(select(User)).first()
        for n in range(60):
            session.add(User(username=f"u{n:02}", password_hash="x", role="viewer", created_at=made.created_at))
    page = soup(admin.get(PAGE))
    following = soup(admin.get(str(element(page, 'a[rel="next"]')["href"])))
    assert [len(one.select("tbody tr")) for one in (page, following)] == [50, 13]


# ---------------------------------------------------------------------------------------------------------- my account


@pytest.fixture
def operator(built: Flask) -> Visitor:
    return english(built)


def change(person: Visitor, old: str = "", new: str = NEW, again: str = NEW) -> tuple[int, dict[str, str]]:
    answer = person.post(ACCOUNT, old=old or password_of("operator"), new=new, again=again)
    return answer.status_code, complaints(answer)


def test_a_new_password_ends_the_other_sessions_and_not_this_one(built: Flask, operator: Visitor) -> None:
    other = english(built)
    assert change(operator)[0] == 303
    assert "The password was changed" in text_of(operator.get(ACCOUNT))
    assert (knows(operator), knows(other)) == (True, False)
    assert Visitor(built).login("operator").status_code == 401
    assert Visitor(built).login("operator", NEW).status_code == 303
    assert operator.post("/settings/account/sessions").status_code == 303, "its form token still counts"


def test_what_cannot_be_the_new_password_is_said_beside_its_field(built: Flask, operator: Visitor) -> None:
    for field, given in (("old", {"old": "a wrong password"}), ("again", {"again": "another one than that"})):
        status, said = change(operator, **given)
        assert (status, list(said)) == (422, [field])
    for wrong in ("short", "x" * 257, password_of("operator"), ""):
        status, said = change(operator, new=wrong, again=wrong)
        assert (status, list(said)) == (422, ["new"]), wrong
    assert Visitor(built).login("operator").status_code == 303


def test_no_password_is_sent_back_to_the_browser(operator: Visitor) -> None:
    answer = operator.post(ACCOUNT, old="guess of the old", new="half of it", again="other half")
    assert not any(text in answer.text for text in ("guess of the old", "half of it", "other half"))


def test_guesses_of_the_present_password_are_counted_as_at_the_login(built: Flask, operator: Visitor) -> None:
    tries = [change(operator, old=f"guess number {n}")[0] for n in range(11)]
    assert tries == [422] * 10 + [429]
    with built.app_context():
        limiter.reset()


def test_the_other_sessions_end_and_the_language_chosen_in_this_one_stays(built: Flask, operator: Visitor) -> None:
    other = english(built)
    assert path_of(operator.post("/settings/account/sessions")) == ACCOUNT
    assert "All your other sessions have ended" in text_of(operator.get(ACCOUNT))
    assert not knows(other)
    assert "user.end_sessions" in stored(built, select(AuditLog.action).order_by(AuditLog.id))[-3:]


@pytest.mark.parametrize(
    ("username", "tabs"),
    [("viewer", []), ("operator", []), ("admin", ["My account", "Users", "Tokens", "Installation", "Audit"])],
)
def test_who_has_one_page_of_the_settings_sees_no_row_of_them(built: Flask, username: str, tabs: list[str]) -> None:
    page = soup(english(built, username).get(ACCOUNT))
    assert texts(page, ".pe-tabs a") == tabs
    links = ('.fx-rail a[aria-current="page"]', f'.fx-account a[href="{ACCOUNT}"]')
    assert [text_of(element(page, link)) for link in links] == ["Settings", "My account"]


def test_a_person_who_was_deactivated_meanwhile_changes_nothing(built: Flask, operator: Visitor) -> None:
    update_rows(built, User, User.username == "operator", active=False)
    assert path_of(operator.post(ACCOUNT, old="x", new=NEW, again=NEW)).startswith("/login")


# -------------------------------------------------------------------------------------------------------------- tokens


def made(app: Flask, name: str, **options: timedelta) -> str:
    now = clock.now() - options.get("ago", timedelta())
    with app.app_context():
        return tokens.create(name, "viewer", "cli", now, now + options["life"] if "life" in options else None)


def rows(person: Visitor, query: str = "") -> list[tuple[str, str]]:
    page = soup(person.get(f"{TOKENS}?{query}"))
    return list(zip(texts(page, "tbody td.c-a"), texts(page, "tbody td.c-b"), strict=True))


def test_a_token_is_shown_this_once_with_an_example_and_opens_the_api(built: Flask, admin: Visitor) -> None:
    answer = admin.post(f"{TOKENS}new", name="Zabbix", role="viewer", life="30")
    clear = str(element(answer, "#secret")["value"])
    assert (
        element(answer, ".pe-code").get_text()
        == f'curl -H "Authorization: Bearer {clear}" http://localhost/api/v1/pollers/'
    )
    listed = admin.get(TOKENS).text
    assert clear not in listed + admin.get("/settings/audit/").text
    assert clear[:12] in listed
    headers = {"Authorization": f"Bearer {clear}"}
    assert built.test_client().get("/api/v1/pollers/", headers=headers).status_code == 200
    admin.post(f"{TOKENS}1/revoke")
    assert "The token was revoked" in text_of(admin.get(TOKENS))
    assert built.test_client().get("/api/v1/pollers/", headers=headers).status_code == 401
    admin.post(f"{TOKENS}1/revoke")
    assert "had been revoked before" in text_of(admin.get(TOKENS))


def test_the_list_says_what_each_is_good_for_valid_ones_first(built: Flask, admin: Visitor) -> None:
    assert "No API token yet" in text_of(admin.get(TOKENS))
    made(built, "zz-plain")
    made(built, "mm-soon", life=timedelta(days=2))
    made(built, "aa-over", ago=timedelta(days=9), life=timedelta(days=8))
    made(built, "bb-gone")
    with built.app_context():
        tokens.revoke("bb-gone", "cli", clock.now())
    valid = [("mm-soon", "Expires soon"), ("zz-plain", "Valid")]
    ended = [("aa-over", "Expired"), ("bb-gone", "Revoked")]
    for query, found in (("", valid + ended), ("state=valid", valid), ("state=ended", ended)):
        assert rows(admin, query) == found
    page = soup(admin.get(TOKENS))
    assert ("2 valid tokens" in text_of(page), len(page.select('form[action$="/revoke"]'))) == (True, 2)


def test_what_is_wrong_with_a_new_token_is_said_beside_its_field(built: Flask, admin: Visitor) -> None:
    made(built, "used")
    given = {"name": "x", "role": "viewer", "life": ""}
    for field, value in (("name", "used"), ("name", "with blank"), ("role", "king"), ("life", "36500")):
        answer = admin.post(f"{TOKENS}new", **given | {field: value})
        assert (answer.status_code, list(complaints(answer))) == (422, [field]), value
    assert len(rows(admin)) == 1


def test_a_token_may_live_for_ever(admin: Visitor) -> None:
    assert admin.post(f"{TOKENS}new", name="x", role="viewer", life="").status_code == 200
    assert "Valid until" not in text_of(admin.get(TOKENS))
