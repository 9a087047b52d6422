"""An OLT with many urgent jobs: nodes that are never due by themselves, and a run of each that somebody asked for."""

from datetime import datetime

from sqlalchemy import insert, select

from portal import queueing
from portal.domain.statuses import ExecutionStatus, NodeKind, Trigger
from portal.extensions import transaction
from portal.services.dispatch.tickets import tickets_for
from portal.tables import Execution, Olt, Workflow, WorkflowNode
from testing.measuring.no_op import table


def give_nodes(olt_id: int, count: int) -> None:
    """So many masters on an OLT that read one value each; none of them is ever due."""
    with transaction() as session:
        workflow = session.scalar(select(Workflow).where(Workflow.olt_id == olt_id)) or Workflow(olt_id=olt_id)
        session.add(workflow)
        session.flush()
        session.execute(insert(table(WorkflowNode)), [
            {"workflow_id": workflow.id, "key": f"urgent{number}", "name": f"urgent{number}",
             "kind": NodeKind.GET, "oid": "generic.sys_up_time", "interval_seconds": 300, "priority": 90}
            for number in range(count)
        ])  # fmt: skip


def queue_manual(olt_id: int, asked_at: datetime) -> None:
    """Somebody asked at that moment for a run of each of these nodes: committed and pushed."""
    with transaction() as session:
        key = session.scalars(select(Olt).where(Olt.id == olt_id)).one().device_key
        of_olt = select(WorkflowNode.id).join(Workflow).where(Workflow.olt_id == olt_id)
        session.execute(insert(table(Execution)), [
            {"node_id": node, "olt_id": olt_id, "node_name": "urgent", "device_key": key, "priority": 90,
             "scheduled_for": asked_at, "queued_at": asked_at, "trigger": Trigger.MANUAL, "requested_by": "bench"}
            for node in session.scalars(of_olt.where(WorkflowNode.key.like("urgent%")))
        ])  # fmt: skip
        pending = select(Execution).where(Execution.olt_id == olt_id, Execution.status == ExecutionStatus.PENDING)
        tickets = tickets_for(session, list(session.scalars(pending)))
    queueing.push(tickets)
