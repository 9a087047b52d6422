"""The page of templates: what hangs on each, switching one, and what workflows say of a disabled one."""

import pytest
from bs4 import Tag
from flask import Flask

from portal import clock
from portal.domain.statuses import NodeKind
from portal.extensions import db
from portal.tables import AuditLog, Olt, TemplateNode, Workflow, WorkflowNode, WorkflowTemplate
from testing import builders, seed
from testing.pages import Visitor, path_of, soup, text_of
from testing.web import english, statements, update_rows, written

PAGE = "/workflows/templates/"


@pytest.fixture
def residential(app: Flask) -> Flask:
    """Template "Residential" (1) with one node; OLT-A and OLT-B have it, OLT-A a node of its own besides; OLT-C not."""
    with app.app_context():
        seed.add_users(clock.now())
        nodes = builders.make_three()
        builders.make_node(nodes[0].workflow.olt, "own", name="Own")
        template = WorkflowTemplate(name="Residential", description="for <homes>")
        db.session.add(template)
        db.session.flush()
        made = TemplateNode(template_id=template.id, key="discovery", name="discovery", kind=NodeKind.DISCOVERY,
                            oid="huawei.onu_state", interval_seconds=900, priority=90)  # fmt: skip
        db.session.add(made)
        db.session.flush()
        for node in nodes[:2]:
            node.template_node_id, node.workflow.template_id = made.id, template.id
        db.session.commit()
    return app


def row(person: Visitor) -> Tag:
    found = soup(person.get(PAGE)).select_one("#t1")
    assert found is not None
    return found


def test_a_template_shows_its_nodes_and_the_olts_that_have_it(residential: Flask) -> None:
    text = " ".join(row(english(residential, "viewer")).get_text(" ").split())
    for part in ("Residential", "for <homes>", "Template enabled", "1 node", "2 OLTs"):
        assert part in text


def test_a_deleted_olt_is_not_counted(residential: Flask) -> None:
    update_rows(residential, Olt, Olt.id == 2, deleted_at=clock.now(), enabled=False)
    assert row(english(residential)).select_one(".c-d .fx-phone").get_text() == "1 OLT"


def test_disabling_names_how_many_olts_it_concerns(residential: Flask) -> None:
    person = english(residential)
    form = row(person).select_one("form")
    assert str(form["data-confirm"]).startswith("Disable template Residential on 2 OLTs?")
    answer = person.post(str(form["action"]), enabled="0")
    assert (answer.status_code, path_of(answer.headers["Location"])) == (303, PAGE)
    with residential.app_context():
        assert db.session.get(WorkflowTemplate, 1).enabled is False  # type: ignore[union-attr]
        assert db.session.query(AuditLog).filter_by(action="template.disable", actor="operator").count() == 1
    assert "Template disabled" in row(person).get_text(" ")
    form = row(person).select_one("form")
    person.post(str(form["action"]), enabled="1")
    assert "Template enabled" in row(person).get_text(" ")


def test_a_viewer_looks_and_switches_nothing(residential: Flask) -> None:
    person = english(residential, "viewer")
    assert row(person).select("form") == []
    assert person.post(f"{PAGE}1/enabled", enabled="0").status_code == 403


def test_a_template_that_is_gone_is_not_found(residential: Flask) -> None:
    person = english(residential)
    person.get(PAGE)
    assert person.post(f"{PAGE}9/enabled", enabled="0").status_code == 404


def test_without_templates_the_page_says_how_one_is_made(app: Flask) -> None:
    seed.seed(app, "empty")
    assert "flask import" in text_of(english(app).get(PAGE))


def test_the_workflows_lead_to_templates_and_templates_to_their_workflows(residential: Flask) -> None:
    person = english(residential, "viewer")
    assert soup(person.get("/workflows/")).select_one(f"main a[href='{PAGE}']")
    listed = soup(person.get(str(row(person).select_one(".c-d a")["href"])))
    assert [tag.get_text() for tag in listed.select("tbody td.c-a a")] == ["OLT-A", "OLT-B"]
    assert "Template: Residential" in listed.get_text(" ")
    for nonsense in ("x", "99", "9" * 30):
        assert person.get(f"/workflows/?template={nonsense}").status_code == 200


def test_the_rail_marks_workflows_while_templates_are_looked_at(residential: Flask) -> None:
    marked = soup(english(residential).get(PAGE)).select(".fx-rail > nav [aria-current=page]")
    assert [str(tag["href"]) for tag in marked] == ["/workflows/"]


def test_the_board_says_that_the_template_is_disabled_and_greys_its_nodes_only(residential: Flask) -> None:
    person = english(residential)
    person.get(PAGE)
    person.post(f"{PAGE}1/enabled", enabled="0")
    page = soup(person.get("/olts/1/workflow"))
    assert "The template Residential is disabled" in page.get_text(" ")
    off = {str(card["id"]): "is-off" in card["class"] for card in page.select("article.nw-node")}
    with residential.app_context():
        own = db.session.query(WorkflowNode).filter_by(key="own").one().id
    assert off == {"node-1": True, f"node-{own}": False}
    assert "Template disabled" in text_of(person.get("/olts/1"))
    assert "The template Residential is disabled" not in text_of(person.get("/olts/3/workflow"))


def test_the_page_costs_the_same_for_one_template_and_for_fifty(residential: Flask) -> None:
    person = english(residential)
    few = statements(residential, person, PAGE)
    with written(residential) as session:
        for olt in builders.more_olts(session, 50):
            session.add(Workflow(olt=olt, template=WorkflowTemplate(name=f"T{olt.name}")))
    assert statements(residential, person, PAGE) == few
