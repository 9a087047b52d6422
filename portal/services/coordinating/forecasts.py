"""The forecast of the present hour: of every open tracker, how many runs will be completed, and why not all."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Row, Table, select
from sqlalchemy.orm import Session

from portal import masters
from portal.domain import pace, quota, schedule
from portal.domain.forecast import Forecast, Open, Slower, forecast, slower
from portal.domain.plans import Blocked, PlannedSlot, simulate
from portal.domain.quota import HOUR, Counts
from portal.domain.statuses import LossCause, QuotaStatus
from portal.extensions import db, transaction
from portal.masters import Master, Now
from portal.services import bulk
from portal.services.coordinating.closing import GRACE
from portal.tables import NodePace, Olt, QuotaLoss, QuotaTracker

ENOUGH_RUNS = 6  # of this hour, to tell the share that fails; with fewer the hour before counts too
CHUNK = 500  # trackers written in one transaction

_TRACKERS = cast(Table, QuotaTracker.__table__)


@dataclass(frozen=True)
class _Hour:
    """What is known of all OLTs when the forecast is made."""

    start: datetime
    now: datetime
    masters: Mapping[int, list[Master]]
    at_work: Mapping[int, Now]
    blocked: Mapping[int, LossCause]
    paused: Mapping[int, Blocked]
    slowness: Mapping[int, Slower]  # by node; of OLTs that are crowded only

    @property
    def end(self) -> datetime:
        return self.start + HOUR


def forecast_hour(now: datetime) -> int:
    """Forecast every open tracker of the present hour; writes what changed and returns how many did.

    It reads without a lock. A tracker that somebody is writing at the moment keeps its old forecast until next time,
    so that nobody ever waits for this, nor this for anybody.
    """
    session = db.session()
    session.rollback()
    rows = _open(session, quota.hour_at(now))
    told = _forecasts(session, rows, now) if rows else {}
    session.rollback()
    changed = {
        row.id: told[row.id] for row in rows
        if (row.forecast, row.forecast_details) != (told[row.id].completed, told[row.id].as_json())
    }  # fmt: skip
    idents = sorted(changed)
    return sum(_write({i: changed[i] for i in idents[at : at + CHUNK]}) for at in range(0, len(idents), CHUNK))


def _open(session: Session, hour: datetime) -> list[Row[Any]]:
    query = select(
        QuotaTracker.id, QuotaTracker.olt_id, QuotaTracker.task_type, QuotaTracker.quota_completed,
        QuotaTracker.quota_failed, QuotaTracker.quota_skipped, QuotaTracker.quota_pending, QuotaTracker.forecast,
        QuotaTracker.forecast_details,
    ).where(QuotaTracker.period_start == hour, QuotaTracker.status == QuotaStatus.IN_PROGRESS)  # fmt: skip
    return list(session.execute(query))


def _forecasts(session: Session, rows: Sequence[Row[Any]], now: datetime) -> dict[int, Forecast]:
    """Tracker id → its forecast."""
    hour = quota.hour_at(now)
    olt_ids = {row.olt_id for row in rows}
    known = {olt: found for olt, found in masters.load(session, now, until=hour + HOUR).items() if olt in olt_ids}
    state = _Hour(hour, now, known, masters.at_work(session, now, known), _blocked(session, hour + HOUR),
                  masters.paused(session), {})  # fmt: skip
    trackers = _trackers(session, rows, hour)
    rest = {olt: _rest(state, olt) for olt in olt_ids}
    found = {olt: _of_olt(state, olt, trackers[olt], rest[olt]) for olt in olt_ids}
    crowded = [olt for olt, told in found.items() if any(one.node for one in told.values())]
    if crowded:
        slowness = _slowness(session, [master for olt in crowded for master in known.get(olt, ())])
        state = replace(state, slowness=slowness)
        found |= {olt: _of_olt(state, olt, trackers[olt], rest[olt]) for olt in crowded}
    return {row.id: found[row.olt_id][row.task_type] for row in rows}


def _rest(state: _Hour, olt_id: int) -> list[PlannedSlot]:
    """What the OLT will still do for this hour's promises."""
    nodes = [master.node for master in state.masters.get(olt_id, ())]
    present = state.at_work.get(olt_id, Now())
    slots = simulate(nodes, state.now, state.end, present.occupied, present.waiting, blocked=state.paused.get(olt_id))
    return [slot for slot in slots if state.start < slot.scheduled_for <= state.end]


def _of_olt(
    state: _Hour, olt_id: int, trackers: Sequence[Open], rest: Sequence[PlannedSlot]
) -> dict[str, Forecast]:  # fmt: skip
    found = state.masters.get(olt_id, ())
    types = {master.node.node_id: master.node.task_type for master in found}
    slow = [state.slowness.get(master.node.node_id) or _as_usual(master) for master in found]
    told = forecast(trackers, types, rest, slow, state.end + GRACE, state.blocked.get(olt_id))
    return {one.task_type: one for one in told}


def _as_usual(master: Master) -> Slower:
    return slower(master.node, 0, _runs(master))


def _runs(master: Master) -> int:
    return max(1, round(3600 / master.node.interval_seconds)) if master.node.interval_seconds else 1


def _slowness(session: Session, found: Sequence[Master]) -> dict[int, Slower]:
    idents = [master.node.node_id for master in found]
    query = select(NodePace.node_id, NodePace.durations).where(NodePace.node_id.in_(idents))
    usual = {row.node_id: pace.usual(row.durations, pace.LEVEL) for row in session.execute(query)}
    return {m.node.node_id: slower(m.node, usual.get(m.node.node_id, 0), _runs(m)) for m in found}


def _trackers(session: Session, rows: Iterable[Row[Any]], hour: datetime) -> dict[int, list[Open]]:
    losses: dict[tuple[int, str], dict[LossCause, int]] = defaultdict(dict)
    lost = select(QuotaLoss.olt_id, QuotaLoss.task_type, QuotaLoss.cause, QuotaLoss.failed + QuotaLoss.skipped)
    for olt_id, task_type, cause, slots in session.execute(lost.where(QuotaLoss.period_start == hour)):
        losses[olt_id, task_type][cause] = slots
    before = _runs_before(session, hour - HOUR)
    found: dict[int, list[Open]] = defaultdict(list)
    for row in rows:
        counts = Counts(row.quota_completed, row.quota_failed, row.quota_skipped, row.quota_pending)
        key = row.olt_id, row.task_type
        found[row.olt_id].append(Open(row.task_type, counts, losses[key], _failing(counts, before.get(key, (0, 0)))))
    return found


def _runs_before(session: Session, hour: datetime) -> dict[tuple[int, str], tuple[int, int]]:
    """(OLT id, task type) → completed and failed runs of an hour."""
    query = select(
        QuotaTracker.olt_id, QuotaTracker.task_type, QuotaTracker.quota_completed, QuotaTracker.quota_failed
    ).where(QuotaTracker.period_start == hour)
    return {(olt, task): (completed, failed) for olt, task, completed, failed in session.execute(query)}


def _failing(counts: Counts, before: tuple[int, int]) -> float:
    completed, failed = counts.completed, counts.failed
    if completed + failed < ENOUGH_RUNS:
        completed, failed = completed + before[0], failed + before[1]
    return failed / (completed + failed) if failed else 0.0


def _blocked(session: Session, end: datetime) -> dict[int, LossCause]:
    """OLT id → why nothing of it will run up to `end`."""
    query = select(Olt.id, Olt.enabled, Olt.state, Olt.paused_until).where(Olt.deleted_at.is_(None))
    found: dict[int, LossCause] = {}
    for olt_id, enabled, state, until in session.execute(query):
        reason = schedule.blocked(state, until, end)
        if reason is not None or not enabled:
            found[olt_id] = quota.cause_of_skip(reason) if reason is not None else LossCause.DISABLED
    return found


def _write(changed: Mapping[int, Forecast]) -> int:
    with transaction() as session:
        free = session.scalars(
            select(QuotaTracker.id)
            .where(QuotaTracker.id.in_(changed), QuotaTracker.status == QuotaStatus.IN_PROGRESS)
            .with_for_update(skip_locked=True)
        ).all()
        bulk.set_column(session, _TRACKERS, "forecast", {ident: changed[ident].completed for ident in free})
        bulk.set_column(session, _TRACKERS, "forecast_details", {ident: changed[ident].as_json() for ident in free})
        return len(free)
