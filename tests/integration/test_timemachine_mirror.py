"""The time machine decides as the database does: random histories lived in both come to the same rows."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain import quota
from portal.domain.quota import HOUR
from portal.domain.statuses import NodeKind
from portal.extensions import db, transaction
from portal.models import Olt, QuotaLoss, QuotaTracker, WorkflowNode
from portal.services.coordinating import trackers
from portal.services.coordinating.audit import audit
from scheduler.tick import next_cron
from scheduler.timemachine.durations import Fortune
from scheduler.timemachine.events import AddNode, Havoc, Timed, scenario
from scheduler.timemachine.machine import Machine
from scheduler.timemachine.world import ALL_SITES, NodeSpec, OltSpec, Rules, World
from tests.support.mirror import Mirror, run_rows, skip_rows

BEGIN = datetime(2026, 11, 27, 10, 40, tzinfo=UTC)
END = BEGIN + timedelta(minutes=45)
SEEDS = (2, 3)  # 20 more were lived when this was written

pytestmark = pytest.mark.timeout(240)  # some hundred transactions each

BUSY = Havoc(edits=250, switches=120, outages=120, slow=120, restarts=120)  # so much in a day


def small_world(seed: int) -> World:
    """Three OLTs with three masters each, two pollers, and runs so long that they get in each other's way."""
    chance = Random(seed)
    olts = tuple(OltSpec(number, f"OLT-{number}") for number in (1, 2, 3))
    nodes = []
    for number in range(9):
        first = BEGIN + timedelta(seconds=chance.randrange(1, 240))
        cron = "*/5 * * * *" if number == 4 else None
        if cron:
            first = BEGIN + timedelta(minutes=5)
        kind = NodeKind.DISCOVERY if number % 3 == 0 else NodeKind.GET
        interval = None if cron else chance.choice((120, 240, 300))
        nodes.append(
            NodeSpec(
                number + 1, number // 3 + 1, f"node-{number % 3}", kind, interval, cron, first,
                priority=chance.choice((40, 90)), max_retries=chance.choice((0, 2)),
                retry_delay=chance.choice((20, 60)), median=chance.choice((5.0, 15.0, 60.0)),
            )
        )  # fmt: skip
    return World(olts, tuple(nodes), Rules({ALL_SITES: 2}))


def history(world: World, seed: int) -> list[Timed]:
    """Its trouble; what is added is numbered in the order of time, as the database will."""
    found, number = [], len(world.nodes)
    new: dict[int, int] = {}
    for moment, event in scenario(world, BEGIN, END, seed, BUSY):
        if isinstance(event, AddNode):
            number += 1
            new[event.spec.node_id] = number
            event = AddNode(replace(event.spec, node_id=number))
        elif getattr(event, "node_id", 0) in new:
            event = replace(event, node_id=new[event.node_id])  # type: ignore[union-attr, call-arg]
        elif getattr(event, "node_id", 0) > len(world.nodes):
            continue
        found.append((moment, event))
    return found


@pytest.fixture(params=["sqlite"])
def database_url(request: pytest.FixtureRequest, databases: Any, tmp_path: Any) -> str:
    """The statements are proven on both databases elsewhere; here their outcome is compared."""
    return databases.sqlite(tmp_path)


@pytest.mark.parametrize("seed", SEEDS)
def test_machine_and_database_come_to_the_same_rows(
    app: Flask, session: Session, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    world = small_world(seed)
    events = history(world, seed)
    machine = Machine(world, BEGIN, next_cron=next_cron, fortune=Fortune(seed), history=events, keep_all=True)
    machine.run(END)
    mirror = Mirror(world, BEGIN, Fortune(seed), monkeypatch)
    mirror.run(events, END)
    assert run_rows() == machine_runs(machine)
    assert skip_rows() == machine_skips(machine)
    assert clocks() == machine_clocks(machine)
    assert database_trackers() == machine_trackers(machine)
    assert audit(END, 3).differences == () and machine.audit() == [] and machine.wrong_slots() == []


def machine_runs(machine: Machine) -> set[tuple[Any, ...]]:
    book = machine.history()
    return {
        (one.node.olt.olt_id, one.node.key, one.scheduled_for, one.status, one.attempt, one.failures, one.losses,
         one.started_at, one.finished_at, one.delay_ms, one.duration_ms, one.error_kind, one.skip_reason)
        for runs in book.runs.values() for one in runs
    }  # fmt: skip


def machine_skips(machine: Machine) -> set[tuple[Any, ...]]:
    return {
        (one.node.olt.olt_id, one.node.task_type, one.last, one.reason, one.first.isoformat(), one.count,
         one.facts.get("holder_node"), one.facts.get("holder_since"), one.decided_at)
        for one in machine.history().skips
    }  # fmt: skip


def clocks() -> dict[tuple[int, str], datetime | None]:
    """(OLT, node) → its next slot; and the state of each OLT."""
    session = db.session()
    query = select(WorkflowNode)
    found: dict[tuple[int, str], Any] = {(n.workflow.olt_id, n.key): n.next_run_at for n in session.scalars(query)}
    states = {(olt.id, "state"): (olt.state, olt.consecutive_failures) for olt in session.scalars(select(Olt))}
    session.rollback()
    return found | states


def machine_clocks(machine: Machine) -> dict[tuple[int, str], Any]:
    nodes = [node for node in machine.state.nodes.values() if not node.deleted]
    states = {(olt.olt_id, "state"): (olt.state, olt.failures) for olt in machine.state.olts.values()}
    return {(node.olt.olt_id, node.key): node.next_run_at for node in nodes} | states


def database_trackers() -> dict[tuple[int, str, datetime], Any]:
    hours = [quota.hour_at(BEGIN), quota.hour_at(BEGIN) + HOUR]
    with transaction() as session:
        trackers.refresh(session, hours, END)
    losses: Counter[tuple[int, str, datetime, str]] = Counter()
    for row in db.session.scalars(select(QuotaLoss)):
        losses[row.olt_id, row.task_type, row.period_start, row.cause] += row.failed + row.skipped
    found = {}
    for row in db.session.scalars(select(QuotaTracker).where(QuotaTracker.quota_required > 0)):
        key = (row.olt_id, row.task_type, row.period_start)
        lost = {cause: slots for (*name, cause), slots in losses.items() if tuple(name) == key}
        found[key] = (row.quota_completed, row.quota_failed, row.quota_skipped, row.quota_pending, lost)
    db.session.rollback()
    return found


def machine_trackers(machine: Machine) -> dict[tuple[int, str, datetime], Any]:
    found = {}
    for one in machine.state.ledger.all():
        lost: Counter[str] = Counter()
        for (cause, _), slots in one.losses.items():
            lost[cause] += slots
        if one.counts.required:
            key = (one.key.olt_id, one.key.task_type, one.key.hour)
            found[key] = (one.completed, one.failed, one.skipped, one.pending, dict(lost))
    return found
