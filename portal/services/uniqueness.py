"""Turns the database's word on uniqueness, which alone holds under a race, into the message that a check would give."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy.exc import IntegrityError

from portal.domain.messages import N_
from portal.services.errors import Conflict, Invalid

Rules = Mapping[str, tuple[str, str]]

_TAKEN = frozenset({"23505", sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
                    sqlite3.SQLITE_CONSTRAINT_ROWID})  # fmt: skip
_GONE = frozenset({"23503", sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY})  # what a row refers to, or is referred to by


def was_faster(error: IntegrityError) -> bool:
    """True where somebody else has taken what is unique. All else (a CHECK, a trigger, NOT NULL) is a fault of ours."""
    return _code(error) in _TAKEN


def _code(error: IntegrityError) -> str | int | None:
    """PostgreSQL's SQLSTATE, or SQLite's extended code."""
    said = error.orig
    return getattr(said, "sqlstate", None) or getattr(said, "sqlite_errorcode", None)


@contextmanager
def unique_or_invalid(rules: Rules) -> Iterator[None]:
    """Invalid instead of an IntegrityError. `rules`: constraint name, or SQLite's column list → (field, message).

    Conflict for another that somebody was faster at, or deleted the ground of. A fault of ours passes through.
    """
    try:
        yield
    except IntegrityError as error:
        if _code(error) not in _TAKEN | _GONE:
            raise
        said = str(error.orig)
        for sign, (field, message) in rules.items():
            if sign in said:
                raise Invalid({field: message}) from None
        raise Conflict(
            N_("somebody else changed what this depends on at the same moment: look again and repeat")
        ) from error
