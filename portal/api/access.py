"""Who calls the API, and whether that one may: a token or a session, the role a view declares, the rate limits.

A view that declares no role is denied to all.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any, TypeVar

from flask import Blueprint, Response, current_app, g, request
from flask_limiter.util import get_remote_address
from flask_login import current_user

from portal import clock
from portal.api.args import limit_body
from portal.api.errors import ApiError
from portal.domain.roles import allows
from portal.domain.statuses import Role
from portal.extensions import csrf, limiter
from portal.services.people import tokens

View = TypeVar("View", bound=Callable[..., Any])

SAFE = ("GET", "HEAD", "OPTIONS")
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
READS = "600 per minute"
WRITES = "60 per minute"

_ATTRIBUTE = "required_role"  # the same as that of pages: one test looks at all views
_BEARER = "bearer"


@dataclass(frozen=True)
class Caller:
    """Who asks. `key` tells callers apart for the rate limits, `actor` is the name in the audit log."""

    key: str
    actor: str
    role: Role
    by_token: bool


def requires(role: Role) -> Callable[[View], View]:
    """Declare which role a view needs; only notes it, the check is `guard`."""

    def note(view: View) -> View:
        setattr(view, _ATTRIBUTE, role)
        return view

    return note


def caller() -> Caller | None:
    """Who asks, found out once per request; None for a stranger."""
    if "api_caller" not in g:
        g.api_caller = _identify()
    found: Caller | None = g.api_caller
    return found


def actor() -> str:
    """Name of who asks, for services that keep it. Only inside views, where the guard let somebody in."""
    found = caller()
    if found is None:
        raise ApiError(401)
    return found.actor


def _identify() -> Caller | None:
    """A bearer token speaks for itself alone: when it is not valid, a session beside it does not count."""
    scheme, _blank, text = request.headers.get("Authorization", "").strip().partition(" ")
    if scheme.lower() == _BEARER:
        identity = tokens.authenticate(text.strip(), clock.now())
        return _token(identity) if identity else None
    if current_user.is_authenticated:
        return Caller(f"user:{current_user.id}", str(current_user.username), Role(current_user.role), by_token=False)
    return None


def _token(identity: tokens.Identity) -> Caller:
    return Caller(f"token:{identity.token_id}", identity.actor, identity.role, by_token=True)


def _key() -> str:
    found = caller()
    return found.key if found else f"address:{get_remote_address()}"


def guard() -> None:
    """Before each request of the API: 401 for strangers, 403 where the role is too low or none is declared."""
    needed = getattr(current_app.view_functions.get(request.endpoint or ""), _ATTRIBUTE, None)
    found = caller()
    if found is None:
        raise ApiError(401, _stranger())
    if not isinstance(needed, Role) or not allows(found.role, needed):
        raise ApiError(403, _too_low(found, needed))
    if request.method not in SAFE:
        limit_body()
        if not found.by_token:
            csrf.protect()


def _stranger() -> str:
    if request.headers.get("Authorization", "").lower().startswith(_BEARER):
        return "This token is unknown, expired or revoked: `flask token add NAME` makes a new one."
    return ""


def _too_low(found: Caller, needed: object) -> str:
    if not isinstance(needed, Role):
        return ""
    return f"This needs the role {needed}, {found.actor} has {found.role}. Nothing was changed."


def _limits(response: Response) -> Response:
    """What is left of the caller's budget."""
    limit = limiter.current_limit
    if limit is None:
        return response
    response.headers["X-RateLimit-Limit"] = str(limit.limit.amount)
    response.headers["X-RateLimit-Remaining"] = str(max(0, limit.remaining))
    response.headers["X-RateLimit-Reset"] = str(limit.reset_at)
    if response.status_code == 429:
        response.headers["Retry-After"] = str(max(1, ceil(limit.reset_at - time.time())))
    return response


def protect(blueprint: Blueprint) -> None:
    """Put the guard and the limits before all views of `blueprint`. The guard asks sessions for the CSRF token."""
    csrf.exempt(blueprint)
    limiter.shared_limit(READS, "api-reads", key_func=_key, methods=list(SAFE))(blueprint)
    limiter.shared_limit(WRITES, "api-writes", key_func=_key, methods=list(UNSAFE))(blueprint)
    blueprint.before_request(guard)
    blueprint.after_request(_limits)
