"""The pages of API tokens: made and shown once, listed without the secret, revoked."""

from datetime import timedelta

import pytest
from flask import Flask

from portal import clock
from portal.services.people import tokens
from testing.pages import Visitor, soup, text_of
from testing.web import complaints

PAGE = "/settings/tokens/"


def made(app: Flask, name: str, **options: timedelta) -> str:
    now = clock.now() - options.get("ago", timedelta())
    with app.app_context():
        return tokens.create(name, "viewer", "cli", now, now + options["life"] if "life" in options else None)


def rows(person: Visitor, query: str = "") -> list[tuple[str, str]]:
    found = soup(person.get(f"{PAGE}?{query}")).select("tbody tr")
    return [(row.select_one("td.c-a").get_text(), row.select_one("td.c-b").get_text(strip=True)) for row in found]


def test_a_token_is_shown_this_once_with_an_example_and_opens_the_api(built: Flask, admin: Visitor) -> None:
    answer = admin.post(f"{PAGE}new", name="Zabbix", role="viewer", life="30")
    clear = str(soup(answer).select_one("#secret")["value"])
    example = soup(answer).select_one(".pe-code").get_text()
    assert example == f'curl -H "Authorization: Bearer {clear}" http://localhost/api/v1/pollers/'
    listed = admin.get(PAGE).text
    assert clear not in listed + admin.get("/settings/audit/").text
    assert clear[:12] in listed
    headers = {"Authorization": f"Bearer {clear}"}
    assert built.test_client().get("/api/v1/pollers/", headers=headers).status_code == 200
    admin.post(f"{PAGE}1/revoke")
    assert "The token was revoked" in text_of(admin.get(PAGE))
    assert built.test_client().get("/api/v1/pollers/", headers=headers).status_code == 401
    admin.post(f"{PAGE}1/revoke")
    assert "had been revoked before" in text_of(admin.get(PAGE))


def test_the_list_says_what_each_is_good_for_valid_ones_first(built: Flask, admin: Visitor) -> None:
    assert "No API token yet" in text_of(admin.get(PAGE))
    made(built, "zz-plain")
    made(built, "mm-soon", life=timedelta(days=2))
    made(built, "aa-over", ago=timedelta(days=9), life=timedelta(days=8))
    made(built, "bb-gone")
    with built.app_context():
        tokens.revoke("bb-gone", "cli", clock.now())
    valid, ended = (
        [("mm-soon", "Expires soon"), ("zz-plain", "Valid")],
        [("aa-over", "Expired"), ("bb-gone", "Revoked")],
    )
    assert rows(admin) == valid + ended
    assert (rows(admin, "state=valid"), rows(admin, "state=ended")) == (valid, ended)
    assert "2 valid tokens" in text_of(admin.get(PAGE))
    assert len(soup(admin.get(PAGE)).select('form[action$="/revoke"]')) == 2


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": "used", "role": "viewer", "life": ""}, "name"),
        ({"name": "with blank", "role": "viewer", "life": ""}, "name"),
        ({"name": "x", "role": "king", "life": ""}, "role"),
        ({"name": "x", "role": "viewer", "life": "36500"}, "life"),
    ],
)
def test_what_is_wrong_with_a_new_token_is_said_beside_its_field(
    built: Flask, admin: Visitor, given: dict[str, str], field: str
) -> None:
    made(built, "used")
    answer = admin.post(f"{PAGE}new", **given)
    assert (answer.status_code, list(complaints(answer))) == (422, [field])
    assert len(rows(admin)) == 1


def test_a_token_may_live_for_ever(admin: Visitor) -> None:
    assert admin.post(f"{PAGE}new", name="x", role="viewer", life="").status_code == 200
    assert "Valid until" not in text_of(admin.get(PAGE))


def test_a_token_that_does_not_exist_is_not_found(admin: Visitor) -> None:
    assert admin.post(f"{PAGE}999/revoke").status_code == 404
