"""Who else may have a fragment: the same view, arguments, rights, language, for a second. Flask's side of web.shared.

A fragment must hold nothing personal: what it says of its reader is what they may do. It is noted what a view asks of
that (access.can), so that people of two roles share what looks the same for both. Whoever has just changed something
gets only what was begun after that. Somebody's role is asked of the database once a second, so that a fragment which
is there costs no query at all.
"""

from collections.abc import Hashable
from time import time as wall_clock
from typing import Any, NamedTuple

from flask import Flask, Response, current_app, g, request, session
from flask_login import current_user

from portal.domain.roles import allows
from portal.domain.statuses import Role
from portal.extensions import db, htmx
from portal.web.access import permits
from portal.web.formatting import language
from portal.web.shared import LIFE, Flight, Fragment, Shelf

DIGEST_HEADER = "X-Digest"
WROTE_COOKIE = "wrote"  # when this browser last changed something, seconds since 1970
WROTE_SECONDS = 5  # the cookie's life: longer than a fragment's
SMALLEST_PACKED = 500  # octets; below that gzip saves nothing
MOST_VIEWERS = 2000


class Viewer(NamedTuple):
    """What of a person decides how a fragment looks; `until`: then the database is asked again."""

    role: Role
    language: str
    until: float


class Board:
    """What one app keeps for a second."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.viewers: dict[tuple[Any, ...], Viewer] = {}
        self.asked: dict[tuple[str | None, str | None], frozenset[Role]] = {}  # by endpoint and target; they only grow


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
    known, now = board.viewers.get(ident), board.shelf.clock()
    if known is not None and now < known.until:
        return known
    if not current_user.is_authenticated:
        return None
    if len(board.viewers) >= MOST_VIEWERS:
        board.viewers.clear()
    board.viewers[ident] = found = Viewer(current_user.role, language(), now + LIFE)
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
    found = board.shelf.get(_key(viewer, asked), _since(board.shelf))
    if isinstance(found, Flight):
        g.flight, g.viewer, g.asked, g.asked_before = found, viewer, set(), asked
        return None
    return respond(found)


def publish(html: str, digest: str) -> Response:
    """The answer to this request, and to those of others who wait for it or ask within the second."""
    flight: Flight | None = g.get("flight")
    fragment = Fragment(html, digest, flight.began if flight else 0.0)
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


def respond(fragment: Fragment) -> Response:
    """204 to whoever shows it already."""
    if request.headers.get(DIGEST_HEADER) == fragment.digest:
        return Response(status=204)
    if len(fragment.body) < SMALLEST_PACKED or not request.accept_encodings.quality("gzip"):
        return Response(fragment.body, headers={DIGEST_HEADER: fragment.digest})
    return Response(fragment.packed, headers={DIGEST_HEADER: fragment.digest, "Content-Encoding": "gzip"})


def _note_write(response: Response) -> Response:
    """After whatever changes something: nothing older is for this browser, and nobody is taken for what they were."""
    if request.method not in ("GET", "HEAD", "OPTIONS"):
        _board().viewers.clear()
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
    app.extensions["live"] = Board()
    app.config.setdefault("LIVE_SHARED", True)
    app.before_request(answer)
    app.after_request(_note_write)
    app.teardown_request(_give_up)
