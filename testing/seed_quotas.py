"""Promises for the seeded database: a day and more of trackers, what was lost, skipped slots, violations."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from portal import tables as m
from portal.domain import quota
from portal.domain.quota import Counts
from portal.domain.statuses import EventType, ExecutionStatus, LossCause, QuotaStatus, SkipReason
from testing.builders import make_execution, tracker

HOURS = 27
_LOST = {"failed": LossCause.TIMEOUT, "skipped": LossCause.OLT_BUSY}


def fill(
    session: Session, masters: Sequence[m.WorkflowNode], now: datetime, *, this_hour: bool = True
) -> None:  # fmt: skip
    """Trackers of the last HOURS hours and of `this_hour`, with losses and violations. Each fifth OLT has trouble."""
    dice = random.Random(11)
    for back in range(HOURS, -1 if this_hour else 0, -1):
        hour = quota.hour_at(now) - back * quota.HOUR
        for node in masters:
            _promise(session, node, hour, now, dice)
        session.flush()


def fill_one(session: Session, node: m.WorkflowNode, now: datetime) -> None:
    """Of one node: the last full hour, in which half of four slots was lost, its slots and the violation. Ids 1."""
    hour, counts = quota.hour_at(now) - quota.HOUR, Counts(completed=2, failed=1, skipped=1)
    lost = _account(session, node, hour, counts, status=QuotaStatus.QUOTA_NOT_MET, updated_at=now)
    _violation(session, node, hour, counts, lost)
    _slots(session, node, hour, counts)


def fill_slots(session: Session, now: datetime) -> None:
    """The executions and skipped slots that the trackers of this hour and the last two stand for."""
    since = quota.hour_at(now) - 2 * quota.HOUR
    nodes = {(node.workflow.olt_id, _task(node)): node for node in session.query(m.WorkflowNode)}
    for row in session.query(m.QuotaTracker).filter(m.QuotaTracker.period_start >= since):
        counts = Counts(row.quota_completed, row.quota_failed, row.quota_skipped, row.quota_pending)
        _slots(session, nodes[row.olt_id, row.task_type], row.period_start, counts)


def _promise(session: Session, node: m.WorkflowNode, hour: datetime, now: datetime, dice: random.Random) -> None:
    olt, interval = node.workflow.olt, node.interval_seconds or 3600
    required, gone = 3600 // interval, min(1.0, (now - hour) / quota.HOUR)
    passed = int(required * gone)
    trouble = 0.35 if olt.id % 5 == 2 else 0.01
    failed = sum(dice.random() < trouble for _ in range(passed))
    skipped = min(passed - failed, sum(dice.random() < trouble / 2 for _ in range(passed)))
    counts = Counts(passed - failed - skipped, failed, skipped, required - passed)
    status = quota.judge(counts, interrupted=olt.id % 7 == 6 and hour.hour % 9 == 4) if gone >= 1 else None
    detail = {"cause": "olt_busy", "node": "rx", "seconds": 40} if failed + skipped else None
    lost = _account(
        session, node, hour, counts, total_duration_ms=counts.completed * 8000, avg_duration_ms=8000,
        status=status or QuotaStatus.IN_PROGRESS, forecast=None if status else required - failed - skipped,
        forecast_details=None if status else detail, updated_at=now,
    )  # fmt: skip
    if status in (QuotaStatus.QUOTA_NOT_MET, QuotaStatus.FAILED):
        _violation(session, node, hour, counts, lost)


def _task(node: m.WorkflowNode) -> str:
    return quota.task_type(node.kind, node.key)


def _account(
    session: Session, node: m.WorkflowNode, hour: datetime, counts: Counts, **fields: Any
) -> dict[str, int]:  # fmt: skip
    """The tracker of an hour, and what was lost in it by its cause."""
    olt_id, slots = node.workflow.olt_id, counts.required
    basis = [{"node_id": node.id, "key": node.key, "slots": slots, "interval": 3600 // slots}]
    session.add(tracker(olt_id, _task(node), hour, counts, basis=basis, **fields))
    lost: dict[str, int] = {}
    for column, cause in _LOST.items():
        if gone := getattr(counts, column):
            lost[cause.value] = gone
            parts = {"failed": 0, "skipped": 0} | {column: gone}
            session.add(m.QuotaLoss(olt_id=olt_id, task_type=_task(node), period_start=hour, cause=cause, **parts))
    return lost


def _violation(
    session: Session, node: m.WorkflowNode, hour: datetime, counts: Counts, lost: dict[str, int]
) -> None:  # fmt: skip
    olt_id, found = node.workflow.olt_id, hour + quota.HOUR + timedelta(seconds=6)
    told = bool(olt_id % 2 or hour.hour % 3)
    report = {"task_type": _task(node), "required": counts.required, "completed": counts.completed,
              "failed": counts.failed, "skipped": counts.skipped, "pending": 0, "lost": lost, "basis": []}  # fmt: skip
    session.add(m.QuotaViolation(
        olt_id=olt_id, task_type=_task(node), period_start=hour, period_end=hour + quota.HOUR, report=report,
        severity=quota.severity(counts), notified=told, notified_at=found + timedelta(seconds=4) if told else None,
        created_at=found,
    ))  # fmt: skip


def _slots(session: Session, node: m.WorkflowNode, hour: datetime, counts: Counts) -> None:
    """Its executions and skipped slots, in an order that the numbers give."""
    step = quota.HOUR / counts.required
    moments = [hour + number * step for number in range(1, counts.required + 1)]
    for number, at in enumerate(moments[: counts.completed + counts.failed]):
        good = number < counts.completed
        make_execution(
            node, at, task_type=_task(node), status=ExecutionStatus.SUCCESS if good else ExecutionStatus.FAILED,
            started_at=at, finished_at=at + timedelta(seconds=8), duration_ms=8000, delay_ms=40, attempt=1,
            queued_at=None, error_kind=None if good else "timeout",
        )  # fmt: skip
    for at in moments[counts.completed + counts.failed : counts.required - counts.pending]:
        details = {"slots": 1, "first": at.isoformat(), "last": at.isoformat(), "task_type": _task(node)}
        session.add(m.CoordinatorLog(
            olt_id=node.workflow.olt_id, node_id=node.id, scheduled_for=at, event_type=EventType.SLOT_SKIPPED,
            reason=SkipReason.OLT_BUSY, level="WARNING", message=f"{node.name}: skipped", timestamp=at, details=details,
        ))  # fmt: skip
