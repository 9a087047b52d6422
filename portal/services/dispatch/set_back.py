"""After the clock was set back: masters whose slot then lies hours ahead go on at their interval. One transaction."""

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from sqlalchemy import ColumnElement, Table, select
from sqlalchemy.orm import Session

from portal.domain import schedule
from portal.domain.fields import FieldError
from portal.domain.messages import N_
from portal.domain.statuses import AlertKind, EventType, Severity, Trigger
from portal.extensions import db, transaction
from portal.services import bulk, decisions
from portal.services.alerting import alerts
from portal.services.dispatch import clock
from portal.tables import Execution, WorkflowNode

log = logging.getLogger(__name__)

_NODES = cast(Table, WorkflowNode.__table__)


@dataclass(frozen=True)
class _Master:
    """A master whose slot stands too far ahead."""

    id: int
    next_run_at: datetime
    interval_seconds: int | None
    cron: str | None


def wind_back(now: datetime) -> int:
    """Bring back the slots that no rule of time would have put so far ahead; returns how many.

    A clock that is an hour ahead for three seconds has every node run once, and leaves its next slot an hour away.
    """
    suspected = _found(db.session(), now)  # nearly always there is none: SQLite's write lock is not taken for that
    db.session.rollback()
    if not suspected:
        return 0
    with transaction() as session:
        found, taken = _found(session, now), _taken(session, now)
        slots = {one.id: slot for one in found if (slot := _slot(one, now, taken[one.id])) < one.next_run_at}
        if not slots:
            return 0
        for column in ("next_run_at", "anchor_at"):
            bulk.set_column(session, _NODES, column, slots)
        furthest = schedule.whole_second(max(one.next_run_at for one in found)) - schedule.whole_second(now)
        message = (
            f"the clock was set back: {len(slots)} nodes go on at their interval, the furthest was {furthest} ahead"
        )
        decisions.record(session, EventType.SYSTEM, message, now, level="WARNING", details={"nodes": len(slots)})
        subject = N_("The clock of this system was set back")
        body = N_("%(nodes)d nodes go on at their interval; the furthest slot was %(furthest)s ahead.",
                  nodes=len(slots), furthest=str(furthest))  # fmt: skip
        alerts.raise_alert(session, AlertKind.SYSTEM, subject, body, now, severity=Severity.MEDIUM)
    log.warning("event=wound_back nodes=%d furthest=%s", len(slots), furthest)
    return len(slots)


def _found(session: Session, now: datetime) -> list[_Master]:
    return [*_of_intervals(session, now), *_of_cron_lines(session, now)]


def _of_intervals(session: Session, now: datetime) -> Iterable[_Master]:
    beyond = WorkflowNode.next_run_at > now + schedule.FURTHEST_AHEAD
    paces = select(WorkflowNode.interval_seconds).where(beyond, WorkflowNode.interval_seconds.is_not(None)).distinct()
    for seconds in session.scalars(paces).all():
        furthest = now + timedelta(seconds=seconds or 0) + schedule.FURTHEST_AHEAD
        yield from _masters(session, (WorkflowNode.interval_seconds == seconds) & (WorkflowNode.next_run_at > furthest))


def _of_cron_lines(session: Session, now: datetime) -> Iterable[_Master]:
    lines = select(WorkflowNode.cron).where(WorkflowNode.next_run_at > now, WorkflowNode.cron.is_not(None)).distinct()
    for line in session.scalars(lines).all():
        try:
            following = clock.next_cron(line or "", now, clock.portal_zone())
        except FieldError:  # refused on entry; if it is there all the same, it has no business here
            continue
        if following is not None:
            yield from _masters(session, (WorkflowNode.cron == line) & (WorkflowNode.next_run_at > following))


def _masters(session: Session, which: ColumnElement[bool]) -> Iterable[_Master]:
    """Those that nobody else is writing; the others are looked at again in a minute."""
    columns = (WorkflowNode.id, WorkflowNode.next_run_at, WorkflowNode.interval_seconds, WorkflowNode.cron)
    query = select(*columns).where(which, WorkflowNode.master_id.is_(None))
    query = query.with_for_update(skip_locked=True, key_share=True)
    return [_Master(row.id, row.next_run_at, row.interval_seconds, row.cron) for row in session.execute(query)]


def _taken(session: Session, now: datetime) -> dict[int, set[datetime]]:
    """Node id → its slots after `now` that exist already."""
    taken: dict[int, set[datetime]] = defaultdict(set)
    ahead = select(Execution.node_id, Execution.scheduled_for).where(
        Execution.scheduled_for > now, Execution.trigger == Trigger.SCHEDULE, Execution.node_id.is_not(None)
    )
    for node_id, slot in session.execute(ahead):
        taken[node_id].add(slot)
    return taken


def _slot(one: _Master, now: datetime, taken: set[datetime]) -> datetime:
    if one.interval_seconds is not None:
        return schedule.after_set_back(now, one.next_run_at, one.interval_seconds, taken)
    for moment in clock.cron_times(one.cron or "", now, clock.portal_zone()):
        if moment not in taken or moment >= one.next_run_at:
            return moment
    return one.next_run_at
