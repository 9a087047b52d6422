"""Execution plans: made when an hour begins and when what an OLT has to do changes, completed at the close."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Table, func, select, update
from sqlalchemy.orm import Session

from portal import masters
from portal.domain import plans, quota
from portal.domain.plans import Plan
from portal.domain.statuses import PlanStatus
from portal.services import bulk
from portal.tables import ExecutionPlan, QuotaTracker

_PLANS = cast(Table, ExecutionPlan.__table__)
_AT_ONCE = 250  # OLTs whose plans are in memory together


def make(session: Session, olt_ids: Collection[int], hour: datetime, now: datetime, why: str = "") -> int:
    """Plan what is left of an hour anew on these OLTs, in the caller's transaction; returns how many plans there are.

    The ACTIVE plan of the hour is SUPERSEDED; what it said of the time up to now stays in the new one. An OLT that
    has nothing to do in the hour gets none.
    """
    ordered = sorted(olt_ids)
    parts = (ordered[at : at + _AT_ONCE] for at in range(0, len(ordered), _AT_ONCE))
    return sum(_make(session, part, hour, now, why) for part in parts)


def _make(session: Session, olt_ids: list[int], hour: datetime, now: datetime, why: str) -> int:
    before = _supersede(session, olt_ids, hour, now)
    known = masters.load(session, now, olt_ids, until=hour + quota.HOUR)
    busy, paused = masters.at_work(session, now, known, olt_ids), masters.paused(session, olt_ids)
    rows = []
    for olt_id in olt_ids:
        nodes = [master.node for master in known.get(olt_id, ())]
        state = busy.get(olt_id, masters.Now())
        plan = plans.make(nodes, hour, now, state.occupied, state.waiting, before=before.get(olt_id), why=why,
                          blocked=paused.get(olt_id))  # fmt: skip
        if len(plan):
            rows.append(_row(olt_id, plan, now))
    bulk.insert(session, _PLANS, rows)
    return len(rows)


def _supersede(session: Session, olt_ids: list[int], hour: datetime, now: datetime) -> dict[int, Plan]:
    """OLT id → the plan that held last in the hour: the ACTIVE one, or of an OLT that was away what it did before."""
    found = session.execute(
        update(ExecutionPlan)
        .where(
            ExecutionPlan.olt_id.in_(olt_ids), ExecutionPlan.period_start == hour,
            ExecutionPlan.status == PlanStatus.ACTIVE,
        )
        .values(status=PlanStatus.SUPERSEDED, updated_at=now)
        .returning(ExecutionPlan.olt_id, ExecutionPlan.plan_data),
        execution_options={"synchronize_session": False},
    )  # fmt: skip
    held = {row.olt_id: plans.from_json(row.plan_data, hour) for row in found}
    return _aborted(session, [olt for olt in olt_ids if olt not in held], hour) | held


def _aborted(session: Session, olt_ids: list[int], hour: datetime) -> dict[int, Plan]:
    """Of OLTs without an ACTIVE plan the newest of the hour, up to when it was ABORTED: nothing ran from then on."""
    query = (
        select(ExecutionPlan.olt_id, ExecutionPlan.plan_data, ExecutionPlan.updated_at)
        .where(ExecutionPlan.olt_id.in_(olt_ids), ExecutionPlan.period_start == hour)
        .order_by(ExecutionPlan.id)
    )
    newest = {row.olt_id: row for row in session.execute(query)} if olt_ids else {}
    return {olt: plans.until(plans.from_json(row.plan_data, hour), row.updated_at) for olt, row in newest.items()}


def _row(olt_id: int, plan: Plan, now: datetime) -> dict[str, Any]:
    return {
        "olt_id": olt_id, "period_start": plan.hour, "period_end": plan.hour + quota.HOUR,
        "plan_data": plans.as_json(plan), "status": PlanStatus.ACTIVE, "total_tasks": len(plan),
        "completed_tasks": 0, "failed_tasks": 0, "created_at": now, "updated_at": now,
    }  # fmt: skip


def complete(session: Session, hour: datetime, now: datetime) -> int:
    """The hour is judged: its ACTIVE plans are COMPLETED, with what came of their slots. Returns how many.

    `completed_tasks` and `failed_tasks` are those of the hour's trackers; what is missing of `total_tasks` was skipped.
    """
    of_its_olt = (QuotaTracker.olt_id == ExecutionPlan.olt_id) & (QuotaTracker.period_start == hour)
    completed, failed = (
        select(func.coalesce(func.sum(column), 0)).where(of_its_olt).correlate(ExecutionPlan).scalar_subquery()
        for column in (QuotaTracker.quota_completed, QuotaTracker.quota_failed)
    )
    return _end(
        session, (ExecutionPlan.period_start == hour,), now, status=PlanStatus.COMPLETED, completed_tasks=completed,
        failed_tasks=failed,
    )  # fmt: skip


def abort(session: Session, olt_ids: Collection[int], now: datetime) -> int:
    """These OLTs were disabled: their ACTIVE plans are ABORTED. Returns how many."""
    return _end(session, (ExecutionPlan.olt_id.in_(olt_ids),), now, status=PlanStatus.ABORTED)


def _end(session: Session, which: tuple[Any, ...], now: datetime, **values: Any) -> int:
    changed = session.execute(
        update(ExecutionPlan).where(ExecutionPlan.status == PlanStatus.ACTIVE, *which).values(updated_at=now, **values),
        execution_options={"synchronize_session": False},
    )
    return int(changed.rowcount)  # type: ignore[attr-defined]
