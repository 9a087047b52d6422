"""The workflow editor over HTTP: two forms at once, undo, places of cards, the form beside the board, templates."""

import json
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from portal import clock
from portal.services.network import workflows
from portal.services.network.node_trees import write_template
from portal.services.network.trees import tree_of
from portal.tables import NodePace, TemplateNode, Workflow, WorkflowTemplate
from testing.boards import BOARD, DESCRIPTION, DISCOVERY, RX, SERIAL, more_masters, node_of, order
from testing.ledger import add_day
from testing.pages import Visitor, element, form_values, missing, path_of, soup, text_of, texts, title_of
from testing.web import english, statements, stored, written


def revision(app: Flask) -> int:
    return stored(app, select(Workflow.revision).where(Workflow.olt_id == 1))[0]


def edit(node_id: int) -> str:
    return f"/workflow-nodes/{node_id}/edit"


def said(answer: TestResponse) -> tuple[str, str]:
    """(tone, text) of what board.js is told to say."""
    told = json.loads(answer.headers["HX-Trigger"])["said"]
    return told["tone"], told["text"]


# ---------------------------------------------------------------------------------------------------- two forms at once


def opened(app: Flask, node: int = RX) -> tuple[Visitor, Visitor, dict[str, str], dict[str, str]]:
    """Ana and Rosa, and the form of the node that each has open."""
    ana, rosa = english(app, "admin"), english(app)
    return ana, rosa, form_values(ana.get(edit(node))), form_values(rosa.get(edit(node)))


def test_the_second_of_two_forms_is_shown_both_sides_and_may_save_again(board: Flask) -> None:
    ana, rosa, mine, theirs = opened(board)
    assert rosa.post(edit(RX), **theirs | {"interval": "30m", "max_retries": "1"}).status_code == 303
    answer = ana.post(edit(RX), **mine | {"interval": "20m", "time_limit": "77"})
    assert answer.status_code == 409
    assert (node_of(board, RX).interval_seconds, node_of(board, RX).time_limit) == (1800, 120)
    assert texts(answer, ".wb-both tbody td") == ["30 min Take theirs", "20 min Keep yours"]
    assert missing(answer, "operator changed the same meanwhile", "Retries: 2 → 1") == []
    again = form_values(answer)
    assert (again["interval"], again["time_limit"], again["max_retries"]) == ("20m", "77", "1")
    assert ana.post(edit(RX), **again).status_code == 303
    after = node_of(board, RX)
    assert (after.interval_seconds, after.time_limit, after.max_retries) == (1200, 77, 1)


def test_what_only_the_other_changed_comes_in_with_a_note(board: Flask) -> None:
    ana, rosa, mine, theirs = opened(board)
    rosa.post(edit(RX), **theirs | {"interval": "30m"})
    assert ana.post(edit(RX), **mine | {"name": "Power"}).status_code == 303
    assert (node_of(board, RX).name, node_of(board, RX).interval_seconds) == ("Power", 1800)
    assert "Changed by others meanwhile: Every: 15 min → 30 min" in text_of(ana.get(BOARD))


def test_a_conflict_in_a_form_with_a_mistake_is_told_once_the_mistake_is_mended(board: Flask) -> None:
    ana, rosa, mine, theirs = opened(board)
    rosa.post(edit(RX), **theirs | {"name": "Theirs"})
    wrong = ana.post(edit(RX), **mine | {"name": "Mine", "interval": "soon"})
    assert wrong.status_code == 422
    again = form_values(wrong)
    assert (again["name"], again["interval"], again["revision"]) == ("Mine", "soon", mine["revision"])
    assert ana.post(edit(RX), **again | {"interval": "15m"}).status_code == 409
    assert node_of(board, RX).name == "Theirs"


def test_a_form_of_a_node_that_was_deleted_shows_what_was_typed_and_who_deleted_it(board: Flask) -> None:
    ana, rosa, mine, _theirs = opened(board, SERIAL)
    rosa.post(f"/workflow-nodes/{SERIAL}/delete")
    answer = ana.post(edit(SERIAL), **mine | {"name": "Números de serie"})
    assert (answer.status_code, title_of(answer)) == (409, "serial was deleted meanwhile")
    assert missing(answer, "Números de serie", "huawei.onu_description", "operator, ") == []
    assert [ana.get(edit(SERIAL)).status_code, ana.post(edit(SERIAL), name="x").status_code] == [404, 404]


def test_a_form_whose_beginning_is_garbled_saves_what_it_says(board: Flask) -> None:
    person = english(board)
    for number, garbled in enumerate(("", "no json", "[]", "{}", '{"kind": []}', "9" * 30_000)):
        assert person.submit(edit(RX), opened=garbled, name=f"Power {number}").status_code == 303, garbled
        assert node_of(board, RX).name == f"Power {number}"


def test_a_chained_node_is_given_a_clock_in_its_form(board: Flask) -> None:
    person = english(board)
    assert "edit?own=1" in person.get(edit(SERIAL)).text
    assert person.submit(edit(SERIAL) + "?own=1").status_code == 422
    assert person.submit(edit(SERIAL) + "?own=1", interval="20m").status_code == 303
    assert (node_of(board, SERIAL).master_id, node_of(board, SERIAL).interval_seconds) == (None, 1200)


# ---------------------------------------------------------------------------------------------------------------- undo


def undo_form(person: Visitor) -> dict[str, str]:
    form = element(person.get(BOARD), "form[action$='/undo']")
    return {"revision": str(element(form, "[name=revision]")["value"]), "text": text_of(form)}


def test_the_board_offers_to_undo_the_last_change_and_then_to_do_it_again(board: Flask) -> None:
    person = english(board)
    person.post(f"/workflow-nodes/{SERIAL}/move", direction="up")
    offer = undo_form(person)
    assert offer["text"] == "Undo: node serial was moved"
    assert text_of(element(person.get(BOARD), ".wb-last .fx-note")).startswith("operator, ")
    assert person.post(BOARD + "/undo", revision=offer["revision"]).status_code == 303
    assert order(person) == [DISCOVERY, RX, DESCRIPTION, SERIAL]
    assert undo_form(person)["text"] == "Redo: the change of serial was undone"
    person.post(BOARD + "/undo", revision=undo_form(person)["revision"])
    assert order(person) == [DISCOVERY, RX, SERIAL, DESCRIPTION]


def test_undo_on_a_board_that_changed_meanwhile_changes_nothing_and_says_so(board: Flask) -> None:
    person = english(board)
    offer = undo_form(person)
    person.post(f"/workflow-nodes/{SERIAL}/move", direction="up")
    answer = person.press(BOARD + "/undo", "board", revision=offer["revision"])
    assert (answer.status_code, said(answer)[0]) == (200, "red")
    assert "not its last change any more" in said(answer)[1]
    assert order(person) == [DISCOVERY, RX, SERIAL, DESCRIPTION]
    person.post(BOARD + "/undo", revision="nonsense")
    assert "not its last change any more" in text_of(person.get(BOARD))


def test_what_comes_back_by_undo_is_named(board: Flask) -> None:
    person = english(board)
    person.post(f"/workflow-nodes/{RX}/delete")
    answer = person.press(BOARD + "/undo", "board", revision=str(revision(board)))
    names = "Potencia RX, description, serial"
    assert said(answer) == ("green", f"{names} came back as new nodes: what ran of the deleted ones stays with them.")
    assert len(order(person)) == 4


def test_a_viewer_sees_the_last_change_and_no_button(board: Flask) -> None:
    person = english(board, "viewer")
    page = soup(person.get(BOARD))
    assert [len(page.select(one)) for one in (".wb-last", "form[action$='/undo'], .wb-grip, #panel")] == [1, 0]
    for path in (BOARD + "/undo", f"/workflow-nodes/{RX}/place", f"/workflow-nodes/{RX}/reset"):
        assert person.post(path).status_code == 403


# -------------------------------------------------------------------------------------------------------------- places


def test_a_card_is_placed_in_another_chain_and_the_answer_is_the_board(board: Flask) -> None:
    person = english(board)
    answer = person.press(f"/workflow-nodes/{SERIAL}/place", "board", master=DISCOVERY, revision=revision(board))
    assert (answer.status_code, 'id="board"' in answer.text, "<html" in answer.text) == (200, True, False)
    assert "HX-Trigger" not in answer.headers
    assert order(person) == [DISCOVERY, SERIAL, RX, DESCRIPTION]
    person.post(f"/workflow-nodes/{SERIAL}/place", master=RX, before=DESCRIPTION, revision=revision(board))
    assert order(person) == [DISCOVERY, RX, SERIAL, DESCRIPTION]


def test_a_refused_place_gives_the_board_as_it_is_and_the_reason(board: Flask) -> None:
    person = english(board)
    now = revision(board)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"master": "", "before": RX, "revision": now}, "needs a clock of its own"),
        ({"master": DESCRIPTION, "revision": now}, "chains have one level"),
        ({"master": "x", "revision": "y"}, "changed by somebody else"),
        ({"master": 9**12, "before": 9**12, "revision": now}, "needs a clock of its own"),
    ]
    for values, words in cases:
        answer = person.press(f"/workflow-nodes/{SERIAL}/place", "board", **values)
        assert (answer.status_code, f'id="node-{SERIAL}"' in answer.text) == (200, True)
        assert words in said(answer)[1], values
    assert (order(person), revision(board)) == ([DISCOVERY, RX, DESCRIPTION, SERIAL], now)


# ------------------------------------------------------------------------------------------------ form beside the board


def test_the_form_of_a_card_comes_alone_for_the_panel(board: Flask) -> None:
    answer = english(board).fragment(edit(RX), "panel")
    page = soup(answer)
    assert (answer.status_code, page.select("html, .fx-crumbs")) == (200, [])
    form = element(page, "form.nw-form")
    assert (form["hx-post"], form["hx-target"], form["action"]) == (edit(RX), "#panel", edit(RX))
    buttons = [str(one["action"]) for one in page.select(".wb-buttons form")]
    assert buttons == [f"/workflow-nodes/{RX}/run", f"/trials/nodes/{RX}"]


def test_a_form_saved_in_the_panel_comes_back_as_stored_and_the_board_is_told(board: Flask) -> None:
    person = english(board)
    values = form_values(person.get(edit(RX)))
    answer = person.press(edit(RX), "panel", **values | {"name": "Power"})
    assert (answer.status_code, said(answer)) == (200, ("green", "Node Power was saved."))
    assert "wake" in json.loads(answer.headers["HX-Trigger"])
    assert form_values(answer, "form.nw-form")["revision"] == str(revision(board))
    wrong = person.press(edit(RX), "panel", **form_values(answer, "form.nw-form") | {"interval": "soon"})
    assert (wrong.status_code, "HX-Trigger" in wrong.headers) == (200, False)
    assert "15m" in wrong.text


def test_a_node_added_in_the_panel_goes_on_as_its_own_form(board: Flask) -> None:
    person = english(board)
    path = f"{BOARD}/nodes/new?master={RX}"
    values = form_values(person.fragment(path, "panel"), "form.nw-form")
    values |= {"name": "Temperatura", "oid": "huawei.onu_description", "csrf_token": person.token}
    answer = person.press(path, "panel", **values)
    form = element(answer, "form.nw-form")
    assert (form["action"], node_of(board, 5).master_id) == (edit(5), RX)
    assert json.loads(answer.headers["HX-Trigger"])["chosen"] == {"node": 5}


def test_two_panels_at_once_get_the_same_conflict_as_two_pages(board: Flask) -> None:
    ana, rosa, mine, theirs = opened(board)
    rosa.press(edit(RX), "panel", **theirs | {"name": "Theirs"})
    answer = ana.press(edit(RX), "panel", **mine | {"name": "Mine"})
    assert (answer.status_code, len(soup(answer).select(".wb-conflict"))) == (200, 1)
    assert node_of(board, RX).name == "Theirs"


def test_what_if_tells_the_share_and_the_quotas_of_the_hour(board: Flask) -> None:
    person = english(board)
    values = form_values(person.get(edit(RX)))
    path = f"/capacity/olts/1/what-if?node={RX}"
    text = text_of(person.post(path, **values | {"interval": "5m"}))
    assert "quota of GET rx: 4 → 12 an hour" in text
    assert "quota" not in text_of(person.post(path, **values))


# --------------------------------------------------------------------------------------------------------------- cards


def test_a_card_says_how_long_its_node_takes_and_how_much_changes(board: Flask) -> None:
    at = clock.now()
    with written(board) as session:
        session.add(NodePace(node_id=RX, durations=[900], p50_ms=900, p95_ms=2000, updated_at=at))
        day = at.replace(hour=0, minute=0, second=0, microsecond=0)
        for node, read, changed in ((RX, 1000, 30), (DESCRIPTION, 200, 0)):
            add_day(session, node, 1, day, runs=4, duration_ms=1360, values_read=read, values_changed=changed)
    page = soup(english(board).get(BOARD))
    told = {RX: "usually 900 ms · 3.0 % changed", DESCRIPTION: "usually 340 ms · 0.0 % changed"}
    for node, words in told.items():
        assert words in text_of(element(page, f"#node-{node}"))
    assert "usually" not in text_of(element(page, f"#node-{SERIAL}"))


@pytest.fixture
def templated(board: Flask) -> Flask:
    """The same, all nodes from the template Huawei, which has them so."""
    with written(board) as session:
        workflow = session.query(Workflow).one()
        workflow.template = WorkflowTemplate(name="Huawei")
        session.flush()
        write_template(session, workflow.template, tree_of(workflow.nodes))
        for node in workflow.nodes:
            node.template_node_id = session.query(TemplateNode.id).filter_by(key=node.key).scalar()
    return board


def test_a_node_that_differs_from_its_template_is_marked_and_reset_after_a_look(templated: Flask) -> None:
    person = english(templated)
    assert "Differs from template" not in text_of(person.get(BOARD))
    person.submit(edit(RX), interval="30m", name="Otra")
    (marked,) = texts(person.get(BOARD), ".wb-differs")
    assert "Name, Every" in marked
    page = person.get(f"/workflow-nodes/{RX}/reset")
    rows = [" | ".join(texts(row, "td")) for row in soup(page).select("tr")]
    assert rows[1:] == ["Name | Otra | Potencia RX", "Every | 30 min | 15 min"]
    assert person.post(f"/workflow-nodes/{RX}/reset", **form_values(page)).status_code == 303
    assert (node_of(templated, RX).interval_seconds, node_of(templated, RX).overridden) == (900, False)
    assert soup(person.get(BOARD)).select(".wb-differs") == []
    assert undo_form(person)["text"] == "Undo: node Potencia RX was reset to its template"


def test_a_reset_that_was_overtaken_changes_nothing(templated: Flask) -> None:
    person = english(templated)
    person.submit(edit(RX), name="Otra")
    asked = form_values(person.get(f"/workflow-nodes/{RX}/reset"))
    person.post(f"/workflow-nodes/{SERIAL}/move", direction="up")
    answer = person.post(f"/workflow-nodes/{RX}/reset", **asked)
    assert path_of(answer).startswith(BOARD)
    assert "changed by somebody else" in text_of(person.get(BOARD)).lower()
    assert node_of(templated, RX).name == "Otra"


def test_a_node_without_a_template_has_nothing_to_go_back_to(board: Flask) -> None:
    assert english(board).get(f"/workflow-nodes/{RX}/reset").status_code == 404


def test_the_board_of_a_template_costs_the_same_however_many_nodes_differ(templated: Flask) -> None:
    person = english(templated)
    few = statements(templated, person, BOARD)
    more_masters(templated)
    with templated.app_context():
        for node_id in (DISCOVERY, RX, DESCRIPTION, SERIAL):
            workflows.update_node(node_id, {"time_limit": 33}, "ana", clock.now())
    assert statements(templated, person, BOARD) <= few + 1 <= 13
    for path in (edit(RX), edit(SERIAL), f"/workflow-nodes/{RX}/reset", f"/workflow-nodes/{RX}/delete"):
        assert statements(templated, person, path) <= 12, path
