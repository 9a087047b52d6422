"""From the database to a world for the time machine: OLTs, masters, their last durations, the pool. Reads only."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from flask import current_app
from sqlalchemy import Row, Select, func, select
from sqlalchemy.orm import Session, aliased

from portal import masters
from portal.domain.statuses import ExecutionStatus
from portal.services.dispatch.pool import POOL_GONE_AFTER
from portal.tables import Execution, Olt, Pool, Workflow, WorkflowNode
from scheduler.timemachine.whatif import Nonsense
from scheduler.timemachine.world import ALL_SITES, NodeSpec, OltSpec, Rules, World

LAST_RUNS = 200  # of a node, looked at by its index
EVER = datetime(1970, 1, 1, tzinfo=UTC)


def load(session: Session, now: datetime, names: Collection[str] | None = None) -> World:
    """All OLTs in service as the schedule runs them now: they share the pool. Watched are those of these names.

    Nonsense: a name that no OLT has, no node that runs, or no recorded run to live again.
    """
    rows = _olts(session)
    watched = None if names is None else _named(rows, names)
    nodes = _nodes(session, now)
    used = {node.olt_id for node in nodes}
    found = tuple(
        OltSpec(row.id, row.name, row.site, True, row.state, row.paused_until) for row in rows if row.id in used
    )
    world = World(found, nodes, _rules(session, now), watched, _chained(session, watched))
    ours = [node for node in nodes if world.watches(node.olt_id)]
    if not ours:
        raise Nonsense("there is nothing to try: no node of these OLTs runs on a schedule")
    if not any(node.durations for node in ours):
        raise Nonsense("there is nothing to go by: none of these nodes has a successful run on record")
    return world


def _olts(session: Session) -> Sequence[Row[Any]]:
    in_service = Olt.deleted_at.is_(None), Olt.enabled.is_(True)
    query = select(Olt.id, Olt.name, Olt.site, Olt.state, Olt.paused_until).where(*in_service)
    return session.execute(query.order_by(Olt.id)).all()


def _named(rows: Sequence[Row[Any]], names: Collection[str]) -> frozenset[int]:
    ids = {row.name: row.id for row in rows}
    missing = sorted(set(names) - ids.keys())
    if missing:
        raise Nonsense(f"there is no enabled OLT {', '.join(missing)}")
    return frozenset(ids[name] for name in names)


def _nodes(session: Session, now: datetime) -> tuple[NodeSpec, ...]:
    query = (
        select(WorkflowNode, Workflow.olt_id)
        .join(Workflow, Workflow.id == WorkflowNode.workflow_id)
        .where(WorkflowNode.master_id.is_(None), WorkflowNode.runs)
        .order_by(WorkflowNode.id)
    )
    durations = _durations(session)
    known = masters.load(session, now)
    guesses = {one.node.node_id: one.node.pace.p50_ms / 1000 for found in known.values() for one in found}
    return tuple(
        _node(node, olt_id, durations.get(node.id, ()), guesses.get(node.id, 0.0))
        for node, olt_id in session.execute(query)
    )


def _chained(session: Session, watched: Collection[int] | None) -> dict[str, frozenset[str]]:
    """Key of a chained node of these OLTs → keys of its masters."""
    master = aliased(WorkflowNode)
    query = select(WorkflowNode.key, master.key).join(master, master.id == WorkflowNode.master_id).distinct()
    if watched is not None:
        query = query.join(Workflow, Workflow.id == WorkflowNode.workflow_id).where(Workflow.olt_id.in_(watched))
    found: dict[str, set[str]] = defaultdict(set)
    for key, of in session.execute(query):
        found[key].add(of)
    return {key: frozenset(keys) for key, keys in found.items()}


def _node(node: WorkflowNode, olt_id: int, durations: Sequence[float], guess: float) -> NodeSpec:
    return NodeSpec(
        node.id, olt_id, node.key, node.kind, node.interval_seconds, node.cron, node.next_run_at, node.priority,
        node.max_retries, node.retry_delay, durations=tuple(durations), median=guess or 2.0, usual=guess,
    )  # fmt: skip


def _durations(session: Session) -> dict[int, list[float]]:
    """Node id → seconds of the successes among its last LAST_RUNS executions, oldest first. One SQL statement."""
    found: dict[int, list[float]] = defaultdict(list)
    for node_id, milliseconds in session.execute(_last_runs()):
        found[node_id].append(max(1, milliseconds) / 1000)
    return found


def _last_runs() -> Select[Any]:
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
    return (
        select(Execution.node_id, Execution.duration_ms)
        .select_from(WorkflowNode)
        .join(Execution, Execution.node_id == WorkflowNode.id)
        .where(
            WorkflowNode.master_id.is_(None), Execution.scheduled_for >= func.coalesce(bound, EVER),
            Execution.status == ExecutionStatus.SUCCESS, Execution.duration_ms.is_not(None),
        )
        .order_by(Execution.node_id, Execution.scheduled_for)
    )  # fmt: skip


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
    query = select(Pool.site, func.sum(Pool.size)).where(Pool.seen_at >= now - POOL_GONE_AFTER).group_by(Pool.site)
    return {ALL_SITES if site is None else site: int(size) for site, size in session.execute(query) if size}
