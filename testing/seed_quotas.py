"""Promises for the seeded database: a day and more of trackers, what was lost, skipped slots, violations."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from portal import tables as m
from portal.domain import quota
from portal.domain.quota import Counts
from portal.domain.statuses import EventType, ExecutionStatus, LossCause, QuotaStatus, SkipReason, Trigger

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
    task = quota.task_type(node.kind, node.key)
    basis = [{"node_id": node.id, "key": node.key, "slots": 4, "interval": 900}]
    session.add(
        m.QuotaTracker(
            olt_id=node.workflow.olt_id, task_type=task, period_start=hour, period_end=hour + quota.HOUR,
            quota_required=4, quota_completed=2, quota_failed=1, quota_skipped=1, quota_pending=0, basis=basis,
            status=QuotaStatus.QUOTA_NOT_MET, created_at=hour, updated_at=now,
        )
    )  # fmt: skip
    lost = _losses(session, node.workflow.olt_id, task, hour, counts)
    _violation(session, node.workflow.olt_id, task, hour, counts, lost)
    _slots(session, node, task, hour, counts)


def fill_slots(session: Session, now: datetime) -> None:
    """The executions and skipped slots that the trackers of this hour and the last two stand for."""
    since = quota.hour_at(now) - 2 * quota.HOUR
    nodes = {
        (node.workflow.olt_id, quota.task_type(node.kind, node.key)): node for node in session.query(m.WorkflowNode)
    }
    for row in session.query(m.QuotaTracker).filter(m.QuotaTracker.period_start >= since):
        counts = Counts(row.quota_completed, row.quota_failed, row.quota_skipped, row.quota_pending)
        _slots(session, nodes[row.olt_id, row.task_type], row.task_type, row.period_start, counts)


def _promise(session: Session, node: m.WorkflowNode, hour: datetime, now: datetime, dice: random.Random) -> None:
    olt, interval = node.workflow.olt, node.interval_seconds or 3600
    required, gone = 3600 // interval, min(1.0, (now - hour) / quota.HOUR)
    passed = int(required * gone)
    trouble = 0.35 if olt.id % 5 == 2 else 0.01
    failed = sum(dice.random() < trouble for _ in range(passed))
    skipped = min(passed - failed, sum(dice.random() < trouble / 2 for _ in range(passed)))
    counts = Counts(passed - failed - skipped, failed, skipped, required - passed)
    task = quota.task_type(node.kind, node.key)
    status = quota.judge(counts, interrupted=olt.id % 7 == 6 and hour.hour % 9 == 4) if gone >= 1 else None
    detail = {"cause": "olt_busy", "node": "rx", "seconds": 40} if failed + skipped else None
    session.add(
        m.QuotaTracker(
            olt_id=olt.id, task_type=task, period_start=hour, period_end=hour + quota.HOUR, quota_required=required,
            quota_completed=counts.completed, quota_failed=failed, quota_skipped=skipped,
            quota_pending=counts.pending, total_duration_ms=counts.completed * 8000, avg_duration_ms=8000,
            status=status or QuotaStatus.IN_PROGRESS,
            basis=[{"node_id": node.id, "key": node.key, "slots": required, "interval": interval}],
            forecast=None if status else required - failed - skipped, forecast_details=None if status else detail,
            created_at=hour, updated_at=now,
        )
    )  # fmt: skip
    lost = _losses(session, olt.id, task, hour, counts)
    if status in (QuotaStatus.QUOTA_NOT_MET, QuotaStatus.FAILED):
        _violation(session, olt.id, task, hour, counts, lost)


def _losses(session: Session, olt_id: int, task: str, hour: datetime, counts: Counts) -> dict[str, int]:
    lost: dict[str, int] = {}
    for column, cause in _LOST.items():
        slots = getattr(counts, column)
        if slots:
            lost[cause.value] = slots
            session.add(m.QuotaLoss(olt_id=olt_id, task_type=task, period_start=hour, cause=cause,
                                    **({"failed": 0, "skipped": 0} | {column: slots})))  # fmt: skip
    return lost


def _violation(
    session: Session, olt_id: int, task: str, hour: datetime, counts: Counts, lost: dict[str, int]
) -> None:  # fmt: skip
    found = hour + quota.HOUR + timedelta(seconds=6)
    report = {"task_type": task, "required": counts.required, "completed": counts.completed, "failed": counts.failed,
              "skipped": counts.skipped, "pending": 0, "lost": lost, "basis": []}  # fmt: skip
    session.add(
        m.QuotaViolation(
            olt_id=olt_id, task_type=task, period_start=hour, period_end=hour + quota.HOUR, report=report,
            severity=quota.severity(counts), notified=bool(olt_id % 2 or hour.hour % 3),
            notified_at=found + timedelta(seconds=4) if olt_id % 2 or hour.hour % 3 else None, created_at=found,
        )
    )  # fmt: skip


def _slots(session: Session, node: m.WorkflowNode, task: str, hour: datetime, counts: Counts) -> None:
    """Its executions and skipped slots, in an order that the numbers give."""
    olt, step = node.workflow.olt, quota.HOUR / counts.required
    moments = [hour + number * step for number in range(1, counts.required + 1)]
    for number, at in enumerate(moments[: counts.completed + counts.failed]):
        good = number < counts.completed
        session.add(
            m.Execution(
                node_id=node.id, olt_id=olt.id, node_name=node.name, task_type=task, device_key=olt.device_key,
                status=ExecutionStatus.SUCCESS if good else ExecutionStatus.FAILED, trigger=Trigger.SCHEDULE,
                priority=node.priority, scheduled_for=at, started_at=at, finished_at=at + timedelta(seconds=8),
                duration_ms=8000, delay_ms=40, attempt=1, error_kind=None if good else "timeout",
            )
        )  # fmt: skip
    for at in moments[counts.completed + counts.failed : counts.required - counts.pending]:
        session.add(
            m.CoordinatorLog(
                olt_id=olt.id, node_id=node.id, scheduled_for=at, event_type=EventType.SLOT_SKIPPED,
                reason=SkipReason.OLT_BUSY, level="WARNING", message=f"{node.name}: skipped", timestamp=at,
                details={"slots": 1, "first": at.isoformat(), "last": at.isoformat(), "task_type": task},
            )
        )  # fmt: skip
