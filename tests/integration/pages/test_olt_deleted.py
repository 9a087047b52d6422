"""Pages of deleted OLTs: list, search, and the form that brings one back."""

from flask import Flask
from sqlalchemy import update

from portal import clock
from portal.extensions import db
from portal.services.network import olts
from portal.tables import Olt
from testing import builders
from testing.builders import more_olts
from testing.cast import ACTOR
from testing.pages import path_of, soup, text_of, title_of
from testing.web import complaints, english, form_values, statements, written


def delete(app: Flask, number: int = 1) -> None:
    with app.app_context():
        olts.delete(number, "struck by lightning", ACTOR, clock.now())


def test_a_deleted_olt_is_listed_with_its_reason_and_who_did_it(built: Flask) -> None:
    delete(built)
    answer = english(built, "viewer").get("/olts/deleted/")
    assert title_of(answer) == "1 deleted OLT"
    text = text_of(answer)
    assert "OLT-LIMA" in text and "struck by lightning" in text and ACTOR in text  # noqa: PT018
    assert "Restore" not in text


def test_an_empty_list_says_what_it_is_for(built: Flask) -> None:
    assert "No OLT was deleted" in text_of(english(built).get("/olts/deleted/"))
    assert "No deleted OLT matches this" in text_of(english(built).get("/olts/deleted/?q=zzz"))


def test_an_operator_brings_one_back(built: Flask) -> None:
    delete(built)
    person = english(built)
    form = form_values(person.get("/olts/deleted/1/restore"))
    answer = person.client.post("/olts/deleted/1/restore", data=form)
    assert (answer.status_code, path_of(answer)) == (303, "/olts/1")
    text = text_of(person.get("/olts/1"))
    assert "is back, disabled" in text and "This OLT is disabled" in text  # noqa: PT018


def test_a_name_taken_meanwhile_is_told_at_its_field_and_another_is_taken(built: Flask) -> None:
    delete(built)
    with built.app_context():
        builders.make_olt("OLT-LIMA", address="10.9.9.9")
    person = english(built)
    assert "another OLT has this name now" in text_of(person.get("/olts/deleted/"))
    form = form_values(person.get("/olts/deleted/1/restore"))
    answer = person.client.post("/olts/deleted/1/restore", data=form)
    assert (answer.status_code, complaints(answer)) == (422, {"name": "Another OLT has this name"})
    answer = person.client.post("/olts/deleted/1/restore", data=form | {"name": "OLT-LIMA-BIS"})
    assert answer.status_code == 303
    with built.app_context():
        assert db.session.get_one(Olt, 1).name == "OLT-LIMA-BIS"


def test_a_viewer_restores_nothing_and_an_olt_in_service_is_no_page(built: Flask) -> None:
    assert english(built).get("/olts/deleted/1/restore").status_code == 404
    delete(built)
    assert english(built, "viewer").get("/olts/deleted/1/restore").status_code == 403


def test_the_list_costs_the_same_for_many(built: Flask) -> None:
    delete(built)
    person = english(built)
    few = statements(built, person, "/olts/deleted/")
    with written(built) as session:
        more_olts(session, 80, enabled=False)
        session.execute(update(Olt).values(deleted_at=clock.now(), deleted_reason="x"))
    assert statements(built, person, "/olts/deleted/") == few <= 12
    page = soup(person.get("/olts/deleted/"))
    assert len(page.select("tbody tr")) == 50
    assert page.select_one("a[rel=next]") is not None
