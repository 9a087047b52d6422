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
from portal.models import QuotaTracker
from portal.services import bulk
from portal.services.accounting import quotas
from portal.services.coordinating.slots_to_come import Pending, pending

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
    session: Session, hours: Sequence[datetime], now: datetime, olt_ids: Collection[int] | None = None
) -> list[Adjusted]:  # fmt: skip
    """Make the trackers of these hours promise what is settled, what is ACTIVE and what the clocks still hold.

    Doing it again changes nothing. The trackers are locked before anything is counted: who ends an execution
    meanwhile waits and then takes its slot out of `quota_pending` itself.
    """
    kept = _locked(session, hours, olt_ids)
    if quotas.write_now(session, now):  # after the lock: all lock trackers in one order
        kept = _locked(session, hours, olt_ids)
    opened: list[Adjusted] = []
    for _ in range(TRIES):
        wanted = pending(session, hours, now, olt_ids)
        missing = {key: one for key, one in wanted.items() if key not in kept}
        made = _open(session, missing, now)
        opened += made
        if len(made) == len(missing):
            break
        # Somebody made one meanwhile, and what it says was settled after we counted, or before: all over again.
        kept = _locked(session, hours, olt_ids)
    made_now = {one.key for one in opened}
    return [*opened, *(one for one in _adjust(session, kept, wanted, now) if one.key not in made_now)]


def _locked(
    session: Session, hours: Sequence[datetime], olt_ids: Collection[int] | None
) -> dict[TrackerKey, Row[Any]]:  # fmt: skip
    query = select(
        QuotaTracker.id, QuotaTracker.olt_id, QuotaTracker.task_type, QuotaTracker.period_start,
        QuotaTracker.quota_required, QuotaTracker.quota_pending, QuotaTracker.quota_completed,
        QuotaTracker.quota_failed, QuotaTracker.quota_skipped, QuotaTracker.basis,
    ).where(QuotaTracker.period_start.in_(hours))  # fmt: skip
    if olt_ids is not None:
        query = query.where(QuotaTracker.olt_id.in_(olt_ids))
    query = query.order_by(QuotaTracker.olt_id, QuotaTracker.task_type, QuotaTracker.period_start).with_for_update()
    rows = session.execute(query)
    return {TrackerKey(row.olt_id, row.task_type, row.period_start): row for row in rows}


def _open(session: Session, missing: Mapping[TrackerKey, Pending], now: datetime) -> list[Adjusted]:
    """Trackers of which nothing is settled yet. One that somebody else made meanwhile is left alone, and missing here.

    Whoever ends a slot that was counted here either made the tracker before us, or waits for it and takes its slot out.
    """
    zeros = ("quota_completed", "quota_failed", "quota_skipped", "total_duration_ms", "avg_duration_ms")
    rows = [
        {
            "olt_id": key.olt_id, "task_type": key.task_type, "period_start": key.hour,
            "period_end": key.hour + quota.HOUR, "status": QuotaStatus.IN_PROGRESS, "basis": missing[key].basis,
            "created_at": now, "updated_at": now, "quota_required": missing[key].slots,
            "quota_pending": missing[key].slots, **dict.fromkeys(zeros, 0),
        }
        for key in sorted(missing, key=lambda key: (key.olt_id, key.task_type, key.hour))
    ]  # fmt: skip
    made = bulk.insert_new(session, _TRACKERS, rows, ("olt_id", "task_type", "period_start"))
    keys = (TrackerKey(row.olt_id, row.task_type, row.period_start) for row in made)
    return [Adjusted(key, 0, missing[key].slots, existed=False) for key in keys]


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
