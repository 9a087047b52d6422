"""The close of an hour: its promises are judged, each once; what was not kept becomes a violation and an alert."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from flask import current_app
from sqlalchemy import ColumnElement, Table, func, select, update
from sqlalchemy.orm import Session

from portal.domain import quota
from portal.domain.messages import N_, Message
from portal.domain.quota import Counts, TrackerKey
from portal.domain.statuses import AlertKind, EventType, LossCause, QuotaStatus, Severity, Trigger
from portal.domain.words import LOSSES
from portal.extensions import db, transaction
from portal.models.execution import ACTIVE_SQL
from portal.models.types import off_its_index
from portal.services import bulk, decisions
from portal.services.alerting import alerts
from portal.services.coordinating import plans, stops, trackers
from portal.services.coordinating.slots_to_come import hours_between
from portal.services.dispatch import clock
from portal.tables import (
    CoordinatorHour,
    Execution,
    Olt,
    QuotaLoss,
    QuotaTracker,
    QuotaViolation,
    SchedulerState,
    WorkflowNode,
)

log = logging.getLogger(__name__)

SETTLING = timedelta(seconds=5)  # the tick and the coordinator have seen the last slot by then
GRACE = timedelta(minutes=15)  # what is ACTIVE still so long after its hour counts as lost when the hour is judged
PATIENCE = timedelta(hours=3)  # how long after its hour a promise waits for a scheduler that does not tick
PULSE = timedelta(minutes=1)  # a scheduler that ticked so recently is at work: for it there is no end of waiting
CHUNK = 500  # trackers in one transaction
HOURS_BACK = 48  # of missed hours whose books are still opened

_VIOLATIONS = cast(Table, QuotaViolation.__table__)
_LEVELS = {
    Severity.LOW: "WARNING", Severity.MEDIUM: "WARNING", Severity.HIGH: "ERROR", Severity.CRITICAL: "CRITICAL",
}  # fmt: skip


def close_due(now: datetime) -> int:
    """Judge every tracker whose hour is over and whose slots have all come to their end; returns how many.

    One whose last slots drag on is judged GRACE after its hour. An hour that the ticks have not come past is not
    judged, until PATIENCE is over: what they will skip is not known yet. Harmless when doubled: a tracker is judged
    under its lock, once.
    """
    _note_hours(now)
    total, over = 0, _ticked_past(now)
    while (judged := _close_chunk(over, now)) is not None:
        total += judged
    for hour in _hours_over(now):
        _finish_hour(hour, now)
    return total


def _ticked_past(now: datetime) -> datetime:
    """Hours that end up to here may be judged."""
    session: Session = db.session()
    due = select(func.min(WorkflowNode.next_run_at)).where(
        WorkflowNode.next_run_at <= now - SETTLING, WorkflowNode.runs
    )
    oldest, last_tick = session.scalar(due), session.scalar(select(SchedulerState.last_tick_at))
    session.rollback()
    if oldest is None:
        return now - SETTLING
    before = oldest - timedelta(microseconds=1)  # a slot at the end of an hour belongs to it
    ticking = last_tick is not None and last_tick > now - PULSE
    return before if ticking else max(before, now - PATIENCE)


def _ripe(over: datetime, now: datetime) -> ColumnElement[bool]:
    ended = (QuotaTracker.status == QuotaStatus.IN_PROGRESS) & (QuotaTracker.period_end <= over)
    return ended & ((QuotaTracker.quota_pending == 0) | (QuotaTracker.period_end <= now - GRACE))


def _close_chunk(over: datetime, now: datetime) -> int | None:
    """Judge some trackers of one hour; returns how many, None when there is none left.

    What is ripe at first sight is judged, or turns out not to be: no chunk comes twice.
    """
    session: Session = db.session()
    found = session.execute(
        select(QuotaTracker.olt_id, QuotaTracker.period_start).where(_ripe(over, now))
        .order_by(QuotaTracker.period_start, QuotaTracker.olt_id).limit(CHUNK)
    ).all()  # fmt: skip
    session.rollback()
    if not found:
        return None
    hour = found[0].period_start
    olt_ids = {row.olt_id for row in found if row.period_start == hour}
    with transaction() as session:
        trackers.refresh(session, [hour], now, olt_ids)  # what was never adjusted is put right before it is judged
        ours = _ripe(over, now) & (QuotaTracker.period_start == hour) & QuotaTracker.olt_id.in_(olt_ids)
        rows = list(session.scalars(select(QuotaTracker).where(ours).order_by(QuotaTracker.id)))
        _judge(session, rows, hour, over, now)
        return len(rows)


def _judge(session: Session, rows: Sequence[QuotaTracker], hour: datetime, over: datetime, now: datetime) -> None:
    losses = _losses(session, [row.olt_id for row in rows], hour)
    active = _active(session, [row.olt_id for row in rows if row.quota_pending], hour)
    statuses: dict[int, Any] = {}
    broken: list[tuple[QuotaTracker, Severity, dict[str, Any]]] = []
    for row in rows:
        counts, lost = counts_of(row), losses.get(_key(row), {})
        statuses[row.id] = quota.judge_owed(counts, lost)
        bad = quota.severity(quota.owed(counts, lost), bounds())
        if bad is not None:
            broken.append((row, bad, report(row, lost, active.get(_key(row), 0))))
    bulk.set_column(session, cast(Table, QuotaTracker.__table__), "status", statuses)
    stopped = _violate(session, broken, now)
    if stopped:
        stops.tell(session, hour + quota.HOUR, stopped, over, now)


def bounds() -> tuple[float, float, float]:
    """Lower bounds of completed / required for LOW, MEDIUM and HIGH (setting QUOTA_SEVERITY, in percent)."""
    low, medium, high = current_app.config["QUOTA_SEVERITY"]
    return low / 100, medium / 100, high / 100


def counts_of(row: QuotaTracker) -> Counts:
    """The four counts of a tracker."""
    return Counts(row.quota_completed, row.quota_failed, row.quota_skipped, row.quota_pending)


def _key(row: QuotaTracker) -> TrackerKey:
    return TrackerKey(row.olt_id, row.task_type, row.period_start)


def _losses(
    session: Session, olt_ids: Iterable[int], hour: datetime
) -> dict[TrackerKey, dict[LossCause, int]]:  # fmt: skip
    query = select(QuotaLoss.olt_id, QuotaLoss.task_type, QuotaLoss.cause, QuotaLoss.failed + QuotaLoss.skipped).where(
        QuotaLoss.period_start == hour, QuotaLoss.olt_id.in_(set(olt_ids))
    )
    found: dict[TrackerKey, dict[LossCause, int]] = defaultdict(dict)
    for olt_id, task_type, cause, slots in session.execute(query):
        found[TrackerKey(olt_id, task_type, hour)][cause] = slots
    return found


def _active(session: Session, olt_ids: Collection[int], hour: datetime) -> dict[TrackerKey, int]:
    """How many slots of the hour wait or run still."""
    if not olt_ids:
        return {}
    query = (
        select(Execution.olt_id, Execution.task_type, func.count())
        .where(ACTIVE_SQL, off_its_index(Execution.olt_id).in_(set(olt_ids)), Execution.trigger == Trigger.SCHEDULE,
               Execution.scheduled_for > hour, Execution.scheduled_for <= hour + quota.HOUR)
        .group_by(Execution.olt_id, Execution.task_type)
    )  # fmt: skip
    return {TrackerKey(olt_id, task, hour): slots for olt_id, task, slots in session.execute(query)}


def report(row: QuotaTracker, losses: Mapping[LossCause, int], active: int) -> dict[str, Any]:
    """Each lost slot under its cause: the `lost` add up to required - completed.

    Of what is pending the `active` slots have not ended, and the others have come with nobody to take them.
    """
    lost = dict(losses)
    waits = min(active, row.quota_pending)
    for cause, slots in ((LossCause.PENDING, waits), (LossCause.RESTART, row.quota_pending - waits)):
        lost[cause] = lost.get(cause, 0) + slots
    ordered = sorted(lost.items(), key=lambda item: (-item[1], item[0].value))
    return {
        "task_type": row.task_type, "required": row.quota_required, "completed": row.quota_completed,
        "failed": row.quota_failed, "skipped": row.quota_skipped, "pending": row.quota_pending,
        "lost": {cause.value: slots for cause, slots in ordered if slots}, "basis": row.basis,
    }  # fmt: skip


def _violate(
    session: Session, broken: Sequence[tuple[QuotaTracker, Severity, dict[str, Any]]], now: datetime
) -> int:  # fmt: skip
    """Violations, their log rows and their alerts; returns how many have no alert of their own, since all that broke

    them is that nothing ticked (stops.py). Nor has one that an unreachable OLT broke: of that people were told when it
    fell silent. The unique index says each once.
    """
    rows = [
        {
            "olt_id": row.olt_id, "task_type": row.task_type, "period_start": row.period_start,
            "period_end": row.period_end, "report": facts, "severity": bad, "notified": False, "created_at": now,
        }
        for row, bad, facts in broken
    ]  # fmt: skip
    made = bulk.insert_new(session, _VIOLATIONS, rows, ("id", "olt_id", "task_type"))
    if not made:
        return 0
    ids = {(one.olt_id, one.task_type): one.id for one in made}
    named = select(Olt.id, Olt.name).where(Olt.id.in_({one.olt_id for one in made}))
    names = {row.id: row.name for row in session.execute(named)}
    listening, stopped = alerts.listeners(session), 0
    for row, bad, facts in broken:
        ident = ids.get((row.olt_id, row.task_type))
        if ident is None:
            continue
        olt_name = names[row.olt_id]
        _log(session, ident, olt_name, row, bad, facts, now)
        if stops.only_cause(facts):
            stopped += 1
            continue
        if quota.told_already({LossCause(cause): slots for cause, slots in facts["lost"].items()}):
            continue
        subject, body = words(olt_name, row, bad, facts)
        alerts.raise_alert(
            session, AlertKind.QUOTA_VIOLATION, subject, body, now, severity=bad, olt_id=row.olt_id,
            violation_id=ident, listening=listening,
        )  # fmt: skip
    return stopped


def _log(
    session: Session, ident: int, olt_name: str, row: QuotaTracker, bad: Severity, facts: dict[str, Any], now: datetime
) -> None:  # fmt: skip
    lost = ", ".join(f"{slots} {cause}" for cause, slots in facts["lost"].items())
    message = (
        f"quota violation [{bad}]: {row.task_type} of {olt_name}, {row.quota_completed} of {row.quota_required}; "
        f"lost: {lost}"
    )
    decisions.record(
        session, EventType.QUOTA_VIOLATION, message, now, olt_id=row.olt_id, level=_LEVELS[bad],
        details={"violation": ident, "severity": bad.value, "period_start": row.period_start.isoformat(), **facts},
    )  # fmt: skip


def words(olt_name: str, row: QuotaTracker, bad: Severity, facts: Mapping[str, Any]) -> tuple[Message, Message]:
    """Subject and body of the alert; they are put into a language when it leaves."""
    zone = clock.portal_zone()
    start, end = f"{row.period_start.astimezone(zone):%Y-%m-%d %H:%M}", f"{row.period_end.astimezone(zone):%H:%M}"
    subject = N_(
        "%(olt)s: %(task)s completed %(completed)d of %(required)d [%(severity)s]", olt=olt_name, task=row.task_type,
        completed=row.quota_completed, required=row.quota_required, severity=bad.value,
    )  # fmt: skip
    head = N_(
        "Between %(start)s and %(end)s the OLT %(olt)s completed %(completed)d of %(required)d promised runs of "
        "%(task)s.", start=start, end=end, olt=olt_name, completed=row.quota_completed, required=row.quota_required,
        task=row.task_type,
    )  # fmt: skip
    lost = facts["lost"].items()
    lines = [N_("Lost: %(slots)d (%(cause)s)", slots=slots, cause=LOSSES[LossCause(cause)]) for cause, slots in lost]
    return subject, alerts.lines(head, *lines)


def _hours_over(now: datetime) -> list[datetime]:
    """Open hours that are over and have no tracker left to judge."""
    session: Session = db.session()
    query = select(CoordinatorHour.hour).where(
        CoordinatorHour.closed_at.is_(None), CoordinatorHour.hour <= now - quota.HOUR - SETTLING,
        ~select(QuotaTracker.id).where(
            QuotaTracker.period_start == CoordinatorHour.hour, QuotaTracker.status == QuotaStatus.IN_PROGRESS
        ).exists(),
    )  # fmt: skip
    hours = list(session.scalars(query.order_by(CoordinatorHour.hour)))
    session.rollback()
    return hours


def _finish_hour(hour: datetime, now: datetime) -> None:
    """The plans of an hour that is judged; whoever closes the hour's row does it, once."""
    with transaction() as session:
        closed = session.execute(
            update(CoordinatorHour)
            .where(CoordinatorHour.hour == hour, CoordinatorHour.closed_at.is_(None))
            .values(closed_at=now)
        )
        if closed.rowcount != 1:  # type: ignore[attr-defined]
            return
        plans.complete(session, hour, now)
    log.info("event=hour_closed hour=%s", hour.isoformat())


def _note_hours(now: datetime) -> None:
    """A row for the present hour, and for each that was missed while nothing ran: their books are closed too."""
    present = quota.hour_at(now)
    session: Session = db.session()
    latest = session.scalar(select(func.max(CoordinatorHour.hour)))
    session.rollback()
    if latest is not None and latest >= present:
        return
    first = present if latest is None else max(latest + quota.HOUR, present - HOURS_BACK * quota.HOUR)
    rows = [{"hour": hour, "opened_at": now} for hour in hours_between(first, present)]
    with transaction() as session:
        bulk.insert_new(session, cast(Table, CoordinatorHour.__table__), rows, ("hour",))
