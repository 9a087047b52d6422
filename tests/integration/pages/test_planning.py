"""Pages of capacity: the card of an OLT, what an edit would do, phase advice in one click, and pollers needed."""

from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from portal import clock
from portal.domain.statuses import ExecutionStatus
from portal.services.network import workflows
from portal.tables import AuditLog, NodePace, WorkflowNode
from testing import builders, seed
from testing.pages import element, form_values, missing, soup, text_of, texts, title_of
from testing.web import english, row_of, stored, update_rows, written

WHAT_IF = "/capacity/olts/1/what-if"


def pace(app: Flask, node_id: int, seconds: int) -> None:
    ms = seconds * 1000
    with written(app) as session:
        session.merge(NodePace(node_id=node_id, durations=[ms] * 25, p50_ms=ms, p95_ms=ms, updated_at=clock.now()))


@pytest.fixture
def built(app: Flask) -> Flask:
    """OLT-LIMA: a discovery (1) of 100 s and descriptions (2) of 60 s, both every five minutes."""
    with app.app_context():
        seed.add_users(clock.now())
        olt = builders.make_olt()
        now = clock.now()
        builders.make_node(olt, interval="5m", now=now)
        builders.make_node(olt, "descriptions", kind="get", oid="huawei.onu_description", interval="5m", now=now)
    pace(app, 1, 100)
    pace(app, 2, 60)
    return app


def said(answer: TestResponse, selector: str) -> str:
    """Text of one part of the page, if it is there."""
    return "".join(texts(answer, selector))


def test_the_page_of_an_olt_says_how_its_work_fits(built: Flask) -> None:
    card = said(english(built, "viewer").get("/olts/1/capacity"), "#fit_live")
    assert missing(card, "Fits busy 53 % of the hour", "descriptions will wait 1 min 40 s") == []


def test_nodes_are_called_by_their_names_also_while_one_is_renamed(built: Flask) -> None:
    for node, name in ((1, "ONUs and their state"), (2, "Customers")):
        update_rows(built, WorkflowNode, WorkflowNode.id == node, name=name)
    person = english(built)
    assert "Customers will wait 1 min 40 s" in said(person.get("/olts/1/capacity"), "#fit_live")
    moves = set(texts(person.get("/capacity/phases"), "tbody td.c-c"))
    assert (bool(moves & {"ONUs and their state", "Customers"}), moves & {"discovery", "descriptions"}) == (True, set())
    form = form_values(person.get("/workflow-nodes/2/edit")) | {"name": "Labels", "interval": "60s"}
    assert "Labels takes most" in text_of(person.post(f"{WHAT_IF}?node=2", **form))


def test_the_card_of_an_olt_refreshes_alone(built: Flask) -> None:
    answer = english(built).fragment("/olts/1/capacity", "fit_live")
    assert (answer.status_code, missing(answer, "busy 53"), texts(answer, "h1")) == (200, [], [])


def test_the_editor_tells_what_a_change_would_do_before_it_is_saved(built: Flask) -> None:
    person = english(built)
    form = form_values(person.get("/workflow-nodes/2/edit"))
    answer = person.post(f"{WHAT_IF}?node=2", **(form | {"interval": "60s"}))
    words = ("Does not fit 53 % → 133 % of the hour", "GET descriptions will not keep its promise")
    assert missing(answer, *words, "descriptions takes most: 100 % of the hour") == []
    assert row_of(built, WorkflowNode, 2).interval_seconds == 300


def test_the_editor_asks_for_it_as_the_form_changes(built: Flask) -> None:
    part = element(english(built).get("/workflow-nodes/2/edit"), "form #what_if")
    assert part["hx-post"] == f"{WHAT_IF}?node=2"
    assert "change from:closest form" in str(part["hx-trigger"])


def test_a_new_node_is_a_guess_and_told_to_be_one(built: Flask) -> None:
    answer = english(built).post(WHAT_IF, kind="get", key="rx", interval="10m", enabled="y")
    assert missing(answer, "53 % → 63 % of the hour", "rx has hardly run: 1 min a run is a guess") == []


def test_a_node_added_to_a_chain_makes_its_master_longer(built: Flask) -> None:
    answer = english(built).post(f"{WHAT_IF}?master=2", kind="get", enabled="y")
    assert "53 % → 73 % of the hour" in text_of(answer)


@pytest.mark.parametrize("fields", [
    {"kind": "get"}, {"kind": "nonsense", "interval": "60s"}, {"kind": "get", "interval": "soon"},
    {"kind": "get", "interval": "60s", "cron": "* * * * *"}, {"kind": "get", "interval": "0"},
    {"kind": "get", "interval": "999999999d"}, {"kind": "get", "interval": "60s", "priority": "10" * 20},
    {"kind": "get", "priority": "high", "interval": "60s"}, {},
])  # fmt: skip
def test_a_form_that_is_not_complete_yet_is_no_error(built: Flask, fields: dict[str, str]) -> None:
    answer = english(built).post(WHAT_IF, enabled="y", **fields)
    assert (answer.status_code, missing(answer, "Say what is read and how often")) == (200, [])


def test_a_cron_line_that_cannot_be_read_breaks_nothing(built: Flask) -> None:
    assert english(built).post(WHAT_IF, kind="get", key="x", cron="every day", enabled="y").status_code == 200


def test_a_viewer_does_not_ask_what_if(built: Flask) -> None:
    assert english(built, "viewer").post(WHAT_IF, kind="get").status_code == 403


def test_the_busiest_olts_come_first_and_the_title_is_the_answer(built: Flask) -> None:
    assert title_of(english(built, "viewer").get("/capacity/")) == "What is planned fits on every OLT"
    update_rows(built, NodePace, NodePace.node_id == 1, p95_ms=250_000)
    update_rows(built, WorkflowNode, WorkflowNode.id == 1, time_limit=600)
    built.extensions.pop("facho-remembered")  # nobody is noted to have changed anything
    answer = english(built, "viewer").get("/capacity/")
    words = "discovery takes most: 83 % of the hour"
    assert (title_of(answer), missing(answer, words)) == ("1 OLT cannot keep its promises", [])


def test_phase_advice_is_seen_first_and_applied_with_one_click(built: Flask) -> None:
    person = english(built)
    assert "Clocks that would move 1" in text_of(person.get("/capacity/phases"))
    clocks = select(WorkflowNode.next_run_at).order_by(WorkflowNode.id)
    before = stored(built, clocks)
    assert person.post("/capacity/phases").status_code == 303
    assert missing(person.get("/capacity/phases"), "1 clock was moved.", "Nothing to move") == []
    still, moved = sorted(after - was for after, was in zip(stored(built, clocks), before, strict=True))
    assert still == timedelta() < moved < timedelta(minutes=5)
    assert stored(built, select(AuditLog.actor).where(AuditLog.action == "phases.apply")) == ["operator"]


def test_a_viewer_sees_the_advice_and_cannot_apply_it(built: Flask) -> None:
    person = english(built, "viewer")
    page = person.get("/capacity/phases?olt=1")
    forms = soup(page).select('form[action$="/capacity/phases"]')
    assert (title_of(page), forms) == ("Phase advice for OLT-LIMA", [])
    assert person.post("/capacity/phases").status_code == 403
    for unknown in ("99", "99999999999999999999", "-1", "x"):
        assert person.get(f"/capacity/phases?olt={unknown}").status_code == 404


def test_an_olt_with_time_enough_that_loses_a_quota_is_in_the_title_and_first(built: Flask) -> None:
    with built.app_context():
        workflows.update_node(1, {"interval": "1h"}, "x", clock.now())
        workflows.update_node(2, {"interval": "60s", "override_reason": "test"}, "x", clock.now())
    for node, ms in ((1, 1_000_000), (2, 3_000)):
        update_rows(built, NodePace, NodePace.node_id == node, p50_ms=ms, p95_ms=ms, durations=[1000] * 25)
    answer = english(built, "viewer").get("/capacity/")
    words = "discovery keeps the OLT from the others: 16 min 40 s a run"
    assert (title_of(answer), missing(answer, words)) == ("1 OLT cannot keep its promises", [])


def test_the_pollers_page_says_how_many_would_be_enough_and_from_what(built: Flask) -> None:
    assert said(english(built).get("/pollers/"), "#pool-advice") == ""
    ended = clock.now() - timedelta(minutes=10)
    with written(built) as session:
        for number in range(20):
            start = ended + timedelta(seconds=10 * number)
            ran = {"started_at": start, "finished_at": start + timedelta(seconds=9), "attempt": 1}
            node = session.get_one(WorkflowNode, 1)
            builders.make_execution(node, start, status=ExecutionStatus.SUCCESS, **ran)
    told = said(english(built).get("/pollers/"), "#pool-advice")
    assert told.startswith("1 poller would be enough: 95 of 100 composites would wait less than 5 s")
    assert told.endswith("From 20 composites of the last 1 h.")
