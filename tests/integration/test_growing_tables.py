"""No periodic job goes through a table that grows: every statement of each is explained, on both databases."""

import importlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from flask import Flask
from redis import Redis
from sqlalchemy import update

from portal import notify
from portal.domain.statuses import ExecutionStatus, PollerStatus, Presence
from portal.extensions import db
from portal.services.dispatch import pool
from portal.tables import WorkflowNode
from scheduler.periodic import JOBS
from scheduler.tick import tick
from testing.builders import make_attempt, make_execution, make_node, make_olt, make_onus, make_poller, make_pool
from testing.databases import KINDS, Databases, settings_for
from testing.growing import GROWS_WITH_WHAT_PEOPLE_SET_UP, as_if_analysed, make_past
from testing.plans import Explained, explained
from testing.seed import add_alerts

RUNS = 15_000
AS_OF = 1_000_000  # rows that PostgreSQL's planner is told
MOST = {"sqlite": 40_000, "postgresql": 5_000}  # looked at by one statement; a scan takes five steps for each row
GROWING = frozenset(db.metadata.tables) - GROWS_WITH_WHAT_PEOPLE_SET_UP

pytestmark = pytest.mark.integration


@pytest.fixture(params=KINDS)
def grown(request: pytest.FixtureRequest, databases: Databases, tmp_path: Path, redis: Redis) -> Iterator[Flask]:
    """An installation with a past, and something for each job to do."""
    (tmp_path / "instance").mkdir()
    settings = settings_for(databases.own(request.param, tmp_path), tmp_path / "instance")
    app = databases.app(settings)
    with app.app_context():
        _fill(datetime.now(UTC))
        as_if_analysed(AS_OF)
        yield app
        db.session.remove()
        db.engine.dispose()


def _fill(now: datetime) -> None:
    olts = [make_olt(f"OLT-{n}") for n in range(4)]
    nodes = [
        make_node(olt, f"n{number}", interval="15m", override_reason="test") for olt in olts for number in range(5)
    ]
    for olt in olts:
        make_onus(olt.id, [{}, {"presence": Presence.DISABLED, "presence_since": now - timedelta(days=400)}], now)
    make_past(RUNS, now, days=14.2)  # some hours of it are past their time
    running = make_execution(nodes[0], now, status=ExecutionStatus.RUNNING, started_at=now, worker="w1", token=7)
    make_attempt(running, worker="w1", started_at=now)
    busy = {"status": PollerStatus.BUSY, "current_execution_id": running.id, "busy_since": now}
    make_poller(make_pool(now), 1, **busy)
    for node in nodes[5:9]:
        make_execution(node, now, queued_at=None)
    add_alerts(db.session, now)
    db.session.execute(update(WorkflowNode).values(next_run_at=now - timedelta(seconds=1), anchor_at=now))
    db.session.commit()


def _periodic(task: str) -> Callable[[], object]:
    module, _, name = task.rpartition(".")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def test_no_periodic_statement_goes_through_a_table_that_grows(grown: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "send", lambda *_: None)
    kind = db.engine.dialect.name
    jobs = {"tick": lambda: tick("test", datetime.now(UTC)),
            "attend": lambda: pool.attend(1, ["w1"], datetime.now(UTC)),
            **{job.task: _periodic(job.task) for job in JOBS}}  # fmt: skip
    found: list[tuple[str, Explained]] = []
    for name, job in jobs.items():
        with explained() as seen:
            job()
        assert seen, name
        found += [(name, one) for one in seen]
    wrong = {
        (name, one.statement): (sorted(one.scans), one.looked_at) for name, one in found
        if one.scans & GROWING or one.looked_at > MOST[kind]
    }  # fmt: skip
    assert wrong == {}
