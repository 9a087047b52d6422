"""Support with a customer on the phone, in a real browser: find the ONU, see its week, its port, read it now."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import select, update

from portal import queueing
from portal.extensions import db
from portal.tables import Onu, OnuHistory, Trial, TrialStatus
from testing.browser import wait_until
from tests.e2e.conftest import Portal, Visit
from tests.integration.pages.test_trials import ROW, answer

pytestmark = pytest.mark.e2e

ONU = 5  # of the first OLT


@pytest.fixture
def serial(portal: Portal) -> str:
    """The ONU's serial, 16 hex digits, after a week of readings of its power with a gap."""
    now = datetime.now(UTC)
    with portal.writing() as session:
        for hours in range(200, 0, -1):
            dbm = None if 60 < hours < 70 else -20.0 - hours % 5
            session.add(OnuHistory(onu_id=ONU, metric="onu_rx_power", collected_at=now - timedelta(hours=hours),
                                     mean=dbm, minimum=dbm, maximum=dbm, last=dbm))  # fmt: skip
    with portal.app.app_context():
        return db.session.scalars(select(Onu.serial).where(Onu.id == ONU)).one() or ""


def drawn(page: Page) -> int:
    """Pixels of the chart in the colour of its line: it is drawn, not only there."""
    found: int = page.evaluate("""() => {
      const canvas = document.querySelector("#power_plot canvas"), copy = document.createElement("canvas");
      Object.assign(copy, { width: canvas.width, height: canvas.height });
      const context = copy.getContext("2d", { willReadFrequently: true });
      context.drawImage(canvas, 0, 0);
      const pixels = context.getImageData(0, 0, copy.width, copy.height).data;
      const probe = document.createElement("canvas").getContext("2d");
      probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--fx-blue-fill");
      probe.fillRect(0, 0, 1, 1);
      const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
      let count = 0;
      for (let i = 0; i < pixels.length; i += 4) {
        count += Math.abs(pixels[i] - r) + Math.abs(pixels[i + 1] - g) + Math.abs(pixels[i + 2] - b) < 12;
      }
      return count;
    }""")
    return found


def test_a_customer_is_found_by_a_serial_typed_in_any_spelling(portal: Portal, visit: Visit, serial: str) -> None:
    label = bytes.fromhex(serial[:8]).decode() + serial[8:]
    page = visit("/onus/", username="viewer")
    for typed in (label.lower(), serial, ":".join(re.findall("..", serial)), f" {label[:4]} {label[4:]} "):
        page.fill("[data-search]", "")
        expect(page.locator("#onus_live tbody tr")).not_to_have_count(1)
        page.locator("[data-search]").press_sequentially(typed)
        expect(page.locator("#onus_live tbody tr")).to_have_count(1)  # nobody has pressed Enter
        expect(page.locator("#onus_live tbody tr")).to_contain_text(label)
        expect(page.locator("#onus_chips")).to_contain_text(typed.strip())
        expect(page.locator("#onus_file a")).to_have_attribute("href", re.compile(r"\?q="))
        expect(page.locator("[data-search]")).to_be_focused()
    page.locator("#onus_live tbody tr td").nth(3).click()
    expect(page).to_have_url(re.compile(f"/onus/{ONU}$"))
    expect(page.locator("#power_plot canvas")).to_be_visible()


def test_the_chart_is_drawn_follows_the_buttons_and_the_theme(portal: Portal, visit: Visit, serial: str) -> None:
    page = visit(f"/onus/{ONU}", language="es")
    expect(page.locator("#power_plot canvas")).to_be_visible()
    week = drawn(page)
    assert week > 300
    page.hover("#power_plot .u-over")
    expect(page.locator(".on-hint")).to_contain_text(re.compile(r"−2\d,\d\sdBm"))
    page.click("a[data-span=day]")
    expect(page).to_have_url(re.compile(r"\?span=day$"))
    expect(page.locator("a[data-span=day]")).to_have_attribute("aria-current", "true")
    page.evaluate("fachoTheme.set('facho-theme', 'dark')")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    wait_until(page, "document.querySelector('#power_plot canvas') !== null")
    assert drawn(page) > 100
    page.reload()
    expect(page.locator("a[data-span=day]")).to_have_attribute("aria-current", "true")
    page.set_viewport_size({"width": 390, "height": 844})
    wait_until(page, "document.querySelector('#power_plot .uplot').offsetWidth < 390")
    page.evaluate("fachoTheme.set('facho-theme', 'auto')")


def test_the_chart_outlives_the_refreshes_of_the_page(portal: Portal, visit: Visit, serial: str) -> None:
    page = visit(f"/onus/{ONU}", language="en")
    expect(page.locator("#power_plot canvas")).to_be_visible()
    page.evaluate("document.querySelector('#power_plot canvas').dataset.mine = '1'")
    page.click(".on-proof summary")
    expect(page.locator("#onu_proof")).to_contain_text("From the index to slot, port and ONU")
    with portal.writing() as session:
        session.execute(update(Onu).where(Onu.id == ONU).values(model="HG9999"))
    expect(page.locator(".fx-lead").first).to_contain_text("HG9999", timeout=9_000)  # asked each 5 s
    expect(page.locator("#power_plot canvas[data-mine='1']")).to_be_visible()
    expect(page.locator("#onu_proof")).to_contain_text("From the index to slot, port and ONU")


def test_read_now_shows_what_the_olt_answers_where_it_was_asked(
    portal: Portal, visit: Visit, serial: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queueing, "enqueue_task", lambda *_arguments, **_options: None)
    page = visit(f"/onus/{ONU}", username="operator", language="en")
    page.click("#read-now")
    expect(page.locator("#trial")).to_contain_text("waits for its turn")
    with portal.writing() as session:
        wanted = Trial.oid == f"onu:{ONU}"
        result = answer(ROW | {"raw": "-2516", "value": -25.16})
        session.execute(update(Trial).where(wanted).values(status=TrialStatus.SUCCESS, result=result,
                                                           finished_at=datetime.now(UTC)))  # fmt: skip
    expect(page.locator("#trial")).to_contain_text("−25.2")
    expect(page.locator("#trial")).to_contain_text("not stored")
    with portal.writing() as session:
        session.execute(update(Onu).where(Onu.id == ONU).values(model="HG0000"))
    expect(page.locator(".fx-lead").first).to_contain_text("HG0000", timeout=9_000)
    expect(page.locator("#trial")).to_contain_text("−25.2")  # a refresh of the page leaves the answer there


def test_a_neighbour_is_reached_by_keyboard(portal: Portal, visit: Visit) -> None:
    page = visit(f"/onus/{ONU}", username="viewer")
    mark = page.locator(".on-marks a:not([aria-current])").first
    there = mark.get_attribute("href")
    mark.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{portal.url}{there}")


def test_without_scripts_there_is_a_picture_of_the_week_and_a_way_to_the_proof(visit: Visit, serial: str) -> None:
    page = visit(f"/onus/{ONU}", java_script_enabled=False)
    expect(page.locator("#power_plot svg polyline")).to_have_count(2)  # before and after the gap
    page.click("a[data-span=month]")
    expect(page).to_have_url(re.compile("span=month"))
    page.click(".on-proof summary")
    page.click(".on-proof noscript a, .on-proof a")
    expect(page).to_have_url(re.compile(f"/onus/{ONU}/proof$"))
