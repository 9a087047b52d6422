"""Arguments of a URL and bodies of requests: declared once, read strictly. Whatever is wrong is named in the 400."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from flask import request

from portal.api.errors import ApiError, invalid
from portal.api.schema import Schema, schema_of
from portal.domain import fields, moments
from portal.domain.fields import FieldError, Reader
from portal.queries import keyset

LARGEST_ID = 2**31 - 1  # what an INTEGER column holds on PostgreSQL
LARGEST_BODY = 64 * 1024
JSON = "application/json"

_PLUS_LOST = re.compile(r"(T.*) (\d\d:?\d\d)", re.ASCII)  # a + in a URL means a blank


class ArgError(ValueError):
    """An argument that is not taken; the text says what is."""


@dataclass(frozen=True)
class Arg:
    """One argument of a URL. `read` raises ArgError or FieldError."""

    name: str
    description: str
    schema: Schema
    read: Callable[[str], Any]
    default: Any = None


def whole(name: str, description: str, low: int = 1, high: int = LARGEST_ID, default: int | None = None) -> Arg:
    """A whole number from `low` to `high`."""
    schema: Schema = {"type": "integer", "minimum": low, "maximum": high}
    return Arg(name, description, schema | _default(default), fields.whole(low, high), default)


def word(name: str, description: str, words: type[StrEnum]) -> Arg:
    """One of a closed set of words, in capitals or not."""
    known = {one.value.lower(): one for one in words}

    def read(text: str) -> StrEnum:
        try:
            return known[text.strip().lower()]
        except KeyError:
            listed = ", ".join(one.value for one in words)
            raise ArgError(f"must be one of {listed}, not {fields.shown(text)}") from None

    return Arg(name, description, schema_of(words), read)


def moment(name: str, description: str) -> Arg:
    """A time with its zone."""
    return Arg(name, description, schema_of(datetime), _moment)


def opaque(name: str, description: str, read: Callable[[str], Any]) -> Arg:
    """Text that only `read` understands."""
    return Arg(name, description, {"type": "string"}, read)


def _cursor(text: str) -> str:
    if not keyset.is_cursor(text):
        raise ArgError(
            "is not one that this list gave out: follow `next`, or leave it out to begin with the first page"
        )
    return text


CURSOR = opaque("cursor", "Where the page begins; a part of `next`.", _cursor)


def begin(cursor: str | None, order: keyset.Order) -> str:
    """The cursor, "" for the first page; ApiError 400 when a list in another order gave it out."""
    if cursor and not keyset.fits(cursor, order):
        wrong = "belongs to a list with other arguments: follow `next`, or leave it out to begin with the first page"
        raise invalid({"cursor": wrong})
    return cursor or ""


def _default(value: Any) -> Schema:
    return {} if value is None else {"default": value}


def _moment(text: str) -> datetime:
    try:
        return moments.parse(_PLUS_LOST.sub(r"\1+\2", text.strip()))
    except ValueError:
        raise ArgError(
            f"must be a time with its zone, such as 2026-11-27T10:00:00Z, not {fields.shown(text)}"
        ) from None


def read_args(declared: Sequence[Arg]) -> dict[str, Any]:
    """Name → value of all declared arguments; ApiError 400 that names each one that is wrong, unknown or doubled."""
    known = {arg.name: arg for arg in declared}
    values = {arg.name: arg.default for arg in declared}
    wrong: dict[str, str] = {}
    for name, texts in request.args.lists():
        try:
            values[name] = _read(known, name, texts)
        except (ArgError, FieldError) as error:
            wrong[fields.shown(name)] = str(error)
    if wrong:
        raise invalid(wrong)
    return values


def _read(known: dict[str, Arg], name: str, texts: list[str]) -> Any:
    if name not in known:
        raise ArgError(_unknown(name, known))
    if len(texts) > 1:
        raise ArgError("is given more than once")
    reader: Reader = known[name].read  # type: ignore[assignment]
    return reader(texts[0])


def _unknown(name: str, known: Iterable[str]) -> str:
    listed = ", ".join(known)
    if not listed:
        return "is unknown: this address takes no arguments"
    meant = fields.nearest(name, known)
    return f"is unknown{f', did you mean {meant}?' if meant else ''}. Known: {listed}"


def limit_body() -> None:
    """Before anything reads the body: how large it may be, and that a form is not taken."""
    request.max_content_length = LARGEST_BODY + 1  # one more: a body sent in chunks is cut there without a word
    sent = bool(request.content_length) or "chunked" in request.headers.get("Transfer-Encoding", "").lower()
    if sent and request.mimetype != JSON:
        raise ApiError(415)
    if (request.content_length or 0) > LARGEST_BODY:
        raise ApiError(413)


def expect_no_fields() -> None:
    """The body is empty or {}. ApiError 400 that names what else is in it."""
    text = request.get_data()
    if len(text) > LARGEST_BODY:
        raise ApiError(413)
    if not text.strip():
        return
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise invalid({"body": "is not JSON: send no body, or {}"}) from None
    if not isinstance(given, dict):
        raise invalid({"body": "must be a JSON object: send no body, or {}"})
    if given:
        raise invalid({fields.shown(name): "is unknown: this request takes no fields" for name in given})
