"""The decision log for people: filters, one page, what came since. Reads only.

Fast with millions of rows because every statement walks one index from one end: that of the OLT, the type or the
level, newest first; without any of them the ids, whose order is that of time but for a second. A search for text, or a
type together with a level, reads row by row: over all OLTs it goes back over a window of time and no further.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select, union_all

from portal.domain.messages import SAID, unpacked
from portal.domain.statuses import EventType, SkipReason
from portal.extensions import db
from portal.queries import keyset
from portal.queries.matching import contains
from portal.tables import CoordinatorLog, Olt, WorkflowNode

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
RARE_LEVELS = ("DEBUG", "ERROR", "CRITICAL")
SEARCHED = timedelta(hours=6)  # how far back a search row by row goes where no time is given
LONGEST = timedelta(hours=24)  # … and where a longer one is
MOST_AFTER = 5000  # rows of one look at what is new: more than LATE, so that looking back never stands still
LATE = 2000  # ids that may be out of order: as many as transactions write while one waits for its commit


@dataclass(frozen=True)
class Filter:
    """What is asked for; None and "" = everything. `until` is exclusive."""

    level: str = ""
    event: EventType | None = None
    olt_id: int | None = None
    node_id: int | None = None
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def row_by_row(self) -> bool:
        """True when no index leads to the rows, so that the time must be bounded."""
        picky = bool(self.text) or self.node_id is not None or (bool(self.level) and self.event is not None)
        return picky and self.olt_id is None

    def bounded(self, now: datetime) -> "Filter":
        """The same with a beginning that is not too far back, where one is needed."""
        if not self.row_by_row:
            return self
        end = min(self.until or now, now)
        return replace(self, since=end - SEARCHED if self.since is None else max(self.since, end - LONGEST))

    @property
    def order(self) -> keyset.Order:
        """By time where an index of the OLT, the type or the level ends in it; else by id."""
        timed = self.olt_id is not None or self.event is not None or bool(self.level)
        keys: tuple[keyset.Key, ...] = (CoordinatorLog.timestamp, CoordinatorLog.id) if timed else (CoordinatorLog.id,)
        return keyset.Order(keys, descending=True)


@dataclass(frozen=True)
class Row:
    """One decision. `message`: a Message where it can be said in other languages; `details` without its packed form."""

    id: int
    timestamp: datetime
    level: str
    event: EventType
    reason: SkipReason | None
    message: str
    details: dict[str, Any]
    olt_id: int | None
    olt_name: str
    node_id: int | None
    node_name: str
    execution_id: int | None
    scheduled_for: datetime | None


_COLUMNS = (
    CoordinatorLog.id, CoordinatorLog.timestamp, CoordinatorLog.level, CoordinatorLog.event_type,
    CoordinatorLog.reason, CoordinatorLog.message, CoordinatorLog.details, CoordinatorLog.olt_id,
    func.coalesce(Olt.name, ""), CoordinatorLog.node_id, func.coalesce(WorkflowNode.name, ""),
    CoordinatorLog.execution_id, CoordinatorLog.scheduled_for,
)  # fmt: skip


def page(wanted: Filter, cursor: str = "", size: int = keyset.PAGE_SIZE) -> keyset.Page[Row]:
    """One page, newest first; `wanted` must be bounded. Two SQL statements at most."""
    return keyset.fetch(_filtered(wanted), wanted.order, cursor, size).map(_row)


def newest(wanted: Filter, most: int) -> Iterator[Row]:
    """The newest `most` of what was asked for, for a file; `wanted` must be bounded. Two SQL statements at most."""
    return map(_row, keyset.stream(_filtered(wanted), wanted.order, most))


def after(last_id: int, wanted: Filter, limit: int = MOST_AFTER) -> list[Row]:
    """The rows with a greater id, oldest first. One SQL statement."""
    query = _select(wanted).where(CoordinatorLog.id > last_id, *_times(wanted), *_sides(wanted, None))
    return [_row(row) for row in db.session.execute(query.order_by(CoordinatorLog.id).limit(limit))]


def _row(columns: Any) -> Row:
    row = Row(*columns)
    return replace(row, message=message_of(row.message, row.details), details=_without_packed(row.details))


def _without_packed(details: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if name != SAID}


def message_of(text: str, details: Mapping[str, Any]) -> str:
    """What a decision says: the Message that its details keep, else its text."""
    said = details.get(SAID)
    return unpacked(said, text) if isinstance(said, dict) else text


def newest_id() -> int:
    """The greatest id, 0 when there is none."""
    return db.session.scalar(select(func.max(CoordinatorLog.id))) or 0


def _select(wanted: Filter) -> Select[Any]:
    nodes = (WorkflowNode, WorkflowNode.id == CoordinatorLog.node_id)
    return select(*_COLUMNS).outerjoin(Olt, Olt.id == CoordinatorLog.olt_id).outerjoin(*nodes)


def _filtered(wanted: Filter) -> Select[Any]:
    leading = _leading(wanted)
    query = _select(wanted).where(*_times(wanted), *_sides(wanted, leading))
    if leading == "olt":
        return query.where(CoordinatorLog.olt_id == wanted.olt_id)
    if leading == "event":
        return query.where(CoordinatorLog.event_type == wanted.event)
    if leading == "level":
        return query.where(CoordinatorLog.level == wanted.level)
    return query.where(*_ids(wanted))


def _leading(wanted: Filter) -> str:
    """The condition whose index is walked: the one that leaves the fewest rows."""
    if wanted.olt_id is not None:
        return "olt"
    if wanted.level in RARE_LEVELS:
        return "level"
    return "event" if wanted.event is not None else "level" if wanted.level else ""


def _sides(wanted: Filter, leading: str | None) -> list[ColumnElement[bool]]:
    """The other conditions, in a form for which no index is taken: the wrong one would be read to its end."""
    found: list[ColumnElement[bool]] = []
    if wanted.olt_id is not None and leading != "olt":
        found.append(CoordinatorLog.olt_id == wanted.olt_id)
    if wanted.event is not None and leading != "event":
        found.append(func.coalesce(CoordinatorLog.event_type, "") == wanted.event.value)
    if wanted.level and leading != "level":
        found.append(func.coalesce(CoordinatorLog.level, "") == wanted.level)
    if wanted.node_id is not None:
        found.append(func.coalesce(CoordinatorLog.node_id, 0) == wanted.node_id)
    if wanted.text:
        found.append(contains(CoordinatorLog.message, wanted.text))
    return found


def _times(wanted: Filter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.since is not None:
        found.append(CoordinatorLog.timestamp >= wanted.since)
    if wanted.until is not None:
        found.append(CoordinatorLog.timestamp < wanted.until)
    return found


def _ids(wanted: Filter) -> list[ColumnElement[bool]]:
    """The times as ids, with room for those that are out of order."""
    found: list[ColumnElement[bool]] = []
    if wanted.since is not None:
        first = _edge(CoordinatorLog.timestamp >= wanted.since, newest=False)
        found.append(CoordinatorLog.id >= (newest_id() + 1 if first is None else first - LATE))
    if wanted.until is not None:
        last = _edge(CoordinatorLog.timestamp < wanted.until, newest=True)
        found.append(CoordinatorLog.id <= (-1 if last is None else last + LATE))
    return found


def _edge(which: ColumnElement[bool], *, newest: bool) -> int | None:
    """Id of the first or last row of a time: no index begins with it, but those of the five levels end in it."""
    stamp = CoordinatorLog.timestamp
    ends = [
        select(CoordinatorLog.id, stamp).where(CoordinatorLog.level == level, which)
        .order_by(stamp.desc() if newest else stamp).limit(1).subquery()
        for level in LEVELS
    ]  # fmt: skip
    found = db.session.execute(union_all(*(select(end.c.id, end.c.timestamp) for end in ends))).all()
    if not found:
        return None
    at = (max if newest else min)(found, key=lambda row: row.timestamp)
    return int(at.id)
