"""A real browser on the whole portal with a few seeded rows. A test takes `portal` (address, app) and `visit`.

Each test finds the database as it was seeded, whatever another has done to it.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask
from playwright.sync_api import Browser, BrowserContext, Page
from sqlalchemy.orm import Session
from werkzeug.serving import make_server

from app import create_app
from portal.extensions import db, transaction
from portal.web.shared import Shelf
from testing import seed
from testing.browser import headless_chromium
from testing.databases import Databases, settings_for
from testing.pages import Visitor

# Tests that cause these look at what the page makes of them. What was under way when a tab is closed is aborted.
IGNORED = (
    "net::ERR_INTERNET_DISCONNECTED",
    "htmx:afterRequest",
    "htmx:sendError",
    "htmx:sendAbort",
    "status of 401",
    "status of 404",
)

Visit = Callable[..., Page]


@dataclass
class Portal:
    """The portal at an address, and its database from inside."""

    app: Flask
    url: str
    folder: Path
    cookies: dict[str, list[Any]] = field(default_factory=dict)  # of sessions by user name: each logs in once

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction on the portal's database."""
        with self.app.app_context(), transaction() as session:
            yield session

    def restore(self, name: str, make: Callable[[], object], onto: str = "empty") -> None:
        """Put the database back to how it was under this name. The first time, `make` makes it from that of `onto`."""
        kept, used = self.folder / f"{name}.db", self.folder / "facho.db"
        if kept.exists():
            _copy(kept, used)
        else:
            _copy(self.folder / f"{onto}.db", used)
            make()
            _copy(used, kept)
        self.app.extensions.pop("facho-remembered", None)
        self.app.extensions["live"].shelf = Shelf()
        self.app.extensions["live"].doubt_people()
        self.alive()

    def alive(self) -> None:
        """Scheduler and pollers were seen just now."""
        seed.keep_alive(self.app)

    def session_of(self, username: str, page: Page) -> list[Any]:
        """Cookies of somebody who has logged in with the page's browser."""
        if username not in self.cookies:
            person = Visitor(self.app)
            person.client.environ_base["HTTP_USER_AGENT"] = page.evaluate("navigator.userAgent")
            cookie = person.enter(username).client.get_cookie("session")
            assert cookie is not None
            self.cookies[username] = [{"name": "session", "value": cookie.value, "url": self.url, "httpOnly": True}]
        return self.cookies[username]


def _copy(source: Path, target: Path) -> None:
    """By SQLite itself: whoever has the target open sees it change between two transactions."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


@contextmanager
def serve(app: Flask) -> Iterator[str]:
    """The app over HTTP from a thread of this process; its address."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(timeout=10)


@pytest.fixture(scope="session")
def served_portal(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """One app for all tests of this process, on an empty database."""
    folder = tmp_path_factory.mktemp("portal")
    app = create_app(settings_for(databases.own("sqlite", folder), folder))
    _copy(folder / "facho.db", folder / "empty.db")
    with serve(app) as url:
        yield Portal(app, url, folder)
    with app.app_context():
        db.engine.dispose()


@pytest.fixture
def portal(served_portal: Portal) -> Portal:
    """Two OLTs, as seeded."""
    served_portal.restore("few", partial(seed.seed, served_portal.app, "few"))
    return served_portal


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    with headless_chromium() as started:
        yield started


class Tabs:
    """Pages of the portal, each in a context of its own, and what is wrong with them by the browser's account."""

    def __init__(self, portal: Portal, browser: Browser) -> None:
        self._portal, self._browser = portal, browser
        self._contexts: list[BrowserContext] = []
        self._problems: list[str] = []

    def open(
        self, path: str = "/", *, username: str = "admin", width: int = 1440, language: str = "es", **options: Any
    ) -> Page:
        """A page, logged in ("" = not)."""
        context = self._browser.new_context(viewport={"width": width, "height": 900}, locale=language, **options)
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda one: one.type in ("error", "warning") and self._problems.append(one.text))
        page.on("pageerror", lambda error: self._problems.append(str(error)))
        page.on("dialog", lambda dialog: self._problems.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self._own(request.url) or self._problems.append(f"asks {request.url}"))
        if username:
            context.add_cookies(self._portal.session_of(username, page))
        page.goto(self._portal.url + path)
        return page

    def _own(self, url: str) -> bool:
        """Nothing is asked of another host. Style sheets carry data with them, which has none."""
        return urlsplit(url).netloc in (urlsplit(self._portal.url).netloc, "")

    def problems(self) -> list[str]:
        """Errors, warnings, breaches of the content security policy and other hosts, since this was last asked."""
        told = [text for text in self._problems if not any(known in text for known in IGNORED)]
        self._problems.clear()
        return told

    def close(self) -> None:
        """All of them."""
        for context in self._contexts:
            context.close()


@pytest.fixture
def visit(portal: Portal, browser: Browser) -> Iterator[Visit]:
    """visit("/olts/", username="admin", width=390, language="en") → the page. At the end none may have a problem."""
    tabs = Tabs(portal, browser)
    yield tabs.open
    tabs.close()
    assert tabs.problems() == []
