"""Trackers as they must be: opened when the hour begins, adjusted when what an OLT has to do changes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Row, Table, select, update
from sqlalchemy.orm import Session

from portal.domain import quota
from portal.domain.quota import TrackerKey
from portal.domain.statuses import QuotaStatus
from portal.services import bulk
from portal.services.accounting import quotas
from portal.services.coordinating.slots_to_come import Pending, pending
from portal.tables import QuotaTracker

_TRACKERS = cast(Table, QuotaTracker.__table__)
TRIES = 3  # of finding all trackers; each try makes those that were missing


@dataclass(frozen=True)
class Adjusted:
    """A tracker whose promise changed. `existed`: False when it was opened by this."""

    key: TrackerKey
    before: int
    after: int
    existed: bool


def refresh(
    session: Session, hours: Sequence[datetime], now: datetime, olt_ids: Collection[int] | None = None,
    newest_only: Collection[int] = (),
) -> list[Adjusted]:  # fmt: skip
    """Make the trackers of these hours promise what is settled, what is ACTIVE and what the clocks still hold.

    Doing it again changes nothing. Of the OLTs in `newest_only` the last of the hours is looked at alone. The trackers
    are locked before anything is counted: who ends an execution meanwhile waits and then takes its slot out of
    `quota_pending` itself. They are locked together, those that are missing made in the same statement, in the one
    order in which everybody does (ADR 0020): call it once in a transaction.
    """
    scope = _Scope(tuple(hours), None if olt_ids is None else frozenset(olt_ids), frozenset(newest_only))
    existed = {key for key in _read(session, scope)}
    wanted = _pending(session, scope, now)
    held = {*existed, *wanted, *quotas.unwritten(session, now)}
    for _ in range(TRIES):
        _hold(session, held, wanted, now)
        quotas.write_now(session, now)  # after the lock
        kept, wanted = _read(session, scope), _pending(session, scope, now)
        held = wanted.keys() - kept.keys()  # an execution of a tick that was committed meanwhile
        if not held:
            break
    opened = [Adjusted(key, 0, one.slots, existed=False) for key, one in wanted.items() if key not in existed]
    return [*opened, *(one for one in _adjust(session, kept, wanted, now) if one.key in existed)]


@dataclass(frozen=True)
class _Scope:
    """Which trackers are looked at: see `refresh`."""

    hours: tuple[datetime, ...]
    olt_ids: frozenset[int] | None
    newest_only: frozenset[int]

    def has(self, key: TrackerKey) -> bool:
        """True for a tracker of one of the hours."""
        return key.hour in self.hours and (key.olt_id not in self.newest_only or key.hour == max(self.hours))


def _pending(session: Session, scope: _Scope, now: datetime) -> dict[TrackerKey, Pending]:
    found = pending(session, scope.hours, now, scope.olt_ids)
    return {key: one for key, one in found.items() if scope.has(key)} if scope.newest_only else found


def _read(session: Session, scope: _Scope) -> dict[TrackerKey, Row[Any]]:
    query = select(
        QuotaTracker.id, QuotaTracker.olt_id, QuotaTracker.task_type, QuotaTracker.period_start,
        QuotaTracker.quota_required, QuotaTracker.quota_pending, QuotaTracker.basis,
    ).where(QuotaTracker.period_start.in_(scope.hours))  # fmt: skip
    if scope.olt_ids is not None:
        query = query.where(QuotaTracker.olt_id.in_(scope.olt_ids))
    rows = ((TrackerKey(row.olt_id, row.task_type, row.period_start), row) for row in session.execute(query))
    return {key: row for key, row in rows if scope.has(key)}


def _hold(session: Session, keys: Collection[TrackerKey], wanted: Mapping[TrackerKey, Pending], now: datetime) -> None:
    """Lock these trackers. One that is missing is made as it is wanted, and reckoned like the others after that."""
    zeros = ("quota_completed", "quota_failed", "quota_skipped", "total_duration_ms", "timed", "avg_duration_ms")
    rows = []
    for key in sorted(keys, key=quotas.order):
        one = wanted.get(key) or Pending()
        rows.append({
            "olt_id": key.olt_id, "task_type": key.task_type, "period_start": key.hour,
            "period_end": key.hour + quota.HOUR, "status": QuotaStatus.IN_PROGRESS, "basis": one.basis,
            "created_at": now, "updated_at": now, "quota_required": one.slots, "quota_pending": one.slots,
            **dict.fromkeys(zeros, 0),
        })  # fmt: skip
    bulk.insert_or_hold(session, _TRACKERS, rows, ("olt_id", "task_type", "period_start"), "updated_at", ("id",))


def _adjust(
    session: Session, kept: Mapping[TrackerKey, Row[Any]], wanted: Mapping[TrackerKey, Pending], now: datetime
) -> list[Adjusted]:  # fmt: skip
    changed: list[Adjusted] = []
    counts: dict[int, int] = {}
    bases: dict[int, list[dict[str, Any]]] = {}
    for key, row in kept.items():
        one = wanted.get(key) or Pending()
        if one.slots != row.quota_pending:
            counts[row.id] = one.slots
            changed.append(Adjusted(key, row.quota_required, row.quota_required - row.quota_pending + one.slots, True))
        elif row.basis:
            continue
        basis = merged(row.basis, one.basis)
        if basis != row.basis:
            bases[row.id] = basis
    _write(session, counts, bases, now)
    return changed


def _write(session: Session, counts: Mapping[int, int], bases: Mapping[int, Any], now: datetime) -> None:
    given = bulk.given(session, _TRACKERS, ("id", "quota_pending"), [
        {"id": ident, "quota_pending": slots} for ident, slots in sorted(counts.items())
    ])  # fmt: skip
    if given is not None:
        settled = _TRACKERS.c.quota_completed + _TRACKERS.c.quota_failed + _TRACKERS.c.quota_skipped
        session.connection().execute(
            update(_TRACKERS).where(_TRACKERS.c.id == given.c.id)
            .values(quota_pending=given.c.quota_pending, quota_required=settled + given.c.quota_pending,
                    updated_at=now)
        )  # fmt: skip
    bulk.set_column(session, _TRACKERS, "basis", bases)


def merged(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The basis of an adjusted tracker: each pace of a node, with the slots that were promised at it first."""
    paces: dict[Any, dict[str, Any]] = {}
    for one in (*before, *after):
        paces.setdefault((one["node_id"], one.get("interval"), one.get("cron")), dict(one))
    return list(paces.values())


def set_status(
    session: Session, olt_ids: Collection[int], before: QuotaStatus, after: QuotaStatus, now: datetime
) -> int:  # fmt: skip
    """Trackers of these OLTs whose hour has not ended and that are `before` become `after`; returns how many."""
    ids = session.scalars(
        select(QuotaTracker.id)
        .where(QuotaTracker.olt_id.in_(olt_ids), QuotaTracker.status == before, QuotaTracker.period_end > now)
        .order_by(QuotaTracker.olt_id, QuotaTracker.task_type, QuotaTracker.period_start)
        .with_for_update()
    ).all()
    if ids:
        changed = update(QuotaTracker).where(QuotaTracker.id.in_(ids)).values(status=after, updated_at=now)
        session.execute(changed, execution_options={"synchronize_session": False})
    return len(ids)
