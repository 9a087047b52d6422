"""What opens over a page, and the way in, through axe-core. Every page by itself: tests/e2e/test_walk.py."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.axe import CALM, findings, settle
from tests.e2e.conftest import Visit

pytestmark = pytest.mark.e2e


def test_the_way_in_keeps_nobody_out(visit: Visit) -> None:
    page = visit("/login", username="", **CALM)
    found = findings(page, "login")
    page.fill("[name=username]", "nobody")
    page.fill("[name=password]", "wrong password")
    page.press("[name=password]", "Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    assert [*found, *findings(page, "login refused")] == []


def _palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    expect(page.locator("#palette_found [role=option]").first).to_be_visible()


def _keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()


def _account(page: Page) -> None:
    page.get_by_role("button", name="Cuenta de admin").click()
    expect(page.locator(".fx-menu.show")).to_be_visible()


def _row(page: Page) -> None:
    page.locator("#olts_live .fx-kebab button").first.click()
    expect(page.locator("#olts_live .dropdown-menu.show")).to_be_visible()


def _bulk(page: Page) -> None:
    page.locator("[data-pick]").first.check()
    expect(page.locator(".fx-bulk")).to_be_visible()


def _explained(page: Page) -> None:
    page.locator(".tl-link").first.press("Enter")
    expect(page.locator("dialog[open]")).to_contain_text("Descubrimiento")


def _history(page: Page) -> None:
    page.locator("#history-table summary").click()
    expect(page.locator("#history-table td").first).to_be_visible()


def _node(page: Page) -> None:
    page.locator(".nw-node.is-master h2 a").first.click()
    expect(page.locator(".wb-panel #what_if")).to_be_visible()


@pytest.mark.parametrize(
    ("path", "open_it"),
    [("/", _palette), ("/", _keys), ("/", _account), ("/olts/", _row), ("/olts/", _bulk), ("/olts/1", _explained),
     ("/olts/1/workflow", _node), ("/pollers/", _history)],
)  # fmt: skip
def test_what_opens_over_a_page_keeps_nobody_out(visit: Visit, path: str, open_it: Callable[[Page], None]) -> None:
    page = visit(path, **CALM)
    settle(page)  # nothing is fetched under an open dialog
    open_it(page)
    assert findings(page, open_it.__name__) == []
