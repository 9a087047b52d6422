"""The pages of tests over HTTP: the buttons, the fragment that waits and stops, and what it shows of an answer."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from bs4 import Tag
from flask import Flask
from sqlalchemy import select, update
from werkzeug.test import TestResponse

from portal import clock, queueing
from portal.domain.statuses import ErrorKind
from portal.extensions import db
from portal.services.trying import trials
from portal.tables import Olt, Trial, TrialMode, TrialStatus
from testing import builders, seed
from testing.pages import Visitor, element, path_of, soup, text_of, texts, title_of
from testing.web import english, statements, update_rows, written

EVIL = '<img src=x onerror="alert(1)">'
ROW = {"index": "4194312448.2", "at": [0, 1, 1, 2], "raw": "-2150", "value": -21.5, "reason": "", "online": None}


@pytest.fixture
def built(app: Flask, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flask]:
    """OLT-LIMA (1) with a discovery (1) and a GET (2); what is queued goes nowhere."""
    monkeypatch.setattr(queueing, "enqueue_task", lambda *_words, **_options: None)
    with app.app_context():
        seed.add_users(clock.now())
        olt = builders.make_olt()
        builders.make_node(olt)
        builders.make_node(olt, "rx", kind="get", oid="huawei.onu_rx_power", name="Potencia RX")
    yield app


def answer(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    column = {"metric": "onu_rx_power", "oid": "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4", "unit": "dBm", "rows": len(rows),
              "missing": 0, "complete": True, "shown": list(rows)}  # fmt: skip
    return {"rows": len(rows), "pdus": 2, "timeouts": 0, "ms": 41, "complete": True, "cut": False,
            "columns": [column]} | changes  # fmt: skip


def end(app: Flask, **values: Any) -> None:
    update_rows(app, Trial, finished_at=clock.now(), **values)


def press(person: Visitor, path: str, **values: Any) -> TestResponse:
    """As htmx does: the answer is the fragment."""
    headers = {"HX-Request": "true", "HX-Target": "trial", "X-CSRFToken": person.token}
    return person.client.post(path, data=values, headers=headers)


def fragment(answer: TestResponse) -> Tag:
    return element(answer, "#trial")


def test_a_button_on_a_node_asks_for_a_test_that_waits_in_its_place(built: Flask) -> None:
    person = english(built)
    root = fragment(press(person, "/trials/nodes/2"))
    assert "Test of Potencia RX on OLT-LIMA waits for its turn" in root.get_text()
    assert (root["hx-get"], root["hx-trigger"]) == ("/trials/1", "every 1s")
    with built.app_context():
        trial = db.session.get_one(Trial, 1)
        assert (trial.node_id, trial.oid, trial.mode, trial.requested_by) == (
            2, "huawei.onu_rx_power", TrialMode.GET, "operator",
        )  # fmt: skip


def test_without_scripts_the_button_leads_to_the_tests_own_page(built: Flask) -> None:
    person = english(built)
    assert path_of(person.post("/trials/nodes/1")) == "/trials/1"
    assert title_of(person.get("/trials/1")) == "Test of discovery"


def test_an_oid_that_nobody_saved_is_tested_on_the_olt(built: Flask) -> None:
    person = english(built)
    root = fragment(press(person, "/trials/olts/1", oid="1.3.6.1.2.1.31.1.1.1.1", mode="walk"))
    assert "1.3.6.1.2.1.31.1.1.1.1 on OLT-LIMA" in root.get_text()


def test_what_cannot_be_tested_is_told_where_the_answer_would_be(built: Flask) -> None:
    person = english(built)
    for oid, said in (("", "Is missing"), ("1.3.6.1.4.1.2011.6.128.1.1.2.43.1.4", "passwords"), ("x\x00y", "Must be")):
        refused = press(person, "/trials/olts/1", oid=oid, mode="nonsense")
        assert (refused.status_code, said in fragment(refused).get_text()) == (200, True), oid
        assert not fragment(refused).has_attr("hx-get")
    assert person.post("/trials/olts/1", oid="").status_code == 422
    with written(built) as session:
        assert session.scalar(select(Trial.id)) is None


def test_the_fragment_stops_asking_once_there_is_an_answer(built: Flask) -> None:
    person = english(built)
    press(person, "/trials/nodes/2")
    end(built, status=TrialStatus.SUCCESS, result=answer(ROW))
    root = fragment(person.fragment("/trials/1", "trial"))
    assert not root.has_attr("hx-get")
    cells = texts(root, "tbody td")
    assert cells == ["0/1/1:2", "4194312448.2", "-2150", "−21.5", "-2150"]  # the last is for phones
    assert "2 PDUs" in root.get_text()
    assert "nothing stored" in root.get_text()


def test_a_state_is_told_in_the_readers_language_and_a_text_of_the_device_is_not(built: Flask) -> None:
    person = english(built)
    person.post("/language", language="es")
    press(person, "/trials/nodes/2")
    gone = ROW | {"raw": "13", "value": "dying gasp"}
    columns = [{**answer(gone)["columns"][0], "metric": name} for name in ("last_down_cause", "onu_description")]
    end(built, status=TrialStatus.SUCCESS, result=answer(gone, columns=columns))
    causes, descriptions = fragment(person.fragment("/trials/1", "trial")).select(".nw-trial-column")
    assert "sin energía (dying gasp)" in causes.get_text()
    assert texts(descriptions, "td.num.c-b") == ["dying gasp"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"status": TrialStatus.FAILED, "error_kind": ErrorKind.TIMEOUT, "error_message": "no answer from 10.0.0.1"},
         "no answer from 10.0.0.1"),
        ({"status": TrialStatus.FAILED, "error_kind": ErrorKind.DEVICE, "error_message": str(trials.BUSY)},
         "the OLT is being read right now"),
        ({"status": TrialStatus.SUCCESS, "result": answer(cut=True, complete=False, rows=500)}, "enough was read"),
        ({"status": TrialStatus.SUCCESS, "result": answer()}, "there is no row"),
        ({"status": TrialStatus.SUCCESS, "result": answer(ROW | {"value": None, "reason": "sentinel 2147483647"})},
         "The device says it has no value"),
        ({"status": TrialStatus.SUCCESS, "result": answer(ROW | {"at": None})}, "Unknown"),
        ({"status": TrialStatus.SUCCESS, "result": answer(ROW, timeouts=2)}, "2 time-outs"),
    ],
)  # fmt: skip
def test_each_kind_of_answer_is_told(built: Flask, values: dict[str, Any], said: str) -> None:
    person = english(built)
    press(person, "/trials/nodes/2")
    end(built, **values)
    assert said in text_of(person.fragment("/trials/1", "trial"))


def test_our_own_words_about_a_failure_are_in_the_readers_language(built: Flask) -> None:
    person = english(built)
    press(person, "/trials/nodes/2")
    end(built, status=TrialStatus.FAILED, error_kind=ErrorKind.DEVICE, error_message=str(trials.BUSY))
    person.post("/language", language="es")
    assert "la OLT se está leyendo" in text_of(person.get("/trials/1"))


def test_a_test_that_nobody_takes_stops_waiting_and_says_what_to_do(built: Flask) -> None:
    person = english(built)
    press(person, "/trials/nodes/2")
    update_rows(built, Trial, created_at=clock.now() - timedelta(minutes=2))
    assert "No worker of the tests seems to be running" in text_of(person.get("/trials/1"))
    with written(built) as session:
        long_ago = clock.now() - timedelta(minutes=5)
        session.execute(update(Trial).values(status=TrialStatus.RUNNING, started_at=long_ago, created_at=long_ago))
    assert "The worker that read it is gone" in text_of(person.get("/trials/1"))


def test_text_from_a_device_stays_text(built: Flask) -> None:
    person = english(built)
    press(person, "/trials/nodes/2")
    row = ROW | {"raw": EVIL, "value": EVIL, "index": EVIL, "reason": EVIL + " 100%d"}
    end(
        built,
        status=TrialStatus.FAILED,
        error_kind=ErrorKind.DEVICE,
        error_message=EVIL + " %(name)s",
        result=answer(row),
    )
    page = soup(person.get("/trials/1"))
    assert page.select("[onerror], img[src=x]") == []
    assert EVIL in page.get_text()


def test_buttons_are_there_for_operators_on_olts_that_may_be_asked(built: Flask) -> None:
    operator, viewer = english(built), english(built, "viewer")
    for path, wanted in (("/olts/1/workflow", {"try-1", "try-2"}), ("/olts/1", {"try-1", "try-2"})):
        shown = soup(operator.get(path))
        assert {str(tag["id"]) for tag in shown.select("[id^=try-]") if tag.name == "button"} == wanted, path
        assert len(shown.select("#trial")) == 1, path
        assert soup(viewer.get(path)).select("[id^=try-], #trial") == [], path
    assert soup(operator.get("/olts/1")).select("form[action='/trials/olts/1'] [name=oid]") != []
    update_rows(built, Olt, enabled=False)
    assert soup(operator.get("/olts/1")).select("button[id^=try-], form[action^='/trials']") == []
    assert soup(operator.get("/olts/1/workflow")).select("button[id^=try-]") == []


def test_what_is_gone_is_not_there(built: Flask) -> None:
    person = english(built)
    assert {person.get("/trials/9").status_code, person.post("/trials/nodes/9").status_code,
            person.post("/trials/olts/9", oid="1.3.6.1").status_code} == {404}  # fmt: skip


def test_the_fragment_costs_few_statements(built: Flask) -> None:
    person = english(built)
    press(person, "/trials/nodes/2")
    end(built, status=TrialStatus.SUCCESS, result=answer(*[ROW] * 200))
    assert statements(built, person, "/trials/1") <= 9
