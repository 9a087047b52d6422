"""The clocks of masters: who has one, and when it strikes next by the rules of time; cron lines in the portal zone."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cache
from itertools import islice, pairwise
from typing import Any, cast
from zoneinfo import ZoneInfo

from flask import current_app
from sqlalchemy import ColumnElement, Row, Table, exists, inspect, select, update
from sqlalchemy.orm import Session

from portal import masters
from portal.cron import cron_times, following, portal_zone
from portal.domain import quota, schedule
from portal.domain.fields import FieldError
from portal.domain.messages import N_
from portal.domain.phases import PhasedNode, Spread
from portal.domain.slots import DueMaster, SkippedSlots, left_behind
from portal.domain.statuses import ACTIVE, SkipReason, Trigger
from portal.services import bulk
from portal.services.dispatch import slots
from portal.tables import Execution, Olt, Workflow, WorkflowNode

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


def wind(session: Session, node: WorkflowNode, now: datetime, first_run: FirstRun | None = None) -> None:
    """Set the clock of a node that is new (rule 1), is a master now (rule 1), is chained now, or has another pace

    (rule 4). Then call `settle`, which knows whether it may run at all. `first_run`: None = it had a clock before.
    """
    come = release(session, WorkflowNode.id == node.id, now).get(node.id) if node.id is not None else None
    moment: datetime | None = None
    if node.master is not None:
        pass  # a chained node has no clock
    elif node.cron:
        moment = come or next_cron(node.cron, now, portal_zone())
    elif first_run is not None:
        moment = first_run(node.workflow.olt_id, node.key, node.interval_seconds or 0)
    elif node.interval_seconds:
        moment = schedule.after_interval_change(now, come or node.next_run_at, node.interval_seconds)
    node.next_run_at = moment
    node.anchor_at = moment if node.runs else None  # a node that has never had a clock has no phase to be kept


def settle(session: Session, which: ColumnElement[bool], now: datetime) -> None:
    """After anything was switched: of the masters that `which` selects, those that may not run lose their clock,

    and those that may and have none run a full interval from now; of many OLTs at once, within it, apart (rule 2).
    So the tick's index holds only what runs. Doing it again changes nothing. A few statements, however many nodes
    there are. Whoever switches has locked the OLT's row before: two switches see each other's.
    """
    session.flush()
    masters = which & WorkflowNode.master_id.is_(None)
    stopped = masters & WorkflowNode.next_run_at.is_not(None) & ~WorkflowNode.runs
    release(session, stopped, now, off=True)
    _set(session, stopped, next_run_at=None)
    idle = masters & WorkflowNode.next_run_at.is_(None) & WorkflowNode.runs
    if current_app.config["NEXTCHECK_MODE"] == "from_end":
        idle = idle & ~active()  # its clock goes on at the end of its run
    _start(session, idle, now)


def release(
    session: Session, which: ColumnElement[bool], now: datetime, *, off: bool = False
) -> dict[int, datetime]:  # fmt: skip
    """Skip the slots that have come to these masters, whose clocks are about to be wound; node id → what stays due.

    Whoever winds a clock first says what becomes of its due slots, so that each is in the books. Those that passed
    while nothing ticked are skipped; the one of this second is the next tick's, unless the node is switched `off`.
    """
    stay: dict[int, datetime] = {}
    skipped: list[SkippedSlots] = []
    for row in session.connection().execute(_COME.where(which, WorkflowNode.next_run_at <= now)):
        reason = (SkipReason.NODE_DISABLED if row.in_service else SkipReason.OLT_DISABLED) if off else None
        missed, slot = left_behind(_due(row, now), now, following, reason)
        skipped += missed
        if slot is not None:
            stay[row.id] = slot
    slots.skip(session, skipped, now)
    return stay


_COME = (
    select(
        WorkflowNode.id, WorkflowNode.name, WorkflowNode.priority, WorkflowNode.next_run_at, WorkflowNode.kind,
        WorkflowNode.interval_seconds, WorkflowNode.cron, WorkflowNode.key, WorkflowNode.held_until,
        Workflow.olt_id, Olt.state, Olt.paused_until, Olt.in_service.label("in_service"),
    )
    .join(Workflow, WorkflowNode.workflow_id == Workflow.id)
    .join(Olt, Workflow.olt_id == Olt.id)
    .order_by(WorkflowNode.id)
    .with_for_update(of=WorkflowNode, key_share=True)  # a tick that is taking them is waited for
)  # fmt: skip


def _due(row: Row[Any], now: datetime) -> DueMaster:
    return DueMaster(
        node_id=row.id, node_name=row.name, olt_id=row.olt_id, device_key="", priority=row.priority,
        next_run_at=row.next_run_at, interval_seconds=row.interval_seconds, cron=row.cron,
        blocked=schedule.blocked(row.state, row.paused_until, now, row.held_until),
        task_type=quota.task_type(row.kind, row.key),
    )  # fmt: skip


def _start(session: Session, idle: ColumnElement[bool], now: datetime) -> None:
    """Rule 2 for masters without a clock."""
    query = select(
        WorkflowNode.id, WorkflowNode.name, WorkflowNode.key, WorkflowNode.interval_seconds, WorkflowNode.cron,
        WorkflowNode.anchor_at, Workflow.olt_id,
    ).join(Workflow, WorkflowNode.workflow_id == Workflow.id)  # fmt: skip
    rows = session.execute(query.where(idle).order_by(WorkflowNode.id)).all()
    many, firing = len({row.olt_id for row in rows}) > 1, cache(lambda line: next_cron(line, now, portal_zone()))

    def moment(row: Row[Any]) -> datetime | None:
        if row.cron:
            return firing(row.cron)
        if many:
            return schedule.after_enabling_many(now, row.anchor_at, row.interval_seconds, row.olt_id, row.key)
        return schedule.after_enabling(now, row.interval_seconds)

    put(session, {row.id: at for row in rows if (at := moment(row)) is not None})


def put(session: Session, moments: Mapping[int, datetime]) -> None:
    """Node id → when it runs next: its new anchor. Of masters that are due nothing may be left (`release`)."""
    for column in ("next_run_at", "anchor_at"):
        bulk.set_column(session, _NODES, column, moments)
    for ident in moments:
        known = session.identity_map.get(inspect(WorkflowNode).identity_key_from_primary_key((ident,)))
        if known is not None:
            session.expire(known, ["next_run_at", "anchor_at"])


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


def active() -> ColumnElement[bool]:
    """A slot of the node waits or runs."""
    return exists().where(
        Execution.node_id == WorkflowNode.id, Execution.trigger == Trigger.SCHEDULE, Execution.status.in_(ACTIVE)
    )


def _set(session: Session, which: ColumnElement[bool], **values: datetime | None) -> None:
    session.execute(
        update(WorkflowNode).where(which).values(**values), execution_options={"synchronize_session": "fetch"}
    )
