"""The time machine's history lived on the real database: the same moments and luck, the product's own statements.

Ticks, reaper, reviver, coordinator and the close of hours are the product's. Only what RQ, Redis, pollers and the wire
would do is played: queues in memory, and outcomes by the same seed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Any

import pytest
from sqlalchemy import delete, func, select, update

from portal import clock, queueing
from portal.domain.composite import CompositeResult, CompositeWork, StepResult
from portal.domain.intervals import show
from portal.domain.statuses import ErrorKind, ExecutionStatus, OltState, StepStatus
from portal.domain.tickets import Ticket
from portal.extensions import db, transaction
from portal.services.coordinating import closing
from portal.services.dispatch import executions, pool, reachability
from portal.services.network import olts, workflows
from portal.tables import CoordinatorLog, Execution, NodePace, Olt, Poller, Pool, WorkflowNode
from scheduler import reaper, tick
from scheduler.coordinator import loop
from scheduler.periodic import JOBS
from scheduler.timemachine import events, world
from scheduler.timemachine.durations import Fortune, outcome
from scheduler.timemachine.queues import Queues
from scheduler.timemachine.state import EDIT, END, SECOND, UPKEEP
from scheduler.timemachine.world import World
from testing.builders import make_node, make_olt, make_poller, make_pool
from testing.cast import ACTOR

MS = timedelta(milliseconds=1)


def build(made: World, now: datetime) -> None:
    """The world's rows: OLTs, masters and a pool, with the ids that the world gives them."""
    for spec in made.olts:
        assert make_olt(spec.name, now, site=spec.site).id == spec.olt_id
    with transaction() as session:
        session.execute(update(Olt).values(state=OltState.UP))
    for node in made.nodes:
        row = db.session.get_one(Olt, node.olt_id)
        fields: dict[str, Any] = {"name": node.key, "kind": node.kind, "priority": node.priority,
                                  "max_retries": node.max_retries, "retry_delay": node.retry_delay}  # fmt: skip
        fields |= {"cron": node.cron} if node.cron else {"interval": show(node.interval_seconds or 0)}
        assert make_node(row, node.key, now, **fields).id == node.node_id
        with transaction() as session:
            clock = {"next_run_at": node.first, "anchor_at": node.first}
            session.execute(update(WorkflowNode).where(WorkflowNode.id == node.node_id).values(clock))
            if node.usual:
                milliseconds = round(node.usual * 1000)
                session.add(NodePace(node_id=node.node_id, durations=[milliseconds], p50_ms=milliseconds,
                                     p95_ms=milliseconds, updated_at=now))  # fmt: skip


def open_pools(sizes: Mapping[str, int], now: datetime) -> dict[str, list[str]]:
    """Free pollers, so many of each site; returns the names of their workers by site."""
    workers: dict[str, list[str]] = {}
    with transaction():
        for site, size in sizes.items():
            own = None if site == world.ALL_SITES else site
            pool = make_pool(now, name=f"test/{site}", host="test", site=own, size=size)
            workers[site] = [f"{site}-{n:02}" for n in range(size)]
            for n, worker in enumerate(workers[site]):
                make_poller(pool, n, worker=worker)
    return workers


def attend(now: datetime) -> None:
    """The pollers show themselves."""
    with transaction() as session:
        session.execute(update(Poller).values(seen_at=now))
        session.execute(update(Pool).values(seen_at=now))


def close_pool() -> None:
    """No pollers."""
    with transaction() as session:
        session.execute(delete(Poller))
        session.execute(delete(Pool))


@dataclass
class _Try:
    """What a poller does at present."""

    work: CompositeWork
    node: world.Node
    group: str
    worker: str
    coming: world.Outcome
    killed: datetime | None = None


@dataclass
class Mirror:
    """One history on the database. Call it inside an app context, with `monkeypatch` of the test."""

    made: World
    begin: datetime
    fortune: Fortune
    monkeypatch: pytest.MonkeyPatch
    queues: Queues = field(default_factory=Queues)

    def __post_init__(self) -> None:
        self.now, self.tokens, self.count = self.begin, 0, 0
        self.olts = {spec.olt_id: world.build_olt(spec) for spec in self.made.olts}
        self.nodes = {spec.node_id: world.build_node(spec, self.olts[spec.olt_id]) for spec in self.made.nodes}
        self.ids: dict[int, int] = {node: node for node in self.nodes}  # the world's node id → the row's
        self.tickets: dict[str, Ticket] = {}
        self.tries: dict[int, _Try] = {}  # OLT id → what holds it
        self.coming: list[tuple[datetime, int, int, Callable[[Any], None], Any]] = []
        self.groups = sorted(self.made.rules.pollers, key=lambda site: (site == world.ALL_SITES, site))
        self.last_tick, self.ticking = self.begin - SECOND, True
        for name in ("push", "withdraw", "ask_to_stop", "ask_to_stop_token", "unknown", "lease_tokens", "mark_ready"):
            self.monkeypatch.setattr(queueing, name, getattr(self, f"_{name}"))
        self.monkeypatch.setattr(clock, "now", lambda: self.now)
        build(self.made, self.begin)
        self.idle = open_pools(self.made.rules.pollers, self.begin)

    # Redis

    def _push(self, tickets: Iterable[Ticket]) -> int:
        for ticket in tickets:
            self.tickets[ticket.job_id] = ticket
            self.queues.push(ticket)
        return 0

    def _withdraw(self, jobs: dict[str, int]) -> int:
        return sum(job in self.tickets and self.queues.withdraw(self.tickets[job]) for job in jobs)

    def _ask_to_stop(self, olt_ids: list[int]) -> None:
        for olt_id in olt_ids:
            held = self.tries.get(olt_id)
            if held is not None and not held.killed:
                work = held.work
                executions.give_up_lease(work.execution_id, work.token, "asked to stop", self.now, aborted=True)
                self._let_go(olt_id)

    def _ask_to_stop_token(self, olt_id: int, token: int) -> bool:
        mine = olt_id in self.tries and self.tries[olt_id].work.token == token
        self._ask_to_stop([olt_id] if mine else [])
        return mine

    def _unknown(self, tickets: list[Ticket]) -> list[Ticket]:
        return [one for one in tickets if not self.queues.holds(self.tickets.get(one.job_id))]

    def _lease_tokens(self, olt_ids: list[int]) -> dict[int, int]:
        """What is held; the lease of a poller that was killed runs out."""
        lease = timedelta(seconds=self.made.rules.lease_seconds)
        for olt_id in [olt for olt, one in self.tries.items() if one.killed and one.killed + lease <= self.now]:
            self._let_go(olt_id)
        return {olt: self.tries[olt].work.token for olt in olt_ids if olt in self.tries}

    def _mark_ready(self, _olts: list[tuple[int, str]], _seconds: float) -> int:
        return 0

    # Time

    def at(self, moment: datetime, rank: int, action: Callable[[Any], None], payload: Any = None) -> None:
        """As in the machine."""
        self.count += 1
        heappush(self.coming, (moment, rank, self.count, action, payload))

    def run(self, history: Iterable[events.Timed], until: datetime) -> None:
        """Live it."""
        for moment, event in history:
            self.at(moment, EDIT, self.carry_out, event)
        self.at(_round(self.begin), UPKEEP, self._periodic)
        while True:
            ticks = self._next_tick()
            heads = [moment for moment in (ticks, self.coming[0][0] if self.coming else None) if moment is not None]
            if not heads or min(heads) > until:
                break
            self.now = min(heads)
            self._happen(ticks)
        self.now = until

    def _next_tick(self) -> datetime | None:
        if not self.ticking:
            return None
        clock, ripe = func.min(WorkflowNode.next_run_at), func.min(Execution.not_before)
        pending = (Execution.status == ExecutionStatus.PENDING) & Execution.queued_at.is_(None)
        heads = [db.session.scalar(select(clock)), db.session.scalar(select(ripe).where(pending))]
        db.session.rollback()
        found = [moment for moment in heads if moment is not None]
        if not found:
            return None
        first = max(min(found), self.last_tick + SECOND, self.now)
        return first if not first.microsecond else first.replace(microsecond=0) + SECOND

    def _happen(self, ticks: datetime | None) -> None:
        while self.coming and self.coming[0][0] <= self.now:
            _, _, _, action, payload = heappop(self.coming)
            action(payload)
        if ticks == self.now and self.ticking:
            self.last_tick = self.now
            tick.tick("test", self.now)
        for group in self.groups:
            while self.idle[group] and (ticket := self.queues.claim(int(self.now.timestamp()), group)) is not None:
                self._start(ticket, group)

    def _periodic(self, _: Any) -> None:
        """The periodic jobs at their paces while the scheduler runs: reviver, reaper, history of the pool, coordinator

        and the close of hours.
        """
        self.at(self.now + timedelta(seconds=self.made.rules.reap_every), UPKEEP, self._periodic)
        if self._each(queueing.RECORD_POLLER_STATS):
            attend(self.now)
        if not self.ticking:
            return
        reachability.end_pauses(self.now)
        asked = [one.olt_id for one in reachability.suspects(self.now, 64) if one.olt_id not in self.tries]
        if asked:
            reachability.record_probes({olt: not self.olts[olt].silent for olt in asked}, self.now)
        reaper.reap()
        if self._each(queueing.RECORD_POLLER_STATS):
            pool.record_stats(self.now)
        loop.run(self.now)
        if self._each(queueing.CLOSE_HOURS):
            closing.close_due(self.now)

    def _each(self, task: str) -> bool:
        """Whether the round is one of a job's."""
        (job,) = (job for job in JOBS if job.task == task)
        return int(self.now.timestamp()) % job.interval() == 0

    # Pollers

    def _start(self, ticket: Ticket, group: str) -> None:
        self.tokens += 1
        worker = self.idle[group][0]
        work = executions.start(ticket.execution_id, self.tokens, worker, self.now, self.now)
        if work is None:
            self.queues.release(ticket.olt_id)
            return
        self.idle[group].remove(worker)
        row = work.steps[0].node_id
        node = next(node for ident, node in self.nodes.items() if self.ids[ident] == row)
        made = _Try(work, node, group, worker, outcome(self.made.rules, self.fortune, node, self.now))
        self.tries[ticket.olt_id] = made
        self._expect(made)

    def _expect(self, made: _Try) -> None:
        self.at(self.now + round(made.coming.seconds * 1000) * MS, END, self._finish, (made, made.coming))

    def _finish(self, what: tuple[_Try, world.Outcome]) -> None:
        made, coming = what
        olt_id = made.work.olt_id
        if self.tries.get(olt_id) is not made or made.coming is not coming or made.killed:
            return
        executions.finish(made.work.execution_id, made.work.token, _result(made.work, coming, self.now), self.now)
        self._let_go(olt_id)

    def _let_go(self, olt_id: int) -> None:
        made = self.tries.pop(olt_id)
        if made.worker and not made.killed:
            self.idle[made.group] = sorted({*self.idle[made.group], made.worker})
        self.queues.release(olt_id)

    # Events

    def carry_out(self, event: events.Event) -> None:
        """By the services."""
        match event:
            case events.SetNodeEnabled(node, enabled) if node in self.ids:
                workflows.set_node_enabled(self.ids[node], enabled, ACTOR, self.now)
            case events.ChangeInterval(node, seconds, cron) if node in self.ids:
                clock = {"cron": cron, "interval": None} if cron else {"interval": show(seconds or 0), "cron": None}
                workflows.update_node(self.ids[node], clock, ACTOR, self.now)
            case events.AddNode(spec):
                self._add(spec)
            case events.DeleteNode(node) if node in self.ids:
                workflows.delete_node(self.ids.pop(node), ACTOR, self.now)
                self._forget(node)
            case events.SetOltEnabled(olt, enabled):
                olts.set_enabled(olt, enabled, ACTOR, self.now)
            case events.PauseOlt(olt, until):
                olts.pause([olt], "a test", until, ACTOR, self.now)
            case events.ResumeOlt(olt):
                olts.resume([olt], ACTOR, self.now)
            case _:
                self._accident(event)

    def _add(self, spec: world.NodeSpec) -> None:
        olt = db.session.get_one(Olt, spec.olt_id)
        fields = {"name": spec.key, "kind": spec.kind, "interval": show(spec.interval_seconds or 0),
                  "priority": spec.priority}  # fmt: skip
        self.ids[spec.node_id] = make_node(olt, spec.key, self.now, **fields).id
        self.nodes[spec.node_id] = world.build_node(spec, self.olts[spec.olt_id])

    def _forget(self, node: int) -> None:
        self.nodes.pop(node)

    def _accident(self, event: events.Event) -> None:
        match event:
            case events.Silence(olt, silent):
                self.olts[olt].silent = silent
                made = self.tries.get(olt)
                if silent and made is not None and not made.killed and made.coming.answered:
                    made.coming = world.Outcome(self.made.rules.give_up, ErrorKind.TIMEOUT, answered=True)
                    self._expect(made)
            case events.Pace(olt, factor):
                self.olts[olt].slow = factor
            case events.Errors(olt, chance):
                self.olts[olt].errors = chance
            case events.SchedulerUp(up):
                self.ticking = up
            case events.PollersUp(up, killed) if up is not bool(self._pollers()):
                self._switch_pollers(up, killed)

    def _pollers(self) -> int:
        return db.session.scalar(select(func.count()).select_from(Poller)) or 0

    def _switch_pollers(self, up: bool, killed: bool) -> None:
        if up:
            self.idle = open_pools(self.made.rules.pollers, self.now)
            return
        close_pool()
        self.idle = {group: [] for group in self.groups}
        for olt_id in sorted(self.tries):
            made = self.tries[olt_id]
            if made.killed:
                continue
            if killed:
                made.killed = self.now
                continue
            made.worker = ""
            tickets = executions.hand_over(made.work.execution_id, made.work.token, "stopped", self.now)
            self._let_go(olt_id)
            self._push(tickets)


def _result(work: CompositeWork, came: world.Outcome, now: datetime) -> CompositeResult:
    failed = {"error_kind": came.kind, "error_message": "by a test"} if came.kind else {}
    status = StepStatus.FAILED if came.kind else StepStatus.SUCCESS
    steps = tuple(
        StepResult(step.node_id, status, started_at=now, finished_at=now, pdus=2, timeouts=0 if came.answered else 2,
                   **failed)  # type: ignore[arg-type]
        for step in work.steps
    )  # fmt: skip
    return CompositeResult(steps)


def _round(moment: datetime) -> datetime:
    whole = moment.replace(microsecond=0)
    whole += SECOND if whole < moment else timedelta()
    return whole + timedelta(seconds=-int(whole.timestamp()) % 5)


def run_rows() -> set[tuple[Any, ...]]:
    """What the database says of each execution: OLT, node, slot, and what became of it."""
    return {
        (one.olt_id, one.node_name, one.scheduled_for, one.status, one.attempt, one.failures, one.losses,
         one.started_at, one.finished_at, one.delay_ms, one.duration_ms, one.error_kind, one.skip_reason)
        for one in db.session.scalars(select(Execution))
    }  # fmt: skip


def skip_rows() -> set[tuple[Any, ...]]:
    """What the database says of each skip: OLT, task type, last slot, reason, first, count, and who held the OLT."""
    query = select(CoordinatorLog).where(CoordinatorLog.event_type == "SLOT_SKIPPED")
    return {
        (one.olt_id, one.details["task_type"], one.scheduled_for, one.reason, one.details["first"],
         one.details["slots"], one.details.get("holder_node"), one.details.get("holder_since"), one.timestamp)
        for one in db.session.scalars(query)
    }  # fmt: skip
