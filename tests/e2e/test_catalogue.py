"""The engineer's tools in a real browser: a preview that follows the typing, and a test of a node that is awaited."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import select, update

from portal import queueing
from portal.tables import Oid, PonPort, Trial, TrialStatus
from tests.e2e.conftest import Portal, Visit

pytestmark = pytest.mark.e2e

PORT = 4194312448
POWER = 3  # onu_rx_power of Huawei


def test_the_preview_follows_the_typing_and_keeps_the_focus(visit: Visit) -> None:
    page = visit(f"/catalogue/oids/{POWER}", username="viewer", language="en")
    page.locator("#f-raw").press_sequentially("-2254")
    expect(page.locator("#preview")).to_contain_text("−22.54")
    page.locator("#f-index").press_sequentially(f"{PORT}.7")
    expect(page.locator("#preview")).to_contain_text("0/1/1:7")
    page.select_option("#f-olt", label="OLT-CUSCO-02")
    expect(page.locator("#preview")).to_contain_text("3 agree, 0 contradict")
    page.locator("#f-place").press_sequentially("0/1/2")
    expect(page.locator("#preview")).to_contain_text(str(PORT + 256))
    expect(page.locator("#f-place")).to_be_focused()


def test_the_edit_form_previews_what_is_not_saved(portal: Portal, visit: Visit) -> None:
    asked: list[str] = []
    page = visit(f"/catalogue/oids/{POWER}/edit", language="en")
    page.on("request", lambda request: asked.append(request.url))
    page.locator("#f-raw").press_sequentially("-30")
    expect(page.locator("#preview")).to_contain_text("−0.3")
    page.fill("#f-scale", "0.5")
    expect(page.locator("#preview")).to_contain_text("−15")
    page.fill("#f-scale", "x")
    expect(page.locator("#preview")).to_contain_text("Must be a number")
    assert [url for url in asked if "csrf_token" in url] == []
    with portal.writing() as session:
        assert session.scalar(select(Oid.scale).where(Oid.id == POWER)) == 0.01


def test_an_edit_and_the_way_back(portal: Portal, visit: Visit) -> None:
    page = visit(f"/catalogue/oids/{POWER}/edit", language="en")
    page.fill("#f-dead_band", "0.7")
    page.click(".nw-send .btn-primary")
    expect(page.locator(".fx-head")).to_contain_text("Changed here")
    page.click("text=Back to what is shipped")
    page.click("#confirm [data-yes]")
    expect(page.locator(".fx-head")).not_to_contain_text("Changed here")


def test_the_preview_works_without_javascript(portal: Portal, visit: Visit) -> None:
    page = visit(f"/catalogue/oids/{POWER}", java_script_enabled=False, language="en")
    page.fill("#f-raw", "-2254")
    page.click("noscript button, form#try button")
    expect(page.locator("#preview")).to_contain_text("−22.54")


def answered(portal: Portal, **result: Any) -> None:
    row = {"index": f"{PORT}.1", "at": [0, 1, 1, 1], "raw": "2", "value": "offline", "reason": "", "online": False}
    column = {"metric": "onu_state", "oid": "1.3.6.1", "unit": "", "rows": 1, "missing": 0, "complete": True,
              "shown": [row]}  # fmt: skip
    told = {"rows": 1, "pdus": 2, "timeouts": 0, "ms": 41, "complete": True, "cut": False, "columns": [column]}
    with portal.writing() as session:
        session.execute(
            update(Trial).where(Trial.status == TrialStatus.PENDING)
            .values(status=TrialStatus.SUCCESS, result=told | result, finished_at=datetime.now(UTC))
        )  # fmt: skip


@pytest.mark.parametrize("path", ["/olts/2/workflow", "/olts/2"])
def test_a_node_is_tested_and_its_answer_awaited(
    portal: Portal, visit: Visit, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(queueing, "enqueue_task", lambda *_words, **_options: None)
    page = visit(path, language="en")
    page.locator("button[id^=try-]").first.click()
    expect(page.locator("#trial")).to_contain_text("waits for its turn")
    expect(page.locator("#trial")).to_be_in_viewport()
    answered(portal)
    expect(page.locator("#trial")).to_contain_text("0/1/1:1")
    expect(page.locator("#trial")).to_contain_text("nothing stored")
    expect(page.locator("#trial")).not_to_have_attribute("hx-trigger", "every 1s")


def test_an_unsaved_oid_is_tested_and_the_typing_survives_the_pages_refresh(
    portal: Portal, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queueing, "enqueue_task", lambda *_words, **_options: None)
    page = visit("/olts/2", language="en")
    page.fill("#f-oid", "1.3.6.1.4.1.2011.6.128.1.1.2.43.1.4")
    page.click(".nw-try .btn")
    expect(page.locator("#trial")).to_contain_text("never read")
    page.fill("#f-oid", "1.3.6.1.2.1.31.1.1.1.1")
    page.click(".nw-try .btn")
    expect(page.locator("#trial")).to_contain_text("waits for its turn")
    answered(portal)
    expect(page.locator("#trial")).to_contain_text("offline")
    expect(page.locator("#f-oid")).to_have_value("1.3.6.1.2.1.31.1.1.1.1")


def small_targets(page: Page) -> list[str]:
    """Buttons of the tools that a thumb would miss."""
    found: list[str] = page.evaluate(
        "Array.from(document.querySelectorAll('button[id^=try-]'))"
        ".filter(one => one.getBoundingClientRect().height < 28).map(one => one.id)"
    )
    return found


def test_the_buttons_can_be_hit_on_a_phone_and_every_page_is_reached_from_its_bar(visit: Visit) -> None:
    page = visit("/olts/2/workflow", width=390)
    assert small_targets(page) == []
    boxes = [one.bounding_box() for one in page.locator(".fx-rail > nav a:not(.fx-far) span, .fx-more summary").all()]
    edges = [(box["x"], box["x"] + box["width"]) for box in boxes if box]
    assert len(edges) == 5
    assert all(left[1] <= right[0] + 1 for left, right in zip(edges, edges[1:], strict=False))
    assert edges[-1][1] <= 390
    far = page.locator(".fx-more nav a")
    expect(far.first).to_be_hidden()
    page.locator(".fx-more summary").click()
    for one in far.all():
        box = one.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["y"] >= 0
    far.filter(has_text="Pollers").click()
    expect(page).to_have_url(re.compile("/pollers/$"))


def test_a_contradiction_stands_out(portal: Portal, visit: Visit) -> None:
    with portal.writing() as session:
        session.add(PonPort(olt_id=2, index_key=str(PORT + 2048), name="GPON 0/1/30", frame=0, slot=1, port=30,
                            last_seen=datetime.now(UTC)))  # fmt: skip
    page = visit("/catalogue/formulas/1?olt=2", language="en")
    expect(page.locator("#preview tr.is-red")).to_contain_text("GPON 0/1/30")
    expect(page.locator("#preview")).to_contain_text("3 agree, 1 contradict")
