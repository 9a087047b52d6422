"""From an empty database to the first live ONU, as the start page leads there: nothing but a browser and an OLT."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from app import create_app
from config import load_settings
from jobs.snmp.simulator.farm import Farm, start_farm
from portal.extensions import db
from testing.databases import Databases
from testing.stack import Stack, stack
from tests.e2e.conftest import serve

PATIENCE = 60_000  # ms for what the product's processes do
ONUS = 64
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture
def farm() -> Iterator[Farm]:
    with start_farm([f"huawei@127.0.0.1:0,onus={ONUS},churn=0"]) as started:
        yield started


@pytest.fixture
def running(databases: Databases, tmp_path: Path) -> Iterator[Stack]:
    """All that `make run` starts but the pages, on a database that nobody has used."""
    with stack(tmp_path, databases.own("sqlite", tmp_path), pollers=2, timezone="America/Lima") as made:
        for name in ("scheduler", "pollers", "maintenance", "probes"):
            made.start(name)
        yield made


@pytest.fixture
def page(browser: Browser, running: Stack) -> Iterator[Page]:
    """The login page of the new portal; no error of the browser is forgiven."""
    problems: list[str] = []
    app = create_app(load_settings(running.environment))
    with serve(app) as address:
        context = browser.new_context(locale="es", viewport={"width": 1440, "height": 900}, base_url=address)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda one: one.type in ("error", "warning") and problems.append(one.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto("/login")
        yield page
        context.close()
    with app.app_context():
        db.engine.dispose()
    assert problems == []


def as_set_up(running: Stack) -> str:
    """The catalogue and the first administrator, made as `make run` makes them; the password shown once."""
    running.run("catalog", "sync")
    shown = re.search(r"Password: (\S+)", running.run("user", "ensure-admin"))
    assert shown is not None
    return shown[1]


def next_step(page: Page, done: int, words: str) -> None:
    """Home, where so many steps are done; on by the button of the next."""
    page.locator(".fx-rail > nav a").first.click()
    steps = page.locator("#first-steps")
    expect(steps).to_contain_text(f"{done} de 6 hechos")
    expect(steps.locator(".btn-primary")).to_have_text(words)
    steps.locator(".btn-primary").click()


def log_in(page: Page, password: str) -> None:
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", password)
    page.press("[name=password]", "Enter")
    expect(page.locator("h1")).to_have_text("Aún no hay OLTs")


def store_a_credential(page: Page) -> None:
    page.fill("#f-name", "lab")
    page.fill("#f-community", "public")
    page.get_by_role("button", name="Guardar").click()
    expect(page.locator("main")).to_contain_text("lab")


def add_the_olt(page: Page, port: int) -> None:
    """Tested before it is saved; the test brings brand and model. It stays disabled until it has a workflow."""
    page.fill("#f-name", "OLT-LIMA-01")
    page.fill("#f-address", "127.0.0.1")
    page.fill("#f-port", str(port))
    page.uncheck("#f-enabled")
    page.get_by_role("button", name="Probar conexión").click()
    expect(page.locator("#probe")).to_contain_text(f"La OLT responde en 127.0.0.1:{port}", timeout=PATIENCE)
    page.locator("#probe").get_by_role("button", name="Usar Huawei").click()
    expect(page.locator("#f-device")).to_have_value(re.compile("^huawei/.+"))
    page.locator(".nw-send").get_by_role("button", name="Agregar OLT").click()
    expect(page.locator("h1")).to_have_text("Flujo de OLT-LIMA-01")
    expect(page.locator("#board")).to_contain_text("Esta OLT está deshabilitada")


def discover_by_the_wizard(page: Page) -> None:
    """A discovery every quarter of an hour."""
    on = page.get_by_role("button", name="Siguiente", exact=True).last
    page.goto("/workflows/new-task")
    on.click()
    page.locator("[data-from] label", has_text="OLT-LIMA-01").click()
    on.click()
    page.locator("input[value='huawei.onu_state']").check()
    on.click()
    expect(page.locator("#runs")).to_contain_text("4 ejecuciones por hora")
    on.click()
    on.click()
    page.get_by_role("button", name="Crear en 1 OLT").click()
    expect(page.locator("h1")).to_have_text("Flujo de OLT-LIMA-01")


def enable(page: Page) -> None:
    page.get_by_role("button", name="Más acciones").click()
    page.locator("#olt_live .dropdown-menu").get_by_role("button", name="Habilitar").click()
    expect(page.locator("#olt_live")).not_to_contain_text("Deshabilitada")


def test_the_start_page_leads_from_nothing_to_the_first_live_onu(running: Stack, page: Page, farm: Farm) -> None:
    log_in(page, as_set_up(running))
    next_step(page, 0, "Crear credencial")
    store_a_credential(page)
    next_step(page, 1, "Agregar OLT")
    add_the_olt(page, farm.ports[0])
    next_step(page, 3, "Abrir el flujo")  # the connection was tested before saving
    expect(page.locator("#board")).to_contain_text("No se lee nada de esta OLT")
    discover_by_the_wizard(page)
    page.goto("/olts/1")
    enable(page)
    next_step(page, 4, "Ejecutar ahora")
    page.locator("#board .is-master").get_by_role("button", name="Ejecutar ahora").click()

    page.goto("/olts/1")
    page.evaluate("window.stillTheSamePage = true")
    expect(page.get_by_text(f"de {ONUS} ONUs en línea")).to_be_visible(timeout=PATIENCE)
    assert page.evaluate("window.stillTheSamePage") is True
    page.goto("/")
    expect(page.locator("h1")).to_have_text("1 OLT responde, 0 inalcanzables")
    expect(page.locator("#first-steps")).to_have_count(0)
    page.goto("/onus/")
    expect(page.locator("tbody tr").first).to_contain_text(re.compile("OLT-LIMA-01.*En línea", re.DOTALL))
