"""Turns the database's word on uniqueness, which alone holds under a race, into the message that a check would give."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy.exc import IntegrityError

from portal.domain.messages import N_
from portal.services.errors import Conflict, Invalid

Rules = Mapping[str, tuple[str, str]]


@contextmanager
def unique_or_invalid(rules: Rules) -> Iterator[None]:
    """Invalid instead of IntegrityError. `rules`: constraint name, or SQLite's column list → (field, message)."""
    try:
        yield
    except IntegrityError as error:
        said = str(error.orig)
        for sign, (field, message) in rules.items():
            if sign in said:
                raise Invalid({field: message}) from None
        raise Conflict(
            N_("somebody else changed what this depends on at the same moment: look again and repeat")
        ) from error
