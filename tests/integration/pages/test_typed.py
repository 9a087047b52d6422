"""What people write into addresses and forms: it is shown, kept, or refused in their language, never a crash."""

import base64
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from bs4 import BeautifulSoup
from cryptography.fernet import Fernet
from flask import Flask
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from portal import clock
from portal.domain.messages import N_, joined
from portal.domain.statuses import OltState
from portal.extensions import db, keyring
from portal.queries import workflows
from portal.services.network import olts, placing
from portal.services.uniqueness import unique_or_invalid
from portal.tables import Credential, ExecutionStep, Olt, WorkflowNode
from portal.web import metrics
from portal.web.forms import said
from testing import builders
from testing.pages import Visitor, form_values, missing, soup, text_of
from testing.web import complaints, english, row_of, stored, update_rows, written


def sort_link(page: BeautifulSoup) -> str:
    return str(page.select("a.fx-sort")[1]["href"])


def hidden(page: BeautifulSoup) -> list[tuple[str, str]]:
    """What the filter form keeps of the address without showing it."""
    return [(str(tag["name"]), str(tag["value"])) for tag in page.select("form.fx-filters input[type=hidden]")]


# ----------------------------------------------------------------------------------------------------------- addresses


def test_an_argument_of_the_address_is_only_an_argument(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    for query in ("endpoint=x", "_method=x", "_external=&_scheme=x", "_anchor=x", "self=1", "values=1", "olt_id=7"):
        answer = person.get(f"/olts/?{query}")
        link = sort_link(soup(answer))
        assert (answer.status_code, link[:7], "sort=" in link) == (200, "/olts/?", True), query


def test_an_argument_does_not_lead_to_the_page_of_another_olt(seeded: Flask) -> None:
    page = soup(english(seeded, "viewer").get("/olts/1/onus?olt_id=7&slot=1&port=1"))
    assert {str(tag["href"])[:12] for tag in page.select("a.fx-chip")} == {"/olts/1/onus"}


def test_arguments_given_twice_stay_twice_in_the_links_of_a_page(seeded: Flask) -> None:
    link = sort_link(soup(english(seeded, "viewer").get("/olts/?x=1&x=2")))
    assert "x=1&x=2" in link


def test_a_filter_form_keeps_what_else_is_in_force(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    page = soup(person.get("/olts/1/onus?slot=1&port=2&state=offline&q=x&sort=rx&after=abc"))
    assert hidden(page) == [("slot", "1"), ("port", "2"), ("sort", "rx")]
    assert hidden(soup(person.get("/executions/?olt=1&x=1&x=2"))) == [("x", "1"), ("x", "2")]


def test_a_cursor_that_no_page_made_shows_the_first_page(built: Flask) -> None:
    person = english(built)
    for text in ("\x00t2026-11-27T10:00:00", "a\x00b", "\x00tnonsense"):
        cursor = base64.urlsafe_b64encode(json.dumps([0, text, 1]).encode()).decode().rstrip("=")
        for path in ("/olts/", "/executions/", "/workflows/"):
            assert person.get(f"{path}?before={cursor}").status_code == 200, text


# ------------------------------------------------------------------------------------------------------------ next run


def test_no_next_run_is_promised_where_the_olt_is_held_back(seeded: Flask) -> None:
    person = english(seeded, "viewer")
    soon = clock.now() + timedelta(minutes=7)
    update_rows(seeded, WorkflowNode, WorkflowNode.master_id.is_(None), next_run_at=soon)
    pages = ("/onus/1", "/workflows/")
    for state, told in ((OltState.UP, True), (OltState.UNREACHABLE, False), (OltState.PAUSED, False)):
        update_rows(seeded, Olt, state=state, paused_reason="works")
        assert ["in 7 min" in text_of(person.get(path)) for path in pages] == [told, told], state
    with seeded.app_context():
        row = workflows.page().rows[0]
        assert (row.state, row.paused_until) == (OltState.PAUSED, None)


# --------------------------------------------------------------------------------------------------------------- forms


def test_a_pause_until_the_end_of_time_is_refused_beside_its_field_and_one_of_a_year_is_taken(built: Flask) -> None:
    person = english(built)
    for until in ("9999-12-31T23:59", "0001-01-01T00:00", "2199-01-01T00:00"):
        answer = person.post("/olts/pause?olt=1", reason="power supply", until=until)
        assert (answer.status_code, list(complaints(answer))) == (422, ["until"]), until
        assert form_values(answer)["reason"] == "power supply"
    assert row_of(built, Olt, 1).state is not OltState.PAUSED
    year = f"{clock.now() + timedelta(days=365):%Y-%m-%dT%H:%M}"
    assert person.post("/olts/pause?olt=1", reason="x", until=year).status_code == 303
    assert row_of(built, Olt, 1).state is OltState.PAUSED


def test_a_deletion_with_a_reason_that_cannot_be_kept_shows_the_form_again(built: Flask) -> None:
    person = english(built)
    answer = person.post("/olts/1/delete", reason="line one\nline two")
    assert (answer.status_code, list(complaints(answer))) == (422, ["reason"])
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


@contextmanager
def in_spanish(app: Flask) -> Iterator[None]:
    """A request of somebody who reads Spanish."""
    with app.test_request_context(headers={"Accept-Language": "es"}):
        app.preprocess_request()
        yield


def lose_the_key(app: Flask) -> None:
    keyring.load(app, [Fernet.generate_key().decode()])


# ------------------------------------------------------------------------------------------------------ what is refused


def test_what_somebody_was_faster_at_is_a_conflict_and_no_fault_of_the_program(
    built: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted_meanwhile = sqlite3.IntegrityError("FOREIGN KEY constraint failed")
    deleted_meanwhile.sqlite_errorcode = sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY

    def race(*_args: object) -> None:
        with unique_or_invalid({}):
            raise IntegrityError("INSERT", {}, deleted_meanwhile)

    monkeypatch.setattr(placing, "move_node", race)
    person = english(built)
    answer = person.post("/workflow-nodes/1/move", direction="up")
    told = ("Somebody else changed what this depends on at the same moment", "fault of the program")
    assert (answer.status_code, missing(answer, *told)) == (409, ["fault of the program"])
    person.post("/language", language="es")
    answer = person.post("/workflow-nodes/1/move", direction="up")
    assert "Somebody else" not in text_of(answer)
    assert person.press("/workflow-nodes/1/move", "board").status_code == 409


def test_a_credential_that_only_a_deleted_olt_has_says_which_one_holds_it(built: Flask) -> None:
    person = english(built, "admin")
    with built.app_context():
        olts.delete(1, "gone", "ana", clock.now())
    assert "Used by 0 OLTs" in text_of(person.get("/credentials/1"))
    person.post("/credentials/1/delete")
    assert missing(person.get("/credentials/1"), "OLT-LIMA", "1 OLTs use it") == ["1 OLTs use it"]


# ----------------------------------------------------------------------------------------------------------- a lost key


def test_a_credential_whose_key_was_lost_can_be_entered_again(built: Flask) -> None:
    person = english(built, "admin")
    lose_the_key(built)
    answer = person.submit("/credentials/1")
    assert (answer.status_code, "enter it again" in complaints(answer)["community"]) == (422, True)
    assert person.submit("/credentials/1", community="fresh").status_code == 303
    with built.app_context():
        assert db.session.scalars(select(Credential)).one().community == "fresh"


def test_an_olt_can_be_changed_though_the_key_of_its_credential_was_lost(built: Flask) -> None:
    person = english(built)
    values = form_values(person.get("/olts/1/edit"))
    lose_the_key(built)
    assert person.post("/olts/1/edit", **values | {"site": "Piura"}).status_code == 303
    assert row_of(built, Olt, 1).site == "Piura"


def test_a_credential_whose_key_was_lost_can_be_deleted(built: Flask) -> None:
    with built.app_context():
        unused = builders.make_credential("unused").id
    person = english(built, "admin")
    lose_the_key(built)
    assert person.post(f"/credentials/{unused}/delete").status_code == 303
    assert stored(built, select(Credential.name)) == ["lab"]


def test_a_secret_that_cannot_be_read_says_what_to_do(built: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_args: object) -> None:
        _ = db.session.scalars(select(Credential)).one().community

    monkeypatch.setattr(placing, "move_node", read)
    person = english(built)
    lose_the_key(built)
    answer = person.post("/workflow-nodes/1/move", direction="up")
    assert (answer.status_code, missing(answer, "fernet_keys")) == (503, [])


# ----------------------------------------------------------------------------------------------- the reader's language


def test_a_message_inside_a_message_is_said_in_the_same_language(app: Flask) -> None:
    inner = N_("is missing")
    whole = N_("node %(node)s: %(reason)s", node="a", reason=inner)
    both = N_("%(node)s: %(reason)s", node="a", reason=joined([inner, N_("must be text"), inner]))
    with in_spanish(app):
        assert "missing" not in said(whole)
        told = said(both)
    assert "missing" not in told and "text" not in told.replace("texto", "")
    assert str(both) == "a: is missing; must be text; is missing"


def test_a_wrong_oid_is_explained_in_the_readers_language(built: Flask) -> None:
    person = Visitor(built).enter("operator", "es")
    answer = person.submit("/workflow-nodes/1/edit", oid="1.3..6")
    assert answer.status_code == 422
    assert missing(complaints(answer)["oid"], "1.3..6", "write numbers") == ["write numbers"]


def test_another_nodes_mistake_is_told_in_the_readers_language(built: Flask) -> None:
    with built.app_context():
        builders.make_chained(db.session.get_one(WorkflowNode, 1))
    person = Visitor(built).enter("operator", "es")
    update_rows(built, WorkflowNode, WorkflowNode.id == 2, oid="huawei.nonsense")
    answer = person.submit("/workflow-nodes/1/edit", priority="77")
    assert answer.status_code == 422
    english_words = ["did you mean", "catalogue"]
    assert missing(complaints(answer)["override_reason"], "nonsense", *english_words) == english_words


def test_a_test_with_a_credential_that_is_gone_is_refused_in_the_readers_language(built: Flask) -> None:
    person = Visitor(built).enter("operator", "es")
    answer = person.post("/probes/", address="10.0.0.9", port="161", credential="99")
    assert (answer.status_code, "does not exist" in text_of(answer)) == (422, False)


def test_a_thin_column_of_a_step_is_named_in_words(seeded: Flask) -> None:
    with written(seeded) as session:
        step = session.scalars(select(ExecutionStep).where(ExecutionStep.error_kind.is_(None))).first()
        assert step is not None
        step.sparse = {"onu_rx_power": [1, 9]}
        execution_id = step.attempt.execution_id
    told = text_of(english(seeded, "viewer").get(f"/executions/{execution_id}"))
    assert "Received by the ONU: only 1 of 9" in told


def test_why_there_is_no_value_is_said_in_the_readers_language_and_octets_are_a_word_like_others(app: Flask) -> None:
    with in_spanish(app):
        for reason in ("no serial", "no MAC address", "no state number", "no date and time", "no number in 'x'"):
            told = str(metrics.reason(reason))
            assert told != reason
            assert not told.lower().startswith("no number") and " in it" not in told
        assert str(metrics.metric("onu_traffic_up").unit) == "octetos"
