"""After the clock was set back: masters whose slot then lies hours ahead go on at their interval.

After the time zone was changed: cron lines are planned anew. One transaction each.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from flask import current_app
from sqlalchemy import ColumnElement, Table, select, update
from sqlalchemy.orm import Session

from portal.cron import following
from portal.domain import schedule
from portal.domain.fields import FieldError
from portal.domain.messages import N_
from portal.domain.statuses import AlertKind, EventType, Severity, Trigger
from portal.extensions import db, transaction
from portal.services import bulk, decisions
from portal.services.alerting import alerts
from portal.services.dispatch import clock, reachability
from portal.tables import Execution, SchedulerState, Workflow, WorkflowNode

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
    """Bring back the slots that a clock which was ahead has put too far ahead; returns how many.

    A clock that is an hour ahead for three seconds has every node run once, and leaves its next slot an hour away.
    That it was ahead is witnessed: a tick has used a later time than `now`. Else nothing is touched: what lies far
    ahead then was put there by people. Once no slot is left to be brought back the witness may go.
    """
    session: Session = db.session()
    state = session.execute(select(SchedulerState.furthest_tick_at, SchedulerState.zone)).first()
    session.rollback()
    if state is None:
        return 0
    if state.zone != current_app.config["TIMEZONE"]:
        _follow_zone(state.zone, current_app.config["TIMEZONE"], now)
    furthest_tick = state.furthest_tick_at
    if furthest_tick is None or furthest_tick <= now:
        return 0
    suspected = _found(session, now, furthest_tick)
    session.rollback()
    if not suspected:
        with transaction() as session:
            session.execute(update(SchedulerState).values(furthest_tick_at=now))
        return 0
    with transaction() as session:
        found, taken = _found(session, now, furthest_tick, lock=True), _taken(session, now)
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


def _follow_zone(before: str, zone: str, now: datetime) -> None:
    """Cron lines are read in another zone from now on: a change of the settings, no alarm."""
    lines = WorkflowNode.cron.is_not(None) & WorkflowNode.next_run_at.is_not(None)
    with transaction() as session:
        session.execute(update(SchedulerState).values(zone=zone))
        if not before:
            return
        of_lines = select(Workflow.olt_id).join(Workflow.nodes).where(lines).distinct()
        reachability.locked(session, list(session.scalars(of_lines)))
        come = clock.release(session, lines, now)
        nodes = session.execute(select(WorkflowNode.id, WorkflowNode.cron).where(lines)).all()
        clock.put(session, {node.id: come.get(node.id) or following(node.cron, now) for node in nodes})
        message = N_(
            "the time zone was changed from %(before)s to %(after)s: cron lines planned anew: %(count)d", before=before,
            after=zone, count=len(nodes),
        )  # fmt: skip
        decisions.record(session, EventType.SYSTEM, message, now, details={"nodes": len(nodes)})
    log.info("event=zone_changed before=%s after=%s nodes=%d", before, zone, len(nodes))


def _found(session: Session, now: datetime, furthest_tick: datetime, *, lock: bool = False) -> list[_Master]:
    """Masters whose slot lies further ahead than a clock that is right would put it, and no further than the one that

    was ahead did.
    """
    which = [*_of_intervals(session, now, furthest_tick), *_of_cron_lines(session, now, furthest_tick)]
    return [one for each in which for one in _masters(session, each, lock=lock)]


def _of_intervals(session: Session, now: datetime, furthest_tick: datetime) -> Iterable[ColumnElement[bool]]:
    beyond = WorkflowNode.next_run_at > now + schedule.FURTHEST_AHEAD
    paces = select(WorkflowNode.interval_seconds).where(beyond, WorkflowNode.interval_seconds.is_not(None)).distinct()
    for seconds in session.scalars(paces).all():
        ahead = timedelta(seconds=seconds or 0) + schedule.FURTHEST_AHEAD
        moved = WorkflowNode.next_run_at.between(now + ahead + timedelta(microseconds=1), furthest_tick + ahead)
        yield (WorkflowNode.interval_seconds == seconds) & moved


def _of_cron_lines(session: Session, now: datetime, furthest_tick: datetime) -> Iterable[ColumnElement[bool]]:
    lines = select(WorkflowNode.cron).where(WorkflowNode.next_run_at > now, WorkflowNode.cron.is_not(None)).distinct()
    for line in session.scalars(lines).all():
        try:
            first = clock.next_cron(line or "", now, clock.portal_zone())
        except FieldError:  # refused on entry; if it is there all the same, it has no business here
            continue
        if first is not None:
            last = following(line or "", furthest_tick)
            yield (WorkflowNode.cron == line) & (WorkflowNode.next_run_at > first) & (WorkflowNode.next_run_at <= last)


def _masters(session: Session, which: ColumnElement[bool], *, lock: bool) -> Iterable[_Master]:
    """With `lock` those that nobody else is writing; the others are looked at again in a minute."""
    columns = (WorkflowNode.id, WorkflowNode.next_run_at, WorkflowNode.interval_seconds, WorkflowNode.cron)
    query = select(*columns).where(which, WorkflowNode.master_id.is_(None))
    query = query.with_for_update(skip_locked=True, key_share=True) if lock else query
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
