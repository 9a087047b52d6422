"""The whole product in one tab: an OLT comes alive while it is looked at; the portal goes away and comes back."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from flask import Flask
from playwright.sync_api import Browser, Page, expect

from app import create_app
from config import load_settings
from jobs.snmp.simulator.farm import Farm, start_farm
from portal.extensions import db
from portal.services.network import olts
from portal.services.people import users
from testing.databases import Databases
from testing.live import Live
from testing.served import free_port, served
from testing.stack import Stack, stack

PASSWORD = "correct horse battery"
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


@pytest.fixture
def farm() -> Iterator[Farm]:
    with start_farm(["huawei@127.0.0.1:0,onus=64,churn=0"]) as started:
        yield started


@pytest.fixture
def running(databases: Databases, tmp_path: Path) -> Iterator[Stack]:
    with stack(tmp_path, databases.own("sqlite", tmp_path), pollers=2, quarantine_seconds=0) as made:
        yield made


@pytest.fixture
def app(running: Stack) -> Flask:
    return create_app(load_settings(running.environment))


@pytest.fixture
def address(running: Stack) -> Iterator[str]:
    """A process of its own: with threads that serve in this one, a fork of it may inherit a lock that nobody opens."""
    port = free_port()
    with served(running, port):
        yield f"http://127.0.0.1:{port}"


def new_olt(running: Stack, app: Flask, port: int) -> int:
    with app.app_context():
        live = Live(running, datetime.now(UTC))
        users.create("rosa", PASSWORD, "admin", "test", live.now)
        olt = live.olt("OLT-LIMA", port)
        master = live.node(olt, "discovery", "huawei.onu_state", "discovery", name="Descubrimiento")
        live.node(olt, "serial", "huawei.onu_serial", master_id=master)
        live.due_now()
        db.session.remove()
        db.engine.dispose()
    return olt


def rosa(browser: Browser, address: str) -> Page:
    """A tab in which she is logged in."""
    page = browser.new_context(locale="es", viewport={"width": 1440, "height": 900}).new_page()
    page.goto(f"{address}/login")
    page.fill("[name=username]", "rosa")
    page.fill("[name=password]", PASSWORD)
    page.press("[name=password]", "Enter")
    page.wait_for_url(f"{address}/")
    return page


def test_an_olt_goes_from_never_polled_to_its_onus_without_a_reload(
    browser: Browser, running: Stack, app: Flask, address: str, farm: Farm
) -> None:
    olt = new_olt(running, app, farm.ports[0])
    for name in ("scheduler", "maintenance"):
        running.start(name)
    page = rosa(browser, address)
    page.goto(f"{address}/olts/{olt}")
    table = page.locator("main table").first  # the timeline's titles say so too
    expect(table.get_by_text("Nunca se ejecutó").or_(table.get_by_text("Pendiente")).first).to_be_visible(
        timeout=20_000
    )
    page.evaluate("window.stillTheSamePage = true")

    running.start("pollers")

    expect(page.get_by_text("de 64 ONUs en línea")).to_be_visible(timeout=60_000)
    expect(table.get_by_text("Correcta").first).to_be_visible(timeout=20_000)
    assert page.evaluate("window.stillTheSamePage") is True

    page.goto(f"{address}/olts/{olt}/onus")
    expect(page.get_by_text("HWTC").first).to_be_visible(timeout=20_000)
    page.context.close()


def test_the_portal_is_stopped_and_started_under_an_open_page(browser: Browser, running: Stack, app: Flask) -> None:
    """Served by gunicorn as the Procfile says: one banner, nothing lost, and it goes on without a hand."""
    olt = new_olt(running, app, 161)
    port = free_port()
    address, lost = f"http://127.0.0.1:{port}", "#lost"
    with served(running, port):
        page = rosa(browser, address)
        page.goto(f"{address}/olts/{olt}")
        page.evaluate("window.stillTheSamePage = true")
        page.locator("summary, a").first.focus()
    expect(page.locator(lost)).to_be_visible(timeout=20_000)
    assert page.locator("[role=status]:visible").count() == 1
    expect(page.get_by_role("heading", name="OLT-LIMA")).to_be_visible()
    with app.app_context():
        olts.set_enabled(olt, False, "test", datetime.now(UTC))
        db.session.remove()
        db.engine.dispose()
    with served(running, port):
        expect(page.locator(lost)).to_be_hidden(timeout=20_000)
        expect(page.locator("#olt_live")).to_contain_text("Deshabilitada", timeout=20_000)
        assert page.evaluate("window.stillTheSamePage") is True
        page.locator("#olt_live form[action$='/enabled'] button:visible").click()  # with the token it had before
        expect(page.locator("[data-flash]")).to_contain_text("habilitada")
    page.context.close()
