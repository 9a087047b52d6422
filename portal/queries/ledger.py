"""The ledger for people: what each node cost its OLT over some days, how much of what it read was new. Reads only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Float, Select, case, cast, func, select

from portal.domain import ledger
from portal.domain.quota import HOUR
from portal.domain.statuses import NodeKind
from portal.extensions import db
from portal.queries import keyset
from portal.tables import CoordinatorHour, NodeDay, Olt, WorkflowNode

SPANS = (1, 7, 30)  # days that can be asked for
MOST_DAYS = 730
SORTS = ("node", "olt", "runs", "failures", "time", "share", "read", "changed", "percent")
DEFAULT_SORT = "-time"

_NUMBERS = ("runs", "failures", "duration_ms", "delay_ms", "values_read", "values_changed")
_COLUMNS = (
    "node_id", "olt_id", "first_day", *_NUMBERS, "olt_ms", "node", "kind", "chained", "interval_seconds", "olt"
)  # fmt: skip


@dataclass(frozen=True)
class Period:
    """Whole UTC days, of which the last reaches as far as the ledger is written. `up_to`: its last hour's end."""

    days: int
    start: datetime
    up_to: datetime


@dataclass(frozen=True)
class Row:
    """One node's sums in a period. `interval_seconds` None: chained, or by a cron line."""

    node_id: int
    node: str
    kind: NodeKind
    chained: bool
    interval_seconds: int | None
    olt_id: int
    olt: str
    delay_ms: int
    sums: ledger.Sums


def period(days: int) -> Period | None:
    """The last `days` UTC days up to the last hour that was entered; None before the first. One SQL statement."""
    last = db.session.scalar(select(func.max(CoordinatorHour.hour)).where(CoordinatorHour.ledger_at.is_not(None)))
    if last is None:
        return None
    day = last.replace(hour=0, minute=0, second=0, microsecond=0)
    return Period(days, day - timedelta(days=days - 1), last + HOUR)


def page(
    asked: Period, olt_id: int | None = None, sort: str = DEFAULT_SORT, cursor: str = "", size: int = keyset.PAGE_SIZE
) -> keyset.Page[Row]:  # fmt: skip
    """Nodes that ran in the period, of one OLT or of all. One SQL statement.

    `sort`: a word of SORTS, with "-" before it from high to low. Nodes and OLTs that were deleted are left out.
    """
    table = _rows(asked, olt_id).subquery()
    found = keyset.fetch(select(table), _order(table.c, sort), cursor, size)
    return found.map(lambda row: _made(row, asked))


def top(asked: Period, olt_id: int, size: int = 3) -> list[Row]:
    """What cost one OLT most. One SQL statement."""
    return list(page(asked, olt_id, size=size).rows)


def all_rows(
    asked: Period, olt_id: int | None = None, sort: str = DEFAULT_SORT, *, most: int
) -> Iterator[Row]:  # fmt: skip
    """The first `most` rows of all pages, for a file. One SQL statement."""
    table = _rows(asked, olt_id).subquery()
    return (_made(row, asked) for row in keyset.stream(select(table), _order(table.c, sort), most))


def _rows(asked: Period, olt_id: int | None) -> Select[Any]:
    """One row a node, with the sum of its OLT."""
    sums = [cast(func.sum(getattr(NodeDay, name)), BigInteger).label(name) for name in _NUMBERS]
    wanted = [NodeDay.day >= asked.start, NodeDay.day < asked.up_to]
    if olt_id is not None:
        wanted.append(NodeDay.olt_id == olt_id)
    query = select(NodeDay.node_id, NodeDay.olt_id, func.min(NodeDay.day).label("first_day"), *sums).where(*wanted)
    days = query.group_by(NodeDay.node_id, NodeDay.olt_id).subquery()
    of_olt = cast(func.sum(days.c.duration_ms).over(partition_by=days.c.olt_id), BigInteger)
    return (
        select(
            days, of_olt.label("olt_ms"), WorkflowNode.name.label("node"), WorkflowNode.kind,
            WorkflowNode.master_id.is_not(None).label("chained"), WorkflowNode.interval_seconds, Olt.name.label("olt"),
        )
        .join(WorkflowNode, WorkflowNode.id == days.c.node_id)
        .join(Olt, Olt.id == days.c.olt_id)
        .where(Olt.deleted_at.is_(None))
    )  # fmt: skip


def _part(number: Any, whole: Any) -> ColumnElement[float]:
    """A share to sort by; what has no whole comes lowest."""
    return case((whole > 0, cast(number, Float) / cast(whole, Float)), else_=-1.0)


def _order(column: Any, sort: str) -> keyset.Order:
    keys = {
        "node": keyset.lower(column.node),
        "olt": keyset.lower(column.olt),
        "runs": column.runs,
        "failures": column.failures,
        "time": column.duration_ms,
        "share": _part(column.duration_ms, column.olt_ms),
        "read": column.values_read,
        "changed": column.values_changed,
        "percent": _part(column.values_changed, column.values_read),
    }
    return keyset.Order((keys[sort.removeprefix("-")], column.node_id), descending=sort.startswith("-"))


def _made(row: Sequence[Any], asked: Period) -> Row:
    """`row`: the values of `_COLUMNS`, in their order."""
    known = dict(zip(_COLUMNS, row, strict=True))
    hours = (asked.up_to - max(asked.start, known.pop("first_day"))) / HOUR
    given = {item.name: known.pop(item.name) for item in fields(ledger.Sums) if item.name != "hours"}
    return Row(**known, sums=ledger.Sums(**given, hours=hours))
