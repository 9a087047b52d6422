"""The facts of any slot, as portal.queries.explain would find them, out of the machine's book. Pure."""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median

from portal.domain import schedule
from portal.domain.explain import OFF
from portal.domain.explain_facts import (
    Facts,
    Hold,
    Meant,
    NodeFacts,
    PoolFacts,
    RunFacts,
    SkipFacts,
    Switch,
    meant,
    waiting_span,
)
from portal.domain.statuses import EventType, ExecutionStatus, OltState, SkipReason
from scheduler.timemachine.book import Book, Skip
from scheduler.timemachine.state import Decision, State
from scheduler.timemachine.witness import held
from scheduler.timemachine.world import ALL_SITES, Node, Olt, Run

LAST_RUNS = 20  # portal.queries.holds
MOMENT = timedelta(microseconds=1)

_OF_NODES = (EventType.TASK_ADDED, EventType.TASK_REMOVED)
_OF_OLTS = (EventType.OLT_ENABLED, EventType.OLT_DISABLED)
_TOLD = frozenset({*_OF_NODES, *_OF_OLTS, EventType.OLT_STATE_CHANGED})
_STATES = {SkipReason.OLT_UNREACHABLE: OltState.UNREACHABLE, SkipReason.OLT_PAUSED: OltState.PAUSED}


class Recall:
    """Answers for a state that does not move any more; it must keep all."""

    def __init__(self, state: State, book: Book) -> None:
        self.state, self.book = state, book
        self._runs: dict[int, list[Run]] = defaultdict(list)
        self._skips: dict[int, list[Skip]] = defaultdict(list)
        self._log: dict[tuple[EventType, int], list[Decision]] = defaultdict(list)  # (event, of which node or OLT)
        for runs in book.runs.values():
            for run in runs:
                self._runs[run.node.node_id].append(run)
        for skip in book.skips:
            self._skips[skip.node.node_id].append(skip)
        for found in (self._runs, self._skips):
            for rows in found.values():
                rows.sort(key=lambda row: row.scheduled_for if isinstance(row, Run) else row.first)
        for row in state.log:
            ident = row.node_id if row.event in _OF_NODES else row.olt_id
            if row.event in _TOLD and ident is not None:
                self._log[row.event, ident].append(row)
        self._by_id = {run.execution_id: run for runs in self._runs.values() for run in runs}
        self._usual = {ident: usual for ident, runs in self._runs.items() if (usual := _usually(runs)) is not None}

    def facts(self, node: Node, asked: datetime) -> Facts:
        """All that is recorded of the slot that a moment means."""
        now, ident = self.state.now, node.node_id
        run, skip = _latest(self._runs[ident], asked), _latest_skip(self._skips[ident], asked)
        about = NodeFacts(ident, node.key, node.olt.olt_id, node.olt.name, node.runs, node.next_run_at,
                          self._grid_slot(node, asked))  # fmt: skip
        facts = Facts(asked, now, about, run=_run(run) if run else None,
                      skip=self._skip(skip, asked) if skip else None, switch=self._switch(node, asked))  # fmt: skip
        one = meant(asked, facts.run, facts.skip, about)
        if one.run is None and one.skip is None:
            return replace(facts, log_since=self.state.begin, ticked_at=self.state.last_tick)
        return self._with_waits(facts, node, one, skip.facts.get("holder") if skip is not None else None)

    def _grid_slot(self, node: Node, asked: datetime) -> datetime | None:
        segment = self.book.clocks.get(node.node_id)
        if segment is None or asked < segment.first or self.state.rules.from_end:
            return None
        if segment.interval_seconds:
            return schedule.latest_on_grid(segment.first, segment.interval_seconds, asked)
        return (segment.first, *self.state.times(str(segment.cron), segment.first, asked))[-1]

    def _skip(self, skip: Skip, asked: datetime) -> SkipFacts:
        own, free = self._by_id.get(skip.facts.get("waiting") or skip.active_id or 0), skip.facts.get("free_pollers")
        nearest = max((slot for slot in skip.slots if slot <= asked), default=None)
        return SkipFacts(skip.reason, skip.first, skip.last, skip.count, skip.decided_at,
                         _run(own) if own is not None else None, free, nearest)  # fmt: skip

    def _switch(self, node: Node, asked: datetime) -> Switch | None:
        """Since when it was off: the first of node and OLT that were."""
        found = []
        for name, ident, events in ((node.key, node.node_id, _OF_NODES), ("", node.olt.olt_id, _OF_OLTS)):
            rows = [row for event in events for row in self._log[event, ident] if row.timestamp <= asked]
            last = max(rows, key=lambda row: row.timestamp, default=None)
            if last is not None and last.event in OFF:
                found.append(Switch(last.event, last.timestamp, name))
        return min(found, key=lambda switch: switch.at, default=None)

    def _with_waits(self, facts: Facts, node: Node, one: Meant, holder: int | None) -> Facts:
        skip, span = one.skip, waiting_span(one, facts.now)
        if skip is not None and one.slot is not None:
            own_hold = self._own_hold(node, skip, one.slot)
            facts = replace(facts, state=self._state(node.olt, skip.reason, one.slot), own_hold=own_hold)
        if span is None:
            return facts
        own = one.run or (skip.own if skip is not None else None)
        named = holder if skip is not None and skip.reason is SkipReason.OLT_BUSY else None
        others = tuple(
            hold for hold in self._holds(node.olt, *span)
            if (own is None or hold.execution_id != own.id)
            and (hold.execution_id == named or not self._by_id[hold.execution_id].node.deleted)
        )  # fmt: skip
        return replace(facts, holds=others, pool=self._pool(*span))

    def _own_hold(self, node: Node, skip: SkipFacts, slot: datetime) -> Hold | None:
        if skip.reason is not SkipReason.OVERRUN or skip.own is None:
            return None
        around = self._holds(node.olt, slot - MOMENT, slot + timedelta(seconds=1))
        return next((hold for hold in reversed(around) if hold.execution_id == skip.own.id), None)

    def _holds(self, olt: Olt, since: datetime, until: datetime) -> tuple[Hold, ...]:
        found = [hold for hold in (*self.book.holds[olt.olt_id], *held(olt))
                 if hold.since < until and (hold.until is None or hold.until > since)]  # fmt: skip
        return tuple(
            Hold(hold.execution_id, hold.node_key, hold.since, hold.until, self._usually(hold.execution_id))
            for hold in found
        )

    def _usually(self, execution_id: int) -> int | None:
        """Nobody knows a deleted node."""
        node = self._by_id[execution_id].node
        return None if node.deleted else self._usual.get(node.node_id)

    def _pool(self, since: datetime, until: datetime) -> PoolFacts:
        if set(self.state.pollers) - {ALL_SITES}:
            return PoolFacts()
        first, last = (bisect_right(self.book.pool, moment, key=lambda row: row[0]) for moment in (since, until))
        rows = self.book.pool[first:last]
        return PoolFacts(len(rows), sum(free == 0 for _, free in rows))

    def _state(self, olt: Olt, reason: SkipReason | None, slot: datetime) -> tuple[OltState, datetime] | None:
        state = _STATES.get(reason) if reason is not None else None
        if state is None:
            return None
        if olt.state is state and olt.since is not None and olt.since <= slot:
            return state, olt.since
        rows = [row for row in self._log[EventType.OLT_STATE_CHANGED, olt.olt_id] if row.timestamp <= slot]
        same = rows and rows[-1].details["after"] is state and rows[-1].details["before"] is not state
        return (state, rows[-1].timestamp) if same else None


def _usually(runs: list[Run]) -> int | None:
    """What was learned of a node, else the median of its last successes, in milliseconds."""
    if usual := runs[0].node.usual:
        return round(usual * 1000)
    took = [run.duration_ms for run in runs if run.status is ExecutionStatus.SUCCESS and run.duration_ms is not None]
    return round(median(took[-LAST_RUNS:])) if took else None


def _latest(runs: list[Run], asked: datetime) -> Run | None:
    """Of the latest slot at or before a moment; else the first after it."""
    place = bisect_right(runs, asked, key=lambda run: run.scheduled_for)
    return runs[place - 1] if place else next(iter(runs), None)


def _latest_skip(skips: list[Skip], asked: datetime) -> Skip | None:
    place = bisect_right(skips, asked, key=lambda skip: skip.first)
    return skips[place - 1] if place else None


def _run(run: Run) -> RunFacts:
    return RunFacts(
        id=run.execution_id, slot=run.scheduled_for, status=run.status, first_started_at=run.first_start,
        started_at=run.started_at, finished_at=run.finished_at, duration_ms=run.duration_ms, tries=run.attempt,
        not_before=run.not_before, error_kind=run.error_kind, skip_reason=run.skip_reason,
    )  # fmt: skip
