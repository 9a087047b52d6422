"""Pages of templates: their nodes, who is in step, applying with a preview, and trying one on an OLT first."""

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from portal import clock
from portal.extensions import db
from portal.services.network import applying, template_nodes, templates, workflows
from portal.tables import TemplateRollout, Workflow, WorkflowNode
from testing import builders, seed
from testing.cast import ACTOR
from testing.databases import Databases
from testing.pages import Visitor, element, form_values, missing, path_of, soup, text_of, texts, title_of
from testing.web import complaints, english, statements, stored

LIST = "/workflows/templates/"
PAGE = f"{LIST}1"
APPLY = f"{LIST}apply"
NODE = {
    "name": "Power", "kind": "get", "oid": "huawei.onu_rx_power", "interval": "10m", "enabled": "1",
    "max_retries": "2", "retry_delay": "120", "time_limit": "120",
}  # fmt: skip


def six_homes(app: Flask) -> None:
    now = clock.now()
    with app.app_context():
        seed.add_users(now)
        for number in range(1, 7):
            builders.make_olt(f"OLT-{number}")
        builders.make_zte("OLT-Z")
        template = templates.create({"name": "homes", "description": "for <homes>"}, ACTOR, now)
        given = {"name": "Discovery", "kind": "discovery", "oid": "huawei.onu_state", "interval": "15m"}
        master = template_nodes.add_node(template, given, ACTOR, now)
        chained = {"name": "Description", "kind": "get", "oid": "huawei.onu_description", "master_id": master}
        for node in (chained, {**NODE, "key": "rx"}):
            template_nodes.add_node(template, node, ACTOR, now)
        applying.apply(template, [1, 2, 3], ACTOR, now)
        workflows.update_node(rx(2).id, {"interval": "1h"}, ACTOR, now)


@pytest.fixture
def homes(app: Flask, databases: Databases) -> Flask:
    """Template homes (1): a discovery (1) with a description (2), and rx (3). OLT-1 to OLT-6 (Huawei) and OLT-Z (ZTE).

    OLT-1 to OLT-3 have it; OLT-2 reads rx every hour.
    """
    return databases.prepare(app, six_homes)


@pytest.fixture
def changed(homes: Flask) -> Flask:
    """The template's rx is read every 20 minutes instead of every 10, which no OLT has yet."""
    change(homes, interval="20m")
    return homes


def rx(olt_id: int) -> WorkflowNode:
    query = select(WorkflowNode).join(WorkflowNode.workflow).where(Workflow.olt_id == olt_id, WorkflowNode.key == "rx")
    return db.session.scalars(query).one()


def change(app: Flask, **fields: Any) -> None:
    with app.app_context():
        template_nodes.update_node(3, fields, ACTOR, clock.now())


def row(person: Visitor, css: str, path: str = PAGE) -> str:
    return text_of(element(person.get(path), css))


def nodes(person: Visitor, css: str, path: str = PAGE) -> list[str]:
    return texts(person.get(path), f"{css} h3")


def preview(person: Visitor, **whom: Any) -> TestResponse:
    return person.post(APPLY, template="1", step="preview", **whom)


def intervals(app: Flask, *olts: int) -> list[int | None]:
    with app.app_context():
        return [rx(olt).interval_seconds for olt in olts]


def test_the_page_shows_nodes_as_chains_and_how_each_olt_stands(homes: Flask) -> None:
    person = english(homes, "viewer")
    assert nodes(person, ".nw-node") == ["Discovery", "Description", "Power"]
    assert nodes(person, ".nw-chain") == ["Description"]
    assert ("In step" in row(person, "#o1"), "Differs on purpose rx" in row(person, "#o2")) == (True, True)
    assert soup(person.get(PAGE)).select("main form[method=post], main .btn-primary") == []


def test_a_change_waits_and_the_page_says_for_how_many(changed: Flask) -> None:
    person = english(changed)
    assert "1 change waits for 2 OLTs" in text_of(person.get(PAGE))
    assert "1 change waits for 2 OLTs" in row(person, "#t1", LIST)
    assert "Behind ~ rx Every: 10 min → 20 min" in row(person, "#o1")
    assert intervals(changed, 1, 3) == [600, 600]
    for query, found in (("stand=behind", ["o1", "o3"]), ("q=olt-2&stand=x", ["o2"])):
        assert [tag["id"] for tag in soup(person.get(f"{PAGE}?{query}")).select("tbody tr")] == found


def test_a_template_is_made_given_nodes_and_renamed(homes: Flask) -> None:
    person = english(homes)
    assert complaints(person.post(f"{LIST}new", name="homes")) == {"name": "Another template has this name"}
    page = path_of(person.post(f"{LIST}new", name="offices", description=""))
    assert "reads nothing yet" in text_of(person.get(page))
    for query, key, revision in (("", "", "0"), ("?master=4", "again", "1")):
        assert person.post(f"{page}/nodes/new{query}", **NODE, key=key, revision=revision).status_code == 303
    assert nodes(person, ".nw-chain", page) == ["Power"]
    answer = person.post(f"{page}/edit", name="branch offices", description="with a contract", revision="2")
    assert title_of(person.get(path_of(answer))) == "Template branch offices"


def test_a_node_that_breaks_a_rule_is_shown_as_typed(homes: Flask) -> None:
    answer = english(homes).submit("/workflows/template-nodes/3/edit", "form.nw-form", interval="1m", name="Short")
    assert (answer.status_code, set(complaints(answer))) == (422, {"override_reason"})
    assert form_values(answer, "form.nw-form")["name"] == "Short"


def test_two_tabs_the_second_sees_the_others_change_and_keeps_what_was_typed(homes: Flask) -> None:
    person, path = english(homes), "/workflows/template-nodes/3/edit"
    first = form_values(person.get(path), "form.nw-form")
    change(homes, interval="20m")
    answer = person.post(path, **first | {"interval": "30m"})
    again = form_values(answer, "form.nw-form")
    assert (answer.status_code, missing(answer, "Every, as stored now: 20m"), again["interval"]) == (409, [], "30m")
    assert person.post(path, **again).status_code == 303
    assert "Every 30 min" in row(person, "#node-3")
    late = person.post(f"{PAGE}/edit", name="x", revision=first["revision"])
    assert (late.status_code, form_values(late, "form.nw-form")["name"]) == (409, "x")


def test_a_node_is_moved_and_deleted_with_its_chain(homes: Flask) -> None:
    person = english(homes)
    question = person.get("/workflows/template-nodes/1/delete")
    assert "The 1 node chained to it goes too" in text_of(question)
    person.post("/workflows/template-nodes/1/delete", revision=form_values(question)["revision"])
    assert nodes(person, ".nw-node") == ["Power"]
    assert "2 changes wait for 3 OLTs" in text_of(person.get(PAGE))
    for node, code in ((1, 404), (3, 303)):
        assert person.post(f"/workflows/template-nodes/{node}/move", direction="up").status_code == code


def test_deleting_says_what_becomes_of_the_olts_nodes(homes: Flask) -> None:
    person = english(homes)
    assert "3 OLTs have it. Its nodes stay there" in text_of(person.get(f"{PAGE}/delete"))
    assert "3 OLTs keep its nodes." in text_of(person.get(path_of(person.post(f"{PAGE}/delete"))))
    assert (intervals(homes, 1, 2), person.get(PAGE).status_code) == ([600, 3600], 404)


def test_the_preview_says_per_olt_what_would_happen_and_writes_nothing(changed: Flask) -> None:
    person = english(changed)
    chosen = form_values(person.get(f"{APPLY}?template=1&olt=1&olt=4"), "form.nw-form")
    assert chosen["template"] == "1"
    seen = preview(person, olt=["1", "2", "4", "7"])
    counts = "2 OLTs change, 3 nodes change, 1 override kept, 1 in step already, 1 left out"
    assert title_of(seen) == f"Apply homes: {counts}"
    told = {str(tag["id"]): text_of(tag) for tag in soup(seen).select("tbody tr")}
    assert list(told)[0] == "e7"
    words = {"e1": ["~ rx Every: 10 min → 20 min"], "e2": ["In step already rx"], "e4": ["+ rx added", "0 % →"]}
    for line, wanted in (words | {"e7": ["whose brand is zte"]}).items():
        assert missing(told[line], *wanted) == []
    assert intervals(changed, 1) == [600]
    assert stored(changed, select(Workflow.id).where(Workflow.olt_id == 4)) == []


def test_applying_writes_what_the_preview_said_and_names_who_was_left_out(changed: Flask) -> None:
    person = english(changed)
    olts = ["1", "2", "4", "7"]
    revision = form_values(preview(person, olt=olts), "#do")["revision"]
    answer = person.post(APPLY, template="1", step="apply", olt=olts, revision=revision)
    assert path_of(answer) == PAGE
    left_out = "1 OLT was left out. OLT-Z: Discovery: huawei.onu_state is not for this OLT"
    assert missing(person.get(PAGE), "Applied to 2 OLTs.", left_out) == []
    assert intervals(changed, 1, 2, 3, 4) == [1200, 3600, 600, 1200]
    assert [tag["id"] for tag in soup(preview(person, whom="behind")).select("tbody tr")] == ["e3"]


def test_a_template_that_changed_after_the_preview_is_shown_anew(changed: Flask) -> None:
    answer = english(changed).post(APPLY, template="1", step="apply", olt=["1"], revision="1")
    assert (answer.status_code, missing(answer, "was changed meanwhile")) == (409, [])
    assert intervals(changed, 1) == [600]


@pytest.mark.parametrize(
    ("values", "wrong"),
    [({"template": "1"}, "Choose at least one OLT."), ({"template": "99", "olt": "1"}, "Choose a template."),
     ({"olt": ["1", "x", "-4", "9" * 30]}, "Choose a template.")],
)  # fmt: skip
def test_what_is_missing_is_said_and_the_choice_kept(homes: Flask, values: dict[str, Any], wrong: str) -> None:
    answer = english(homes).post(APPLY, step="preview", **values)
    assert (answer.status_code, missing(answer, wrong)) == (422, [])
    ticked = [tag["value"] for tag in soup(answer).select("[name=olt][checked]")]
    assert ticked == (["1"] if "olt" in values else [])


def test_one_olt_first_then_the_rest(changed: Flask) -> None:
    person = english(changed)
    revision = form_values(preview(person, whom="all"), "#do")["revision"]
    page = path_of(person.post(APPLY, template="1", step="try", olt=["1", "2", "3"], canary="3", revision=revision))
    assert intervals(changed, 1, 3) == [600, 1200]
    assert missing(person.get(page), "homes on OLT-3", "Nothing has run since", "Apply to the other 2") == []
    assert "Being tried on OLT-3" in text_of(person.get(PAGE))
    assert person.post(f"{page}/rest").status_code == 303
    assert intervals(changed, 1, 2, 3) == [1200, 3600, 1200]
    assert "This try is over" in text_of(person.get(page))


def test_a_try_is_taken_back_unless_the_olt_was_changed_by_hand(changed: Flask) -> None:
    person = english(changed)
    page = path_of(person.post(APPLY, template="1", step="try", olt=["1", "3"]))
    with changed.app_context():
        workflows.update_node(rx(1).id, {"interval": "45m"}, ACTOR, clock.now())
    seen = person.get(page)
    assert (missing(seen, "changed by hand"), soup(seen).select("form[action$='/back']")) == ([], [])
    assert "changed by hand" in text_of(person.get(path_of(person.post(f"{page}/back"))))
    person.post(f"{page}/keep")
    page = path_of(person.post(APPLY, template="1", step="try", olt=["3"]))
    person.post(f"{page}/back")
    assert intervals(changed, 1, 3) == [2700, 600]
    assert [status.value for status in stored(changed, select(TemplateRollout.status))] == ["DONE", "TAKEN_BACK"]


def test_a_viewer_looks_and_changes_nothing(homes: Flask) -> None:
    person = english(homes, "viewer")
    assert [person.get(path).status_code for path in (LIST, PAGE)] == [200, 200]
    for path in (APPLY, f"{LIST}new", f"{PAGE}/edit", f"{PAGE}/delete", f"{PAGE}/nodes/new"):
        assert [person.get(path).status_code, person.post(path).status_code] == [403, 403]


def test_what_is_gone_is_not_found(homes: Flask) -> None:
    person = english(homes)
    gone = ("9", "9/edit", "9/delete", "9/nodes/new", "1/nodes/new?master=9", "tries/9")
    for path in (*(f"{LIST}{part}" for part in gone), "/workflows/template-nodes/9/edit"):
        assert person.get(path).status_code == 404


def test_pages_cost_as_many_statements_for_one_olt_as_for_many(changed: Flask) -> None:
    person = english(changed)
    tried = path_of(person.post(APPLY, template="1", step="try", olt=["1", "3"]))
    paths = (LIST, PAGE, APPLY, tried)
    few = [statements(changed, person, path) for path in paths]
    assert max(few) <= 12
    with changed.app_context():
        applying.apply(1, [4, 5, 6], ACTOR, clock.now())
    assert [statements(changed, person, path) for path in paths] == few
