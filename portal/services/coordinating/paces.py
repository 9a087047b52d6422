"""Learning how long composites take: each finished run once, in the order in which its node had them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, String, func, select
from sqlalchemy.orm import Session

from portal.domain import pace
from portal.domain.statuses import ExecutionStatus, Trigger
from portal.extensions import transaction
from portal.services.upsert import upsert
from portal.tables import Execution, NodePace, WorkflowNode

# A run is committed some time after the moment that it bears as its end: within a minute at most (a writer that waits
# for SQLite's lock). Looked at again for so long; what was counted already is told by its node's mark.
OVERLAP = timedelta(minutes=5)
FIRST_LOOK = timedelta(hours=6)  # how far back where nothing was learned before
LIMIT = 2_000  # runs learned in one transaction: SQLite lets nobody else write meanwhile
_COLUMNS = ("reads", "durations", "p50_ms", "p95_ms", "predicted", "covered", "error_ms", "learned_up_to", "updated_at")


def learn(now: datetime) -> int:
    """Learn from every scheduled run that succeeded since the last look; returns how many.

    Doing it twice counts nothing twice: a node's executions end one after the other, so that whatever it has beyond
    its `learned_up_to` is new. What it costs grows with what ran since the last look.
    """
    total = 0
    while learned := _learn_some(now):
        total += learned
    return total


def _learn_some(now: datetime) -> int:
    with transaction() as session:
        new = _new(session, now)
        if new:
            node_ids = {row.node_id for row in new}
            learned = _learned(new, _known(session, node_ids), _reads(session, node_ids))
            upsert(session, NodePace, learned, ("node_id",), _COLUMNS)
        return len(new)


def _new(session: Session, now: datetime) -> list[Row[Any]]:
    """By the index of ends: a plain condition on the status would make SQLite go through every success there is."""
    latest = session.scalar(select(func.max(NodePace.updated_at)))
    since = max(min(latest, now) - OVERLAP, now - FIRST_LOOK) if latest is not None else now - FIRST_LOOK
    succeeded = func.lower(Execution.status, type_=String) == ExecutionStatus.SUCCESS.value.lower()
    query = (
        select(Execution.id, Execution.node_id, Execution.duration_ms, Execution.finished_at)
        .outerjoin(NodePace, NodePace.node_id == Execution.node_id)
        .where(
            Execution.finished_at >= since, succeeded, Execution.trigger == Trigger.SCHEDULE,
            Execution.node_id.is_not(None), Execution.duration_ms.is_not(None),
            Execution.id > func.coalesce(NodePace.learned_up_to, 0),
        )
        .order_by(Execution.finished_at, Execution.id)
        .limit(LIMIT)
    )  # fmt: skip
    return list(session.execute(query))


def _known(session: Session, node_ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    columns = [getattr(NodePace, name) for name in _COLUMNS[:-1]]
    query = select(NodePace.node_id, *columns).where(NodePace.node_id.in_(node_ids))
    return {row.node_id: dict(row._mapping) for row in session.execute(query)}


def _reads(session: Session, node_ids: Iterable[int]) -> dict[int, str]:
    """Node id → what it reads now."""
    query = select(WorkflowNode.id, WorkflowNode.kind, WorkflowNode.oid).where(WorkflowNode.id.in_(node_ids))
    return {row.id: pace.reads(row.kind, row.oid) for row in session.execute(query)}


def _learned(
    new: list[Row[Any]], known: dict[int, dict[str, Any]], reads: Mapping[int, str]
) -> list[dict[str, Any]]:  # fmt: skip
    by_node: dict[int, list[Row[Any]]] = defaultdict(list)
    for row in new:
        by_node[row.node_id].append(row)
    return [
        _one(node, sorted(by_node[node]), known.get(node), reads[node]) for node in sorted(by_node) if node in reads
    ]  # fmt: skip


def _one(node_id: int, rows: list[Row[Any]], known: dict[str, Any] | None, reads: str) -> dict[str, Any]:
    """The node's row after these runs, by id. Each is judged by what was expected before it.

    What was learned while it read something else is forgotten: how long that took says nothing of what it reads now.
    `updated_at` is the end of the last of them: the latest of all says up to where the runs were learned.
    """
    values: dict[str, Any] = known if known and known["reads"] in ("", reads) else {
        "node_id": node_id, "durations": [], "p50_ms": 0, "p95_ms": 0, "predicted": 0, "covered": 0, "error_ms": 0,
    }  # fmt: skip
    for row in rows:
        durations = values["durations"]
        if len(durations) >= pace.ENOUGH:
            values["predicted"] += 1
            values["covered"] += row.duration_ms <= values["p95_ms"]
            values["error_ms"] += abs(row.duration_ms - values["p50_ms"])
        values["durations"] = pace.learn(durations, row.duration_ms)
        expected = pace.predict(values["durations"])
        values["p50_ms"], values["p95_ms"] = expected.p50_ms, expected.p95_ms
    return values | {"reads": reads, "learned_up_to": rows[-1].id, "updated_at": max(row.finished_at for row in rows)}
