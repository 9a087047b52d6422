"""Every page through axe-core, light and dark: nobody is kept out by contrast, names or order; nobody else is asked."""

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Portal, Visit
from tests.support.routes import Address

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

AXE = Axe()
# Beside what axe looks at by itself: what a voice says is what the button shows.
WHOLE = {
    "resultTypes": ["violations"], "preload": False, "rules": {"label-content-name-mismatch": {"enabled": True}},
}  # fmt: skip
COLOURS = {"resultTypes": ["violations"], "preload": False, "runOnly": ["color-contrast", "link-in-text-block"]}
KEEPS_OUT = ("serious", "critical")
THEMES = {"light": WHOLE, "dark": COLOURS}  # a theme changes nothing but colours
CALM = {"reduced_motion": "reduce"}  # no colour is looked at on its way to another
ON_A_PHONE = {
    "dashboard.index", "olts.index", "olts.detail", "workflows.detail", "executions.index", "executions.detail",
    "pollers.index", "quotas.index", "onus.index", "onus.detail",
}  # fmt: skip


def findings(page: Page, name: str) -> list[str]:
    """What axe finds that keeps somebody out, in both themes: page, theme, rule, where, what it is."""
    found = []
    settle(page)
    for theme, options in THEMES.items():
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        expect(page.locator("html")).to_have_attribute("data-bs-theme", theme)
        for rule in AXE.run(page, options=options).response["violations"]:
            if rule["impact"] in KEEPS_OUT:
                found += [f"{name} {theme} {rule['id']}: {place['target']} {_why(place)}" for place in rule["nodes"]]
    return found


def settle(page: Page) -> None:
    """Until the parts that load after the page are there."""
    expect(page.locator("[aria-busy=true]")).to_have_count(0, timeout=20_000)


def _why(place: dict[str, list[dict[str, str]]]) -> str:
    told = [check["message"] for check in (*place["any"], *place["all"], *place["none"])]
    return f"{place['html'][:160]} — {'; '.join(told)[:200]}"


def strangers(page: Page, portal: Portal) -> list[str]:
    """Fills itself with the addresses of other hosts that the page asks for."""
    asked: list[str] = []
    own = (urlsplit(portal.url).netloc, "")  # "": data that the style sheets carry with them
    page.context.on("request", lambda one: urlsplit(one.url).netloc not in own and asked.append(one.url))
    return asked


def test_no_page_keeps_anybody_out(furnished: Portal, tour: Visit, pages: list[Address]) -> None:
    page, found = tour("/", **CALM), list[str]()
    others = strangers(page, furnished)
    for one in pages:
        page.goto(furnished.url + one.path)
        found += findings(page, one.name)
    assert found == []
    assert others == []


def test_neither_do_the_main_pages_on_a_phone(furnished: Portal, tour: Visit, pages: list[Address]) -> None:
    page, found = tour("/", width=390, has_touch=True, **CALM), list[str]()
    small = [one for one in pages if one.endpoint in ON_A_PHONE and not one.query]
    assert {one.endpoint for one in small} == ON_A_PHONE
    for one in small:
        page.goto(furnished.url + one.path)
        found += findings(page, f"{one.name} 390")
    assert found == []


def test_nor_does_the_way_in(furnished: Portal, tour: Visit) -> None:
    page = tour("/login", username="", **CALM)
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
def test_nor_does_what_opens_over_a_page(tour: Visit, path: str, open_it: Callable[[Page], None]) -> None:
    page = tour(path, **CALM)
    settle(page)  # nothing is fetched under an open dialog
    open_it(page)
    assert findings(page, open_it.__name__) == []
