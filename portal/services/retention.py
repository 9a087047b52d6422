"""Deleting what has been kept long enough, in small batches so that no lock lasts."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, select

from portal.domain.statuses import ExecutionStatus, NotificationStatus, Presence
from portal.extensions import Base, transaction
from portal.services.collecting import history
from portal.services.decisions import LOG_DAYS
from portal.tables import (
    CoordinatorLog,
    Execution,
    ExecutionPlan,
    NodeDay,
    Notification,
    Onu,
    OnuEvent,
    PollerStats,
    Probe,
    QuotaLoss,
    QuotaTracker,
    QuotaViolation,
    Trial,
    Workflow,
    WorkflowRevision,
)

BATCH = 500
FEW = 20  # ONUs, each of which takes years of history along
STATS_DAYS = 7
EVENT_DAYS = 365
PROBE_DAYS = 1
TRIAL_DAYS = 1
LEDGER_DAYS = 730
PLAN_DAYS = 3
QUOTA_DAYS = 60
VIOLATION_DAYS = 365
ALERT_DAYS = 30
REVISION_DAYS = 30
REVISIONS_KEPT = 20  # of each workflow, however old


def clean_up(
    now: datetime, days: int, failed_days: int, ledger_days: int = LEDGER_DAYS, plan_days: int = PLAN_DAYS,
    quota_days: int = QUOTA_DAYS, gone_days: int = 0,
) -> int:  # fmt: skip
    """Delete everything past its time, and thin the history; returns how many rows went.

    Steps and attempts go with their execution. ONUs that no discovery has listed for `gone_days` (0 = never) go with
    all that was read of them.
    """
    ok = (ExecutionStatus.SUCCESS, ExecutionStatus.INTERRUPTED)
    over = (NotificationStatus.SENT, NotificationStatus.GIVEN_UP)
    return sum((
        _drop(Execution, Execution.status.in_(ok) & (Execution.finished_at < now - timedelta(days=days))),
        _drop(Execution, (Execution.status == ExecutionStatus.FAILED)
              & (Execution.finished_at < now - timedelta(days=failed_days))),
        _drop(CoordinatorLog, CoordinatorLog.timestamp < now - timedelta(days=LOG_DAYS)),
        _drop(PollerStats, PollerStats.timestamp < now - timedelta(days=STATS_DAYS)),
        _drop(NodeDay, NodeDay.day < now - timedelta(days=ledger_days)),
        _drop(ExecutionPlan, ExecutionPlan.created_at < now - timedelta(days=plan_days)),
        _drop(QuotaLoss, QuotaLoss.period_start < now - timedelta(days=quota_days)),
        _drop(QuotaTracker, QuotaTracker.period_start < now - timedelta(days=quota_days)),
        _drop(QuotaViolation, QuotaViolation.period_start < now - timedelta(days=VIOLATION_DAYS)),
        _drop(OnuEvent, OnuEvent.happened_at < now - timedelta(days=EVENT_DAYS)),
        _drop(Probe, Probe.created_at < now - timedelta(days=PROBE_DAYS)),
        _drop(Trial, Trial.created_at < now - timedelta(days=TRIAL_DAYS)),
        _drop(Notification, Notification.status.in_(over)
              & (Notification.created_at < now - timedelta(days=ALERT_DAYS))),
        _drop(WorkflowRevision, (WorkflowRevision.made_at < now - timedelta(days=REVISION_DAYS)) & _superseded()),
        _drop(Onu, _gone_before(now - timedelta(days=gone_days)), FEW) if gone_days else 0,
        history.thin(now),
    ))  # fmt: skip


def _superseded() -> ColumnElement[bool]:
    """Revisions that are not among the newest of their workflow: their numbers have no gaps."""
    return exists().where(
        Workflow.id == WorkflowRevision.workflow_id,
        WorkflowRevision.number <= Workflow.revision - REVISIONS_KEPT,
    )


def _gone_before(moment: datetime) -> ColumnElement[bool]:
    return (Onu.presence == Presence.DISABLED) & (Onu.presence_since < moment)


def _drop(model: type[Base], condition: ColumnElement[bool], batch: int = BATCH) -> int:
    table: Any = model
    total = 0
    while True:
        with transaction() as session:
            ids = list(session.scalars(select(table.id).where(condition).limit(batch)))
            session.execute(delete(table).where(table.id.in_(ids)))
        total += len(ids)
        if len(ids) < batch:
            return total
