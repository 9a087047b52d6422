"""The invariant of clocks, checked at each pass of the coordinator: a master may run ⇔ it has a clock or is ACTIVE.

Switches keep it by their locks. What breaks it all the same (SQL by hand, another setting of NEXTCHECK_MODE while a
node ran, a fault of ours) would be a node that never runs again, and no promise would tell. So it is repaired and
logged.
"""

from datetime import datetime
from typing import Any

from flask import current_app
from sqlalchemy import Select, and_, not_, or_, select
from sqlalchemy.orm import Session

from portal.domain.messages import N_
from portal.domain.statuses import EventType
from portal.extensions import db, transaction
from portal.services import decisions
from portal.services.dispatch import clock, reachability
from portal.tables import Olt, Workflow, WorkflowNode, WorkflowTemplate


def _astray() -> Select[Any]:
    runs = WorkflowNode.runs_joined()
    stands = and_(WorkflowNode.next_run_at.is_(None), runs)
    if current_app.config["NEXTCHECK_MODE"] == "from_end":
        stands = and_(stands, ~clock.active())
    return (
        select(WorkflowNode.id, WorkflowNode.name, WorkflowNode.next_run_at, Workflow.olt_id)
        .join(Workflow, WorkflowNode.workflow_id == Workflow.id)
        .join(Olt, Workflow.olt_id == Olt.id)
        .outerjoin(WorkflowTemplate, Workflow.template_id == WorkflowTemplate.id)
        .where(
            WorkflowNode.master_id.is_(None), or_(stands, and_(WorkflowNode.next_run_at.is_not(None), not_(runs)))
        )
        .order_by(WorkflowNode.id)
    )  # fmt: skip


def repair(now: datetime) -> int:
    """Give the masters that break the invariant the clock they should have; returns how many there were."""
    session: Session = db.session()
    suspected = {row.olt_id for row in session.execute(_astray())}
    session.rollback()
    if not suspected:
        return 0
    with transaction() as session:
        reachability.locked(session, sorted(suspected))
        found = session.execute(_astray()).all()
        clock.settle(session, WorkflowNode.id.in_([row.id for row in found]), now)
        for row in found:
            message = (
                N_("%(node)s had no clock although it may run: it was given one", node=row.name)
                if row.next_run_at is None
                else N_("%(node)s had a clock although it may not run: it was taken away", node=row.name)
            )
            decisions.record(session, EventType.SYSTEM, message, now, olt_id=row.olt_id, node_id=row.id,
                             level="WARNING")  # fmt: skip
        return len(found)
