"""Promises for people: how an hour stands, its trackers worst first, one OLT's last day, a glance. Reads only.

Every statement is about one hour or one OLT, to which an index leads: how many weeks are kept does not matter.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
    Select,
    and_,
    case,
    cast,
    distinct,
    func,
    or_,
    select,
    type_coerce,
)

from portal.domain import quota
from portal.domain.quota import Counts
from portal.domain.statuses import QuotaStatus
from portal.extensions import db
from portal.queries import keyset, quota_losses
from portal.queries.matching import contains
from portal.queries.quota_losses import Lost
from portal.tables import Olt, QuotaTracker, QuotaViolation

AT_RISK = "at_risk"
STATUSES = (AT_RISK, *(one.value for one in QuotaStatus))
BROKEN = (QuotaStatus.QUOTA_NOT_MET, QuotaStatus.FAILED)  # what a violation was when it was judged
DAY = timedelta(days=1)
STRIP_HOURS = 24
SORTS = ("olt", "-olt", "task", "-task", "share", "-share")  # of an hour; without one the worst come first
OPENED_WITHIN = timedelta(minutes=5)  # of its hour: the coordinator opens some OLTs at a pass


@dataclass(frozen=True)
class Filter:
    """Which trackers of an hour (its start); None and "" = all. `status`: one of STATUSES, `sort` one of SORTS."""

    hour: datetime
    olt_id: int | None = None
    task_type: str = ""
    status: str = ""
    text: str = ""
    sort: str = ""


@dataclass(frozen=True)
class Row:
    """One tracker. `lost`: its lost slots by cause, most first; only where it was asked for."""

    id: int
    olt_id: int
    olt_name: str
    task_type: str
    hour: datetime
    end: datetime
    counts: Counts
    status: QuotaStatus
    forecast: int | None
    forecast_details: Mapping[str, Any] | None
    duration_ms: int
    updated_at: datetime
    at_risk: bool
    lost: Lost = ()

    @property
    def open(self) -> bool:
        """True while its hour is not judged."""
        return self.status is QuotaStatus.IN_PROGRESS

    def as_dict(self) -> dict[str, Any]:
        """As clients and commands are given it."""
        counts = self.counts
        return {
            "id": self.id, "olt_id": self.olt_id, "olt_name": self.olt_name, "task_type": self.task_type,
            "period_start": self.hour, "period_end": self.end, "status": self.status, "at_risk": self.at_risk,
            "required": counts.required, "completed": counts.completed, "failed": counts.failed,
            "skipped": counts.skipped, "pending": counts.pending,
            "lost": {cause.value: slots for cause, slots in self.lost},
            "forecast": self.forecast if self.open else None, "avg_duration_ms": self.duration_ms,
            "updated_at": self.updated_at,
        }  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """An hour in numbers. `olts`: with a promise that nobody took back; `kept`: those of them that keep all theirs.

    `statuses`: how many trackers there are of each of STATUSES.
    """

    counts: Counts
    trackers: int
    olts: int
    kept: int
    statuses: Mapping[str, int]

    @property
    def at_risk(self) -> int:
        """Trackers at risk."""
        return self.statuses.get(AT_RISK, 0)


@dataclass(frozen=True)
class Group:
    """Trackers of an hour that stand alike; `failed` and `skipped` are sums over them. `begin`: see `begin_of`."""

    status: QuotaStatus
    required: int
    completed: int
    pending: int
    begin: datetime
    failed: int
    skipped: int
    trackers: int

    def at_risk(self, hour: datetime, now: datetime) -> bool:
        """The domain's rule, which asks how many are lost and not how."""
        lost = self.required - self.completed - self.pending
        counts = Counts(self.completed, lost, 0, self.pending)
        return self.status is QuotaStatus.IN_PROGRESS and quota.at_risk(counts, hour, now, self.begin)


_COLUMNS = (
    QuotaTracker.id, QuotaTracker.olt_id, Olt.name, QuotaTracker.task_type, QuotaTracker.period_start,
    QuotaTracker.period_end, QuotaTracker.quota_completed, QuotaTracker.quota_failed, QuotaTracker.quota_skipped,
    QuotaTracker.quota_pending, QuotaTracker.status, QuotaTracker.forecast, QuotaTracker.forecast_details,
    QuotaTracker.avg_duration_ms, QuotaTracker.updated_at, QuotaTracker.created_at,
)  # fmt: skip


def rows_query() -> Select[Any]:
    """The columns that `row_of` reads."""
    return select(*_COLUMNS).join(Olt, Olt.id == QuotaTracker.olt_id)


def row_of(found: Sequence[Any], now: datetime, lost: Lost = ()) -> Row:
    """A tracker as it stands now."""
    ident, olt_id, name, task_type, hour, end, *counted, status, forecast, details, duration, updated, created = found
    counts, begin = Counts(*counted), created if created > hour + OPENED_WITHIN else hour
    risky = status is QuotaStatus.IN_PROGRESS and quota.at_risk(counts, hour, now, begin)
    return Row(ident, olt_id, name, task_type, hour, end, counts, status, forecast, details, duration, updated, risky,
               lost)  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- an hour


def groups(wanted: Filter) -> list[Group]:
    """The hour's trackers, whatever their status, by how they stand. One SQL statement."""
    alike = (
        QuotaTracker.status, QuotaTracker.quota_required, QuotaTracker.quota_completed, QuotaTracker.quota_pending,
        begin_of(wanted.hour),
    )  # fmt: skip
    sums = (cast(func.sum(column), Integer) for column in (QuotaTracker.quota_failed, QuotaTracker.quota_skipped))
    query = select(*alike, *sums, func.count()).where(*_which(wanted)).group_by(*alike)
    return [Group(*row) for row in db.session.execute(query)]


def begin_of(hour: datetime) -> ColumnElement[datetime]:
    """When a promise of the hour was made: at its beginning, but for those that a change brought later."""
    late = QuotaTracker.created_at > hour + OPENED_WITHIN
    return case((late, QuotaTracker.created_at), else_=QuotaTracker.period_start)


def _which(wanted: Filter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = [QuotaTracker.period_start == wanted.hour]
    if wanted.olt_id is not None:
        found.append(QuotaTracker.olt_id == wanted.olt_id)
    if wanted.task_type:
        found.append(QuotaTracker.task_type == wanted.task_type)
    if wanted.text:
        named = QuotaTracker.olt_id.in_(select(Olt.id).where(contains(Olt.name, wanted.text)))
        found.append(or_(named, contains(QuotaTracker.task_type, wanted.text.replace(" ", "_"))))
    return found


def _risky(alike: Iterable[Group], hour: datetime, now: datetime) -> ColumnElement[bool]:
    """The domain's rule as a condition: those that are doomed, and of those that require n since the same moment all

    with no more completed than the best that are behind.
    """
    behind: dict[tuple[int, datetime], int] = {}
    for one in alike:
        lost = one.required - one.completed - one.pending
        if one.at_risk(hour, now) and not quota.doomed(Counts(one.completed, lost, 0, one.pending)):
            key = (one.required, one.begin)
            behind[key] = max(one.completed, behind.get(key, 0))
    best = cast(QuotaTracker.quota_completed + QuotaTracker.quota_pending, Float)
    doomed = best < cast(QuotaTracker.quota_required, Float) * quota.MET
    each = (
        and_(QuotaTracker.quota_required == required, QuotaTracker.quota_completed <= done, begin_of(hour) == begin)
        for (required, begin), done in behind.items()
    )
    return and_(QuotaTracker.status == QuotaStatus.IN_PROGRESS, or_(doomed, *each))


def _bad(risky: ColumnElement[bool]) -> ColumnElement[bool]:
    """Broken, or at risk."""
    return or_(QuotaTracker.status.in_(BROKEN), risky)


def _required() -> ColumnElement[int]:
    return func.nullif(QuotaTracker.quota_required, 0)


def summary(wanted: Filter, alike: Sequence[Group], now: datetime) -> Summary:
    """The hour in numbers; the filter's status does not count. `alike`: its groups. One SQL statement."""
    statuses: dict[str, int] = defaultdict(int)
    for one in alike:
        statuses[one.status.value] += one.trackers
        statuses[AT_RISK] += one.trackers if one.at_risk(wanted.hour, now) else 0
    counts = Counts(
        sum(one.completed * one.trackers for one in alike), sum(one.failed for one in alike),
        sum(one.skipped for one in alike), sum(one.pending * one.trackers for one in alike),
    )  # fmt: skip
    olts, broken = _olts(wanted, _risky(alike, wanted.hour, now))
    return Summary(counts, sum(one.trackers for one in alike), olts, olts - broken, dict(statuses))


def _olts(wanted: Filter, risky: ColumnElement[bool]) -> tuple[int, int]:
    """OLTs with a promise, and those of them that do not keep one."""
    broken = case((_bad(risky), QuotaTracker.olt_id))
    query = select(func.count(distinct(QuotaTracker.olt_id)), func.count(distinct(broken)))
    found = db.session.execute(query.where(*_which(wanted), QuotaTracker.status != QuotaStatus.INTERRUPTED)).one()
    return int(found[0]), int(found[1])


def page(
    wanted: Filter, alike: Sequence[Group], now: datetime, cursor: str = "", size: int = keyset.PAGE_SIZE
) -> keyset.Page[Row]:  # fmt: skip
    """One page of the hour in its order, with losses. `alike`: its groups. Two SQL statements."""
    risky = _risky(alike, wanted.hour, now)
    found = keyset.fetch(_hour(wanted, risky), _order(wanted.sort, risky), cursor, size)
    lost = quota_losses.of_trackers([(row[1], *row[3:5]) for row in found.rows])
    return found.map(lambda row: row_of(row, now, lost.get((row[1], *row[3:5]), ())))


def of_hour(wanted: Filter, alike: Sequence[Group], now: datetime, most: int) -> Iterator[Row]:
    """As `page`, but the first `most` rows of the hour, for a file. Two SQL statements."""
    risky, lost = _risky(alike, wanted.hour, now), quota_losses.of_hour(wanted.hour)
    for row in keyset.stream(_hour(wanted, risky), _order(wanted.sort, risky), most):
        yield row_of(row, now, lost.get((row[1], row[3]), ()))


def _hour(wanted: Filter, risky: ColumnElement[bool]) -> Select[Any]:
    query = rows_query().where(*_which(wanted))
    if wanted.status == AT_RISK:
        return query.where(risky)
    return query.where(QuotaTracker.status == QuotaStatus(wanted.status)) if wanted.status else query


def _order(sort: str, risky: ColumnElement[bool]) -> keyset.Order:
    """Sorted is what belongs to one hour, a few thousand rows."""
    keys: dict[str, keyset.Key] = {
        "olt": keyset.lower(Olt.name), "task": QuotaTracker.task_type, "share": _share(QuotaTracker.quota_completed),
    }  # fmt: skip
    if sort not in SORTS:
        return _worst_first(risky)
    return keyset.Order((keys[sort.removeprefix("-")], QuotaTracker.id), descending=sort.startswith("-"))


def _worst_first(risky: ColumnElement[bool]) -> keyset.Order:
    """What is bad, then the rest, last what was interrupted; among these by how it will end, then by how it stands."""
    rank = case((QuotaTracker.status == QuotaStatus.INTERRUPTED, 2), (_bad(risky), 0), else_=1)
    possible = QuotaTracker.quota_completed + QuotaTracker.quota_pending
    ends = case(
        (QuotaTracker.status == QuotaStatus.IN_PROGRESS, func.coalesce(QuotaTracker.forecast, possible)),
        else_=QuotaTracker.quota_completed,
    )
    keys = (rank, _share(ends), _share(QuotaTracker.quota_completed), QuotaTracker.id)
    return keyset.Order(keys, word="worst first")  # what is risky changes with the clock


def _share(part: Any) -> ColumnElement[float]:
    return type_coerce(func.coalesce(cast(part, Float) / _required(), 1.0), Float)


def broken_by_hour(first: datetime, last: datetime) -> dict[datetime, int | None]:
    """Hour's start, from `first` to `last` → its violations; None = it has promises that are not judged yet.

    Two SQL statements.
    """
    query = (
        select(QuotaViolation.period_start, func.count())
        .where(QuotaViolation.period_start >= first, QuotaViolation.period_start <= last)
        .group_by(QuotaViolation.period_start)
    )
    found: dict[datetime, int | None] = {hour: int(count) for hour, count in db.session.execute(query)}
    return found | dict.fromkeys(_unjudged(first, last))


def _unjudged(first: datetime, last: datetime) -> list[datetime]:
    """Of these hours (their starts) those with promises that are not judged yet. One SQL statement."""
    query = select(distinct(QuotaTracker.period_end)).where(
        QuotaTracker.status == QuotaStatus.IN_PROGRESS, QuotaTracker.period_end > first,
        QuotaTracker.period_end <= last + quota.HOUR,
    )  # fmt: skip
    return [end - quota.HOUR for end in db.session.scalars(query)]


def task_types(hour: datetime) -> list[str]:
    """What was promised in the hour. One SQL statement."""
    query = select(distinct(QuotaTracker.task_type)).where(QuotaTracker.period_start == hour)
    return sorted(db.session.scalars(query))


# ------------------------------------------------------------------------------------------------ one OLT, and a glance


@dataclass(frozen=True)
class Strip:
    """One task type of an OLT: this hour (None: nothing promised), and each hour before, the oldest first."""

    task_type: str
    present: Row | None
    past: tuple[tuple[datetime, Row | None], ...] = field(default=())


def of_olt(olt_id: int, now: datetime, hours: int = STRIP_HOURS) -> list[Strip]:
    """This hour and the last `hours` of each task type, by its name. Two SQL statements."""
    present = quota.hour_at(now)
    first = present - hours * quota.HOUR
    query = rows_query().where(
        QuotaTracker.olt_id == olt_id, QuotaTracker.period_start >= first, QuotaTracker.period_start <= present
    )
    lost = quota_losses.of_olt(olt_id, present)
    found: dict[str, dict[datetime, Row]] = defaultdict(dict)
    for row in db.session.execute(query):
        now_lost = lost.get(row.task_type, ()) if row.period_start == present else ()
        found[row.task_type][row.period_start] = row_of(row, now, now_lost)
    past = [first + number * quota.HOUR for number in range(hours)]
    return [
        Strip(task_type, by_hour.get(present), tuple((hour, by_hour.get(hour)) for hour in past))
        for task_type, by_hour in sorted(found.items())
    ]


@dataclass(frozen=True)
class Glance:
    """`at_risk` of `trackers` of this hour; violations of the last full hour and of the last 24.

    `judging`: the last full hour has promises that are not judged yet, and may have more violations.
    """

    trackers: int
    at_risk: int
    last_hour: int
    last_day: int
    judging: bool = False


def glance(now: datetime) -> Glance:
    """Three SQL statements. What ends late may mend a tracker's status; a violation stays one."""
    hour = quota.hour_at(now)
    alike = groups(Filter(hour))
    last = case((QuotaViolation.period_start == hour - quota.HOUR, 1))
    query = select(func.count(last), func.count()).where(QuotaViolation.period_start >= hour - DAY)
    last_hour, last_day = db.session.execute(query).one()
    risky = sum(one.trackers for one in alike if one.at_risk(hour, now))
    return Glance(sum(one.trackers for one in alike), risky, int(last_hour), int(last_day),
                  bool(_unjudged(hour - quota.HOUR, hour - quota.HOUR)))  # fmt: skip
