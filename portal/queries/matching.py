"""How a part of a text is looked for, alike on both databases. Knows no table."""

from sqlalchemy import ColumnElement, func

from portal.domain.searching import folded
from portal.queries.keyset import Key

_ESCAPE = "\\"


def contains(column: Key, wanted: str) -> ColumnElement[bool]:
    """True where the column holds `wanted`, whatever the case.

    SQLite knows upper and lower case of ASCII only, so any other letter matches each: "pérez" finds PÉREZ and Perez.
    """
    pattern = "".join(_literal(letter) for letter in wanted.lower())
    return func.lower(column).like(f"%{pattern}%", escape=_ESCAPE)


def _literal(letter: str) -> str:
    if not letter.isascii():
        return "_"
    return _ESCAPE + letter if letter in ("%", "_", _ESCAPE) else letter


def contains_folded(column: Key, wanted: str) -> ColumnElement[bool]:
    """True where a column that holds folded text (portal.domain.searching) holds `wanted`, however it is written."""
    pattern = "".join(_ESCAPE + letter if letter in ("%", "_", _ESCAPE) else letter for letter in folded(wanted))
    return column.like(f"%{pattern}%", escape=_ESCAPE)
