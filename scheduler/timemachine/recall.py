"""The facts of any slot, as portal.queries.explain would find them, out of the machine's book. Pure."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median

from portal.domain import schedule
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
from portal.domain.statuses import EventType, OltState, SkipReason
from scheduler.timemachine.book import Book, Skip, Trouble
from scheduler.timemachine.state import State
from scheduler.timemachine.world import Node, Run

SAMPLE = timedelta(seconds=10)  # the pool's history has a row so often
MOMENT = timedelta(microseconds=1)

_OF_NODES = (EventType.TASK_ADDED, EventType.TASK_REMOVED)
_OF_OLTS = (EventType.OLT_ENABLED, EventType.OLT_DISABLED)
_STATES = {SkipReason.OLT_UNREACHABLE: Trouble.UNREACHABLE, SkipReason.OLT_PAUSED: Trouble.PAUSED}


class Recall:
    """Answers for a state that does not move any more; it must keep all."""

    def __init__(self, state: State, book: Book) -> None:
        self.state, self.book = state, book
        self._runs: dict[int, list[Run]] = defaultdict(list)
        self._skips: dict[int, list[Skip]] = defaultdict(list)
        self._switches: dict[tuple[bool, int], list[Switch]] = defaultdict(list)
        for runs in book.runs.values():
            for run in runs:
                self._runs[run.node.node_id].append(run)
        for skip in book.skips:
            self._skips[skip.node.node_id].append(skip)
        for found in (self._runs, self._skips):
            for rows in found.values():
                rows.sort(key=lambda row: row.scheduled_for if isinstance(row, Run) else row.first)
        for row in state.log:
            if row.event in _OF_NODES and row.node_id is not None:
                self._switches[True, row.node_id].append(Switch(row.event, row.timestamp))
            elif row.event in _OF_OLTS:
                self._switches[False, row.olt_id].append(Switch(row.event, row.timestamp))
        self._by_id = {run.execution_id: run for runs in self._runs.values() for run in runs}
        self._usual = self._usually()

    def _usually(self) -> Mapping[int, int]:
        took: dict[int, list[int]] = defaultdict(list)
        for run in self._by_id.values():
            if run.duration_ms is not None:
                took[run.node.node_id].append(run.duration_ms)
        return {node: round(median(found)) for node, found in took.items()}

    def facts(self, node: Node, asked: datetime) -> Facts:
        """All that is recorded of the slot that a moment means."""
        now, ident = self.state.now, node.node_id
        run, skip = _latest(self._runs[ident], asked), _latest_skip(self._skips[ident], asked)
        about = NodeFacts(ident, node.key, node.olt.olt_id, node.olt.name, node.runs, node.next_run_at,
                          self._grid_slot(node, asked))  # fmt: skip
        facts = Facts(asked, now, about, run=_run(run) if run else None, skip=self._skip(skip) if skip else None,
                      switch=self._switch(node, asked))  # fmt: skip
        one = meant(asked, facts.run, facts.skip, about)
        if one.run is None and one.skip is None:
            return replace(facts, log_since=self.state.begin, ticked_at=self.state.last_tick)
        return self._with_waits(facts, node, one)

    def _grid_slot(self, node: Node, asked: datetime) -> datetime | None:
        segment = self.book.clocks.get(node.node_id)
        if segment is None or asked < segment.first or self.state.rules.from_end:
            return None
        if segment.interval_seconds:
            return schedule.latest_on_grid(segment.first, segment.interval_seconds, asked)
        return (segment.first, *self.state.times(str(segment.cron), segment.first, asked))[-1]

    def _skip(self, skip: Skip) -> SkipFacts:
        own, free = self._by_id.get(skip.facts.get("waiting", 0)), skip.facts.get("free_pollers")
        return SkipFacts(skip.reason, skip.first, skip.last, skip.count, skip.decided_at,
                         _run(own) if own is not None else None, free)  # fmt: skip

    def _switch(self, node: Node, asked: datetime) -> Switch | None:
        rows = [*self._switches[True, node.node_id], *self._switches[False, node.olt.olt_id]]
        return max((row for row in rows if row.at <= asked), key=lambda row: row.at, default=None)

    def _with_waits(self, facts: Facts, node: Node, one: Meant) -> Facts:
        skip, span = one.skip, waiting_span(one, facts.now)
        if skip is not None and skip.reason is SkipReason.OVERRUN and skip.own is not None and one.slot is not None:
            held = self._holds(node.olt.olt_id, one.slot - MOMENT, one.slot + timedelta(seconds=1))
            return replace(facts, holds=tuple(hold for hold in held if hold.execution_id == skip.own.id))
        if skip is not None and one.slot is not None:
            facts = replace(facts, state=self._state(node, skip.reason, one.slot))
        if span is None:
            return facts
        own = one.run or (skip.own if skip is not None else None)
        held = self._holds(node.olt.olt_id, *span)
        others = tuple(hold for hold in held if own is None or hold.execution_id != own.id)
        return replace(facts, holds=others, pool=self._pool(*span))

    def _holds(self, olt_id: int, since: datetime, until: datetime) -> tuple[Hold, ...]:
        found = [hold for hold in self.book.holds[olt_id]
                 if hold.since < until and (hold.until is None or hold.until > since)]  # fmt: skip
        return tuple(
            Hold(hold.execution_id, hold.node_key, hold.since, hold.until, self._usual.get(hold.node_id))
            for hold in found
        )

    def _pool(self, since: datetime, until: datetime) -> PoolFacts:
        samples = int((until - since) / SAMPLE)
        moments = [since + SAMPLE * number for number in range(1, samples + 1)]
        spans = self.book.spans.get((Trouble.FULL, 0), [])
        starts = [span.since for span in spans]
        full = 0
        for moment in moments:
            place = bisect_right(starts, moment)
            full += bool(place) and (spans[place - 1].until or until) > moment
        return PoolFacts(samples, full)

    def _state(self, node: Node, reason: SkipReason | None, slot: datetime) -> tuple[OltState, datetime] | None:
        trouble = _STATES.get(reason) if reason is not None else None
        if trouble is None:
            return None
        spans = [span for span in self.book.spans.get((trouble, node.olt.olt_id), ()) if span.since <= slot]
        return (OltState(trouble.value), spans[-1].since) if spans else None


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
