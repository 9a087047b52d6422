"""Masters as plans see them: their clocks, their paces, and what holds their OLT. Read by services and queries alike.

One SQL statement for the masters of any number of OLTs, one for what is ACTIVE there; the paces of those that have
hardly run are guessed from others of their kind with two more.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from flask import current_app
from sqlalchemy import ColumnElement, Row, Select, func, or_, select
from sqlalchemy.orm import Session

from portal import cron
from portal.domain import pace, quota
from portal.domain.pace import Pace
from portal.domain.phases import PERIOD, PhasedNode
from portal.domain.plans import Occupied, PlanNode, Waiting
from portal.domain.statuses import ExecutionStatus, NodeKind, Presence
from portal.models import Execution, NodePace, Onu, Workflow, WorkflowNode
from portal.models.execution import ACTIVE_SQL

LIKE = 60  # nodes of a kind that a guess is made from
AHEAD = timedelta(hours=3)  # how far the times of cron lines are read

_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Master:
    """A master with what a plan does not need to know of it. `node.pace` is a guess where it has hardly run."""

    olt_id: int
    kind: NodeKind
    cron: str | None
    node: PlanNode


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
    until = until or now + AHEAD
    fired = cache(lambda line: cron.firings(line, now - timedelta(seconds=1), until))
    found = [_master(row, now, fired) for row in session.execute(_query(olt_ids))]
    return _by_olt(with_guesses(session, found))


def _query(olt_ids: Collection[int] | None) -> Select[Any]:
    query = (
        select(
            Workflow.olt_id, WorkflowNode.id, WorkflowNode.key, WorkflowNode.kind, WorkflowNode.priority,
            WorkflowNode.next_run_at, WorkflowNode.interval_seconds, WorkflowNode.cron,
            NodePace.p50_ms, NodePace.p95_ms, func.json_array_length(NodePace.durations).label("runs"),
            NodePace.predicted, NodePace.covered, NodePace.error_ms,
        )
        .join(Workflow, Workflow.id == WorkflowNode.workflow_id)
        .outerjoin(NodePace, NodePace.node_id == WorkflowNode.id)
        .where(_clocked())
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


def _master(row: Row[Any], now: datetime, fired: Any) -> Master:
    olt_id, ident, key, kind, priority, next_run_at, interval, line, p50, p95, runs, *judged = row
    known = Pace(p50, p95, runs, *judged) if runs else Pace(0, 0)
    step = interval
    if interval is not None and _from_end():  # until its run ends its clock stands
        step = interval + round(known.p50_ms / 1000)
        next_run_at = next_run_at or now + timedelta(seconds=step)
    node = PlanNode(ident, key, quota.task_type(kind, key), priority, next_run_at, step, known,
                    fired(line) if line else ())  # fmt: skip
    return Master(olt_id, kind, line, node)


def _by_olt(found: Iterable[Master]) -> dict[int, list[Master]]:
    sorted_out: dict[int, list[Master]] = defaultdict(list)
    for master in found:
        sorted_out[master.olt_id].append(master)
    return dict(sorted_out)


def with_guesses(session: Session, found: list[Master]) -> list[Master]:
    """The same, with a pace for those that have not run often enough to be known by their own."""
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
        else replace(master, node=replace(master.node, pace=guess(master.kind, onus.get(master.olt_id, 0))))
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
