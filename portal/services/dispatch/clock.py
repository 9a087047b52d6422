"""The clocks of masters: who has one, and when it strikes next by the rules of time; cron lines in the portal zone."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import cast
from zoneinfo import ZoneInfo

from flask import current_app
from sqlalchemy import ColumnElement, Table, exists, select, update
from sqlalchemy.orm import Session

from portal import masters
from portal.cron import cron_times, portal_zone
from portal.domain import schedule
from portal.domain.fields import FieldError
from portal.domain.messages import N_
from portal.domain.phases import PhasedNode, Spread
from portal.domain.statuses import ACTIVE, Trigger
from portal.services import bulk
from portal.tables import Execution, WorkflowNode

__all__ = ["cron_times", "portal_zone"]

CRON_SAMPLE = 40  # firings looked at to find how close together a cron line's runs come

_NODES = cast(Table, WorkflowNode.__table__)

FirstRun = Callable[[int, str, int], datetime]  # OLT id, node key, interval in seconds
UNKNOWN_RUN_MS = 10_000  # what a node that has never run is taken to need, when its first run is placed


def next_cron(cron: str, after: datetime, zone: ZoneInfo) -> datetime | None:
    """The first firing strictly after `after`; None when the line never fires (30 February)."""
    return next(iter(cron_times(cron, after, zone)), None)


def shortest_gap(cron: str, now: datetime, zone: ZoneInfo) -> int:
    """Seconds between the two closest of the next firings. FieldError when the line is wrong or never fires."""
    times = list(islice(cron_times(cron, now, zone), CRON_SAMPLE))
    if not times:
        raise FieldError(N_("%(cron)s never fires: check day and month", cron=cron))
    gaps = (int((later - sooner).total_seconds()) for sooner, later in pairwise(times))
    return min(gaps, default=366 * 86_400)


def first_runs(now: datetime, *, many_olts: bool, seconds: int | None = None) -> FirstRun:
    """Rule 1 as a function of OLT, node key and interval. `seconds` moves the first run of demo nodes nearer."""
    if seconds is not None:
        return lambda _olt_id, _key, _interval: schedule.whole_second(now) + timedelta(seconds=seconds)
    return lambda olt_id, key, _interval: schedule.first_run(now, olt_id, key, many_olts=many_olts)


def spread_first_runs(session: Session, now: datetime) -> FirstRun:
    """Rule 1 for many OLTs at once: in the minute that it allows, each where its OLT and the pool have least to do."""
    spread = Spread(masters.phased(masters.load(session, now)))
    earliest = schedule.whole_second(now) + schedule.FIRST_RUN_DELAY

    def first_run(olt_id: int, _key: str, interval: int) -> datetime:
        return spread.place(olt_id, earliest, interval, UNKNOWN_RUN_MS, schedule.FIRST_RUN_SPREAD_SECONDS)

    return first_run


def _anchor(node: WorkflowNode, moment: datetime | None) -> None:
    node.next_run_at = node.anchor_at = moment


def stop(node: WorkflowNode) -> None:
    """A chained node has no clock."""
    _anchor(node, None)


def start_new(node: WorkflowNode, olt_id: int, now: datetime, first_run: FirstRun) -> None:
    """Rule 1 (a cron line simply fires when it says)."""
    if node.cron:
        _anchor(node, next_cron(node.cron, now, portal_zone()))
    else:
        _anchor(node, first_run(olt_id, node.key, node.interval_seconds or 0))


def follow_change(node: WorkflowNode, now: datetime) -> None:
    """Rule 4: after its interval or cron line changed."""
    if node.cron:
        _anchor(node, next_cron(node.cron, now, portal_zone()))
    elif node.interval_seconds:
        _anchor(node, schedule.after_interval_change(now, node.next_run_at, node.interval_seconds))


def settle(session: Session, which: ColumnElement[bool], now: datetime) -> None:
    """After anything was switched: of the masters that `which` selects, those that may not run lose their clock,

    and those that may and have none run a full interval from now (rule 2). So the tick's index holds only what runs.
    Doing it again changes nothing. A few statements, however many nodes there are.
    """
    session.flush()
    masters = which & WorkflowNode.master_id.is_(None)
    _set(session, masters & WorkflowNode.next_run_at.is_not(None) & ~WorkflowNode.runs, next_run_at=None)
    idle = masters & WorkflowNode.next_run_at.is_(None) & WorkflowNode.runs
    if current_app.config["NEXTCHECK_MODE"] == "from_end":
        idle = idle & ~_active()  # its clock goes on at the end of its run
    pace = (WorkflowNode.interval_seconds, WorkflowNode.cron)
    for seconds, cron in session.execute(select(*pace).where(idle).distinct()).all():
        moment = next_cron(cron, now, portal_zone()) if cron else schedule.after_enabling(now, seconds)
        same = pace[1] == cron if cron else pace[0] == seconds
        _set(session, idle & same, next_run_at=moment, anchor_at=moment)


def shift(session: Session, seconds: Mapping[int, int], now: datetime) -> dict[int, int]:
    """Move clocks forward by so many seconds (node id → seconds), anchor and next run alike; returns those moved.

    None is moved so far that the hour of its next run would lose a slot (portal.domain.phases), and none whose clock
    was stopped meanwhile. Ticks leave the locked nodes for their next second.
    """
    query = (
        select(WorkflowNode.id, WorkflowNode.next_run_at, WorkflowNode.anchor_at, WorkflowNode.interval_seconds)
        .where(WorkflowNode.id.in_(seconds), WorkflowNode.next_run_at > now, WorkflowNode.interval_seconds.is_not(None))
        .order_by(WorkflowNode.id)
        .with_for_update(key_share=True)
    )
    rows = session.execute(query).all()
    free = [row for row in rows if seconds[row.id] <= PhasedNode(0, 0, row.next_run_at, row.interval_seconds, 0).room]
    by = {row.id: timedelta(seconds=seconds[row.id]) for row in free}
    bulk.set_column(session, _NODES, "next_run_at", {row.id: row.next_run_at + by[row.id] for row in free})
    anchors = {row.id: (row.anchor_at or row.next_run_at) + by[row.id] for row in free}
    bulk.set_column(session, _NODES, "anchor_at", anchors)
    return {row.id: seconds[row.id] for row in free}


def _active() -> ColumnElement[bool]:
    return exists().where(
        Execution.node_id == WorkflowNode.id, Execution.trigger == Trigger.SCHEDULE, Execution.status.in_(ACTIVE)
    )


def _set(session: Session, which: ColumnElement[bool], **values: datetime | None) -> None:
    session.execute(
        update(WorkflowNode).where(which).values(**values), execution_options={"synchronize_session": "fetch"}
    )
