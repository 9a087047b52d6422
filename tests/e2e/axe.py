"""What axe-core finds on a page, light and dark: contrast, names or an order that keep somebody out."""

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect

# Beside what axe looks at by itself: what a voice says is what the button shows.
WHOLE = {
    "resultTypes": ["violations"], "preload": False, "rules": {"label-content-name-mismatch": {"enabled": True}},
}  # fmt: skip
COLOURS = {"resultTypes": ["violations"], "preload": False, "runOnly": ["color-contrast", "link-in-text-block"]}
KEEPS_OUT = ("serious", "critical")
THEMES = {"light": WHOLE, "dark": COLOURS}  # a theme changes nothing but colours
CALM = {"reduced_motion": "reduce"}  # no colour is looked at on its way to another


def findings(page: Page, name: str) -> list[str]:
    """What keeps somebody out, in both themes: page, theme, rule, where, what it is."""
    found = []
    settle(page)
    page.evaluate(AXE_SCRIPT)
    for theme, options in THEMES.items():
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        expect(page.locator("html")).to_have_attribute("data-bs-theme", theme)
        for rule in page.evaluate("options => axe.run(options).then(found => found.violations)", options):
            if rule["impact"] in KEEPS_OUT:
                found += [f"{name} {theme} {rule['id']}: {place['target']} {_why(place)}" for place in rule["nodes"]]
    return found


def settle(page: Page) -> None:
    """Until the parts that load after the page are there."""
    expect(page.locator("[aria-busy=true]")).to_have_count(0, timeout=20_000)


def _why(place: dict[str, Any]) -> str:
    told = [check["message"] for check in (*place["any"], *place["all"], *place["none"])]
    return f"{place['html'][:160]} — {'; '.join(told)[:200]}"
