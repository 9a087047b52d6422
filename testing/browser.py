"""A headless Chromium on this machine: the lightest one that is there."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, sync_playwright

# Of Debian and Ubuntu; ops/setup installs the first, which opens a page for a third less processor time than the whole
# browser. Elsewhere Playwright's own is used.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Processes that no test looks at: a renderer for what each address bar suggests, and a spare one. They are half of the
# processor time of opening a page in a whole browser. Then what Playwright itself turns off, since only the last such
# flag counts.
UNUSED = (
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess",
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades", "MediaRouter",
    "OptimizationHints", "PaintHolding", "ThirdPartyStoragePartitioning",
)  # fmt: skip
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join(UNUSED)}",
]


def wait_until(page: Page, expression: str) -> None:
    """Until the expression is true in the page. Playwright's own wait evaluates it by what the page's CSP forbids."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"not within five seconds: {expression}")


@contextmanager
def headless_chromium() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, NAMES)), None)
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()
