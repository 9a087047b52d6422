"""Selects rows of a table of histories for a chart."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, select, union_all

from portal.domain import series


def rows(model: Any, wanted: Iterable[Sequence[ColumnElement[bool]]], since: datetime, *heads: Any) -> Select[Any]:
    """`heads` and series.Row, oldest first: of each series that is wanted all since, and the last before.

    `wanted`: for each series the conditions that name it. From the hour of `since` on: an hour is gathered whole.
    """
    begin, at = series.hour_of(since), model.collected_at
    values = [getattr(model, name) for name in series.VALUES]
    parts = []
    for one in wanted:
        mine = select(*heads, at, *values).where(*one)
        parts += [select(mine.where(at < begin).order_by(at.desc()).limit(1).subquery()), mine.where(at >= begin)]
    found = union_all(*parts).subquery()
    return select(found).order_by(found.c.collected_at)
