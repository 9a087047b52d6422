"""What opens over a page, and the way in, through axe-core. Every page by itself: tests/e2e/test_walk.py."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.axe import ALIKE, CALM, findings, settle
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


# In a table of nine rows that are alike, what somebody spoils in the seventh or in all of them, and who finds it.
FAULTS = {
    "pale": ("color-contrast", "one.state.style.color = '#ddd'"),
    "all-pale": ("color-contrast", "all.forEach(row => { row.state.style.color = '#ddd'; })"),
    "pale-by-place": ("color-contrast", "rule('tr:nth-child(7) span {color: #ddd}')"),
    "see-through": ("color-contrast", "rule('tr:nth-child(7) {opacity: .2}')"),
    "dark-on-dark": ("dark color-contrast", "rule('[data-bs-theme=dark] & tr:nth-child(7) span {color: #222}')"),
    "nameless": ("link-name", "one.link.textContent = ' '"),
    "named-otherwise": ("label-content-name-mismatch", "one.link.ariaLabel = 'Something else'"),
    "no-such-role": ("aria-roles", "one.state.setAttribute('role', 'lamp')"),
    "no-such-attribute": ("aria-valid-attr", "one.state.setAttribute('aria-lamp', 'on')"),
    "leads-nowhere": ("label", "one.label.remove(); one.box.setAttribute('aria-labelledby', 'nowhere')"),
    "without-a-label": ("label", "one.label.htmlFor = 'nowhere'"),
    "label-of-another": ("label", "one.label.htmlFor = all[0].box.id"),
    "twice": ("stands twice", "one.box.id = one.label.htmlFor = all[5].box.id"),
}
PLANTED = """faults => {
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [sheet];
    for (const [name, fault] of faults) {
        const table = document.createElement("table");
        const of = `data-of=${name}`, id = row => `${name}-${row}`;
        const cells = row => `<td><a ${of} href="/onus/${row}">ONU ${row}</a><td><span ${of}>Online</span>` +
            `<td><input ${of} id=${id(row)} type=checkbox><label for=${id(row)}>${row}</label>`;
        table.id = name;
        table.innerHTML = "<thead><tr><th scope=col>ONU<th scope=col>State<th scope=col>Pick<tbody>" +
            [...Array(9).keys()].map(row => `<tr>${cells(row)}`).join("");
        document.getElementById("main").append(table);
        const all = [...table.tBodies[0].rows].map(row => ({
            link: row.querySelector("a"), state: row.querySelector("span"),
            box: row.querySelector("input"), label: row.querySelector("label"),
        }));
        fault(all, all[6], text => sheet.insertRule(
            text.includes("&") ? text.replace("&", `#${name}`) : `#${name} ${text}`));
    }
}"""


def test_a_fault_is_found_in_one_row_and_in_all_though_rows_that_are_alike_are_judged_once(visit: Visit) -> None:
    page = visit("/queue/", **CALM)
    faults = ", ".join(f"['{name}', (all, one, rule) => {{ {fault}; }}]" for name, (_, fault) in FAULTS.items())
    page.evaluate(f"({PLANTED})([['flawless', () => {{}}]])")
    assert page.evaluate(ALIKE) >= 8 * 3
    page.evaluate("() => shownAgain()")
    assert findings(page, "flawless") == []
    page.evaluate(f"({PLANTED})([{faults}])")
    found = findings(page, "spoilt")
    told = {name: [one for one in found if f'data-of="{name}"' in one or f"{name}-5" in one] for name in FAULTS}
    assert {name for name, (rule, _) in FAULTS.items() if not any(rule in one for one in told[name])} == set()
