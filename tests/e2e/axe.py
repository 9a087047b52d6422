"""What axe-core finds on a page, light and dark: contrast, names or an order that keep somebody out.

Of cells and entries that are alike the first is judged: a table of fifty rows is as many times the work, all of it the
same. What cannot be told from one of them, ids that stand twice, is looked for on the whole page.
"""

from pathlib import Path
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect

# Beside what axe looks at by itself: what a voice says is what the button shows.
WHOLE = {"label-content-name-mismatch": {"enabled": True}}
COLOURS = ["color-contrast", "link-in-text-block"]
KEEPS_OUT = ("serious", "critical")
# A theme changes nothing but colours.
THEMES: dict[str, dict[str, Any]] = {"light": {"rules": WHOLE}, "dark": {"runOnly": COLOURS}}
CALM = {"reduced_motion": "reduce"}  # no colour is looked at on its way to another
ALIKE = Path(__file__).with_name("alike.js").read_text(encoding="utf-8")
# Whatever the rules find that cannot keep anybody out is not even looked for.
RUN = """async ([options, impacts]) => {
    options.rules = options.rules || {};
    if (!options.runOnly) {
        for (const rule of axe._audit.rules) {
            if (!impacts.includes(rule.impact)) options.rules[rule.id] = {enabled: false};
        }
    }
    const found = await axe.run(document, {...options, resultTypes: ["violations"], preload: false});
    return found.violations;
}"""
TWICE = """() => {
    const ids = [...document.querySelectorAll("[id]")].map(one => one.id);
    return [...new Set(ids.filter((id, place) => ids.indexOf(id) !== place))];
}"""


def findings(page: Page, name: str) -> list[str]:
    """What keeps somebody out, in both themes: page, theme, rule, where, what it is."""
    settle(page)
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found = [f"{name}: the id {one} stands twice" for one in page.evaluate(TWICE)]
    for theme, options in THEMES.items():
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        expect(page.locator("html")).to_have_attribute("data-bs-theme", theme)
        page.evaluate(ALIKE)
        for rule in page.evaluate(RUN, [options, KEEPS_OUT]):
            if rule["impact"] in KEEPS_OUT:
                found += [f"{name} {theme} {rule['id']}: {place['target']} {_why(place)}" for place in rule["nodes"]]
        page.evaluate("() => shownAgain()")
    return found


def settle(page: Page) -> None:
    """Until the parts that load after the page are there."""
    expect(page.locator("[aria-busy=true]")).to_have_count(0, timeout=20_000)


def _why(place: dict[str, Any]) -> str:
    told = [check["message"] for check in (*place["any"], *place["all"], *place["none"])]
    return f"{place['html'][:160]} — {'; '.join(told)[:200]}"
