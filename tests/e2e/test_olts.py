"""OLTs, workflows and ONUs in a real browser: what lives, what must not get lost, keyboard, life without scripts."""

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import select, update

from portal import queueing
from portal.domain.statuses import OltState
from portal.extensions import db
from portal.tables import Execution, Olt, Onu, Probe, ProbeStatus
from tests.e2e.conftest import Portal, Visit

pytestmark = pytest.mark.e2e


def test_the_list_follows_the_state_and_keeps_what_is_being_typed(portal: Portal, visit: Visit) -> None:
    page = visit("/olts/", language="en")
    page.locator("[data-search]").press_sequentially("lim")
    with portal.writing() as session:
        session.execute(update(Olt).where(Olt.id == 1).values(state=OltState.UNREACHABLE))
    expect(page.locator("h1")).to_have_text("1 OLT does not answer")
    expect(page.locator("#olt-1")).to_contain_text("Unreachable")
    expect(page.locator("[data-search]")).to_have_value("lim")
    expect(page.locator("[data-search]")).to_be_focused()
    with portal.writing() as session:
        session.execute(update(Olt).where(Olt.id == 1).values(state=OltState.UP))
    expect(page).to_have_title("2 OLTs answer · Facho Deluxe")


def test_a_row_opens_by_a_click_anywhere(visit: Visit) -> None:
    page = visit("/olts/")
    page.locator("#olt-1 td").nth(2).click()
    expect(page).to_have_url(re.compile("/olts/1$"))


def test_the_connection_of_an_unsaved_olt_is_tested_and_its_model_taken(
    portal: Portal, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queueing, "enqueue_task", lambda *_arguments, **_options: None)
    page = visit("/olts/new", language="en")
    page.click("text=Test connection")
    expect(page.locator("#probe")).to_contain_text("cannot be tested yet")
    page.fill("#f-address", "10.44.0.1")
    page.click("text=Test connection")
    expect(page.locator("#probe")).to_contain_text("Asking 10.44.0.1:161")
    result = {"sysdescr": "<i>MA5800</i>", "sysobjectid": "1.3.6.1.4.1.2011.2.1", "uptime_s": 90, "rtt_ms": 3,
              "brand": "huawei", "model": "MA5800"}  # fmt: skip
    with portal.writing() as session:
        session.execute(update(Probe).values(status=ProbeStatus.SUCCESS, result=result, finished_at=datetime.now(UTC)))
    expect(page.locator("#probe")).to_contain_text("<i>MA5800</i>")
    page.locator("#probe button").click()
    expect(page.locator("#f-device")).to_have_value("huawei/MA5800")
    expect(page.locator("#f-address")).to_have_value("10.44.0.1")


def active(portal: Portal, node_id: int) -> list[int]:
    with portal.app.app_context():
        query = select(Execution.id).where(Execution.node_id == node_id, Execution.status.in_(("PENDING", "RUNNING")))
        return list(db.session.scalars(query))


def test_run_now_shows_the_waiting_execution_at_once_and_only_one(portal: Portal, visit: Visit) -> None:
    master = 5  # the first master of the second OLT
    with portal.writing() as session:
        session.execute(update(Execution).where(Execution.node_id == master).values(status="SUCCESS"))
    page = visit("/olts/2/workflow", language="en")
    page.click(f"#run-{master}")
    card = page.locator(f"#node-{master}")
    expect(card).to_contain_text("Pending")
    page.click(f"#run-{master}")
    expect(card).to_contain_text("Pending")
    assert len(active(portal, master)) == 1
    expect(page).to_have_url(re.compile("/olts/2/workflow$"))


def chain(page: Page) -> list[str]:
    return page.locator(".nw-chain h2").all_inner_texts()


def test_a_chained_node_is_moved_by_keyboard_and_keeps_the_focus(portal: Portal, visit: Visit) -> None:
    page = visit("/olts/1/workflow", language="en")
    first, second = chain(page)
    button = page.locator(".nw-chain button[id^=down-]").first
    identity = button.get_attribute("id")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".nw-chain h2").first).to_have_text(second)
    node = int(str(identity).removeprefix("down-"))
    page.locator(f"#up-{node}").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".nw-chain h2").first).to_have_text(first)


def test_forms_work_without_javascript(portal: Portal, visit: Visit) -> None:
    page = visit("/olts/2/edit", java_script_enabled=False)
    page.fill("#f-site", "Urubamba")
    page.click(".nw-send .btn-primary")
    expect(page).to_have_url(re.compile("/olts/2$"))
    expect(page.locator("main")).to_contain_text("Urubamba")
    page.goto(portal.url + "/olts/1/workflow")
    first, second = chain(page)
    page.locator(".nw-chain button[id^=down-]").first.click()
    expect(page.locator(".nw-chain h2")).to_have_text([second, first])
    page.locator(".nw-chain button[id^=down-]").first.click()
    expect(page.locator(".nw-chain h2")).to_have_text([first, second])


def test_the_form_of_a_credential_shows_what_its_version_needs(visit: Visit) -> None:
    page = visit("/credentials/new")
    expect(page.locator("#f-community")).to_be_visible()
    expect(page.locator("#f-username")).to_be_hidden()
    page.select_option("#f-version", "3")
    expect(page.locator("#f-community")).to_be_hidden()
    expect(page.locator("#f-username")).to_be_visible()


def test_a_master_is_added_and_stands_on_the_board(visit: Visit) -> None:
    page = visit("/olts/1/workflow/nodes/new")
    page.locator("#f-oid").fill("1.3.6.1.2.1.1.3.0")
    page.locator("#f-name").fill("Tiempo")
    page.locator("#f-interval").fill("10m")
    page.locator("#f-kind").select_option("walk")
    page.click(".nw-send .btn-primary")
    expect(page.locator(".nw-lane h2", has_text="Tiempo")).to_be_visible()


def test_the_board_lists_lanes_side_by_side_and_beneath_each_other_on_a_phone(portal: Portal, visit: Visit) -> None:
    wide = visit("/olts/2/workflow").locator(".nw-lane")
    boxes = [wide.nth(n).bounding_box() for n in range(2)]
    assert boxes[0] and boxes[1] and boxes[0]["y"] == boxes[1]["y"]  # noqa: PT018
    narrow = visit("/olts/2/workflow", width=390).locator(".nw-lane")
    boxes = [narrow.nth(n).bounding_box() for n in range(2)]
    assert boxes[0] and boxes[1] and boxes[0]["y"] < boxes[1]["y"]  # noqa: PT018


def test_an_onu_that_goes_dark_is_seen_without_reloading(portal: Portal, visit: Visit) -> None:
    page = visit("/onus/3", language="en")
    expect(page.locator(".nw-figures")).to_contain_text("Online")
    with portal.writing() as session:
        session.execute(update(Onu).where(Onu.id == 3).values(online=False))
    expect(page.locator(".nw-figures")).to_contain_text("Offline", timeout=9_000)  # asked each 5 s
