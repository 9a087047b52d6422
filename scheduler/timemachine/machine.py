"""The time machine: runs a world from one moment to another, ticks and claims and all, without sleeping.

The decisions are the product's own: scheduler.planner, portal.domain.schedule, portal.domain.quota and the order of
portal.domain.tickets. No Flask, no SQLAlchemy, no clock of the host.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop
from typing import Any

from portal.domain import quota, tempo
from portal.domain.quota import HOUR, TrackerKey
from portal.domain.slots import NextCron
from portal.domain.statuses import EventType, LossCause, OltState, QuotaStatus
from portal.domain.tempo import NORMAL
from scheduler.timemachine import edits, life, ticking
from scheduler.timemachine.book import Book
from scheduler.timemachine.durations import Fortune
from scheduler.timemachine.events import PauseOlt, Timed
from scheduler.timemachine.state import CLOSE, EDIT, JUDGE, OPEN, SECOND, UPKEEP, State, ceiling
from scheduler.timemachine.world import ALL_SITES, World

LOOK = timedelta(minutes=10)  # how often it is noted which trackers are at risk
SAMPLED = tempo.whole(NORMAL.poller_stats)
JUDGED = tempo.whole(NORMAL.close_hours)


@dataclass(frozen=True)
class Difference:
    """A tracker that is not what its executions and skips say. `column`: pending, completed …, or `lost to <cause>`."""

    key: TrackerKey
    column: str
    kept: int
    recounted: int


class Machine:
    """A world, and time for it. `keep_all`: its whole history stays, for judgement; else memory stays flat."""

    def __init__(
        self, world: World, begin: datetime, *, seed: int = 0, next_cron: NextCron, fortune: Fortune | None = None,
        history: Iterable[Timed] = (), keep_all: bool = False, keep_log: int = 10_000,
    ) -> None:  # fmt: skip
        self.world = world
        self.state = State(world, begin, fortune or Fortune(seed), next_cron, keep_all=keep_all, keep_log=keep_log)
        state = self.state
        self._groups = sorted(state.pollers, key=lambda group: (group == ALL_SITES, group))  # those of a site first
        for hour in state.hours():
            self._open_hour(hour)
        state.at(begin.replace(minute=0, second=0, microsecond=0) + HOUR, OPEN, self._next_hour)
        state.at(begin + LOOK, CLOSE, self._look)
        if state.book is not None:
            state.at(ceiling(begin, SAMPLED), UPKEEP, self._sample)
        for moment, event in history:
            state.at(moment, EDIT, lambda what: edits.carry_out(state, what), event)
        for olt in state.olts.values():
            if olt.state is OltState.PAUSED and olt.paused_until is not None:
                edits.carry_out(state, PauseOlt(olt.olt_id, olt.paused_until))
            elif olt.state is OltState.UNREACHABLE:
                olt.since, olt.probe_at = begin, begin
                life.probe_later(state, olt)

    # Time

    def run(self, until: datetime) -> None:
        """Let time go by up to a moment, all of its events included."""
        state = self.state
        while (moment := self._next_moment()) is not None and moment <= until:
            state.now = moment
            self._happen(moment)
        state.now = max(state.now, until)

    def _next_moment(self) -> datetime | None:
        coming = self.state.coming[0][0] if self.state.coming else None
        ticks = self._next_tick()
        if ticks is None or coming is None:
            return ticks or coming
        return min(coming, ticks)

    def _next_tick(self) -> datetime | None:
        """The next whole second at which something is due or ripe; it comes once a second."""
        state = self.state
        heads = [heap[0][0] for heap in (state.due, state.ripe) if heap]
        if not heads or not state.scheduler_up:
            return None
        first = max(min(heads), state.last_tick + SECOND, state.now)
        return first if not first.microsecond else first.replace(microsecond=0) + SECOND

    def _happen(self, moment: datetime) -> None:
        """All that comes at one moment, in the order of its ranks; then whoever is free claims."""
        state = self.state
        coming = state.coming
        tick = self._next_tick() == moment
        while coming and coming[0][0] <= moment and coming[0][1] < CLOSE:
            _, _, _, action, payload = heappop(coming)
            action(payload)
        if tick and state.scheduler_up:
            state.last_tick = moment
            ticking.tick(state)
        if state.queues.waiting:
            self._claim(int(moment.timestamp()))
        while coming and coming[0][0] <= moment and coming[0][1] == CLOSE:
            _, _, _, action, payload = heappop(coming)
            action(payload)

    def _claim(self, seconds: int) -> None:
        state, claimed = self.state, False
        for group in self._groups:
            while state.free[group] > 0 and (ticket := state.queues.claim(seconds, group)) is not None:
                claimed = life.start(state, ticket, group) or claimed
        if claimed:
            state.pool_changed()

    # The hours

    def _open_hour(self, hour: datetime) -> None:
        state = self.state
        state.ledger.open_hour(hour, [node for node in state.nodes.values() if node.next_run_at is not None])
        state.at(hour + HOUR + state.rules.close_after, JUDGE, self._close_hour, hour)

    def _next_hour(self, _: Any) -> None:
        state = self.state
        self._open_hour(state.now)
        state.at(state.now + HOUR, OPEN, self._next_hour)
        for ident in [ident for ident, node in state.nodes.items() if node.deleted and node.active is None]:
            del state.nodes[ident]

    def _close_hour(self, hour: datetime) -> None:
        state = self.state
        if not state.scheduler_up or self._behind(hour + HOUR):  # as closing.close_due: not before the ticks came past
            state.at(ceiling(state.now + SECOND, JUDGED), JUDGE, self._close_hour, hour)
            return
        self._reckon([hour])
        for tracker, status in state.ledger.close_hour(hour):
            if status in (QuotaStatus.QUOTA_NOT_MET, QuotaStatus.FAILED):
                olt, counts = state.olts[tracker.key.olt_id], tracker.counts
                facts: dict[str, Any] = {
                    "severity": quota.severity(quota.owed(counts, tracker.lost)),
                    "lost": tracker.lost,
                }
                state.record(EventType.QUOTA_VIOLATION, f"{tracker.completed} of {counts.required}", olt, hour=hour,
                             task_type=tracker.key.task_type, **facts)  # fmt: skip

    def _behind(self, end: datetime) -> bool:
        """Whether a slot up to this moment, which is over, has not been decided."""
        return any(node.next_run_at is not None and node.next_run_at <= end for node in self.state.nodes.values())

    def _reckon(self, hours: list[datetime]) -> None:
        self.state.ledger.reckon(hours, self.state.nodes.values(), self.state.now)

    def _look(self, _: Any) -> None:
        self._reckon(self.state.ledger.open)
        self.state.ledger.look(self.state.now)
        self.state.at(self.state.now + LOOK, CLOSE, self._look)

    def _sample(self, _: Any) -> None:
        """One row of the pool's history."""
        state = self.state
        if state.scheduler_up:
            self.history().pool.append((state.now, state.free_pollers()))
        state.at(state.now + timedelta(seconds=SAMPLED), UPKEEP, self._sample)

    # Judgement

    def audit(self) -> list[Difference]:
        """Every tracker that is kept, against a recount from executions, skips and clocks. Needs `keep_all`."""
        state, book = self.state, self.history()
        recounted, alive, ticked = book.recount(), book.pending(), book.ticked(state.now)
        found = []
        for key in {*recounted, *alive, *(tracker.key for tracker in state.ledger.all())}:
            found += self._compare(key, recounted, alive[key], ticked)
        return sorted(found, key=lambda one: (one.key.olt_id, one.key.task_type, one.key.hour, one.column))

    def _compare(self, key: TrackerKey, recounted: Any, alive: int, ticked: datetime) -> list[Difference]:
        state, name = self.state, (key.olt_id, key.task_type)
        tracker = state.ledger.hours.get(key.hour, {}).get(name)
        counts, losses = recounted.get(key, (None, {}))
        nodes = [node for node in state.olts[key.olt_id].nodes if node.task_type == key.task_type]
        opened = key.hour <= state.now
        to_come = sum(state.ledger.promised(node, key.hour, ticked) for node in nodes) if opened else 0
        columns: dict[str, tuple[int, int]] = {}
        for column in ("completed", "failed", "skipped"):
            columns[column] = getattr(tracker, column, 0), getattr(counts, column, 0)
        columns["pending"] = getattr(tracker, "pending", 0), alive + to_come
        for cause in LossCause:
            kept = sum(tracker.losses[cause, failed] for failed in (False, True)) if tracker else 0
            columns[f"lost to {cause}"] = kept, losses.get(cause, 0)  # one of the causes is called pending
        return [Difference(key, column, kept, again) for column, (kept, again) in columns.items() if kept != again]

    def wrong_slots(self) -> list[str]:
        """Slots that are not in exactly one state; none is right. Needs `keep_all`."""
        return self.history().wrong_slots(self.state.now)

    def fold(self, before: datetime) -> int:
        """Forget what was judged: slots, holds and trackers from before a moment. Returns how many trackers went.

        Hours in which something has not ended stay; so does every slot from the first of them on.
        """
        ledger = self.state.ledger
        old = [hour for hour in sorted(ledger.hours) if hour + HOUR <= before and hour not in ledger.open]
        kept = [hour for hour in old if any(tracker.pending for tracker in ledger.hours[hour].values())]
        gone = [hour for hour in old if not kept or hour < kept[0]]
        count = sum(len(ledger.hours.pop(hour)) for hour in gone)
        if gone:
            before = gone[-1] + HOUR
            self.history().fold(before)
            while self.state.log and self.state.log[0].timestamp <= before:
                self.state.log.popleft()
        return count

    def history(self) -> Book:
        """Everything that happened. ValueError: this machine does not keep it."""
        if self.state.book is None:
            raise ValueError("a machine that keeps all is needed to judge")
        return self.state.book
