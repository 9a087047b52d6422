"""A real browser on the whole portal with a few seeded rows. A test takes `portal` (address, app) and `visit`.

A test of every page takes `furnished`, a portal in which each has something to show, with `tour` and `pages`.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from sqlalchemy import update
from sqlalchemy.orm import Session
from werkzeug.serving import make_server

from app import create_app
from config import Settings
from portal.extensions import db, transaction
from portal.tables import User
from tests.support import routes, seed
from tests.support.databases import FERNET_KEY, Databases
from tests.support.pages import Visitor
from tests.support.routes import Address

CHROMIUM = "/usr/bin/chromium"  # Debian's; ops/setup installs it. Elsewhere Playwright's own is used.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Tests that cause these look at what the page makes of them.
IGNORED = ("net::ERR_INTERNET_DISCONNECTED", "htmx:afterRequest", "htmx:sendError", "status of 401", "status of 404")

Visit = Callable[..., Page]


@dataclass
class Portal:
    """The portal at an address, and its database from inside."""

    app: Flask
    url: str
    cookies: dict[str, list[Any]] = field(default_factory=dict)  # of sessions by user name: each logs in once

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction on the portal's database."""
        with self.app.app_context(), transaction() as session:
            yield session

    def alive(self) -> None:
        """Scheduler and pollers were seen just now."""
        seed.keep_alive(self.app)


@contextmanager
def serve(app: Flask) -> Iterator[str]:
    """The app over HTTP from a thread of this process; its address."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(timeout=10)


@contextmanager
def serving(databases: Databases, folder: Path) -> Iterator[Portal]:
    """Seeded with two OLTs, served over HTTP from this process."""
    settings = Settings(
        database_url=databases.own("sqlite", folder),
        redis_url=f"unix://{folder}/no-redis.sock?db=0",
        secret_key="e2e",
        fernet_keys=(FERNET_KEY,),
        timezone="America/Lima",
        instance=folder,
    )
    app = create_app(settings)
    seed.seed(app, "few")
    with serve(app) as url:
        yield Portal(app, url)
    with app.app_context():
        db.engine.dispose()


@pytest.fixture(scope="session")
def portal(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """Two OLTs; what a test changes, the next one finds."""
    with serving(databases, tmp_path_factory.mktemp("portal")) as made:
        yield made


@pytest.fixture(scope="session")
def furnished(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """The same with what tests/support/routes.py adds, for tests that only look."""
    with serving(databases, tmp_path_factory.mktemp("furnished")) as made:
        with made.writing() as session:
            routes.furnish(session, datetime.now(UTC))
        yield made


@pytest.fixture(scope="session")
def pages(furnished: Portal) -> list[Address]:
    """Every page of the URL map; parts of pages, files and what leads elsewhere are known by what they answer."""
    with furnished.app.app_context():
        found = list(routes.addresses(furnished.app, db.session()))
        db.session.remove()
    assert [one.name for one in found if not one.path] == [], "no row for these"
    person = Visitor(furnished.app)
    person.login("admin")
    answers = {one: person.get(one.path) for one in found}
    assert {one.name: answer.status for one, answer in answers.items() if answer.status_code >= 400} == {}
    whole = [one for one, answer in answers.items() if answer.status_code == 200 and "</html>" in answer.text[-20:]]
    return [*whole, Address("not there", "", "/nowhere")]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    with sync_playwright() as playwright:
        path = CHROMIUM if Path(CHROMIUM).exists() else None
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def visit(portal: Portal, browser: Browser) -> Iterator[Visit]:
    """visit("/olts/", username="admin", width=390, language="en") → the page, logged in ("" = not)."""
    with visiting(portal, browser) as go:
        yield go


@pytest.fixture
def tour(furnished: Portal, browser: Browser) -> Iterator[Visit]:
    """The same through the furnished portal."""
    with visiting(furnished, browser) as go:
        yield go


@contextmanager
def visiting(portal: Portal, browser: Browser) -> Iterator[Visit]:
    """A function that opens a page in a context of its own.

    At the end no page may have reported an error, a warning or a breach of the content security policy.
    """
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def go(
        path: str = "/", *, username: str = "admin", width: int = 1440, language: str = "es", **options: Any
    ) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, locale=language, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: message.type in ("error", "warning") and problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        portal.alive()
        with portal.writing() as session:  # one who chose a language before this test sees what the test asks for
            session.execute(update(User).values(language=""))
        if username:
            _enter(portal, page, username)
        page.goto(portal.url + path)
        return page

    yield go
    for context in contexts:
        context.close()
    assert [text for text in problems if not any(known in text for known in IGNORED)] == []


def _enter(portal: Portal, page: Page, username: str) -> None:
    if username not in portal.cookies:
        page.goto(f"{portal.url}/login")
        page.fill("[name=username]", username)
        page.fill("[name=password]", seed.password_of(username))
        page.press("[name=password]", "Enter")
        page.wait_for_url(f"{portal.url}/")
        portal.cookies[username] = page.context.cookies()
    page.context.add_cookies(portal.cookies[username])
