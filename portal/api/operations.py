"""The blueprint of the API and how a view is declared: one declaration routes it, guards it and documents it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from flask import Blueprint, Response

from portal.api import access
from portal.api.answers import answer
from portal.api.args import Arg, expect_no_fields, read_args
from portal.api.errors import ROOT, register_errors
from portal.domain.statuses import Role

PREFIX = f"{ROOT}/v1"

bp = Blueprint("api", __name__, url_prefix=PREFIX)
register_errors(bp)
access.protect(bp)


@dataclass(frozen=True)
class Reply:
    """What a view gives back. `body`: a dataclass of portal.api.bodies, or plain JSON."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """One method of one address. `answers`: status → (what it means, class of the body; None: any object)."""

    method: str
    path: str
    name: str
    role: Role
    summary: str
    description: str
    tag: str
    args: tuple[Arg, ...]
    answers: Mapping[int, tuple[str, type[Any] | None]]
    errors: tuple[int, ...]


OPERATIONS: list[Operation] = []

View = Callable[..., Reply]


def operation(
    method: str,
    path: str,
    role: Role,
    summary: str,
    answers: Mapping[int, tuple[str, type[Any] | None]],
    *,
    tag: str,
    args: tuple[Arg, ...] = (),
    errors: tuple[int, ...] = (),
) -> Callable[[View], View]:
    """Declare a view: `path` ends in a slash and is served without it too; `errors` are those beyond the usual.

    The view receives the path's parameters and the URL's arguments by name, and returns a Reply. Its docstring is
    the description.
    """

    def declare(view: View) -> View:
        @wraps(view)
        def served(**parts: Any) -> Response:
            values = read_args(args)
            if method not in access.SAFE:
                expect_no_fields()
            reply = view(**parts, **values)
            return answer(reply.body, reply.status, reply.headers)

        access.requires(role)(served)
        bp.add_url_rule(path, view.__name__, served, methods=[method], strict_slashes=False)
        text = " ".join((view.__doc__ or "").split())
        OPERATIONS.append(
            Operation(method, PREFIX + path, view.__name__, role, summary, text, tag, args, answers, errors)
        )
        return view

    return declare
