"""Pages of templates: their nodes, who is in step, applying with a preview, and trying one on an OLT first."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from portal import clock
from portal.extensions import db
from portal.services.network import applying, template_nodes, templates, workflows
from portal.tables import Olt, TemplateRollout, Workflow, WorkflowNode, WorkflowTemplate
from testing import builders, seed
from testing.cast import ACTOR
from testing.pages import Visitor, element, missing, path_of, soup, text_of, texts, title_of
from testing.web import complaints, english, form_values, statements

LIST = "/workflows/templates/"
PAGE = f"{LIST}1"
APPLY = f"{LIST}apply"
NODE = {
    "name": "Power", "kind": "get", "oid": "huawei.onu_rx_power", "interval": "10m", "enabled": "1",
    "max_retries": "2", "retry_delay": "120", "time_limit": "120",
}  # fmt: skip


def now() -> datetime:
    return clock.now()


@pytest.fixture
def homes(app: Flask) -> Iterator[Flask]:
    """Template homes (1): a discovery (1) with a description (2), and rx (3). OLT-1 to OLT-6 (Huawei) and OLT-Z (ZTE).

    OLT-1 to OLT-3 have it; OLT-2 reads rx every hour.
    """
    with app.app_context():
        seed.add_users(now())
        for number in range(1, 7):
            builders.make_olt(f"OLT-{number}")
        builders.make_zte("OLT-Z")
        template = templates.create({"name": "homes", "description": "for <homes>"}, ACTOR, now())
        given = {"name": "Discovery", "kind": "discovery", "oid": "huawei.onu_state", "interval": "15m"}
        master = template_nodes.add_node(template, given, ACTOR, now())
        chained = {"name": "Description", "kind": "get", "oid": "huawei.onu_description", "master_id": master}
        template_nodes.add_node(template, chained, ACTOR, now())
        template_nodes.add_node(template, {**NODE, "key": "rx"}, ACTOR, now())
        applying.apply(template, [1, 2, 3], ACTOR, now())
        workflows.update_node(rx(2).id, {"interval": "1h"}, ACTOR, now())
        db.session.remove()
    yield app


def rx(olt_id: int) -> WorkflowNode:
    query = select(WorkflowNode).join(WorkflowNode.workflow).where(Workflow.olt_id == olt_id, WorkflowNode.key == "rx")
    return db.session.scalars(query).one()


def change(app: Flask, **fields: Any) -> None:
    with app.app_context():
        template_nodes.update_node(3, fields, ACTOR, now())


def row(person: Visitor, css: str, path: str = PAGE) -> str:
    found = element(person.get(path), css)
    return text_of(found)


def intervals(app: Flask, *olts: int) -> list[int | None]:
    with app.app_context():
        return [rx(olt).interval_seconds for olt in olts]


def test_the_page_shows_nodes_as_chains_and_how_each_olt_stands(homes: Flask) -> None:
    person = english(homes, "viewer")
    page = soup(person.get(PAGE))
    assert texts(page, ".nw-node h3") == ["Discovery", "Description", "Power"]
    assert texts(page, ".nw-chain h3") == ["Description"]
    assert "In step" in row(person, "#o1")
    assert "Differs on purpose rx" in row(person, "#o2")
    assert page.select("main form[method=post], main .btn-primary") == []


def test_a_change_waits_and_the_page_says_for_how_many(homes: Flask) -> None:
    change(homes, interval="20m")
    person = english(homes)
    assert "1 change waits for 2 OLTs" in text_of(person.get(PAGE))
    assert "1 change waits for 2 OLTs" in row(person, "#t1", LIST)
    assert "Behind ~ rx Every: 10 min → 20 min" in row(person, "#o1")
    assert intervals(homes, 1, 3) == [600, 600]
    assert [tag["id"] for tag in soup(person.get(f"{PAGE}?stand=behind")).select("tbody tr")] == ["o1", "o3"]
    assert [tag["id"] for tag in soup(person.get(f"{PAGE}?q=olt-2&stand=x")).select("tbody tr")] == ["o2"]


def test_a_template_is_made_given_nodes_and_renamed(homes: Flask) -> None:
    person = english(homes)
    assert complaints(person.post(f"{LIST}new", name="homes")) == {"name": "Another template has this name"}
    answer = person.post(f"{LIST}new", name="offices", description="")
    page = path_of(answer)
    assert "reads nothing yet" in text_of(person.get(page))
    answer = person.post(f"{page}/nodes/new", **NODE, key="", revision="0")
    assert answer.status_code == 303
    answer = person.post(f"{page}/nodes/new?master=4", **NODE, key="again", revision="1")
    assert answer.status_code == 303
    page_ = soup(person.get(page))
    assert texts(page_, ".nw-chain h3") == ["Power"]
    answer = person.post(f"{page}/edit", name="branch offices", description="with a contract", revision="2")
    assert title_of(person.get(path_of(answer))) == "Template branch offices"


def test_a_node_that_breaks_a_rule_is_shown_as_typed(homes: Flask) -> None:
    person = english(homes)
    path = "/workflows/template-nodes/3/edit"
    values = form_values(person.get(path), "form.nw-form") | {"interval": "1m", "name": "Short"}
    answer = person.post(path, **values)
    assert answer.status_code == 422
    assert set(complaints(answer)) == {"override_reason"}
    assert form_values(answer, "form.nw-form")["name"] == "Short"


def test_two_tabs_the_second_sees_the_others_change_and_keeps_what_was_typed(homes: Flask) -> None:
    person, path = english(homes), "/workflows/template-nodes/3/edit"
    first = form_values(person.get(path), "form.nw-form")
    change(homes, interval="20m")
    answer = person.post(path, **first | {"interval": "30m"})
    assert answer.status_code == 409
    assert "Every, as stored now: 20m" in text_of(answer)
    again = form_values(answer, "form.nw-form")
    assert again["interval"] == "30m"
    assert person.post(path, **again).status_code == 303
    assert "Every 30 min" in row(person, "#node-3")
    late = person.post(f"{PAGE}/edit", name="x", revision=first["revision"])
    assert (late.status_code, form_values(late, "form.nw-form")["name"]) == (409, "x")


def test_a_node_is_moved_and_deleted_with_its_chain(homes: Flask) -> None:
    person = english(homes)
    question = person.get("/workflows/template-nodes/1/delete")
    assert "The 1 node chained to it goes too" in text_of(question)
    person.post("/workflows/template-nodes/1/delete", revision=form_values(question)["revision"])
    page = soup(person.get(PAGE))
    assert texts(page, ".nw-node h3") == ["Power"]
    assert "2 changes wait for 3 OLTs" in page.get_text(" ")
    assert person.post("/workflows/template-nodes/1/move", direction="up").status_code == 404
    assert person.post("/workflows/template-nodes/3/move", direction="up").status_code == 303


def test_deleting_says_what_becomes_of_the_olts_nodes(homes: Flask) -> None:
    person = english(homes)
    assert "3 OLTs have it. Its nodes stay there" in text_of(person.get(f"{PAGE}/delete"))
    answer = person.post(f"{PAGE}/delete")
    assert "3 OLTs keep its nodes." in text_of(person.get(path_of(answer)))
    assert intervals(homes, 1, 2) == [600, 3600]
    assert person.get(PAGE).status_code == 404


def test_the_preview_says_per_olt_what_would_happen_and_writes_nothing(homes: Flask) -> None:
    change(homes, interval="20m")
    person = english(homes)
    chosen = form_values(person.get(f"{APPLY}?template=1&olt=1&olt=4"), "form.nw-form")
    assert chosen["template"] == "1"
    seen = person.post(APPLY, template="1", step="preview", olt=["1", "2", "4", "7"])
    assert (
        title_of(seen) == "Apply homes: 2 OLTs change, 3 nodes change, 1 override kept, 1 in step already, 1 left out"
    )
    page = soup(seen)
    texts = {str(tag["id"]): text_of(tag) for tag in page.select("tbody tr")}
    assert list(texts)[0] == "e7"
    assert "whose brand is zte" in texts["e7"]
    assert "~ rx Every: 10 min → 20 min" in texts["e1"]
    assert "+ rx added" in texts["e4"] and "0 % →" in texts["e4"]
    assert "In step already rx" in texts["e2"]
    assert intervals(homes, 1) == [600]
    with homes.app_context():
        assert db.session.get(Olt, 4).workflow is None  # type: ignore[union-attr]


def test_applying_writes_what_the_preview_said_and_names_who_was_left_out(homes: Flask) -> None:
    change(homes, interval="20m")
    person = english(homes)
    seen = person.post(APPLY, template="1", step="preview", olt=["1", "2", "4", "7"])
    revision = form_values(seen, "#do")["revision"]
    answer = person.post(APPLY, template="1", step="apply", olt=["1", "2", "4", "7"], revision=revision)
    assert path_of(answer) == PAGE
    assert (
        missing(
            person.get(PAGE),
            "Applied to 2 OLTs.",
            "1 OLT was left out. OLT-Z: Discovery: huawei.onu_state is not for this OLT",
        )
        == []
    )
    assert intervals(homes, 1, 2, 3, 4) == [1200, 3600, 600, 1200]
    behind = person.post(APPLY, template="1", step="preview", whom="behind")
    assert [tag["id"] for tag in soup(behind).select("tbody tr")] == ["e3"]


def test_a_template_that_changed_after_the_preview_is_shown_anew(homes: Flask) -> None:
    person = english(homes)
    change(homes, interval="20m")
    answer = person.post(APPLY, template="1", step="apply", olt=["1"], revision="1")
    assert answer.status_code == 409
    assert "was changed meanwhile" in text_of(answer)
    assert intervals(homes, 1) == [600]


@pytest.mark.parametrize(
    ("values", "wrong"),
    [({"template": "1"}, "Choose at least one OLT."), ({"template": "99", "olt": "1"}, "Choose a template."),
     ({"olt": ["1", "x", "-4", "9" * 30]}, "Choose a template.")],
)  # fmt: skip
def test_what_is_missing_is_said_and_the_choice_kept(homes: Flask, values: dict[str, Any], wrong: str) -> None:
    person = english(homes)
    answer = person.post(APPLY, step="preview", **values)
    assert answer.status_code == 422
    assert wrong in text_of(answer)
    ticked = [tag["value"] for tag in soup(answer).select("[name=olt][checked]")]
    assert ticked == (["1"] if "olt" in values else [])


def test_one_olt_first_then_the_rest(homes: Flask) -> None:
    change(homes, interval="20m")
    person = english(homes)
    seen = person.post(APPLY, template="1", step="preview", whom="all")
    revision = form_values(seen, "#do")["revision"]
    answer = person.post(APPLY, template="1", step="try", olt=["1", "2", "3"], canary="3", revision=revision)
    page = path_of(answer)
    assert intervals(homes, 1, 3) == [600, 1200]
    assert missing(person.get(page), "homes on OLT-3", "Nothing has run since", "Apply to the other 2") == []
    assert "Being tried on OLT-3" in text_of(person.get(PAGE))
    assert person.post(f"{page}/rest").status_code == 303
    assert intervals(homes, 1, 2, 3) == [1200, 3600, 1200]
    assert "This try is over" in text_of(person.get(page))


def test_a_try_is_taken_back_unless_the_olt_was_changed_by_hand(homes: Flask) -> None:
    person = english(homes)
    change(homes, interval="20m")
    page = path_of(person.post(APPLY, template="1", step="try", olt=["1", "3"]))
    with homes.app_context():
        workflows.update_node(rx(1).id, {"interval": "45m"}, ACTOR, now())
    seen = person.get(page)
    assert "changed by hand" in text_of(seen)
    assert not soup(seen).select("form[action$='/back']")
    answer = person.post(f"{page}/back")
    assert "changed by hand" in text_of(person.get(path_of(answer)))
    person.post(f"{page}/keep")
    page = path_of(person.post(APPLY, template="1", step="try", olt=["3"]))
    person.post(f"{page}/back")
    assert intervals(homes, 1, 3) == [2700, 600]
    with homes.app_context():
        assert [row.status.value for row in db.session.scalars(select(TemplateRollout))] == ["DONE", "TAKEN_BACK"]


def test_a_viewer_looks_and_changes_nothing(homes: Flask) -> None:
    person = english(homes, "viewer")
    for path in (LIST, PAGE):
        assert person.get(path).status_code == 200
    for path in (APPLY, f"{LIST}new", f"{PAGE}/edit", f"{PAGE}/delete", f"{PAGE}/nodes/new"):
        assert person.get(path).status_code == 403
        assert person.post(path).status_code == 403


def test_what_is_gone_is_not_found(homes: Flask) -> None:
    person = english(homes)
    gone = ("9", "9/edit", "9/delete", "9/nodes/new", "1/nodes/new?master=9", "tries/9")
    for path in (*(f"{LIST}{part}" for part in gone), "/workflows/template-nodes/9/edit"):
        assert person.get(path).status_code == 404


def test_pages_cost_as_many_statements_for_one_olt_as_for_many(homes: Flask) -> None:
    person = english(homes)
    change(homes, interval="20m")
    tried = path_of(person.post(APPLY, template="1", step="try", olt=["1", "3"]))
    paths = (LIST, PAGE, APPLY, tried)
    few = [statements(homes, person, path) for path in paths]
    assert max(few) <= 12
    with homes.app_context():
        assert db.session.get(WorkflowTemplate, 1) is not None
        applying.apply(1, [4, 5, 6], ACTOR, now())
    assert [statements(homes, person, path) for path in paths] == few
