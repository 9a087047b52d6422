"""Audits the tables after writers were killed: what a transaction writes together is there together, or not at all."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise

from sqlalchemy import Select, distinct, func, select
from sqlalchemy.orm import selectinload

from portal.domain.statuses import AttemptStatus, ErrorKind, ExecutionStatus, StepStatus, Trigger
from portal.extensions import db
from portal.services.dispatch.life import MAX_LOSSES
from portal.tables import AuditLog, Execution, ExecutionAttempt, OnuData, WorkflowNode
from testing.measuring import judges
from testing.measuring.clocks import skips
from testing.measuring.committing import ONUS, STEPS

# The next slot came first: kept is what the try before had come to.
OVERTAKEN = (ErrorKind.SUPERSEDED, ErrorKind.WORKER_LOST, ErrorKind.LEASE_LOST, ErrorKind.SHUTDOWN)
ENDS = {ExecutionStatus.SUCCESS: AttemptStatus.SUCCESS, ExecutionStatus.RUNNING: AttemptStatus.RUNNING}


def audit(first: Mapping[int, datetime], interval: int, until: datetime) -> dict[str, int]:
    """How often each law is broken; all zero where nothing is. `first`: master → its first slot."""
    db.session.rollback()
    attempts = selectinload(Execution.attempts).selectinload(ExecutionAttempt.steps)
    rows = list(db.session.scalars(select(Execution).options(attempts).order_by(Execution.id)))
    slots = [(one.node_id or 0, one.scheduled_for) for one in rows if one.trigger is Trigger.SCHEDULE]
    account = judges.account(first, interval, until, slots, skips())
    return {
        "corrupt": corrupt(),
        "half_composites": sum(not whole(one) for one in rows),
        "tokens_not_rising": tokens_not_rising(rows),
        "half_readings": half_readings(rows),
        "half_requests": half_requests(rows),
        "slots_lost": account.lost,
        "slots_doubled": account.doubled,
        "left_running": sum(one.status is ExecutionStatus.RUNNING for one in rows),
    }


def behind(until: datetime) -> Select[tuple[int]]:
    """How many masters have a slot up to that moment that is not decided."""
    return select(func.count()).select_from(WorkflowNode).where(WorkflowNode.next_run_at <= until)


def corrupt() -> int:
    """What SQLite finds in its own file; PostgreSQL has no such word, and a client's death cannot reach its files."""
    if db.engine.dialect.name != "sqlite":
        return 0
    connection = db.session.connection()
    said = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
    strangers = list(connection.exec_driver_sql("PRAGMA foreign_key_check"))
    return sum(word != "ok" for word in said) + len(strangers)


def whole(execution: Execution) -> bool:
    """Whether execution, tries and steps tell one story."""
    tries = execution.attempts
    if [one.number for one in tries] != list(range(1, execution.attempt + 1)) or not all(map(_whole_try, tries)):
        return False
    lost = sum(one.status is AttemptStatus.INTERRUPTED for one in tries)
    if lost != execution.losses or any(one.status is AttemptStatus.SUCCESS for one in tries[:-1]):
        return False
    last = tries[-1].status if tries else None
    if execution.status in ENDS:
        same_token = bool(tries) and tries[-1].token == execution.token
        return last is ENDS[execution.status] and same_token
    if last in ENDS.values():  # the try went well or still runs, and the execution does not know of it
        return False
    if execution.status is ExecutionStatus.FAILED:
        return execution.losses >= MAX_LOSSES or execution.error_kind in OVERTAKEN
    return execution.losses < MAX_LOSSES


def _whole_try(attempt: ExecutionAttempt) -> bool:
    well = attempt.status is AttemptStatus.SUCCESS
    steps = [step.status for step in attempt.steps]
    ended = (attempt.finished_at is not None) is (attempt.status is not AttemptStatus.RUNNING)
    return ended and steps == ([StepStatus.SUCCESS] * STEPS if well else [])


def tokens_not_rising(rows: list[Execution]) -> int:
    """Later tries with an older token, inside one execution and on one OLT."""
    tokens = [[one.token for one in execution.attempts] for execution in rows]
    by_olt: dict[int, list[tuple[datetime, int]]] = defaultdict(list)
    for execution in rows:
        by_olt[execution.olt_id] += [(one.started_at, one.token) for one in execution.attempts]
    tokens += [[token for _, token in sorted(tries)] for tries in by_olt.values()]
    return sum(after <= before for series in tokens for before, after in pairwise(series))


def half_readings(rows: list[Execution]) -> int:
    """OLTs whose readings are not all of their last success: each success writes every one of them."""
    well = [one for one in rows if one.status is ExecutionStatus.SUCCESS and one.finished_at is not None]
    last = {one.olt_id: one.id for one in sorted(well, key=lambda one: one.finished_at or one.scheduled_for)}
    query = select(OnuData.execution_id, func.count(), func.count(distinct(OnuData.number)))
    stored = {row[0]: row[1:] for row in db.session.execute(query.group_by(OnuData.execution_id))}
    return sum(stored.get(ident) != (ONUS * STEPS, 1) for ident in last.values()) + len(stored.keys() - last.values())


def half_requests(rows: list[Execution]) -> int:
    """Runs that somebody asked for without a line in the audit log, and lines without a run."""
    asked = sum(bool(one.requested_by) for one in rows)  # a manual run may be its node's slot by now
    said = select(func.count()).select_from(AuditLog).where(AuditLog.action.in_(("node.run_now", "execution.hurry")))
    return abs(asked - (db.session.scalar(said) or 0))
