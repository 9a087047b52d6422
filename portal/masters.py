"""Masters as plans see them: their clocks, their paces, and what holds their OLT. Read by services and queries alike.

One SQL statement for the masters of any number of OLTs, one for what is ACTIVE there; the paces of those that have
hardly run are guessed from others of their kind with two more.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from typing import Any

from flask import current_app
from sqlalchemy import ColumnElement, Row, Select, func, or_, select
from sqlalchemy.orm import Session, aliased

from portal import cron
from portal.domain import pace, quota
from portal.domain.fields import FieldError
from portal.domain.olt_fields import LONGEST_REQUEST
from portal.domain.pace import Pace
from portal.domain.phases import PERIOD, PhasedNode
from portal.domain.plans import Blocked, Occupied, PlanNode, Waiting
from portal.domain.statuses import ExecutionStatus, LossCause, NodeKind, OltState, Presence
from portal.models.execution import ACTIVE_SQL
from portal.tables import Execution, NodePace, Olt, Onu, Workflow, WorkflowNode

LIKE = 60  # nodes of a kind that a guess is made from
AHEAD = timedelta(hours=3)  # how far the times of cron lines are read

_LAST_REQUEST_MS = round(1000 * LONGEST_REQUEST)  # time limits are looked at between two requests
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Master:
    """A master with what a plan does not need to know of it. `node.pace` is a guess where it has hardly run.

    `interval`: as it is stored, in seconds; with NEXTCHECK_MODE=from_end runs are further apart. `clocked`: it may run.
    """

    olt_id: int
    kind: NodeKind
    cron: str | None
    node: PlanNode
    interval: int | None = None
    limit_ms: int | None = None  # what it may take at most, with all that is chained to it
    clocked: bool = True
    chained: bool = False


@dataclass(frozen=True)
class Now:
    """What an OLT does at this moment: what runs there and what waits."""

    occupied: Occupied | None = None
    waiting: tuple[Waiting, ...] = ()
    running: int | None = None  # id of the node that runs


def load(
    session: Session, now: datetime, olt_ids: Collection[int] | None = None, *, until: datetime | None = None
) -> dict[int, list[Master]]:  # fmt: skip
    """OLT id → its masters that have a clock, those of these OLTs (None: of all). Cron lines up to `until`."""
    return by_olt(settled(session, read(session, now, olt_ids, until=until), now))


def read(
    session: Session, now: datetime, olt_ids: Collection[int] | None = None, *, until: datetime | None = None,
    also: Collection[int] = (),
) -> list[Master]:  # fmt: skip
    """As they are stored, without guesses. `also`: ids of nodes that count though they have no clock."""
    fired = cache(lambda line: firings(line, now - timedelta(seconds=1), until or now + AHEAD))
    return [_master(row, fired) for row in session.execute(_query(olt_ids, also))]


def settled(session: Session, found: list[Master], now: datetime) -> list[Master]:
    """The same as plans need them: with guesses, none longer than it may take, and paced by NEXTCHECK_MODE."""
    return [_stepped(_limited(master), now) for master in with_guesses(session, found)]


def firings(line: str, after: datetime, until: datetime) -> tuple[datetime, ...]:
    """When a cron line fires in (after, until]; the next two times of one that fires more rarely."""
    found = cron.firings(line, after, until)
    if len(found) > 1:
        return found
    try:
        return tuple(islice(cron.cron_times(line, after, cron.portal_zone()), 2))
    except FieldError:
        return ()


def _query(olt_ids: Collection[int] | None, also: Collection[int]) -> Select[Any]:
    chained = aliased(WorkflowNode)
    of_chained = select(func.sum(chained.time_limit)).where(chained.master_id == WorkflowNode.id).scalar_subquery()
    query = (
        select(
            Workflow.olt_id, WorkflowNode.id, WorkflowNode.key, WorkflowNode.name, WorkflowNode.kind,
            WorkflowNode.oid, WorkflowNode.priority, WorkflowNode.next_run_at, WorkflowNode.interval_seconds,
            WorkflowNode.cron, (WorkflowNode.time_limit + func.coalesce(of_chained, 0)).label("limit"),
            WorkflowNode.master_id, _clocked().label("clocked"), NodePace.reads, NodePace.p50_ms, NodePace.p95_ms,
            func.json_array_length(NodePace.durations).label("runs"),
            NodePace.predicted, NodePace.covered, NodePace.error_ms,
        )
        .join(Workflow, Workflow.id == WorkflowNode.workflow_id)
        .outerjoin(NodePace, NodePace.node_id == WorkflowNode.id)
        .where(_clocked() | WorkflowNode.id.in_(also) if also else _clocked())
        .order_by(WorkflowNode.id)
    )  # fmt: skip
    return query if olt_ids is None else query.where(Workflow.olt_id.in_(olt_ids))


def _clocked() -> ColumnElement[bool]:
    """Who may not run has no clock (services.dispatch.clock); `from_end` stops it also while the node runs."""
    if not _from_end():
        return WorkflowNode.next_run_at.is_not(None)
    runs = select(Execution.id).where(Execution.node_id == WorkflowNode.id, ACTIVE_SQL).exists()
    return or_(WorkflowNode.next_run_at.is_not(None), WorkflowNode.interval_seconds.is_not(None) & runs)


def _from_end() -> bool:
    return bool(current_app.config["NEXTCHECK_MODE"] == "from_end")


def _master(row: Row[Any], fired: Any) -> Master:
    learned = row.runs and row.reads in ("", pace.reads(row.kind, row.oid))
    known = Pace(row.p50_ms, row.p95_ms, row.runs, row.predicted, row.covered, row.error_ms) if learned else Pace(0, 0)
    node = PlanNode(row.id, row.key, quota.task_type(row.kind, row.key), row.priority, row.next_run_at,
                    row.interval_seconds, known, fired(row.cron) if row.cron else (), row.name)  # fmt: skip
    return Master(row.olt_id, row.kind, row.cron, node, row.interval_seconds, 1000 * row.limit + _LAST_REQUEST_MS,
                  bool(row.clocked), row.master_id is not None)  # fmt: skip


def _limited(master: Master) -> Master:
    """A slow run is expected to take no longer than it may: then it is broken off. What it usually takes is known."""
    known, limit = master.node.pace, master.limit_ms
    if limit is None or known.p95_ms <= limit:
        return master
    return _paced(master, replace(known, p95_ms=max(known.p50_ms, limit)))


def _paced(master: Master, known: Pace) -> Master:
    """The same with another pace. Written out: dataclasses.replace takes ten times as long, and there are thousands."""
    node = master.node
    other = PlanNode(node.node_id, node.key, node.task_type, node.priority, node.next_run_at, node.interval_seconds,
                     known, node.times, node.name)  # fmt: skip
    return Master(master.olt_id, master.kind, master.cron, other, master.interval, master.limit_ms, master.clocked,
                  master.chained)  # fmt: skip


def _stepped(master: Master, now: datetime) -> Master:
    """With NEXTCHECK_MODE=from_end a run begins an interval after the last one's end; until then its clock stands."""
    if master.interval is None or not _from_end():
        return master
    step = master.interval + round(master.node.pace.p50_ms / 1000)
    next_run_at = master.node.next_run_at or now + timedelta(seconds=step)
    return replace(master, node=replace(master.node, interval_seconds=step, next_run_at=next_run_at))


def by_olt(found: Iterable[Master]) -> dict[int, list[Master]]:
    """OLT id → its masters."""
    sorted_out: dict[int, list[Master]] = defaultdict(list)
    for master in found:
        sorted_out[master.olt_id].append(master)
    return dict(sorted_out)


def with_guesses(session: Session, found: list[Master]) -> list[Master]:
    """The same, with a pace for those that have not run often enough to be known by their own.

    Three SQL statements at most, and one for each kind of them.
    """
    unknown = [master for master in found if not master.node.pace.known]
    if not unknown:
        return found
    like = {kind: _like(session, kind) for kind in sorted({master.kind for master in unknown})}
    olts = {master.olt_id for master in unknown} | {olt for rows in like.values() for olt, _ in rows}
    onus = onu_counts(session, olts)
    others = {kind: [(onus.get(olt, 0), known) for olt, known in rows] for kind, rows in like.items()}
    guess = cache(lambda kind, count: pace.prior(kind, count, others[kind]))
    return [
        master if master.node.pace.known
        else _paced(master, guess(master.kind, onus.get(master.olt_id, 0)))
        for master in found
    ]  # fmt: skip


def _like(session: Session, kind: NodeKind) -> list[tuple[int, Pace]]:
    query = (
        select(Workflow.olt_id, NodePace.p50_ms, NodePace.p95_ms)
        .join(WorkflowNode, WorkflowNode.id == NodePace.node_id)
        .join(Workflow, Workflow.id == WorkflowNode.workflow_id)
        .where(WorkflowNode.kind == kind, func.json_array_length(NodePace.durations) >= pace.ENOUGH)
        .order_by(NodePace.updated_at.desc(), NodePace.node_id)
        .limit(LIKE)
    )
    return [(olt, Pace(p50, p95, pace.ENOUGH)) for olt, p50, p95 in session.execute(query)]


def onu_counts(session: Session, olt_ids: Collection[int]) -> Mapping[int, int]:
    """OLT id → ONUs known to be present. One SQL statement."""
    query = (
        select(Onu.olt_id, func.count())
        .where(Onu.olt_id.in_(olt_ids), Onu.presence == Presence.ENABLED)
        .group_by(Onu.olt_id)
    )
    return {olt_id: count for olt_id, count in session.execute(query)}  # noqa: C416  (rows, not tuples)


def at_work(
    session: Session, now: datetime, masters: Mapping[int, Collection[Master]], olt_ids: Collection[int] | None = None
) -> dict[int, Now]:  # fmt: skip
    """OLT id → what runs and waits there now. One SQL statement on the partial index of what is ACTIVE."""
    query = select(
        Execution.olt_id, Execution.node_id, Execution.status, Execution.scheduled_for, Execution.started_at
    ).where(ACTIVE_SQL)
    paces = {master.node.node_id: master.node.pace for found in masters.values() for master in found}
    wanted = None if olt_ids is None else set(olt_ids)
    found: dict[int, Now] = {}
    for olt_id, node_id, status, scheduled_for, started_at in session.execute(query):
        if wanted is not None and olt_id not in wanted:
            continue
        seen = found.get(olt_id, Now())
        if status is ExecutionStatus.RUNNING:
            until = _end_of(started_at or now, paces.get(node_id), now)
            found[olt_id] = replace(seen, occupied=Occupied(node_id, until), running=node_id)
        elif node_id in paces:
            found[olt_id] = replace(seen, waiting=(*seen.waiting, Waiting(node_id, scheduled_for)))
    return found


def paused(session: Session, olt_ids: Collection[int] | None = None) -> dict[int, Blocked]:
    """OLT id → until when nothing is started there because somebody paused it. One SQL statement."""
    query = select(Olt.id, Olt.paused_until).where(Olt.state == OltState.PAUSED)
    if olt_ids is not None:
        query = query.where(Olt.id.in_(olt_ids))
    return {row.id: Blocked(row.paused_until, LossCause.PAUSED) for row in session.execute(query)}


def _end_of(started_at: datetime, known: Pace | None, now: datetime) -> datetime:
    """When what runs is expected to end: after its p50, or when that has passed its p95; not before now."""
    if known is None:
        return now
    usual, slow = started_at + known.p50_ms * _MS, started_at + known.p95_ms * _MS
    return max(usual if usual > now else slow, now)


def phased(found: Mapping[int, Collection[Master]], movable: Collection[int] | None = None) -> list[PhasedNode]:
    """Masters as the phase advice sees them. Only those of the OLTs `movable` (None: all) may be moved."""
    return [
        PhasedNode(
            master.node.node_id, olt_id, master.node.next_run_at, master.node.interval_seconds or _gap(master.node),
            master.node.pace.p95_ms, master.cron is not None or (movable is not None and olt_id not in movable),
        )
        for olt_id, members in found.items() for master in members if master.node.next_run_at is not None
    ]  # fmt: skip


def _gap(node: PlanNode) -> int:
    """Seconds between the next two firings of a cron line; an hour where there is none so soon."""
    return int((node.times[1] - node.times[0]).total_seconds()) if len(node.times) > 1 else PERIOD
