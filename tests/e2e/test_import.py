"""Import of 200 OLTs in a real browser: from the file to the list, and a wrong row corrected on the way."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect
from sqlalchemy import func, select

from portal.extensions import db
from portal.tables import Olt
from tests.e2e.conftest import Portal, Visit

pytestmark = pytest.mark.e2e

HEAD = "Nombre;Dirección;Marca;Modelo;Credencial;Sitio\r\n"
ROWS = "".join(f"OLT-E2E-{n:03d};10.66.{n // 250}.{n % 250 + 1};Huawei;MA5800;lab;Ñaña\r\n" for n in range(200))


def imported(portal: Portal) -> int:
    with portal.app.app_context():
        return db.session.scalar(select(func.count()).where(Olt.name.startswith("OLT-E2E-"))) or 0


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """200 OLTs as Excel saves them on a Spanish machine; the first has an address that is none."""
    file = tmp_path / "olts.csv"
    file.write_bytes((HEAD + ROWS.replace("10.66.0.1;", "10.66.0.1000;", 1)).encode("cp1252"))
    return file


@pytest.mark.parametrize("scripts", [True, False])
def test_two_hundred_olts_are_looked_at_corrected_and_imported(
    portal: Portal, visit: Visit, table: Path, scripts: bool
) -> None:
    page = visit("/olts/", language="en", java_script_enabled=scripts)
    page.get_by_role("link", name="Import", exact=True).click()
    page.set_input_files("#f-file", table)
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.locator("h1")).to_have_text("199 OLTs would be written")
    expect(page.locator("#refused tbody")).to_contain_text("OLT-E2E-000")
    expect(page.locator("#created tbody tr")).to_have_count(199)
    assert imported(portal) == 0

    page.get_by_text("Correct the table and look again").click()
    text = page.locator("#f-text").input_value()
    page.locator("#f-text").fill(text.replace("10.66.0.1000", "10.66.0.1"))
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.locator("h1")).to_have_text("200 OLTs would be written")
    assert imported(portal) == 0

    page.get_by_role("button", name=re.compile("^Import 200")).click()
    expect(page).to_have_url(re.compile("/olts/$"))
    expect(page.locator("main")).to_contain_text("Imported: 200 new.")
    assert imported(portal) == 200


def test_the_refused_rows_are_downloaded_with_their_reason(visit: Visit, table: Path) -> None:
    page = visit("/olts/import", language="es")
    page.set_input_files("#f-file", table)
    page.locator("#import .btn-primary").click()
    with page.expect_download() as waiting:
        page.locator("#refused button").click()
    content = Path(waiting.value.path()).read_text("utf-8-sig")
    assert content.splitlines()[0].startswith("Nombre,Dirección")
    assert "OLT-E2E-000,10.66.0.1000" in content
    assert len(content.splitlines()) == 2


def test_the_preview_fits_a_phone(visit: Visit, table: Path) -> None:
    page = visit("/olts/import", width=390)
    page.set_input_files("#f-file", table)
    page.locator("#import .btn-primary").click()
    expect(page.locator("#refused")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
