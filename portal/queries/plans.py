"""Execution plans of one OLT as they are kept, with their slots. Reads only."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from portal.domain import plans
from portal.domain.plans import Plan
from portal.domain.statuses import PlanStatus
from portal.extensions import db
from portal.tables import ExecutionPlan


@dataclass(frozen=True)
class PlanView:
    """One plan. `plan.slots` are in the order of time."""

    id: int
    status: PlanStatus
    period_start: datetime
    period_end: datetime
    total_tasks: int
    completed_tasks: int
    failed_tasks: int
    created_at: datetime
    plan: Plan


def of_olt(olt_id: int, hour: datetime | None = None, limit: int = 10) -> list[PlanView]:
    """The newest plans of an OLT, or those of one hour; newest first. One SQL statement."""
    query = select(ExecutionPlan).where(ExecutionPlan.olt_id == olt_id)
    if hour is not None:
        query = query.where(ExecutionPlan.period_start == hour)
    query = query.order_by(ExecutionPlan.period_start.desc(), ExecutionPlan.id.desc()).limit(limit)
    return [
        PlanView(
            row.id, row.status, row.period_start, row.period_end, row.total_tasks, row.completed_tasks,
            row.failed_tasks, row.created_at, plans.from_json(row.plan_data, row.period_start),
        )
        for row in db.session.scalars(query)
    ]  # fmt: skip
