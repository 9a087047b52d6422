"""From the database to a world for the time machine: OLTs, masters, their last durations, the pool. Reads only."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import current_app
from sqlalchemy import Row, Select, func, or_, select
from sqlalchemy.orm import Session, aliased

from portal import masters
from portal.domain.statuses import ExecutionStatus
from portal.models import Execution, Olt, Pool, Workflow, WorkflowNode
from portal.services.dispatch import clock
from scheduler.timemachine.whatif import Nonsense
from scheduler.timemachine.world import ALL_SITES, NodeSpec, OltSpec, Rules, World

LAST_RUNS = 200  # of a node, looked at by its index
POOL_GONE_AFTER = timedelta(seconds=15)  # portal.services.dispatch.pool
EVER = datetime(1970, 1, 1, tzinfo=UTC)


def load(session: Session, now: datetime, names: Collection[str] | None = None) -> World:
    """The OLTs of these names (None: all in service) as the schedule runs them now.

    Nonsense: a name that no OLT has, no node that runs, or no recorded run to live again.
    """
    rows = _olts(session, names)
    ids = None if names is None else [row.id for row in rows]
    nodes = _nodes(session, now, ids)
    used = {node.olt_id for node in nodes}
    found = tuple(
        OltSpec(row.id, row.name, row.site, True, row.state, row.paused_until) for row in rows if row.id in used
    )
    if not nodes:
        raise Nonsense("there is nothing to try: no node of these OLTs runs on a schedule")
    if not any(node.durations for node in nodes):
        raise Nonsense("there is nothing to go by: none of these nodes has a successful run on record")
    return World(found, nodes, _rules(session, now))


def _olts(session: Session, names: Collection[str] | None) -> Sequence[Row[Any]]:
    query = select(Olt.id, Olt.name, Olt.site, Olt.state, Olt.paused_until).where(
        Olt.deleted_at.is_(None), Olt.enabled.is_(True)
    )
    if names is None:
        return session.execute(query.order_by(Olt.id)).all()
    rows = session.execute(query.where(Olt.name.in_(names)).order_by(Olt.id)).all()
    missing = sorted(set(names) - {row.name for row in rows})
    if missing:
        raise Nonsense(f"there is no enabled OLT {', '.join(missing)}")
    return rows


def _nodes(session: Session, now: datetime, olt_ids: Collection[int] | None) -> tuple[NodeSpec, ...]:
    query = (
        select(WorkflowNode, Workflow.olt_id)
        .join(Workflow, Workflow.id == WorkflowNode.workflow_id)
        .where(WorkflowNode.master_id.is_(None), clock.may_run())
        .order_by(WorkflowNode.id)
    )
    if olt_ids is not None:
        query = query.where(Workflow.olt_id.in_(olt_ids))
    durations = _durations(session, olt_ids)
    known = masters.load(session, now, olt_ids)
    guesses = {one.node.node_id: one.node.pace.p50_ms / 1000 for found in known.values() for one in found}
    return tuple(
        _node(node, olt_id, durations.get(node.id, ()), guesses.get(node.id, 0.0))
        for node, olt_id in session.execute(query)
    )


def _node(node: WorkflowNode, olt_id: int, durations: Sequence[float], guess: float) -> NodeSpec:
    return NodeSpec(
        node.id, olt_id, node.key, node.kind, node.interval_seconds, node.cron, node.next_run_at, node.priority,
        node.max_retries, node.retry_delay, durations=tuple(durations), median=guess or 2.0,
    )  # fmt: skip


def _durations(session: Session, olt_ids: Collection[int] | None) -> dict[int, list[float]]:
    """Node id → seconds of the successes among its last LAST_RUNS executions, oldest first. One SQL statement."""
    found: dict[int, list[float]] = defaultdict(list)
    for node_id, milliseconds in session.execute(_last_runs(olt_ids)):
        found[node_id].append(max(1, milliseconds) / 1000)
    return found


def _last_runs(olt_ids: Collection[int] | None) -> Select[Any]:
    """Bounded by the unique index of a node's slots: it is read from its end, LAST_RUNS entries for each node."""
    older = aliased(Execution)
    bound = (
        select(older.scheduled_for)
        .where(older.node_id == WorkflowNode.id)
        .order_by(older.scheduled_for.desc())
        .limit(1)
        .offset(LAST_RUNS - 1)
        .correlate(WorkflowNode)
        .scalar_subquery()
    )
    query = (
        select(Execution.node_id, Execution.duration_ms)
        .select_from(WorkflowNode)
        .join(Execution, Execution.node_id == WorkflowNode.id)
        .where(
            WorkflowNode.master_id.is_(None), Execution.scheduled_for >= func.coalesce(bound, EVER),
            Execution.status == ExecutionStatus.SUCCESS, Execution.duration_ms.is_not(None),
        )
        .order_by(Execution.node_id, Execution.scheduled_for)
    )  # fmt: skip
    if olt_ids is None:
        return query
    return query.join(Workflow, Workflow.id == WorkflowNode.workflow_id).where(Workflow.olt_id.in_(olt_ids))


def _rules(session: Session, now: datetime) -> Rules:
    config = current_app.config
    return Rules(
        pollers=_pollers(session, now) or {ALL_SITES: config["POLLERS"]},
        from_end=config["NEXTCHECK_MODE"] == "from_end",
        auto_pause_after=config["AUTO_PAUSE_AFTER"],
        lease_seconds=float(config["LEASE_SECONDS"]),
    )


def _pollers(session: Session, now: datetime) -> dict[str, int]:
    """Site → pollers of the pools that are alive; those that serve every OLT under "*"."""
    query = (
        select(Pool.site, func.sum(Pool.size))
        .where(or_(Pool.seen_at >= now - POOL_GONE_AFTER, Pool.seen_at > now))
        .group_by(Pool.site)
    )
    return {ALL_SITES if site is None else site: int(size) for site, size in session.execute(query) if size}
