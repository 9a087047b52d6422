"""The ledger: what each node cost its OLT in a day, and how much of what it read was new. Sums of runs, hour by hour.

A run counts in the hour (start, end] in which it *ended*, all its tries together. Not by its slot: a slot's execution
may end hours later, and one that was missed while nothing ticked is even made later, so an hour of slots is never done;
an hour of ends is, SETTLED after it. An end is written once and never again, the hours are disjoint and
follow each other, so no run is lost or counted twice. What is ACTIVE at the close simply has not ended yet.

Skipped slots count when they were logged, each in the day of the hour that it belongs to: one row of the log may tell
of many hours. A try that was lost or cut off wrote no steps: the time that it took is in no node's sum.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, Table, and_, case, func, literal, literal_column, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from portal.domain import quota
from portal.domain.statuses import EventType, ExecutionStatus, SkipReason, StepStatus, Trigger
from portal.extensions import db, transaction
from portal.services import bulk
from portal.tables import CoordinatorHour, CoordinatorLog, Execution, ExecutionAttempt, ExecutionStep, NodeDay

# An end is committed within so long of the time that it bears: a writer waits a minute for SQLite's lock at most, and
# whoever is stalled for longer than a lease has lost its run. Clocks of several machines must agree this well too.
SETTLED = timedelta(minutes=2)

_DAYS = cast(Table, NodeDay.__table__)
_KEY = ("node_id", "day")
_SUMS = ("runs", "failures", "duration_ms", "delay_ms", "values_read", "values_changed")
_GIVEN = ("node_id", "olt_id", "day", "skips", *_SUMS)
_EMPTY: ColumnElement[Any] = literal_column("'{}'")  # no causes


_Skips = dict[tuple[int, int, datetime], dict[str, int]]  # (node id, OLT id, day) → cause → slots


def close_due(now: datetime) -> int:
    """Enter every hour that is settled and not entered yet; returns how many. Harmless when doubled."""
    session = db.session()
    query = select(CoordinatorHour.hour).where(
        CoordinatorHour.ledger_at.is_(None), CoordinatorHour.hour <= now - quota.HOUR - SETTLED
    )
    hours = list(session.scalars(query.order_by(CoordinatorHour.hour)))
    session.rollback()
    return sum(_close_once(hour, now) for hour in hours)


def _close_once(hour: datetime, now: datetime) -> bool:
    with transaction() as session:
        mine = session.execute(
            update(CoordinatorHour)
            .where(CoordinatorHour.hour == hour, CoordinatorHour.ledger_at.is_(None))
            .values(ledger_at=now)
        )
        if mine.rowcount != 1:  # type: ignore[attr-defined]
            return False
        close_hour(session, hour, now)
        return True


def close_hour(session: Session, hour: datetime, now: datetime) -> int:
    """Add what ended in the hour (start, end] to the nodes' days; returns how many executions. Not idempotent:

    the caller takes care that it happens once for each hour, and not before SETTLED after its end (`close_due` does
    both). A node that is deleted at this very moment breaks a foreign key: the caller's transaction is to be repeated.
    """
    if now < hour + quota.HOUR:
        raise ValueError("the hour is not over")
    session.flush()
    _add(session, _of_executions(hour))
    _add(session, _of_steps(hour))
    _add_skips(session, _skips(session, hour))
    ended = select(func.count()).select_from(Execution).where(_ended(hour), Execution.node_id.is_not(None))
    return session.scalar(ended) or 0


def day_of(hour: datetime) -> datetime:
    """The UTC day of an hour's start."""
    return hour.replace(hour=0, minute=0, second=0, microsecond=0)


def _ended(hour: datetime) -> Any:
    return and_(Execution.finished_at > hour, Execution.finished_at <= hour + quota.HOUR)


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))


def _of_executions(hour: datetime) -> Select[Any]:
    """Masters: executions that ended, those that failed, their delay. Columns: `_GIVEN`."""
    failed = _count(Execution.status == ExecutionStatus.FAILED)
    delay = func.coalesce(func.sum(Execution.delay_ms), 0)
    return (
        select(Execution.node_id, Execution.olt_id, _day(hour), _EMPTY, func.count(), failed, *_zeros(1), delay,
               *_zeros(2))
        .where(_ended(hour), Execution.node_id.is_not(None))
        .group_by(Execution.node_id, Execution.olt_id)
    )  # fmt: skip


def _of_steps(hour: datetime) -> Select[Any]:
    """What each node cost and brought, in all tries; runs and failures of those that have no execution of their own."""
    chained = Execution.node_id.is_distinct_from(ExecutionStep.node_id)
    ran = _count(and_(chained, ExecutionStep.status != StepStatus.SKIPPED))
    failed = _count(and_(chained, ExecutionStep.status == StepStatus.FAILED))
    return (
        select(
            ExecutionStep.node_id, Execution.olt_id, _day(hour), _EMPTY, ran, failed,
            func.coalesce(func.sum(ExecutionStep.duration_ms), 0), *_zeros(1), func.sum(ExecutionStep.values_read),
            func.sum(ExecutionStep.values_changed),
        )
        .select_from(Execution)
        .join(ExecutionAttempt, ExecutionAttempt.execution_id == Execution.id)
        .join(ExecutionStep, ExecutionStep.attempt_id == ExecutionAttempt.id)
        .where(_ended(hour), ExecutionStep.node_id.is_not(None))
        .group_by(ExecutionStep.node_id, Execution.olt_id)
    )  # fmt: skip


def _day(hour: datetime) -> ColumnElement[datetime]:
    return literal(day_of(hour), _DAYS.c.day.type)


def _zeros(number: int) -> list[ColumnElement[int]]:
    return [literal_column("0")] * number


def _add(session: Session, sums: Select[Any]) -> None:
    """Add the rows to the days of their nodes, inside the database: there are as many as nodes."""
    connection = session.connection()
    into: Any = sqlite.insert(_DAYS) if connection.dialect.name == "sqlite" else postgresql.insert(_DAYS)
    statement = into.from_select(list(_GIVEN), sums, include_defaults=False)
    added = {name: _DAYS.c[name] + statement.excluded[name] for name in _SUMS}
    connection.execute(statement.on_conflict_do_update(index_elements=_KEY, set_=added))


def _skips(session: Session, hour: datetime) -> _Skips:
    """Slots that did not run: those of which the log tells, and executions that somebody took away."""
    found: _Skips = defaultdict(lambda: defaultdict(int))
    groups = (Execution.node_id, Execution.olt_id, Execution.skip_reason)
    taken = select(*groups, func.count()).where(
        _ended(hour), Execution.status == ExecutionStatus.INTERRUPTED, Execution.trigger == Trigger.SCHEDULE,
        Execution.node_id.is_not(None),
    ).group_by(*groups)  # fmt: skip
    for node_id, olt_id, reason, count in session.execute(taken):
        found[node_id, olt_id, day_of(hour)][_cause(reason)] += count
    columns = (CoordinatorLog.node_id, CoordinatorLog.olt_id, CoordinatorLog.reason, CoordinatorLog.details)
    logged = select(*columns).where(
        CoordinatorLog.event_type == EventType.SLOT_SKIPPED, CoordinatorLog.timestamp > hour,
        CoordinatorLog.timestamp <= hour + quota.HOUR, CoordinatorLog.node_id.is_not(None),
        CoordinatorLog.olt_id.is_not(None),
    )  # fmt: skip
    for node_id, olt_id, reason, details in session.execute(logged):
        for day, slots in _by_day(details):
            found[node_id, olt_id, day][_cause(reason)] += slots
    return found


def _cause(reason: SkipReason | None) -> str:
    return quota.cause_of_skip(reason).value


def _by_day(details: dict[str, Any]) -> Iterator[tuple[datetime, int]]:
    """Days and slots of one row of the log."""
    for hour, slots in quota.skipped_by_hour(details).items():
        yield day_of(hour), slots


def _add_skips(session: Session, skips: _Skips) -> None:
    """Causes are keys of a JSON object, which the databases cannot add to: read and written, the rows being locked."""
    keys: list[dict[str, Any]] = [
        {"node_id": node_id, "olt_id": olt_id, "day": day} for node_id, olt_id, day in sorted(skips)
    ]
    bulk.insert_new(session, _DAYS, [key | dict.fromkeys(_SUMS, 0) | {"skips": {}} for key in keys], ("id",))
    wanted = bulk.given(session, _DAYS, _KEY, keys)
    if wanted is None:
        return
    same = and_(*(_DAYS.c[name] == wanted.c[name] for name in _KEY))
    query = select(_DAYS.c.id, _DAYS.c.node_id, _DAYS.c.olt_id, _DAYS.c.day, _DAYS.c.skips).join(wanted, same)
    merged = {}
    for row in session.connection().execute(query.with_for_update(of=_DAYS)):
        more = skips[row.node_id, row.olt_id, row.day]
        merged[row.id] = {cause: row.skips.get(cause, 0) + more.get(cause, 0) for cause in {*row.skips, *more}}
    bulk.set_column(session, _DAYS, "skips", merged)
