"""The real thing under a real browser: an OLT is disabled while it is read, and an open page sees its run end."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from portal.tables import Olt
from testing import seed
from testing.cast import password_of
from testing.databases import Databases
from testing.live import Live, polled
from testing.served import free_port, served

pytestmark = pytest.mark.e2e

SLOW = 800_000  # microseconds of one request: a composite has 17 and would take 14 s
WITHIN = 6_000  # milliseconds (the number): a page asks each 2 s, a poller stops before its next request


@pytest.fixture
def live(databases: Databases, tmp_path: Path) -> Iterator[Live]:
    """An OLT whose discovery is due; the real processes are the test's to start."""
    with polled(tmp_path, databases.own("sqlite", tmp_path), microseconds=SLOW) as running:
        seed.add_users(running.now)
        yield running


def enter(browser: Browser, url: str) -> Page:
    page = browser.new_context(locale="en").new_page()
    page.goto(f"{url}/login")
    page.fill("[name=username]", "operator")
    page.fill("[name=password]", password_of("operator"))
    page.press("[name=password]", "Enter")
    page.wait_for_url(f"{url}/")
    return page


def test_runs_of_an_olt_that_is_disabled_are_seen_to_end_without_reloading(live: Live, browser: Browser) -> None:
    olt_id = db.session.query(Olt.id).scalar()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with served(live.stack, port):
        watcher = enter(browser, url)
        watcher.goto(f"{url}/olts/{olt_id}")
        watcher.evaluate("window.sameDocument = true")
        operator = watcher.context.new_page()
        operator.goto(f"{url}/olts/disable?olt={olt_id}")

        live.due_now()
        live.start("scheduler", "pollers")
        expect(watcher.locator("#holder")).to_contain_text("is being read", timeout=60_000)
        operator.locator("main form .btn-danger").click()
        operator.wait_for_url(f"{url}/olts/")

        expect(watcher.locator("main")).to_contain_text("This OLT is disabled", timeout=WITHIN)
        expect(watcher.get_by_role("table", name="Last executions")).to_contain_text("Interrupted", timeout=WITHIN)
        expect(watcher.locator("#holder")).to_have_count(0, timeout=WITHIN)
        assert watcher.evaluate("window.sameDocument") is True
        watcher.context.close()
    live.wait_for(ExecutionStatus.INTERRUPTED, olt_id)
