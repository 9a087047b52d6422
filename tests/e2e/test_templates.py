"""Templates in a browser: one applied to fifty OLTs, and the wizard of a new task from its first step to its last."""

import re
from datetime import UTC, datetime
from functools import partial

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import func, select

from portal.extensions import db
from portal.services.network import olts, template_nodes, templates
from portal.tables import Credential, Olt, Workflow, WorkflowNode, WorkflowTemplate
from tests.e2e.conftest import Portal, Visit

pytestmark = pytest.mark.e2e

MANY = 50
PATIENCE = 30_000  # ms, with a busy machine: how long it takes is not what is tested here


@pytest.fixture
def fifty(portal: Portal) -> int:
    """OLT-T-00 to OLT-T-49 without a workflow, and the template Homes of two masters; its id."""
    portal.restore("fifty", partial(make_fifty, portal), onto="few")
    with portal.app.app_context():
        return db.session.scalars(select(WorkflowTemplate.id)).one()


def make_fifty(portal: Portal) -> None:
    now = datetime.now(UTC)
    with portal.app.app_context():
        credential = db.session.scalars(select(Credential.name)).first()
        for number in range(MANY):
            fields = {"name": f"OLT-T-{number:02d}", "address": f"10.78.0.{number + 1}", "brand": "huawei"}
            olts.create({**fields, "credential": credential}, "e2e", now)
        template = templates.create({"name": "Homes"}, "e2e", now)
        for key, kind, oid in (("st", "discovery", "huawei.onu_state"), ("px", "get", "huawei.onu_rx_power")):
            fields = {"key": key, "name": key, "kind": kind, "oid": oid, "interval": "15m"}
            template_nodes.add_node(template, fields, "e2e", now)


def having(portal: Portal, key: str) -> int:
    """How many OLTs have a node of this key."""
    with portal.app.app_context():
        query = select(func.count()).select_from(WorkflowNode).join(Workflow).join(Olt, Olt.id == Workflow.olt_id)
        return db.session.scalar(query.where(WorkflowNode.key == key, Olt.name.like("OLT-T-%"))) or 0


def choose(page: Page, words: str) -> None:
    """All OLTs that the search shows go to the list of the chosen."""
    page.locator("[data-find]").fill(words)
    page.locator("[data-all]").click()


def test_a_template_is_applied_to_fifty_olts_after_its_preview(portal: Portal, visit: Visit, fifty: int) -> None:
    page = visit(f"/workflows/templates/{fifty}", username="operator", language="en")
    page.get_by_role("link", name="Apply to OLTs").first.click()
    choose(page, "olt-t HUAWEI")
    expect(page.locator("[data-to] li")).to_have_count(MANY)
    page.get_by_role("button", name="See what it does").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("50 OLTs change, 2 nodes change", timeout=PATIENCE)
    assert having(portal, "px") == 0
    page.get_by_role("button", name="Apply to 50 OLTs").click()
    expect(page.get_by_text("Applied to 50 OLTs.")).to_be_visible(timeout=PATIENCE)
    assert having(portal, "px") == MANY
    expect(page.locator("tbody tr")).to_have_count(MANY)


def test_lists_of_olts_work_by_keyboard(portal: Portal, visit: Visit, fifty: int) -> None:
    page = visit(f"/workflows/templates/apply?template={fifty}", username="operator", language="en")
    page.locator("[data-find]").fill("olt-t-0")
    first = page.locator("[data-from] li:visible input").first
    first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Space")
    names = page.locator("[data-to] b")
    expect(names).to_have_text(["OLT-T-00", "OLT-T-01"])
    page.locator("[data-to] input").first.focus()
    page.keyboard.press("Space")
    expect(names).to_have_text(["OLT-T-01"])
    expect(page.locator("[data-from] li:visible b").first).to_have_text("OLT-T-00")


def test_the_wizard_makes_a_task_on_many_olts(portal: Portal, visit: Visit, fifty: int) -> None:
    page = visit("/workflows/new-task", username="operator", language="en")
    page.get_by_label("Huawei").check()
    page.get_by_role("button", name="Next", exact=True).last.click()
    choose(page, "olt-t-1")
    expect(page.locator("[data-to] li")).to_have_count(10)
    page.get_by_role("button", name="Next", exact=True).last.click()
    page.locator("[data-find]").fill("onu_rx")
    page.locator("input[value='huawei.onu_rx_power']").check()
    page.get_by_role("button", name="Next", exact=True).last.click()
    page.locator("#f-interval").fill("20m")
    expect(page.locator("#runs")).to_contain_text("3 runs an hour")
    page.locator("#f-interval").fill("")
    page.locator("#f-cron").fill("0 6 * * *")
    expect(page.locator("#runs")).to_contain_text(re.compile("At 06:00, each day"))
    expect(page.locator("#runs li")).to_have_count(5)
    page.get_by_role("button", name="Next", exact=True).last.click()
    page.locator("#f-name").fill("Night")
    page.get_by_role("button", name="Back").click()
    expect(page.locator("#f-cron")).to_have_value("0 6 * * *")
    page.go_back()
    page.go_forward()
    page.get_by_role("button", name="Next", exact=True).last.click()
    expect(page.locator("#f-name")).to_have_value("Night")
    page.get_by_role("button", name="Next", exact=True).last.click()
    page.get_by_role("button", name="Make it on 10 OLTs").click()
    expect(page.get_by_text("The task was made on 10 OLTs.")).to_be_visible(timeout=PATIENCE)
    assert having(portal, "night") == 10


def test_the_wizard_fits_a_phone(visit: Visit, fifty: int) -> None:
    steps = ("brand", "olts", "what", "when", "limits", "review")
    page = visit("/workflows/new-task", username="operator", width=390)
    address = page.url + "?brand=huawei&olts=2-9&oid=huawei.onu_rx_power&name=Phone&step="
    for step in steps:
        page.goto(address + step)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), step


def test_without_scripts_a_template_is_applied_and_a_task_made(portal: Portal, visit: Visit, fifty: int) -> None:
    page = visit(f"/workflows/templates/apply?template={fifty}", username="operator", language="en",
                 java_script_enabled=False)  # fmt: skip
    page.get_by_label("OLT-T-49").check()
    page.get_by_role("button", name="See what it does").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Apply Homes")
    page.goto(portal.url + "/workflows/new-task")
    page.get_by_label("Huawei").check()
    page.get_by_role("button", name="Next", exact=True).last.click()
    page.get_by_label("OLT-T-48").check()
    page.get_by_role("button", name="Next", exact=True).last.click()
    page.locator("input[value='huawei.onu_rx_power']").check()
    page.get_by_role("button", name="Next", exact=True).last.click()
    page.get_by_role("button", name="See the next runs").click()
    expect(page.locator("#runs li")).to_have_count(5)
    page.get_by_role("button", name="Next", exact=True).last.click()
    page.locator("#f-name").fill("Quiet")
    page.get_by_role("button", name="Next", exact=True).last.click()
    page.get_by_role("button", name="Make it on 1 OLT").click()
    expect(page.get_by_text("The task was made on 1 OLT.")).to_be_visible()
    assert having(portal, "quiet") == 1
