"""Who may call which endpoint: the one place where roles are checked. A view that declares no role is denied to all."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from flask import Flask, Response, abort, current_app, g, redirect, request, url_for
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.roles import allows
from portal.domain.statuses import Role
from portal.extensions import htmx

View = TypeVar("View", bound=Callable[..., Any])

_ATTRIBUTE = "required_role"
_PUBLIC = "public"
_STATIC = "static"  # Flask's own endpoint: style sheets and scripts, the login page needs them
_API = "api"  # this blueprint has a guard of its own, which answers in JSON (portal/api/access.py)


def requires(role: Role) -> Callable[[View], View]:
    """Declare which role a view needs. Goes below @bp.route; only notes it, the check is `guard`."""

    def note(view: View) -> View:
        setattr(view, _ATTRIBUTE, role)
        return view

    return note


def public(view: View) -> View:
    """Declare that a view is for everybody, also without login."""
    setattr(view, _ATTRIBUTE, _PUBLIC)
    return view


def declared(app: Flask) -> dict[str, Role | str | None]:
    """Endpoint → required role, "public", or None where nothing is declared (which denies)."""
    table = {name: getattr(view, _ATTRIBUTE, None) for name, view in app.view_functions.items()}
    return table | {_STATIC: _PUBLIC}


def can(role: Role | str) -> bool:
    """For templates: may the person who looks do what needs `role`?"""
    note_asked(Role(role))
    return bool(current_user.is_authenticated) and allows(current_user.role, Role(role))


def note_asked(*roles: Role) -> None:
    """What this request shows depends on whether somebody may do what these need (portal.web.audience)."""
    asked: set[Role] | None = g.get("asked")
    if asked is not None:
        asked.update(roles)


def permits(role: Role) -> bool:
    """May somebody of this role see what the request asks for? Only for views that ask for a role."""
    needed = getattr(current_app.view_functions.get(request.endpoint or ""), _ATTRIBUTE, None)
    return needed not in (None, _PUBLIC) and allows(role, Role(needed))


def guard() -> BaseResponse | None:
    """Before each request: anonymous → login, role too low or none declared → 403."""
    if request.endpoint is None or request.blueprint == _API:
        return None
    view = current_app.view_functions.get(request.endpoint)
    needed = _PUBLIC if request.endpoint == _STATIC else getattr(view, _ATTRIBUTE, None)
    if needed == _PUBLIC:
        return None
    if not current_user.is_authenticated:
        return to_login()
    if needed is None or not allows(current_user.role, Role(needed)):
        abort(403)
    return None


def to_login() -> BaseResponse:
    """The way to the login page and back. A fragment must never receive the login page itself: 401 and HX-Redirect."""
    if not htmx:
        back = request.full_path.rstrip("?") if request.method == "GET" else None
        return redirect(url_for("auth.login", next=back if back != "/" else None))
    seen = urlsplit(htmx.current_url or "")
    back = seen.path + (f"?{seen.query}" if seen.query else "")
    target = url_for("auth.login", next=safe_next(back, default="") or None)
    return Response(status=401, headers={"HX-Redirect": target})


def _only(text: str, allowed: Iterable[range]) -> bool:
    return all(any(ord(character) in part for part in allowed) for character in text)


def safe_next(target: str | None, default: str = "/") -> str:
    """`target` when it is a path on this host, else `default`.

    Browsers read backslashes as slashes and drop tabs and line ends, so anything but printable ASCII without
    backslash is refused, and so is a second slash at the start.
    """
    if not target or not target.startswith("/") or target.startswith("//"):
        return default
    if "\\" in target or not _only(target, (range(0x21, 0x7F),)):
        return default
    parts = urlsplit(target)
    return default if parts.scheme or parts.netloc or target.partition("?")[0].startswith("/login") else target
