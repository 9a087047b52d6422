"""The pages of tests over HTTP: the buttons, the fragment that waits and stops, and what it shows of an answer."""

from datetime import timedelta
from typing import Any

import pytest
from bs4 import Tag
from flask import Flask
from sqlalchemy import select

from portal import clock, queueing
from portal.domain.statuses import ErrorKind
from portal.services.trying import trials
from portal.tables import Olt, Trial, TrialMode, TrialStatus
from testing.pages import Visitor, element, missing, path_of, soup, text_of, texts, title_of
from testing.web import english, row_of, statements, stored, update_rows

EVIL = '<img src=x onerror="alert(1)">'
ROW = {"index": "4194312448.2", "at": [0, 1, 1, 2], "raw": "-2150", "value": -21.5, "reason": "", "online": None}


@pytest.fixture
def built(board: Flask, monkeypatch: pytest.MonkeyPatch) -> Flask:
    """OLT-LIMA (1) with a discovery (1) and a GET (2); what is queued goes nowhere."""
    monkeypatch.setattr(queueing, "enqueue_task", lambda *_words, **_options: None)
    return board


def answer(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    column = {"metric": "onu_rx_power", "oid": "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4", "unit": "dBm", "rows": len(rows),
              "missing": 0, "complete": True, "shown": list(rows)}  # fmt: skip
    return {"rows": len(rows), "pdus": 2, "timeouts": 0, "ms": 41, "complete": True, "cut": False,
            "columns": [column]} | changes  # fmt: skip


def succeed(app: Flask, result: dict[str, Any]) -> None:
    update_rows(app, Trial, finished_at=clock.now(), status=TrialStatus.SUCCESS, result=result)


def fail(app: Flask, kind: ErrorKind, message: str, **values: Any) -> None:
    ended = {"finished_at": clock.now(), "status": TrialStatus.FAILED} | values
    update_rows(app, Trial, error_kind=kind, error_message=message, **ended)


@pytest.fixture
def asking(built: Flask) -> Visitor:
    """An operator who has pressed the button of the GET; it has the number 1."""
    person = english(built)
    assert person.press("/trials/nodes/2", "trial").status_code == 200
    return person


def shown(person: Visitor) -> Tag:
    return element(person.fragment("/trials/1", "trial"), "#trial")


def test_a_button_on_a_node_asks_for_a_test_that_waits_in_its_place(built: Flask) -> None:
    root = element(english(built).press("/trials/nodes/2", "trial"), "#trial")
    assert "Test of Potencia RX on OLT-LIMA waits for its turn" in root.get_text()
    assert (root["hx-get"], root["hx-trigger"]) == ("/trials/1", "every 1s")
    trial = row_of(built, Trial, 1)
    told = (trial.node_id, trial.oid, trial.mode, trial.requested_by)
    assert told == (2, "huawei.onu_rx_power", TrialMode.GET, "operator")


def test_without_scripts_the_button_leads_to_the_tests_own_page(built: Flask) -> None:
    person = english(built)
    assert path_of(person.post("/trials/nodes/1")) == "/trials/1"
    assert title_of(person.get("/trials/1")) == "Test of discovery"


def test_an_oid_that_nobody_saved_is_tested_on_the_olt(built: Flask) -> None:
    answer = english(built).press("/trials/olts/1", "trial", oid="1.3.6.1.2.1.31.1.1.1.1", mode="walk")
    assert "1.3.6.1.2.1.31.1.1.1.1 on OLT-LIMA" in text_of(element(answer, "#trial"))


def test_what_cannot_be_tested_is_told_where_the_answer_would_be(built: Flask) -> None:
    person = english(built)
    for oid, said in (("", "Is missing"), ("1.3.6.1.4.1.2011.6.128.1.1.2.43.1.4", "passwords"), ("x\x00y", "Must be")):
        refused = person.press("/trials/olts/1", "trial", oid=oid, mode="nonsense")
        root = element(refused, "#trial")
        assert (refused.status_code, missing(root, said), root.has_attr("hx-get")) == (200, [], False), oid
    assert person.post("/trials/olts/1", oid="").status_code == 422
    assert stored(built, select(Trial.id)) == []


def test_the_fragment_stops_asking_once_there_is_an_answer(built: Flask, asking: Visitor) -> None:
    succeed(built, answer(ROW))
    root = shown(asking)
    assert not root.has_attr("hx-get")
    cells = ["0/1/1:2", "4194312448.2", "-2150", "−21.5", "-2150"]  # the last is for phones
    assert (texts(root, "tbody td"), missing(root, "2 PDUs", "nothing stored")) == (cells, [])


def test_a_state_is_told_in_the_readers_language_and_a_text_of_the_device_is_not(built: Flask, asking: Visitor) -> None:
    asking.post("/language", language="es")
    gone = ROW | {"raw": "13", "value": "dying gasp"}
    columns = [{**answer(gone)["columns"][0], "metric": name} for name in ("last_down_cause", "onu_description")]
    succeed(built, answer(gone, columns=columns))
    causes, descriptions = shown(asking).select(".nw-trial-column")
    assert "sin energía (dying gasp)" in causes.get_text()
    assert texts(descriptions, "td.num.c-b") == ["dying gasp"]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (answer(cut=True, complete=False, rows=500), "enough was read"),
        (answer(), "there is no row"),
        (answer(ROW | {"value": None, "reason": "sentinel 2147483647"}), "The device says it has no value"),
        (answer(ROW | {"at": None}), "Unknown"),
        (answer(ROW, timeouts=2), "2 time-outs"),
    ],
)
def test_each_kind_of_answer_is_told(built: Flask, asking: Visitor, result: dict[str, Any], said: str) -> None:
    succeed(built, result)
    assert said in text_of(asking.fragment("/trials/1", "trial"))


def test_a_failure_is_told_and_our_own_words_about_it_in_the_readers_language(built: Flask, asking: Visitor) -> None:
    fail(built, ErrorKind.TIMEOUT, "no answer from 10.0.0.1")
    assert "no answer from 10.0.0.1" in text_of(asking.fragment("/trials/1", "trial"))
    fail(built, ErrorKind.DEVICE, str(trials.BUSY))
    assert "the OLT is being read right now" in text_of(asking.fragment("/trials/1", "trial"))
    asking.post("/language", language="es")
    assert "la OLT se está leyendo" in text_of(asking.get("/trials/1"))


def test_a_test_that_nobody_takes_stops_waiting_and_says_what_to_do(built: Flask, asking: Visitor) -> None:
    update_rows(built, Trial, created_at=clock.now() - timedelta(minutes=2))
    assert "No worker of the tests seems to be running" in text_of(asking.get("/trials/1"))
    long_ago = clock.now() - timedelta(minutes=5)
    update_rows(built, Trial, status=TrialStatus.RUNNING, started_at=long_ago, created_at=long_ago)
    assert "The worker that read it is gone" in text_of(asking.get("/trials/1"))


def test_text_from_a_device_stays_text(built: Flask, asking: Visitor) -> None:
    row = ROW | {"raw": EVIL, "value": EVIL, "index": EVIL, "reason": EVIL + " 100%d"}
    fail(built, ErrorKind.DEVICE, EVIL + " %(name)s", result=answer(row))
    page = soup(asking.get("/trials/1"))
    assert (page.select("[onerror], img[src=x]"), EVIL in page.get_text()) == ([], True)


def test_buttons_are_there_for_operators_on_olts_that_may_be_asked(built: Flask) -> None:
    operator, viewer = english(built), english(built, "viewer")
    for path, wanted in (("/olts/1/workflow", 4), ("/olts/1", 2)):
        page = soup(operator.get(path))
        buttons = {str(tag["id"]) for tag in page.select("button[id^=try-]")}
        assert (buttons, len(page.select("#trial"))) == ({f"try-{n + 1}" for n in range(wanted)}, 1), path
        assert soup(viewer.get(path)).select("[id^=try-], #trial") == [], path
    assert soup(operator.get("/olts/1")).select("form[action='/trials/olts/1'] [name=oid]") != []
    update_rows(built, Olt, enabled=False)
    assert soup(operator.get("/olts/1")).select("button[id^=try-], form[action^='/trials']") == []
    assert soup(operator.get("/olts/1/workflow")).select("button[id^=try-]") == []


def test_what_is_gone_is_not_there(built: Flask) -> None:
    person = english(built)
    asked = [person.post("/trials/nodes/9"), person.post("/trials/olts/9", oid="1.3.6.1")]
    assert {answer.status_code for answer in (person.get("/trials/9"), *asked)} == {404}


def test_the_fragment_costs_few_statements(built: Flask, asking: Visitor) -> None:
    succeed(built, answer(*[ROW] * 200))
    assert statements(built, asking, "/trials/1") <= 9
