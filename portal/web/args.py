"""Arguments of a URL as plain values. What means nothing becomes nothing: a URL typed by hand is never an error."""

from collections.abc import Container

from flask import request

LARGEST = 2**31 - 1  # what an INTEGER column holds on PostgreSQL


def text(name: str, longest: int = 100) -> str:
    """The argument without blanks around it and without NUL, which PostgreSQL refuses; cut to `longest`."""
    return request.args.get(name, "").replace("\x00", "").strip()[:longest]


def word(name: str, known: Container[str], default: str = "") -> str:
    """The argument if it is one of `known`."""
    value = request.args.get(name, "")
    return value if value in known else default


def whole(text: str) -> int:
    """As `type=` of what a form or a URL gives: a number that a column can hold. ValueError: it counts as not given."""
    value = int(text)
    if not 0 <= value <= LARGEST:
        raise ValueError("no column holds it")
    return value


def number(name: str) -> int | None:
    """A whole number that a column can hold, or None."""
    return request.args.get(name, type=whole)
