"""What people write into addresses and forms, over HTTP: it is shown, kept or refused in words, never a crash."""

import base64
import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from bs4 import BeautifulSoup
from flask import Flask
from sqlalchemy import select

from portal import clock
from portal.domain.statuses import OltState
from portal.extensions import db
from portal.queries import workflows
from portal.tables import Olt, WorkflowNode
from testing import builders, seed
from testing.pages import Visitor, soup, text_of
from testing.web import complaints, english, form_values, update_rows


@pytest.fixture
def built(app: Flask) -> Iterator[Flask]:
    """OLT-LIMA with a discovery, made through the services."""
    with app.app_context():
        seed.add_users(clock.now())
        builders.make_node(builders.make_olt())
    yield app


def sort_link(page: BeautifulSoup) -> str:
    return str(page.select("a.fx-sort")[1]["href"])


def hidden(page: BeautifulSoup) -> list[tuple[str, str]]:
    """What the filter form keeps of the address without showing it."""
    return [(str(tag["name"]), str(tag["value"])) for tag in page.select("form.fx-filters input[type=hidden]")]


# ----------------------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "query", ["endpoint=x", "_method=x", "_external=&_scheme=x", "_anchor=x", "self=1", "values=1", "olt_id=7"]
)
def test_an_argument_of_the_address_is_only_an_argument(seeded: Flask, query: str) -> None:
    answer = english(seeded, "viewer").get(f"/olts/?{query}")
    assert answer.status_code == 200
    link = sort_link(soup(answer))
    assert link.startswith("/olts/?") and "sort=" in link


def test_an_argument_does_not_lead_to_the_page_of_another_olt(seeded: Flask) -> None:
    page = soup(english(seeded, "viewer").get("/olts/1/onus?olt_id=7&slot=1&port=1"))
    links = [str(tag["href"]) for tag in page.select("a.fx-chip")]
    assert links
    assert all(link.startswith("/olts/1/onus") for link in links)


def test_arguments_given_twice_stay_twice_in_the_links_of_a_page(seeded: Flask) -> None:
    link = sort_link(soup(english(seeded, "viewer").get("/olts/?x=1&x=2")))
    assert "x=1&x=2" in link


def test_a_filter_form_keeps_what_else_is_in_force(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    page = soup(person.get("/olts/1/onus?slot=1&port=2&state=offline&q=x&sort=rx&after=abc"))
    assert hidden(page) == [("slot", "1"), ("port", "2"), ("sort", "rx")]
    assert hidden(soup(person.get("/executions/?olt=1&x=1&x=2"))) == [("x", "1"), ("x", "2")]


@pytest.mark.parametrize("values", [["\x00t2026-11-27T10:00:00", 1], ["a\x00b", 1], ["\x00tnonsense", 1]])
def test_a_cursor_that_no_page_made_shows_the_first_page(built: Flask, values: list[object]) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps([0, *values]).encode()).decode().rstrip("=")
    person = english(built)
    for path in ("/olts/", "/executions/", "/workflows/"):
        assert person.get(f"{path}?before={cursor}").status_code == 200


# ------------------------------------------------------------------------------------------------------------ next run


def test_no_next_run_is_promised_where_the_olt_is_held_back(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    soon = clock.now() + timedelta(minutes=7)
    update_rows(seeded, WorkflowNode, WorkflowNode.master_id.is_(None), next_run_at=soon)
    assert "in 7 min" in text_of(person.get("/onus/1"))
    assert "in 7 min" in text_of(person.get("/workflows/"))
    update_rows(seeded, Olt, state=OltState.UNREACHABLE)
    assert "in 7 min" not in text_of(person.get("/onus/1"))
    assert "in 7 min" not in text_of(person.get("/workflows/"))
    update_rows(seeded, Olt, state=OltState.PAUSED, paused_reason="works")
    assert "in 7 min" not in text_of(person.get("/workflows/"))
    with seeded.app_context():
        row = workflows.page().rows[0]
        assert (row.state, row.paused_until) == (OltState.PAUSED, None)


# --------------------------------------------------------------------------------------------------------------- forms


def paused(app: Flask) -> bool:
    with app.app_context():
        return db.session.scalar(select(Olt.state)) is OltState.PAUSED


@pytest.mark.parametrize("until", ["9999-12-31T23:59", "0001-01-01T00:00", "2199-01-01T00:00"])
def test_a_pause_until_the_end_of_time_is_refused_beside_its_field(built: Flask, until: str) -> None:
    person = english(built)
    answer = person.post("/olts/pause?olt=1", reason="power supply", until=until)
    assert answer.status_code == 422
    assert list(complaints(answer)) == ["until"]
    assert form_values(answer)["reason"] == "power supply"
    assert not paused(built)


def test_a_pause_of_a_year_is_taken(built: Flask) -> None:
    person = english(built)
    until = clock.now() + timedelta(days=365)
    assert person.post("/olts/pause?olt=1", reason="x", until=f"{until:%Y-%m-%dT%H:%M}").status_code == 303
    assert paused(built)


def test_a_deletion_with_a_reason_that_cannot_be_kept_shows_the_form_again(built: Flask) -> None:
    person = english(built)
    answer = person.post("/olts/1/delete", reason="line one\nline two")
    assert answer.status_code == 422
    assert list(complaints(answer)) == ["reason"]
    assert "line one" in form_values(answer)["reason"]
    person.post("/language", language="es")
    answer = person.post("/olts/1/delete", reason="line one\nline two")
    assert "must" not in complaints(answer)["reason"].lower()


@pytest.mark.parametrize("path", ["/login", "/olts/new", "/credentials/new"])
def test_no_form_passes_a_nul_on(built: Flask, path: str) -> None:
    person = english(built, "admin") if path != "/login" else Visitor(built)
    answer = person.get(path)
    values = {**form_values(answer, "form[method=post]"), "name": "a\x00b", "username": "ad\x00min", "password": "x"}
    assert person.post(path, **{**values, "csrf_token": person.token}).status_code in (401, 422)
