"""Composites that end every worker that runs them: people are told, and a node that goes on so is held.

A hold is a time before which no slot of the node runs; its slots are skipped with that cause. The slot after it is the
next try: a result, whatever it is, ends the matter, and three lost workers more make the next hold twice as long. A
run that a person asks for is a try too.
"""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.cron import portal_zone
from portal.domain import schedule
from portal.domain.messages import N_
from portal.domain.statuses import AlertKind, EventType, Severity
from portal.services import decisions
from portal.services.alerting import alerts
from portal.tables import Execution, WorkflowNode


def lock_nodes(session: Session, execution_ids: list[int], losses: int) -> None:
    """Lock the nodes of those that were lost so often, before their executions: a tick too has its nodes first."""
    query = (
        select(WorkflowNode.id)
        .join(Execution, Execution.node_id == WorkflowNode.id)
        .where(Execution.id.in_(execution_ids), Execution.losses >= losses)
    )
    session.execute(query.order_by(WorkflowNode.id).with_for_update(of=WorkflowNode, key_share=True))


def note(session: Session, execution: Execution, now: datetime) -> None:
    """This execution was given up: the first of its node is told, the second holds it."""
    node = execution.node
    if node is None:
        return
    node.poisoned += 1
    told = {"node": node.name, "olt": execution.olt.name}
    held = schedule.hold(node.poisoned)
    if held is None:
        subject = N_("%(node)s on %(olt)s ends the pollers that run it", **told)
        body = N_(
            "Execution %(execution)d was given up: each of its tries ended without a word, its poller with it. If the "
            "node's next slot ends like that too, the node is held. The pollers' logs tell more.",
            execution=execution.id,
        )  # fmt: skip
    else:
        node.held_until = now + held
        until = f"{node.held_until.astimezone(portal_zone()):%Y-%m-%d %H:%M}"
        subject = N_("%(node)s on %(olt)s is held until %(until)s", **told, until=until)
        body = N_(
            "Its last %(count)d slots ended all the pollers that ran them, execution %(execution)d as the latest. Slots"
            " until then are skipped, and the one after them is tried. Run now tries it at once.",
            count=node.poisoned, execution=execution.id,
        )  # fmt: skip
        facts = {"slots": node.poisoned, "until": node.held_until.isoformat()}
        decisions.about(session, execution, EventType.POISONED, subject, now, level="ERROR", details=facts)
    if node.poisoned <= schedule.HELD_AFTER:  # later ones say nothing new
        alerts.raise_alert(
            session, AlertKind.SYSTEM, subject, body, now, severity=Severity.HIGH, olt_id=execution.olt_id
        )


def over(node: WorkflowNode | None) -> None:
    """A try of the node ended with a result: its worker lives."""
    if node is not None and node.poisoned:
        node.poisoned, node.held_until = 0, None
