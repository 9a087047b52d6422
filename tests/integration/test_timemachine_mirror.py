"""The time machine decides as the database does: random histories lived in both come to the same rows."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal import queueing
from portal.cron import following as next_cron
from portal.domain import quota
from portal.domain.explain_facts import Facts, Hold, RunFacts
from portal.domain.quota import HOUR
from portal.domain.statuses import EventType, NodeKind, QuotaStatus
from portal.extensions import db, transaction
from portal.queries import explain
from portal.services.coordinating import closing, trackers
from portal.services.coordinating.audit import audit
from portal.services.dispatch import life as dispatch_life
from portal.tables import Execution, Olt, QuotaLoss, QuotaTracker, QuotaViolation, WorkflowNode
from scheduler import due
from scheduler.periodic import JOBS
from scheduler.timemachine import life, ticking
from scheduler.timemachine.durations import Fortune
from scheduler.timemachine.events import AddNode, Havoc, PollersUp, SchedulerUp, Timed, scenario
from scheduler.timemachine.machine import JUDGED, SAMPLED, Machine
from scheduler.timemachine.recall import Recall
from scheduler.timemachine.world import ALL_SITES, NodeSpec, OltSpec, Rules, World
from testing.cast import at
from testing.databases import Databases
from testing.mirror import Mirror, run_rows, skip_rows

BEGIN = at("10:40")
END = BEGIN + timedelta(minutes=40)  # the first hour has been closed

pytestmark = pytest.mark.timeout(600)  # some hundred transactions each

BUSY = Havoc(edits=250, switches=120, outages=120, slow=120, restarts=120)  # so much in a day


def small_world(seed: int) -> World:
    """Three OLTs with three masters each, two pollers, and runs so long that they get in each other's way."""
    chance, olts = Random(seed), tuple(OltSpec(number, f"OLT-{number}") for number in (1, 2, 3))
    return World(olts, tuple(_masters(chance, "*/5 * * * *")), Rules({ALL_SITES: 2}))


def world_of_sites(seed: int) -> World:
    """The same with two sites, pollers of their own and one for all, and an uneven cron line."""
    chance, sites = Random(seed), {1: "", 2: "lima", 3: "cusco"}
    olts = tuple(OltSpec(number, f"OLT-{number}", site) for number, site in sites.items())
    return World(olts, tuple(_masters(chance, "1,4,9,41,52 * * * *")), Rules({ALL_SITES: 1, "lima": 1, "cusco": 1}))


def from_end(seed: int) -> World:
    """The same where clocks go on from the end of a run."""
    world = world_of_sites(seed)
    nodes = tuple(replace(node, usual=node.median) for node in world.nodes)
    return replace(world, nodes=nodes, rules=replace(world.rules, from_end=True))


def _masters(chance: Random, line: str) -> Iterator[NodeSpec]:
    for number in range(9):
        cron = line if number == 4 else None
        first = next_cron(line, BEGIN) if cron else BEGIN + timedelta(seconds=chance.randrange(1, 240))
        kind = NodeKind.DISCOVERY if number % 3 == 0 else NodeKind.GET
        interval = None if cron else chance.choice((120, 240, 300))
        yield NodeSpec(number + 1, number // 3 + 1, f"node-{number % 3}", kind, interval, cron, first,
                       priority=chance.choice((40, 90)), max_retries=chance.choice((0, 2)),
                       retry_delay=chance.choice((0, 20, 60)), median=chance.choice((5.0, 15.0, 60.0)))  # fmt: skip


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
    last = END - timedelta(seconds=15)  # so that the coordinator has looked once more, and there are pools
    kept = [one for one in found if one[0] < last or not isinstance(one[1], SchedulerUp | PollersUp)]
    return sorted([*kept, (last, SchedulerUp(True)), (last, PollersUp(True))], key=lambda one: one[0])


@pytest.fixture
def database_url(request: pytest.FixtureRequest, databases: Databases) -> str:
    """The database that the test names."""
    return databases.url(request.param)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "seed", "database_url"),
    [
        (small_world, 12, "sqlite"),
        (small_world, 24, "postgresql"),
        (world_of_sites, 22, "sqlite"),
        (from_end, 5, "sqlite"),
    ],
    indirect=["database_url"],
)
def test_machine_and_database_come_to_the_same_rows(
    app: Flask, session: Session, monkeypatch: pytest.MonkeyPatch, make: Callable[[int], World], seed: int
) -> None:
    world = make(seed)
    app.config["NEXTCHECK_MODE"] = "from_end" if world.rules.from_end else "grid"
    machine = lived_twice(world, seed, monkeypatch)
    if world.rules.from_end:  # what clocks will hold is a forecast there, which the passes do not renew
        foresee(machine)
    assert audit(END, 3).differences == ()  # as the passes and what ended left it: nothing is put right before
    assert run_rows() == machine_runs(machine)
    assert skip_rows() == machine_skips(machine)
    assert clocks() == machine_clocks(machine)
    assert database_trackers() == machine_trackers(machine)
    assert violations() == machine_violations(machine) != set()
    assert machine.audit() == [] and machine.wrong_slots() == []
    assert different_facts(machine) == []


def different_facts(machine: Machine) -> list[Any]:
    """Slots of which the machine recalls other facts than the queries of explain find: node, moment, which, both."""
    ids, recall = same_ids(machine), Recall(machine.state, machine.history())
    different: list[Any] = []
    nodes = {ident: node for ident, node in machine.state.nodes.items() if not node.deleted}  # of others nobody asks
    for ident, slot in machine.history().slots():
        node = nodes.get(ident)
        for moment in (slot, slot + timedelta(seconds=11)) if node is not None else ():
            mine = asdict(named_alike(recall.facts(node, moment), ids))
            asked = explain._asked(explain.node_named(node.olt.name, node.key) or 0)
            theirs = asdict(named_alike(explain._facts(asked, moment, END)))  # type: ignore[arg-type]
            wrong = [name for name in mine if mine[name] != theirs[name]]
            different += [(ident, moment, name, mine[name], theirs[name]) for name in wrong]
    return different


def same_ids(machine: Machine) -> dict[int, int]:
    """Id of an execution in the machine → of the same one in the database."""
    rows = {(row.node_name, row.olt_id, row.scheduled_for): row.id for row in db.session.scalars(select(Execution))}
    db.session.rollback()
    runs = [run for found in machine.history().runs.values() for run in found]
    return {run.execution_id: rows[run.node.key, run.node.olt.olt_id, run.scheduled_for] for run in runs}


def named_alike(facts: Facts, ids: Mapping[int, int] | None = None) -> Facts:
    """Without what only one of them has: words of errors, and when the log and the last tick were."""

    def run(one: RunFacts | None) -> RunFacts | None:
        return None if one is None else replace(one, id=ids[one.id] if ids else one.id, error_message="")

    def hold(one: Hold | None) -> Hold | None:
        return None if one is None or ids is None else replace(one, execution_id=ids[one.execution_id])

    skip = None if facts.skip is None else replace(facts.skip, own=run(facts.skip.own))
    if ids is not None:
        facts = replace(facts, holds=tuple(filter(None, map(hold, facts.holds))), own_hold=hold(facts.own_hold))
    node = replace(facts.node, id=0)
    return replace(facts, node=node, run=run(facts.run), skip=skip, log_since=None, ticked_at=None)


def lived_twice(world: World, seed: int, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One history in the machine and on the database; the machine, which has its whole book."""
    events = history(world, seed)
    machine = Machine(world, BEGIN, next_cron=next_cron, fortune=Fortune(seed), history=events, keep_all=True)
    machine.run(END)
    Mirror(world, BEGIN, Fortune(seed), monkeypatch).run(events, END)
    return machine


def foresee(machine: Machine) -> None:
    """Both reckon at the end what is to come."""
    hours = [quota.hour_at(BEGIN), quota.hour_at(BEGIN) + HOUR]
    with transaction() as session:
        trackers.refresh(session, hours, END)
    machine.state.ledger.reckon(hours, machine.state.nodes.values(), END)


def test_numbers_that_are_said_again_are_those_of_the_product() -> None:
    paces = {job.task: job.interval() for job in JOBS}
    again = (life.MAX_LOSSES, ticking.LIMIT, Rules().close_after)
    assert again == (dispatch_life.MAX_LOSSES, due.LIMIT, closing.GRACE)
    assert (SAMPLED, JUDGED) == (paces[queueing.RECORD_POLLER_STATS], paces[queueing.CLOSE_HOURS])
    assert {Rules().reap_every} == {paces[job] for job in (queueing.REAP, queueing.REVIVE, queueing.COORDINATE)}


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
    session, query = db.session(), select(WorkflowNode)
    found: dict[tuple[int, str], Any] = {(n.workflow.olt_id, n.key): n.next_run_at for n in session.scalars(query)}
    states = {(olt.id, "state"): (olt.state, olt.consecutive_failures) for olt in session.scalars(select(Olt))}
    session.rollback()
    return found | states


def machine_clocks(machine: Machine) -> dict[tuple[int, str], Any]:
    nodes = [node for node in machine.state.nodes.values() if not node.deleted]
    states = {(olt.olt_id, "state"): (olt.state, olt.failures) for olt in machine.state.olts.values()}
    return {(node.olt.olt_id, node.key): node.next_run_at for node in nodes} | states


def database_trackers() -> dict[tuple[int, str, datetime], Any]:
    losses: Counter[tuple[int, str, datetime, str]] = Counter()
    for row in db.session.scalars(select(QuotaLoss)):
        losses[row.olt_id, row.task_type, row.period_start, row.cause] += row.failed + row.skipped
    found = {}
    for row in db.session.scalars(select(QuotaTracker).where(QuotaTracker.quota_required > 0)):
        key = (row.olt_id, row.task_type, row.period_start)
        lost = {cause: slots for (*name, cause), slots in losses.items() if tuple(name) == key}
        counts = (row.quota_completed, row.quota_failed, row.quota_skipped, row.quota_pending)
        found[key] = (counts, row.status, lost)
    db.session.rollback()
    return found


def machine_trackers(machine: Machine) -> dict[tuple[int, str, datetime], Any]:
    ledger, found = machine.state.ledger, {}
    for one in ledger.all():
        lost: Counter[str] = Counter()
        for (cause, _), slots in one.losses.items():
            lost[cause] += slots
        counts, olt_id, hour = one.counts, one.key.olt_id, one.key.hour
        present = QuotaStatus.INTERRUPTED if (olt_id, hour) in ledger.interrupted else QuotaStatus.IN_PROGRESS
        if counts.required:
            of = (counts.completed, counts.failed, counts.skipped, counts.pending)
            found[olt_id, one.key.task_type, hour] = (of, one.status or present, dict(lost))
    return found


def violations() -> set[tuple[Any, ...]]:
    """What the close of hours announced."""
    rows = db.session.scalars(select(QuotaViolation)).all()
    found = {(row.olt_id, row.task_type, row.period_start, row.severity, _sorted(row.report["lost"])) for row in rows}
    db.session.rollback()
    return found


def machine_violations(machine: Machine) -> set[tuple[Any, ...]]:
    rows = [(row.olt_id, row.details) for row in machine.state.log if row.event is EventType.QUOTA_VIOLATION]
    return {(olt, one["task_type"], one["hour"], one["severity"], _sorted(one["lost"])) for olt, one in rows}


def _sorted(lost: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((str(cause), slots) for cause, slots in lost.items()))
