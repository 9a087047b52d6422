"""What a stop of the scheduler broke, told once: its hours and how many promises, not an alert for each of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Float, cast, func, select
from sqlalchemy.orm import Session

from portal.domain import quota
from portal.domain.messages import N_
from portal.domain.statuses import AlertKind, EventType, LossCause, QuotaStatus, Severity, SkipReason
from portal.services import decisions
from portal.services.alerting import alerts
from portal.services.dispatch import clock
from portal.tables import CoordinatorHour, CoordinatorLog, QuotaLoss, QuotaTracker


def only_cause(report: Mapping[str, Any]) -> bool:
    """True for the report of a violation whose slots were lost because nothing ticked, all of them."""
    return set(report["lost"]) == {LossCause.RESTART.value}


def tell(session: Session, end: datetime, judged: int, over: datetime, now: datetime) -> bool:
    """Alert of the stop that broke these `judged` promises of the hour that ended at `end`; False when it was told.

    It counts what the same close has still to judge, hours that end up to `over`: with them it is told.
    """
    session.execute(select(CoordinatorHour.hour).order_by(CoordinatorHour.hour.desc()).limit(1).with_for_update())
    if (known := _told_until(session)) is not None and end <= known:
        return False
    left, first, last = _left(session, over)
    start, until = min(first or end, end) - quota.HOUR, max(last or end, end)
    zone, hours = clock.portal_zone(), int((until - start) / quota.HOUR)
    message = N_(
        "the scheduler was not running: %(promises)d promises of %(hours)d hours were broken for that alone",
        promises=judged + left, hours=hours,
    )  # fmt: skip
    decisions.record(
        session, EventType.SYSTEM, message, now, level="ERROR", reason=SkipReason.SCHEDULER_DOWN,
        details={"since": start.isoformat(), "until": until.isoformat(), "promises": judged + left},
    )  # fmt: skip
    body = N_(
        "In the hours from %(start)s to %(end)s slots came and nothing ticked. Promises not kept for that reason "
        "alone: %(promises)d. They are among the violations, and no alert tells of each.",
        start=f"{start.astimezone(zone):%Y-%m-%d %H:%M}", end=f"{until.astimezone(zone):%Y-%m-%d %H:%M}",
        promises=judged + left,
    )  # fmt: skip
    alerts.raise_alert(session, AlertKind.SYSTEM, N_("The scheduler was not running"), body, now,
                       severity=Severity.HIGH)  # fmt: skip
    return True


def _told_until(session: Session) -> datetime | None:
    query = select(CoordinatorLog.details).where(
        CoordinatorLog.event_type == EventType.SYSTEM, CoordinatorLog.reason == SkipReason.SCHEDULER_DOWN
    )
    details = session.scalar(query.order_by(CoordinatorLog.timestamp.desc(), CoordinatorLog.id.desc()).limit(1))
    return datetime.fromisoformat(details["until"]) if details else None


def _left(session: Session, over: datetime) -> tuple[int, datetime | None, datetime | None]:
    """Promises to be judged that the stop broke and nothing else; the ends of their first and last hour."""
    same = (
        (QuotaLoss.olt_id == QuotaTracker.olt_id) & (QuotaLoss.task_type == QuotaTracker.task_type)
        & (QuotaLoss.period_start == QuotaTracker.period_start)
    )  # fmt: skip
    query = select(func.count(), func.min(QuotaTracker.period_end), func.max(QuotaTracker.period_end)).where(
        QuotaTracker.status == QuotaStatus.IN_PROGRESS, QuotaTracker.period_end <= over,
        QuotaTracker.quota_pending == 0,
        QuotaTracker.quota_completed < cast(QuotaTracker.quota_required, Float) * quota.MET,
        QuotaLoss.cause == LossCause.RESTART,
        QuotaLoss.failed + QuotaLoss.skipped == QuotaTracker.quota_required - QuotaTracker.quota_completed,
    ).join_from(QuotaTracker, QuotaLoss, same)  # fmt: skip
    count, first, last = session.execute(query).one()
    return int(count), first, last
