"""Rows of the ledger for tests and for looking at its page: days of nodes, and hours that were entered."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.tables import CoordinatorHour, NodeDay, Workflow, WorkflowNode
from testing.cast import HOUR


def enter_hours(session: Session, up_to: datetime, hours: int = 24) -> None:
    """The last `hours` hours before `up_to` are in the ledger."""
    for number in range(1, hours + 1):
        hour = up_to - number * HOUR
        session.add(CoordinatorHour(hour=hour, opened_at=hour, closed_at=hour + HOUR, ledger_at=hour + HOUR))


def add_day(session: Session, node_id: int, olt_id: int, day: datetime, **sums: Any) -> None:
    """One node's day; what is not given is 0."""
    session.add(NodeDay(node_id=node_id, olt_id=olt_id, day=day, skips={}, **sums))


def fill(session: Session, now: datetime, days: int = 9) -> None:
    """Every node has some days behind it: descriptions cost much and change little, power changes all the time."""
    rng = random.Random(7)
    up_to = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    enter_hours(session, up_to)
    today = (up_to - HOUR).replace(hour=0)
    query = select(WorkflowNode.id, WorkflowNode.key, Workflow.olt_id).join(Workflow)
    for node_id, key, olt_id in session.execute(query):
        dear = 20 if "desc" in key else rng.choice((1, 1, 3))
        for back in range(days):
            share = (up_to - today) / timedelta(days=1) if back == 0 else 1.0
            runs = int(rng.randrange(90, 280) * share)
            read = runs * rng.choice((24, 64, 128))
            changed = read * rng.choice((0.0005, 0.004, 0.2)) * ("desc" not in key)
            add_day(
                session, node_id, olt_id, today - timedelta(days=back), runs=runs,
                failures=rng.choice((0, 0, 0, runs // 9, runs * 2 // 3)),
                duration_ms=runs * dear * rng.randrange(300, 900),
                delay_ms=runs * 20, values_read=read, values_changed=int(changed),
            )  # fmt: skip
