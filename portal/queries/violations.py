"""Quota violations for people: the list with filters, one, the tracker behind it. Reads only."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Integer, Select, func, literal, literal_column, select, union_all

from portal.domain.statuses import LossCause, QuotaStatus, Severity
from portal.extensions import db
from portal.queries import keyset
from portal.queries.remembered import changes, remembered
from portal.tables import Olt, QuotaTracker, QuotaViolation

WORST = "worst"  # the other order: the gravest first, among these the newest
SORTS = (WORST,)
GRAVEST_FIRST = tuple(reversed(Severity))


@dataclass(frozen=True)
class Filter:
    """What is asked for; None and "" = all. `since` and `until` (exclusive) are about the hour's start.

    `sort`: "" = newest first, or WORST.
    """

    severity: Severity | None = None
    olt_id: int | None = None
    task_type: str = ""
    notified: bool | None = None
    acknowledged: bool | None = None
    since: datetime | None = None
    until: datetime | None = None
    sort: str = ""

    @property
    def order(self) -> keyset.Order:
        """Newest first: as they were found; of one OLT by the time at which, so that its index leads to them."""
        of_olt = (QuotaViolation.created_at, QuotaViolation.id)
        return keyset.Order((QuotaViolation.id,) if self.olt_id is None else of_olt, descending=True)


@dataclass(frozen=True)
class Row:
    """One violation. `lost` adds up to `required` - `completed`, most first."""

    id: int
    olt_id: int
    olt_name: str
    task_type: str
    hour: datetime
    end: datetime
    severity: Severity
    notified: bool
    notified_at: datetime | None
    created_at: datetime
    report: Mapping[str, Any]
    acknowledged_at: datetime | None = None
    acknowledged_by: str = ""
    note: str = ""

    @property
    def required(self) -> int:
        """Slots promised."""
        return int(self.report["required"])

    @property
    def completed(self) -> int:
        """… of which completed."""
        return int(self.report["completed"])

    @property
    def lost(self) -> tuple[tuple[LossCause, int], ...]:
        """Lost slots by cause, as the report has them."""
        return tuple((LossCause(cause), int(slots)) for cause, slots in self.report["lost"].items())


_COLUMNS = (
    QuotaViolation.id, QuotaViolation.olt_id, Olt.name, QuotaViolation.task_type, QuotaViolation.period_start,
    QuotaViolation.period_end, QuotaViolation.severity, QuotaViolation.notified, QuotaViolation.notified_at,
    QuotaViolation.created_at, QuotaViolation.report, QuotaViolation.acknowledged_at, QuotaViolation.acknowledged_by,
    QuotaViolation.note,
)  # fmt: skip


@dataclass(frozen=True)
class Sum:
    """Violations of one OLT, or of one task. `worst`: the gravest of them; `open`: how many nobody acknowledged."""

    name: str
    count: int
    open: int
    worst: Severity
    id: int = 0


@dataclass(frozen=True)
class Totals:
    """Violations of a period in numbers; `olts` and `tasks` with the most first."""

    severities: tuple[tuple[Severity, int], ...]
    count: int
    open: int
    olts: tuple[Sum, ...]
    tasks: tuple[Sum, ...]


def _query() -> Select[Any]:
    return select(*_COLUMNS).join(Olt, Olt.id == QuotaViolation.olt_id)


def _filtered(wanted: Filter) -> Select[Any]:
    return _query().where(*_which(wanted))


def _which(wanted: Filter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    equal = {
        QuotaViolation.severity: wanted.severity, QuotaViolation.olt_id: wanted.olt_id,
        QuotaViolation.task_type: wanted.task_type or None,
    }  # fmt: skip
    found.extend(column == value for column, value in equal.items() if value is not None)
    if wanted.notified is not None:
        found.append(QuotaViolation.notified.is_(wanted.notified))
    if wanted.acknowledged is not None:
        seen = QuotaViolation.acknowledged_at.is_not(None)
        found.append(seen if wanted.acknowledged else ~seen)
    if wanted.since is not None:
        found.append(QuotaViolation.period_start >= wanted.since)
    if wanted.until is not None:
        found.append(QuotaViolation.period_start < wanted.until)
    return found


def page(wanted: Filter, cursor: str = "", size: int = keyset.PAGE_SIZE) -> keyset.Page[Row]:
    """One page in the order asked for. One SQL statement."""
    if wanted.sort == WORST:
        found = keyset.fetch(_gravest(wanted, cursor, size), _WORST_FIRST, cursor, size)
    else:
        found = keyset.fetch(_filtered(wanted), wanted.order, cursor, size)
    return found.map(lambda row: Row(*row[: len(_COLUMNS)]))


def newest(wanted: Filter, most: int) -> Iterator[Row]:
    """The first `most` in the order asked for, for a file. One SQL statement."""
    if wanted.sort == WORST:
        rows = keyset.stream(_gravest(wanted, "", most), _WORST_FIRST, most)
    else:
        rows = keyset.stream(_filtered(wanted), wanted.order, most)
    return (Row(*row[: len(_COLUMNS)]) for row in rows)


# -- the gravest first: no index knows the order of severities, so each of them is walked by itself, newest first, no
#    further than a page needs, and these few are sorted

_WORST_FIRST = keyset.Order((literal_column("rank", Integer()), literal_column("turned", BigInteger())), word=WORST)


def _gravest(wanted: Filter, cursor: str, size: int) -> Select[Any]:
    """What a page in the order _WORST_FIRST is taken from."""
    position = keyset.decode(cursor, 2) if keyset.fits(cursor, _WORST_FIRST) else None
    (rank, turned), backward = position or ((0, None), False)
    pieces = []
    for place, severity in enumerate(GRAVEST_FIRST):
        if (place > rank) if backward else (place < rank):
            continue
        walk = QuotaViolation.id.asc() if backward else QuotaViolation.id.desc()
        piece = _filtered(wanted).where(QuotaViolation.severity == severity).order_by(walk).limit(size + 1)
        if turned is not None and place == rank:
            piece = piece.where(QuotaViolation.id > -turned if backward else QuotaViolation.id < -turned)
        rows = piece.add_columns(literal(place).label("rank"), (-QuotaViolation.id).label("turned")).subquery()
        pieces.append(select(rows))
    return select(union_all(*pieces).subquery())


# -- a period in numbers


def totals(wanted: Filter, now: datetime) -> Totals:
    """Made anew once a minute, and when one was acknowledged or an hour was judged. One SQL statement, two then.

    Its groups are as many as OLTs have tasks, however many violations there are.
    """
    return remembered(("violations", wanted), now, lambda: _totals(wanted), changes)


def _totals(wanted: Filter) -> Totals:
    groups = (QuotaViolation.olt_id, Olt.name, QuotaViolation.task_type, QuotaViolation.severity)
    counts = (func.count(), func.count(QuotaViolation.acknowledged_at))
    query = select(*groups, *counts).join(Olt, Olt.id == QuotaViolation.olt_id)
    found = [_Group(*row) for row in db.session.execute(query.where(*_which(wanted)).group_by(*groups))]
    severities = Counter[Severity]()
    for one in found:
        severities[one.severity] += one.number
    return Totals(
        tuple((one, severities[one]) for one in GRAVEST_FIRST if severities[one]),
        sum(one.number for one in found), sum(one.number - one.seen for one in found),
        _sums(found, lambda one: (one.olt_name, one.olt_id)), _sums(found, lambda one: (one.task_type, 0)),
    )  # fmt: skip


class _Group(NamedTuple):
    olt_id: int
    olt_name: str
    task_type: str
    severity: Severity
    number: int
    seen: int


def _sums(found: list[_Group], key: Callable[[_Group], tuple[str, int]]) -> tuple[Sum, ...]:
    """By a key (name, id), the one with the most first."""
    parts: dict[tuple[str, int], list[_Group]] = defaultdict(list)
    for one in found:
        parts[key(one)].append(one)
    sums = (
        Sum(name, sum(one.number for one in group), sum(one.number - one.seen for one in group),
            min((one.severity for one in group), key=GRAVEST_FIRST.index), ident)
        for (name, ident), group in parts.items()
    )  # fmt: skip
    return tuple(sorted(sums, key=lambda one: (-one.count, one.name)))


def get(violation_id: int) -> Row | None:
    """One violation, or None. One SQL statement."""
    found = db.session.execute(_query().where(QuotaViolation.id == violation_id)).one_or_none()
    return Row(*found) if found else None


def anything_judged() -> bool:
    """True when any promise has been judged. One SQL statement."""
    judged = select(QuotaTracker.id).where(QuotaTracker.status != QuotaStatus.IN_PROGRESS).limit(1)
    return db.session.scalar(judged) is not None


def tracker_id(row: Row) -> int | None:
    """The tracker whose hour it was; None when that was cleaned up. One SQL statement."""
    return db.session.scalar(
        select(QuotaTracker.id).where(
            QuotaTracker.olt_id == row.olt_id, QuotaTracker.task_type == row.task_type,
            QuotaTracker.period_start == row.hour,
        )
    )  # fmt: skip
