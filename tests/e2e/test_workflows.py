"""The workflow editor in a real browser: chains built by pointer and by keyboard, two tabs at once, what-if, undo."""

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Locator, Page, expect

from portal.extensions import db
from portal.services.network import workflows
from portal.services.network.trees import tree_of
from portal.tables import Olt, Workflow, WorkflowNode
from testing.builders import more_olts
from tests.e2e.conftest import Portal, Visit

pytestmark = pytest.mark.e2e

OID = "1.3.6.1.2.1.1.3.0"


class Bench:
    """An OLT with masters alfa (a, b) and beta (c), both of priority 40; solo."""

    def __init__(self, portal: Portal) -> None:
        self.portal = portal
        now = datetime.now(UTC)
        with portal.writing() as session:
            first = session.get_one(Olt, 2)
            same = {"brand_id": first.brand_id, "model_id": first.model_id}
            self.olt_id = more_olts(session, 1, "OLT-MESA", **same)[0].id
        self.ids: dict[str, int] = {}
        for key, master in (("alfa", ""), ("a", "alfa"), ("b", "alfa"), ("beta", ""), ("c", "beta"), ("solo", "")):
            fields = {"key": key, "name": key.title(), "kind": "get", "oid": OID}
            fields |= {"master_id": str(self.ids[master])} if master else {"interval": "15m"}
            with portal.app.app_context():
                self.ids[key] = workflows.add_node(self.olt_id, fields, "seed", now)

    @property
    def path(self) -> str:
        return f"/olts/{self.olt_id}/workflow"

    def shape(self) -> dict[str, list[str]]:
        """Master → its chain, as stored."""
        with self.portal.app.app_context():
            workflow = db.session.query(Workflow).filter_by(olt_id=self.olt_id).one()
            return {master.key: [node.key for node in master.chain] for master in tree_of(workflow.nodes)}

    def node(self, key: str) -> WorkflowNode:
        with self.portal.app.app_context():
            node = db.session.get_one(WorkflowNode, self.ids[key])
            db.session.expunge(node)
            return node

    def grip(self, page: Page, key: str) -> Locator:
        return page.locator(f"#grip-{self.ids[key]}")

    def cards(self, page: Page, master: str) -> Locator:
        """Names of the chain on the board."""
        return page.locator(f"#chain-{self.ids[master]} h2")


@pytest.fixture
def bench(portal: Portal) -> Bench:
    return Bench(portal)


def drag(page: Page, grip: Locator, to: Locator, below: int = 8) -> None:
    """As a hand does: press, move in steps, let go."""
    start = grip.bounding_box()
    assert start is not None
    page.mouse.move(start["x"] + 8, start["y"] + 8)
    page.mouse.down()
    page.mouse.move(start["x"] + 24, start["y"] + 24, steps=4)
    end = to.bounding_box()  # chains without a card make room once something is dragged
    assert end is not None
    page.mouse.move(end["x"] + 60, end["y"] + below, steps=16)
    page.mouse.move(end["x"] + 62, end["y"] + below + 2, steps=3)
    page.mouse.up()


def test_a_chain_is_built_by_pointer_within_across_and_from_a_master(bench: Bench, visit: Visit) -> None:
    page = visit(bench.path, language="en")
    drag(page, bench.grip(page, "c"), page.locator(f"#link-{bench.ids['b']}"), 20)
    expect(page.locator("#undo")).to_contain_text("node C was moved")
    expect(bench.cards(page, "beta")).to_have_count(0)
    expect(bench.cards(page, "alfa")).to_have_count(3)
    drag(page, bench.grip(page, "solo"), page.locator(f"#chain-{bench.ids['beta']}"), 20)
    expect(page.locator("#undo")).to_contain_text("node Solo was moved")
    expect(bench.cards(page, "beta")).to_have_text(["Solo"])
    expect(page.locator("#lanes > .nw-lane")).to_have_count(2)
    shape = bench.shape()
    assert (sorted(shape["alfa"]), shape["beta"]) == (["a", "b", "c"], ["solo"])
    assert bench.node("solo").next_run_at is None
    page.click("#undo")
    expect(page.locator("#lanes > .nw-lane")).to_have_count(3)
    assert bench.node("solo").next_run_at is not None


def test_masters_change_places_by_pointer_along_their_heads(bench: Bench, visit: Visit) -> None:
    page = visit(bench.path, language="en")
    drag(page, bench.grip(page, "solo"), page.locator(f"#node-{bench.ids['alfa']}"), 20)
    expect(page.locator("#undo")).to_contain_text("node Solo was moved")
    expect(page.locator(".nw-lane > .nw-node h2")).to_have_text(["Solo", "Alfa", "Beta"])
    assert list(bench.shape()) == ["solo", "alfa", "beta"]


def test_a_card_that_may_not_stand_there_goes_back_and_the_reason_is_said(bench: Bench, visit: Visit) -> None:
    page = visit(bench.path, language="en")
    expect(bench.cards(page, "alfa")).to_have_text(["A", "B"])
    with bench.portal.app.app_context():  # another tab, while the pointer is on its way
        drag_from = bench.grip(page, "b").bounding_box()
        assert drag_from is not None
        page.mouse.move(drag_from["x"] + 8, drag_from["y"] + 8)
        page.mouse.down()
        page.mouse.move(drag_from["x"] + 40, drag_from["y"] + 20, steps=6)
        workflows.update_node(bench.ids["solo"], {"name": "Other"}, "ana", datetime.now(UTC))
    end = page.locator(f"#link-{bench.ids['c']}").bounding_box()
    assert end is not None
    page.mouse.move(end["x"] + 60, end["y"] + 20, steps=16)
    page.mouse.up()
    expect(page.locator("#said")).to_contain_text("changed by somebody else meanwhile")
    expect(bench.cards(page, "alfa")).to_have_text(["A", "B"])
    expect(bench.cards(page, "beta")).to_have_text(["C"])
    assert bench.shape()["alfa"] == ["a", "b"]


def test_a_chain_is_built_by_keyboard_and_each_step_is_spoken(bench: Bench, visit: Visit) -> None:
    page = visit(bench.path, language="en")
    spoken = page.locator("#spoken")
    bench.grip(page, "b").focus()
    page.keyboard.press("Space")
    expect(spoken).to_contain_text("B is picked up")
    page.keyboard.press("ArrowUp")
    expect(spoken).to_have_text("B: place 1 of 2 in the chain of Alfa.")
    page.keyboard.press("ArrowRight")
    expect(spoken).to_have_text("B: place 1 of 2 in the chain of Beta.")
    page.keyboard.press("Space")
    expect(bench.cards(page, "beta")).to_have_text(["B", "C"])
    expect(bench.grip(page, "b")).to_be_focused()
    expect(page.locator("#undo")).to_contain_text("node B was moved")
    assert bench.shape() == {"alfa": ["a"], "beta": ["b", "c"], "solo": []}
    bench.grip(page, "solo").focus()
    for key in ("Space", "ArrowDown", "ArrowUp", "ArrowDown", "Space"):  # into beta's chain: the lane before it
        page.keyboard.press(key)
    expect(page.locator("#undo")).to_contain_text("node Solo was moved")
    expect(bench.cards(page, "beta")).to_have_text(["B", "C", "Solo"])
    assert bench.shape() == {"alfa": ["a"], "beta": ["b", "c", "solo"]}


def test_masters_change_places_by_keyboard_and_escape_puts_back(bench: Bench, visit: Visit) -> None:
    page = visit(bench.path, language="en")
    names = page.locator(".nw-lane > .nw-node h2")
    bench.grip(page, "beta").focus()
    for key in ("Space", "ArrowLeft", "Escape"):
        page.keyboard.press(key)
    expect(page.locator("#spoken")).to_have_text("Beta is where it was.")
    expect(names).to_have_text(["Alfa", "Beta", "Solo"])
    for key in ("Space", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    expect(page.locator("#spoken")).to_have_text("It goes no further that way.")
    page.keyboard.press("Space")
    expect(page.locator("#undo")).to_contain_text("node Beta was moved")
    expect(names).to_have_text(["Beta", "Alfa", "Solo"])
    assert list(bench.shape()) == ["beta", "alfa", "solo"]


def test_a_picked_card_is_put_back_when_the_focus_goes_elsewhere_and_the_board_lives_on(
    bench: Bench, visit: Visit
) -> None:
    page = visit(bench.path, language="en")
    bench.grip(page, "b").focus()
    for key in ("Space", "ArrowUp", "Tab"):
        page.keyboard.press(key)
    expect(bench.cards(page, "alfa")).to_have_text(["A", "B"])
    with bench.portal.app.app_context():
        workflows.update_node(bench.ids["a"], {"name": "Renamed"}, "ana", datetime.now(UTC))
    expect(bench.cards(page, "alfa")).to_have_text(["Renamed", "B"])


def open_form(page: Page, name: str) -> Locator:
    page.locator("#board h2 a", has_text=re.compile(f"^{name}$")).click()
    panel = page.locator("#panel")
    expect(panel.locator("#f-name")).to_have_value(name)
    return panel


def test_an_edit_conflict_in_two_tabs_shows_both_sides_and_is_resolved(bench: Bench, visit: Visit) -> None:
    first, second = visit(bench.path, language="en"), visit(bench.path, username="operator", language="en")
    mine, theirs = open_form(first, "Alfa"), open_form(second, "Alfa")
    mine.locator("#f-interval").fill("20m")
    mine.locator("#f-time_limit").fill("77")
    theirs.locator("#f-interval").fill("30m")
    theirs.locator("#f-max_retries").fill("1")
    second.click("#panel .nw-send .btn-primary")
    expect(second.locator("#said")).to_contain_text("Node Alfa was saved")
    first.click("#panel .nw-send .btn-primary")
    conflict = mine.locator(".wb-conflict")
    expect(conflict).to_contain_text("operator changed the same meanwhile")
    expect(mine.locator("#f-interval")).to_have_value("20m")
    expect(mine.locator("#f-max_retries")).to_have_value("1")
    conflict.locator("button", has_text="Take theirs").click()
    expect(mine.locator("#f-interval")).to_have_value("30m")
    first.click("#panel .nw-send .btn-primary")
    expect(first.locator("#said")).to_contain_text("Node Alfa was saved")
    node = bench.node("alfa")
    assert (node.interval_seconds, node.time_limit, node.max_retries) == (1800, 77, 1)


def test_what_is_typed_in_the_panel_outlives_the_refreshing_board_and_is_asked_for_before_it_goes(
    bench: Bench, visit: Visit
) -> None:
    page = visit(bench.path, language="en")
    panel = open_form(page, "Alfa")
    panel.locator("#f-name").fill("Typed")
    with bench.portal.app.app_context():
        workflows.update_node(bench.ids["a"], {"name": "Renamed"}, "ana", datetime.now(UTC))
    expect(bench.cards(page, "alfa").first).to_have_text("Renamed")
    expect(panel.locator("#f-name")).to_have_value("Typed")
    page.locator("#board h2 a", has_text="Beta").click()
    expect(page.locator("dialog#confirm")).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel.locator("#f-name")).to_have_value("Typed")
    page.locator("#board h2 a", has_text="Beta").click()
    page.locator("dialog#confirm [data-yes]").click()
    expect(panel.locator("#f-name")).to_have_value("Beta")


def test_what_if_warns_while_typing_and_the_saved_plan_agrees(bench: Bench, visit: Visit, portal: Portal) -> None:
    page = visit(bench.path, language="en")
    panel = open_form(page, "Alfa")
    what_if = panel.locator("#what_if")
    expect(what_if).to_contain_text("of the hour")
    panel.locator("#f-interval").fill("60s")
    panel.locator("#f-interval").press("Tab")
    expect(what_if).to_contain_text("4 → 60")
    promised = re.search(r"→ (\d+\W?%)", what_if.inner_text())
    assert promised is not None
    page.click("#panel .nw-send .btn-primary")
    expect(page.locator("#said")).to_contain_text("Node Alfa was saved")
    page.goto(f"{portal.url}/olts/{bench.olt_id}")
    expect(page.locator("#fit_live, main").first).to_contain_text(f"busy {promised[1]} of the hour")


def test_the_oid_is_chosen_from_the_searchable_catalogue(visit: Visit) -> None:
    page = visit("/olts/2/workflow/nodes/new", language="en")
    oid = page.locator("#f-oid")
    expect(oid).to_have_role("combobox")
    oid.press_sequentially("rx")
    options = page.locator(".wb-options [role=option]:visible")
    expect(options.first).to_contain_text("rx")
    wanted = options.first.get_attribute("data-value")
    oid.press("ArrowDown")
    oid.press("Enter")
    expect(oid).to_have_value(str(wanted))
    expect(page.locator(".wb-options")).to_be_hidden()


def test_a_phone_gets_the_form_as_a_page(bench: Bench, visit: Visit) -> None:
    page = visit(bench.path, width=390, language="en")
    page.locator("#board h2 a", has_text="Alfa").click()
    expect(page).to_have_url(re.compile(f"/workflow-nodes/{bench.ids['alfa']}/edit$"))
    page.locator("#f-name").fill("Phone")
    page.click(".nw-send .btn-primary")
    expect(page.locator("#board h2", has_text="Phone")).to_be_visible()
