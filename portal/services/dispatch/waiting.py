"""What waits and shall not run any more: ended in the caller's transaction, out of the queues after its commit."""

import logging
from datetime import datetime

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from portal import queueing
from portal.domain.statuses import ErrorKind, EventType, ExecutionStatus, SkipReason, Trigger
from portal.extensions import after_commit
from portal.services import decisions
from portal.services.dispatch import life
from portal.tables import Execution

log = logging.getLogger(__name__)

_OF_THE_OLT = (SkipReason.OLT_PAUSED, SkipReason.OLT_UNREACHABLE)


def end(
    session: Session, which: ColumnElement[bool], now: datetime, why: str, reason: SkipReason, *,
    kind: ErrorKind = ErrorKind.ABORTED,
) -> int:  # fmt: skip
    """End every PENDING execution for which `which` holds; returns how many.

    They end INTERRUPTED, and their slot counts as skipped for `reason`; where the OLT is the reason, one that it has
    failed already and that only waits for its retry ends FAILED with what it said. The rows are locked: one that a
    poller is starting at this moment is either not PENDING any more when we get it, or not startable when the poller
    gets it. A RUNNING one is never overwritten.
    """
    found = session.scalars(
        select(Execution)
        .where(Execution.status == ExecutionStatus.PENDING, which)
        .order_by(Execution.id)
        .with_for_update(of=Execution)
    ).all()
    for execution in found:
        if reason in _OF_THE_OLT and execution.failures:
            life.end(session, execution, ExecutionStatus.FAILED, now, execution.error_kind, execution.error_message)
        else:
            life.end(session, execution, ExecutionStatus.INTERRUPTED, now, kind, why, reason)
        decisions.about(session, execution, EventType.EXECUTION_ABORTED, why, now, reason=reason)
    withdraw_after_commit(
        session, {queueing.job_id(execution.id, execution.attempt + 1): execution.olt_id for execution in found}
    )
    return len(found)


def end_of_nodes(session: Session, node_ids: list[int], now: datetime, why: str) -> int:
    """End what waits of these nodes, which were disabled or are to be deleted."""
    if not node_ids:
        return 0
    return end(session, Execution.node_id.in_(node_ids), now, why, SkipReason.NODE_DISABLED)


def end_of_olt(session: Session, olt_id: int, now: datetime, why: str, kind: ErrorKind, reason: SkipReason) -> int:
    """End what the schedule has waiting on an OLT that is not to be read; what a person asked for stays."""
    scheduled = (Execution.olt_id == olt_id) & (Execution.trigger == Trigger.SCHEDULE) & (Execution.requested_by == "")
    return end(session, scheduled, now, why, reason, kind=kind)


def withdraw_after_commit(session: Session, jobs: dict[str, int]) -> None:
    """Take jobs (job id → OLT id) out of the queues when the caller's transaction has been committed."""
    if jobs:
        after_commit(session, lambda: _withdraw(jobs))


def _withdraw(jobs: dict[str, int]) -> None:
    try:
        queueing.withdraw(jobs)
    except queueing.RedisError as error:  # a poller that claims one finds it ended in the database
        log.warning("event=withdraw_failed jobs=%d error=%s", len(jobs), type(error).__name__)
