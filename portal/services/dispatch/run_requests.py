"""What people and programs ask of executions: run a node now, cancel one. One transaction each."""

import logging
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from portal import queueing
from portal.domain.messages import N_
from portal.domain.statuses import TERMINAL, ExecutionStatus, Trigger
from portal.extensions import transaction
from portal.models.execution import ACTIVE_SQL
from portal.queueing import Ticket
from portal.services import audit
from portal.services.dispatch import executions, life, waiting
from portal.services.dispatch.tickets import tickets_for
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.uniqueness import was_faster
from portal.tables import Execution, Olt, WorkflowNode

log = logging.getLogger(__name__)


def run_now(node_id: int, actor: str, now: datetime) -> tuple[int, bool]:
    """Ask for one run of a node now: first in its OLT, its clock unchanged, outside its quota.

    Only where a slot of the node comes while it waits or runs it satisfies that slot (services.dispatch.slots).

    A master runs with its chain; a chained node runs alone (whoever calls has asked whether that is meant). Returns
    (execution id, created). While one of the node is PENDING or RUNNING that one is returned; if it waits, it is moved
    to the front of its OLT. NotFound, or Invalid when the OLT is disabled. It runs on a paused or unreachable OLT too.
    """
    try:
        found, created, tickets = _request(node_id, actor, now)
    except IntegrityError as error:  # the tick or a second click was faster: now there is one
        if not was_faster(error):
            raise
        found, created, tickets = _request(node_id, actor, now)
    executions.push(tickets)
    return found, created


def _request(node_id: int, actor: str, now: datetime) -> tuple[int, bool, list[Ticket]]:
    with transaction() as session:
        node = _runnable(session, node_id)
        active = _active_of(session, node_id)
        if active is not None:
            return active.id, False, _hurry(session, active, actor, now)
        execution = _manual(node, actor, now)
        session.add(execution)
        session.flush()
        audit.record(session, actor=actor, action="node.run_now", subject=node, changes=None, now=now)
        return execution.id, True, tickets_for(session, [execution])


def _runnable(session: Session, node_id: int) -> WorkflowNode:
    node = session.get(WorkflowNode, node_id)
    if node is None:
        raise NotFound(N_("the node does not exist any more"))
    olt = node.workflow.olt
    if not olt.enabled or olt.deleted_at is not None:
        raise Invalid({"": N_("%(olt)s is disabled: enable it first", olt=olt.name)})
    return node


def _active_of(session: Session, node_id: int) -> Execution | None:
    query = select(Execution).where(Execution.node_id == node_id, ACTIVE_SQL)
    return session.scalar(query.with_for_update(of=Execution))


def _hurry(session: Session, waiting_one: Execution, actor: str, now: datetime) -> list[Ticket]:
    """One that waits (for its turn, or for its retry) goes to the front, once; it stays the schedule's own slot."""
    if waiting_one.status is not ExecutionStatus.PENDING or waiting_one.requested_by:
        return []
    waiting_one.requested_by, waiting_one.not_before, waiting_one.queued_at = actor, None, now
    audit.record(session, actor=actor, action="execution.hurry", subject=waiting_one, changes=None, now=now)
    session.flush()
    return tickets_for(session, [waiting_one])


def _manual(node: WorkflowNode, actor: str, now: datetime) -> Execution:
    olt: Olt = node.workflow.olt
    return Execution(
        node_id=node.id, node_name=node.name, olt_id=olt.id, device_key=olt.device_key, trigger=Trigger.MANUAL,
        requested_by=actor, priority=node.priority, scheduled_for=now, queued_at=now,
    )  # fmt: skip


def cancel(execution_id: int, actor: str, now: datetime) -> ExecutionStatus:
    """Cancel one: PENDING ends at once (INTERRUPTED is returned), RUNNING stops before its next PDU (RUNNING).

    NotFound; Conflict when it has ended already: a terminal status is never rewritten.
    """
    with transaction() as session:
        execution = session.get(Execution, execution_id, with_for_update={"of": Execution})
        if execution is None:
            raise NotFound(N_("the execution does not exist any more"))
        if execution.status in TERMINAL:
            raise Conflict(N_("it has ended already: there is nothing to cancel"))
        if not execution.cancelled_by:
            execution.cancelled_by = actor
            audit.record(session, actor=actor, action="execution.cancel", subject=execution, changes=None, now=now)
        if execution.status is ExecutionStatus.PENDING:
            job = queueing.job_id(execution.id, execution.attempt + 1)
            life.cancel(session, execution, now)
            waiting.withdraw_after_commit(session, {job: execution.olt_id})
            return ExecutionStatus.INTERRUPTED
        held = (execution.olt_id, execution.token or 0)
    try:
        queueing.ask_to_stop_token(*held)
    except queueing.RedisError as error:  # the reaper asks again
        log.warning("event=stop_not_sent execution=%d error=%s", execution_id, type(error).__name__)
    return ExecutionStatus.RUNNING
