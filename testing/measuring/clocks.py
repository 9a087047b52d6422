"""When slots begin and when they end: first runs are spread, clocks stopped, what is active waited for."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import select, update

from portal.domain.statuses import ACTIVE, EventType
from portal.extensions import db, transaction
from portal.tables import CoordinatorLog, Execution, SchedulerState, WorkflowNode
from testing.measuring.judges import Skip


def spread_first_runs(begin: datetime, interval: int) -> dict[int, datetime]:
    """All masters on `interval` seconds (also below what the portal allows), first slots spread over one of them.

    Returns node id → first slot.
    """
    with transaction() as session:
        masters = list(session.scalars(select(WorkflowNode.id).where(WorkflowNode.master_id.is_(None))))
        first = {node: begin + timedelta(seconds=at * interval // len(masters)) for at, node in enumerate(masters)}
        for node, moment in first.items():
            values = {"next_run_at": moment, "anchor_at": moment, "interval_seconds": interval}
            session.execute(update(WorkflowNode).where(WorkflowNode.id == node).values(values))
    return first


def stop(until: datetime, seconds: float = 60) -> None:
    """Every slot up to `until` is decided, later ones never come. The schedulers go on: the reaper needs them."""
    masters = WorkflowNode.master_id.is_(None)
    behind = select(WorkflowNode.id).where(masters, WorkflowNode.next_run_at <= until).limit(1)
    wait_for(lambda: db.session.scalars(behind).first() is None, seconds)
    never = until + timedelta(days=365)  # not none: a node that may run and has no clock is given one
    moving = select(WorkflowNode.id).where(masters, WorkflowNode.next_run_at != never).limit(1)
    while db.session.scalars(moving).first() is not None:
        with transaction() as session:
            session.execute(update(WorkflowNode).where(masters).values(next_run_at=never))
        wait_for_tick(seconds)  # one in the middle may write one more time
    db.session.rollback()


def wait_for_tick(seconds: float) -> bool:
    """Wait until a tick ends; False when none does in so many seconds."""
    before = last_tick()
    return wait_for(lambda: last_tick() != before, seconds)


def last_tick() -> datetime | None:
    """When the leader last ended a tick."""
    db.session.rollback()
    return db.session.scalar(select(SchedulerState.last_tick_at))


def skips() -> list[Skip]:
    """The slots that were logged as skipped: node, first and last."""
    query = select(CoordinatorLog).where(CoordinatorLog.event_type == EventType.SLOT_SKIPPED)
    return [
        (row.node_id or 0, datetime.fromisoformat(row.details["first"]), datetime.fromisoformat(row.details["last"]))
        for row in db.session.scalars(query)
    ]


def settle(seconds: float) -> bool:
    """Wait for what is active to end; False when something still is after so long."""
    active = select(Execution.id).where(Execution.status.in_(ACTIVE)).limit(1)
    return wait_for(lambda: db.session.scalars(active).first() is None, seconds)


def wait_for(true: Callable[[], object], seconds: float, pause: float = 0.05) -> bool:
    """Look at the database afresh until `true()`; False after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        db.session.rollback()
        if true():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)


def sleep_until(moment: datetime) -> None:
    """Wait for a moment of the wall clock."""
    while (left := (moment - datetime.now(UTC)).total_seconds()) > 0:
        time.sleep(min(left, 1.0))
