"""The portal as a test sees it: a client that logs in and posts with the token of the form, as a browser would."""

import csv
import io
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from bs4 import BeautifulSoup, Tag
from flask import Flask, session
from flask.sessions import SecureCookieSessionInterface
from flask_login import login_user
from flask_wtf.csrf import generate_csrf
from sqlalchemy import select
from werkzeug.test import TestResponse

from portal.extensions import db
from portal.tables import User
from testing.cast import password_of

FORM = "main form[method=post]"
_TOKEN = re.compile(r'name="csrf-token" content="([^"]+)"')


class Visitor:
    """One browser session."""

    def __init__(self, app: Flask) -> None:
        self.app, self.client = app, app.test_client()
        self.token = ""

    def enter(self, username: str, language: str = "") -> "Visitor":
        """With the session cookie of a login some time ago, without the login; `language`: chosen in this session."""
        with self.app.test_request_context(environ_overrides=self.client.environ_base):
            login_user(db.session.scalars(select(User).where(User.username == username)).one())
            if language:
                session["language"] = language
            self.token = generate_csrf()
            signer = SecureCookieSessionInterface().get_signing_serializer(self.app)
            assert signer is not None
            signed = signer.dumps(dict(session))
        self.client.set_cookie("session", signed)
        return self

    def get(self, path: str, **options: Any) -> TestResponse:
        """A page; remembers the token in it."""
        response = self.client.get(path, **options)
        found = _TOKEN.search(response.text) if response.mimetype == "text/html" else None
        self.token = found[1] if found else self.token
        return response

    def fragment(self, path: str, target: str, digest: str = "") -> TestResponse:
        """What htmx asks for to refresh the element with id `target`."""
        headers = {"HX-Request": "true", "HX-Target": target, "HX-Current-URL": f"http://localhost{path}"}
        return self.client.get(path, headers=headers | ({"X-Digest": digest} if digest else {}))

    def watch(self, path: str, target: str) -> Callable[[], int]:
        """Look at a part of a page; what is returned says how the same tab is answered when it asks again."""
        first = self.fragment(path, target)
        assert (first.status_code, "<html" in first.text) == (200, False)
        return lambda: self.fragment(path, target, first.headers["X-Digest"]).status_code

    def post(self, path: str, **values: Any) -> TestResponse:
        """A form sent with the token of the page seen last."""
        return self.client.post(path, data={"csrf_token": self.token, **values})

    def press(self, path: str, target: str, /, **values: Any) -> TestResponse:
        """A form or a button as htmx sends it, and where it leads; the answer is for the element with id `target`."""
        headers = {"HX-Request": "true", "HX-Target": target, "X-CSRFToken": self.token}
        return self.client.post(path, headers=headers, data=values, follow_redirects=True)

    def submit(self, path: str, selector: str = FORM, /, **changes: Any) -> TestResponse:
        """The form of this page, sent back to the page as it stands but for these changes."""
        return self.post(path, **form_values(self.get(path), selector) | changes)

    def login(self, username: str, password: str = "", next_path: str = "") -> TestResponse:
        """Through the form, as a person; afterwards the token is that of the new session."""
        self.get("/login")
        extra = {"next": next_path} if next_path else {}
        response = self.post("/login", username=username, password=password or password_of(username), **extra)
        if response.status_code == 303:
            self.get("/queue/")
        return response


def soup(response: TestResponse) -> BeautifulSoup:
    """The page as a tree. A part of a page is not given the surroundings of one."""
    return BeautifulSoup(response.text, "lxml" if "<html" in response.text[:200] else "html.parser")


def _tree(page: TestResponse | Tag) -> Tag:
    return page if isinstance(page, Tag) else soup(page)


def element(page: TestResponse | Tag, selector: str) -> Tag:
    """The first element that the selector finds; there must be one."""
    found = _tree(page).select_one(selector)
    assert found is not None, selector
    return found


def form_values(answer: TestResponse, selector: str = FORM) -> dict[str, str]:
    """What a browser would send if the form were submitted as it stands."""
    form = soup(answer).select(selector)[-1]
    values: dict[str, str] = {}
    for field in form.select("input[name], textarea[name]"):
        if field.get("type") != "checkbox" or field.has_attr("checked"):
            values[str(field["name"])] = str(field.get("value") or field.get_text())
    for choice in form.select("select[name]"):
        chosen = choice.select_one("option[selected]") or choice.select_one("option")
        values[str(choice["name"])] = str(chosen["value"]) if chosen else ""
    return values


def text_of(page: TestResponse | Tag) -> str:
    """All text of a page or of an element, blanks collapsed, thin spaces as ordinary ones."""
    return " ".join(_tree(page).get_text(" ").split())


def texts(page: TestResponse | Tag, selector: str) -> list[str]:
    """The text of each element that the selector finds."""
    return [text_of(tag) for tag in _tree(page).select(selector)]


def missing(page: TestResponse | Tag | str, *words: str) -> list[str]:
    """Which of these words do not stand in the text."""
    text = page if isinstance(page, str) else text_of(page)
    return [one for one in words if one not in text]


def title_of(response: TestResponse) -> str:
    """Text of the page's h1."""
    return "".join(texts(response, "h1")[:1])


def csv_of(response: TestResponse) -> list[list[str]]:
    """The lines of a file that a spreadsheet reads, its head first."""
    assert (response.status_code, response.mimetype) == (200, "text/csv")
    return list(csv.reader(io.StringIO(response.text.removeprefix("\ufeff"))))


def path_of(where: TestResponse | str) -> str:
    """Path and query of an address, or of the one that an answer leads on to."""
    parts = urlsplit(where if isinstance(where, str) else str(where.location))
    return parts.path + (f"?{parts.query}" if parts.query else "")
