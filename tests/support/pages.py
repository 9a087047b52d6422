"""The portal as a test sees it: a client that logs in and posts with the token of the form, as a browser would."""

import re
from typing import Any
from urllib.parse import urlsplit

from bs4 import BeautifulSoup, Tag
from flask import Flask
from werkzeug.test import TestResponse

from tests.support.seed import password_of

_TOKEN = re.compile(r'name="csrf-token" content="([^"]+)"')


class Visitor:
    """One browser session."""

    def __init__(self, app: Flask) -> None:
        self.client = app.test_client()
        self.token = ""

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

    def post(self, path: str, **values: Any) -> TestResponse:
        """A form sent with the token of the page seen last."""
        return self.client.post(path, data={"csrf_token": self.token, **values})

    def login(self, username: str, password: str = "", next_path: str = "") -> TestResponse:
        """Through the form, as a person; afterwards the token is that of the new session."""
        self.get("/login")
        extra = {"next": next_path} if next_path else {}
        response = self.post("/login", username=username, password=password or password_of(username), **extra)
        if response.status_code == 303:
            self.get("/queue/")
        return response


def soup(response: TestResponse) -> BeautifulSoup:
    """The page as a tree."""
    return BeautifulSoup(response.text, "html.parser")


def title_of(response: TestResponse) -> str:
    """Text of the page's h1."""
    heading = soup(response).find("h1")
    return " ".join(heading.get_text(" ").split()) if isinstance(heading, Tag) else ""


def text_of(response: TestResponse) -> str:
    """All text of the page, blanks collapsed, thin spaces as ordinary ones."""
    return " ".join(soup(response).get_text(" ").replace("\u202f", " ").split())


def path_of(url: str) -> str:
    """Path and query of a Location header."""
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")
