"""Answers that cost much and may be a minute old: each is made once for all who ask this process. Reads only."""

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar, cast

from flask import current_app
from sqlalchemy import func, select

from portal.extensions import db
from portal.tables import AuditLog, QuotaViolation

LIFE = timedelta(minutes=1)
MOST = 64  # answers that are kept

Found = TypeVar("Found")


class Answer(NamedTuple):
    """What was found at a moment, when the portal stood as `mark` says."""

    at: datetime
    mark: Hashable
    found: Any


def remembered(
    question: Hashable, now: datetime, make: Callable[[], Found], mark: Callable[[], Hashable] = lambda: None
) -> Found:
    """What `make` finds; as it found it before when that is no older than LIFE and `mark` is the same.

    `question`: a name, and all that the answer depends on but the time.
    """
    known: dict[Hashable, Answer] = current_app.extensions.setdefault("facho-remembered", {})
    seal, answer = mark(), known.get(question)
    if answer and answer.mark == seal and timedelta() <= now - answer.at < LIFE:
        return cast(Found, answer.found)
    found = make()
    if len(known) >= MOST:
        known.clear()
    known[question] = Answer(now, seal, found)
    return found


def changes() -> Hashable:
    """A mark that differs once somebody has changed anything, or an hour's promises were judged. One SQL statement."""
    last = (select(func.max(table.id)).scalar_subquery() for table in (AuditLog, QuotaViolation))
    return tuple(db.session.execute(select(*last)).one())
