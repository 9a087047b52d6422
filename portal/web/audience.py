"""Who else may have a fragment: the same view, arguments, rights, language, for a second. Flask's side of web.shared.

A fragment must hold nothing personal: what it says of its reader is what they may do. It is noted what a view asks of
that (access.can), so that people of two roles share what looks the same for both. Whoever has just changed something
gets only what was begun after that. Once a second the database is asked whether anything changed about anybody's
rights, so that a fragment which is there costs no query; web.polls hands it out without Flask.
"""

from collections.abc import Hashable, Mapping
from time import time as wall_clock
from typing import Any, NamedTuple

from flask import Flask, Response, current_app, g, request, session
from flask_login import current_user

from portal.domain.roles import allows
from portal.domain.statuses import Role
from portal.extensions import db, htmx
from portal.queries.people import standing
from portal.web.access import permits
from portal.web.formatting import language
from portal.web.frame import STANDING
from portal.web.polls import DIGEST_HEADER, SHELVED, WROTE_COOKIE, Polls
from portal.web.shared import LIFE, Flight, Fragment, Shelf

WROTE_SECONDS = 5  # the cookie's life: longer than a fragment's
MOST_VIEWERS = 2000


class Viewer(NamedTuple):
    """What of a person decides how a fragment looks."""

    role: Role
    language: str


class Board:
    """What one app keeps of its fragments and of those who look at them.

    `generation`: raised whenever somebody has other rights than before; what was known of people is void then.
    """

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.viewers: dict[tuple[Any, ...], Viewer] = {}
        self.asked: dict[tuple[str | None, str | None], frozenset[Role]] = {}  # by endpoint and target; they only grow
        self.generation = 0
        self._people: list[tuple[object, ...]] = []
        self._known_until = 0.0
        self._doubts = 0

    def people_are_known(self) -> bool:
        """Has the database been asked for them within the second?"""
        return self.shelf.clock() < self._known_until

    def ask_for_people(self) -> None:
        """Ask the database whether anything changed about anybody's rights: then nobody is taken for what they were."""
        until, doubts = self.shelf.clock() + LIFE, self._doubts
        found = standing()
        if found != self._people:
            self._people = found
            self.generation += 1
            self.viewers.clear()
        self._known_until = until if doubts == self._doubts else 0.0

    def doubt_people(self) -> None:
        """Something was written: the next who looks asks the database, also when somebody is asking it just now."""
        self._doubts += 1
        self._known_until = 0.0


def wants_fragment() -> bool:
    """True when htmx asks for a part of a page."""
    return bool(htmx and htmx.target and not htmx.boosted and not htmx.history_restore_request)


def _board() -> Board:
    found: Board = current_app.extensions["live"]
    return found


def _viewer(board: Board) -> Viewer | None:
    """Who looks; None when nobody is logged in. The session's cookie is known to be genuine here."""
    if "_user_id" not in session:
        return None
    ident = (*(session.get(name) for name in ("_user_id", "_id", "language")), request.remote_addr,
             request.headers.get("User-Agent"), request.headers.get("Accept-Language"))  # fmt: skip
    if not board.people_are_known():
        board.ask_for_people()
        db.session.close()
    known = board.viewers.get(ident)
    if known is not None:
        return known
    before = board.generation
    if not current_user.is_authenticated:
        return None
    if len(board.viewers) >= MOST_VIEWERS:
        board.viewers.clear()
    found = Viewer(current_user.role, language())
    if before == board.generation:
        board.viewers[ident] = found
    db.session.close()  # whoever waits for another's rendering holds no connection that it may need
    return found


def _key(viewer: Viewer, asked: frozenset[Role] | None) -> Hashable:
    """`asked`: what such a fragment has asked of its readers' rights so far; None: nobody has made one."""
    rights = viewer.role if asked is None else tuple(allows(viewer.role, one) for one in Role if one in asked)
    return request.url, htmx.target, viewer.language, rights


def _since(shelf: Shelf) -> float:
    """The shelf's clock when this browser last changed something; 0 when that is long ago."""
    wrote = request.cookies.get(WROTE_COOKIE, type=float)
    return shelf.clock() - max(0.0, wall_clock() - wrote) if wrote else 0.0


def answer() -> Response | None:
    """Before each request: a fragment that is there already. None: the view makes it, and `publish` shares it."""
    if request.method != "GET" or not current_app.config["LIVE_SHARED"] or not wants_fragment():
        return None
    board = _board()
    viewer = _viewer(board)
    if viewer is None or not permits(viewer.role):
        return None  # the guard says so
    asked = board.asked.get((request.endpoint, htmx.target))
    key = _key(viewer, asked)
    found = board.shelf.get(key, _since(board.shelf))
    if isinstance(found, Flight):
        g.flight, g.viewer, g.asked, g.asked_before = found, viewer, set(), asked
        return None
    request.environ[SHELVED] = key
    return respond(found)


def publish(html: str, digest: str, headers: Mapping[str, str]) -> Response:
    """The answer to this request, and to those of others who wait for it or ask within the second."""
    flight: Flight | None = g.get("flight")
    fragment = Fragment(html, digest, flight.began if flight else 0.0, headers)
    if flight:
        _share(flight, fragment)
    return respond(fragment)


def _share(flight: Flight, fragment: Fragment) -> None:
    """To those who wait, and to whoever comes within the second.

    A fragment that asked more of its reader's rights than those before it is not for all who wait for the same key.
    From then on it is known what such fragments ask.
    """
    board, place = _board(), (request.endpoint, htmx.target)
    asked, before = frozenset(g.asked), g.asked_before
    flight.land(fragment if before is None or asked <= before else None)
    if before is None or not asked <= before:
        board.asked[place] = board.asked.get(place, frozenset()) | asked
        board.shelf.keep(_key(g.viewer, board.asked[place]), fragment)
    request.environ[SHELVED] = _key(g.viewer, board.asked[place])


def respond(fragment: Fragment) -> Response:
    """204 to whoever shows it already."""
    if request.headers.get(DIGEST_HEADER) == fragment.digest:
        return Response(status=204, headers=fragment.headers)
    packed = bool(request.accept_encodings.quality("gzip"))
    body, headers = fragment.wire(packed)
    return Response(body, headers={DIGEST_HEADER: fragment.digest, **headers})


def _note_write(response: Response) -> Response:
    """After whatever changes something: nothing older is for this browser, and people's rights are asked for anew."""
    if request.method not in ("GET", "HEAD", "OPTIONS"):
        _board().doubt_people()
        if "_user_id" in session:
            response.set_cookie(WROTE_COOKIE, f"{wall_clock():.3f}", max_age=WROTE_SECONDS, httponly=True,
                                samesite="Lax", secure=current_app.config["COOKIE_SECURE"])  # fmt: skip
    return response


def _give_up(_error: BaseException | None) -> None:
    """At the end of a request: if it made no fragment after all, those who wait for it make theirs."""
    flight: Flight | None = g.pop("flight", None)
    if flight:
        flight.land(None)


def init_audience(app: Flask) -> None:
    """Before the guard, which asks the database who is there."""
    app.extensions["live"] = board = Board()
    app.wsgi_app = Polls(app.wsgi_app, board, STANDING)  # type: ignore[method-assign]
    app.config.setdefault("LIVE_SHARED", True)
    app.before_request(answer)
    app.after_request(_note_write)
    app.teardown_request(_give_up)
