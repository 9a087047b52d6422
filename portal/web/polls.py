"""What a tab that stays open asks again and again is answered without Flask, as long as nothing about it can differ.

Flask answers the first look of a tab, with all its checks, and says which fragment of the shelf it was. The same look
again - same address, target, cookie, browser - is given what the shelf holds under that key, with the same headers. No
longer than people's rights are known not to have changed, and never to a browser that has just changed something.
Flask sees each tab again from time to time all the same: it knows when a session is too old.
"""

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from portal.web.shared import Fragment, Shelf

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

SHELVED = "facho.shelved"  # in the environment of a request: the key of the fragment that answers it
WROTE_COOKIE = "wrote"  # when this browser last changed something, seconds since 1970
DIGEST_HEADER = "X-Digest"
MOST_LOOKS = 4000
LOOK_LIFE = 600.0  # seconds until Flask is asked about a look again

_SAME = ("wsgi.url_scheme", "HTTP_HOST", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "HTTP_HX_TARGET", "HTTP_COOKIE",
         "REMOTE_ADDR", "HTTP_USER_AGENT", "HTTP_ACCEPT_LANGUAGE")  # fmt: skip
_PAGE = ("HTTP_HX_BOOSTED", "HTTP_HX_HISTORY_RESTORE_REQUEST")  # with these a whole page is wanted
_BODYS = frozenset({"content-length", "content-encoding", "content-type", DIGEST_HEADER.lower()})


class Rights(Protocol):
    """What must be known of people (audience.Board)."""

    shelf: Shelf
    generation: int

    def people_are_known(self) -> bool: ...


class Known(NamedTuple):
    """A look that Flask answered `at` the shelf's clock: from which place of it, and with which headers of its own."""

    key: Hashable
    generation: int
    headers: tuple[tuple[str, str], ...]
    at: float


def look_of(environ: "WSGIEnvironment") -> Hashable | None:
    """What must be the same for the same answer; None: this is no look that could be answered here."""
    if environ["REQUEST_METHOD"] != "GET" or "HTTP_HX_TARGET" not in environ:
        return None
    if any(name in environ for name in _PAGE) or environ.get("HTTP_HX_REQUEST") != "true":
        return None
    if f"{WROTE_COOKIE}=" in environ.get("HTTP_COOKIE", "") or ";q=" in environ.get("HTTP_ACCEPT_ENCODING", ""):
        return None
    return tuple(environ.get(name) for name in _SAME)


class Polls:
    """WSGI in front of the app. `standing`: names of the headers that are the same on all that the app answers."""

    def __init__(self, inner: "WSGIApplication", rights: Rights, standing: Iterable[str]) -> None:
        self._inner, self._rights = inner, rights
        self._standing = frozenset(name.lower() for name in standing)
        self._looks: dict[Hashable, Known] = {}

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """The fragment that is there, or whatever the app answers."""
        look = look_of(environ)
        if look is None:
            return self._inner(environ, start_response)
        known = self._looks.get(look)
        if known and self._holds(known):
            fragment = self._rights.shelf.peek(known.key)
            if fragment:
                return _answer(fragment, known.headers, environ, start_response)
        generation = self._rights.generation

        def begun(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            if SHELVED in environ and status[:3] in ("200", "204"):
                self._note(look, environ[SHELVED], generation, headers)
            return start_response(status, headers, *error)

        return self._inner(environ, begun)

    def _holds(self, known: Known) -> bool:
        rights = self._rights
        young = rights.shelf.clock() - known.at < LOOK_LIFE
        return young and known.generation == rights.generation and rights.people_are_known()

    def _note(self, look: Hashable, key: Hashable, generation: int, headers: list[tuple[str, str]]) -> None:
        fragment = self._rights.shelf.peek(key)
        if fragment is None:
            return
        own = _BODYS | {name.lower() for name in fragment.headers}
        lasting = tuple((name, value) for name, value in headers if name.lower() not in own)
        if not self._standing.issuperset(name.lower() for name, _ in lasting):
            return  # something that belongs to this one answer, as a cookie does
        if len(self._looks) >= MOST_LOOKS:
            self._looks.clear()
        self._looks[look] = Known(key, generation, lasting, self._rights.shelf.clock())


def _answer(
    fragment: Fragment, headers: tuple[tuple[str, str], ...], environ: "WSGIEnvironment", start: "StartResponse"
) -> list[bytes]:
    if environ.get("HTTP_X_DIGEST") == fragment.digest:
        start("204 NO CONTENT", [*headers, *fragment.headers.items()])
        return []
    body, packing = fragment.wire("gzip" in environ.get("HTTP_ACCEPT_ENCODING", ""))
    own = [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(body))),
           (DIGEST_HEADER, fragment.digest)]  # fmt: skip
    start("200 OK", [*headers, *own, *packing.items()])
    return [body]
