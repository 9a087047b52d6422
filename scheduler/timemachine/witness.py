"""What truly kept a slot from being completed: from what was done to the world, not from what was recorded. Pure."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

from portal.domain.statuses import ExecutionStatus, LossCause
from scheduler.timemachine.book import Book, Skip, Span, Trouble
from scheduler.timemachine.life import MAX_LOSSES
from scheduler.timemachine.state import State
from scheduler.timemachine.world import Hold, Olt, Run


def _slot(run: Run) -> datetime:
    return run.scheduled_for


def held(olt: Olt) -> list[Hold]:
    """The try that goes on."""
    run = olt.running
    if run is None or run.started_at is None:
        return []
    return [Hold(run.execution_id, run.node.node_id, run.node.key, run.started_at, None)]


class Witness:
    """Looks at holds, outages, switches and restarts. For a book that is not written to any more."""

    def __init__(self, state: State, book: Book) -> None:
        self.book, self.sites = book, state.sites
        self.holds = {olt.olt_id: [*book.holds[olt.olt_id], *held(olt)] for olt in state.olts.values()}
        self._starts = {olt: [hold.since for hold in holds] for olt, holds in self.holds.items()}
        self._since = {name: [span.since for span in spans] for name, spans in book.spans.items()}
        self._of_node: dict[int, list[Run]] = defaultdict(list)
        for runs in book.runs.values():
            self._of_node[runs[0].node.node_id] += runs
        for found in self._of_node.values():
            found.sort(key=_slot)

    def causes(self, node_id: int, slot: datetime) -> frozenset[LossCause]:
        """To what the slot was lost: whatever alone would have cost it, so that several may be true. Empty: it was

        completed, or is alive.
        """
        name = (node_id, slot)
        if runs := self.book.runs.get(name):
            return self._of_run(runs[0])
        if skips := self.book.skipped.get(name):
            return frozenset(self._of_skip(skips[0], slot))
        return frozenset()

    # Skipped

    def _of_skip(self, skip: Skip, slot: datetime) -> Iterator[LossCause]:
        now, olt_id = skip.decided_at, skip.node.olt.olt_id
        if self.when_ticked(Trouble.PAUSED, olt_id, now):
            yield LossCause.PAUSED
        if self.when_ticked(Trouble.UNREACHABLE, olt_id, now):
            yield LossCause.UNREACHABLE
        if self.touches(Trouble.NODE_OFF, skip.node.node_id, now) or self.touches(Trouble.OLT_OFF, olt_id, now):
            yield LossCause.DISABLED
        if self._nothing_ticked(slot, now):
            yield LossCause.RESTART
        before = self._of_node[skip.node.node_id]
        place = bisect_left(before, slot, key=_slot)
        if not place or not before[place - 1].not_over(now):
            return
        holder = self.holder(olt_id, now)
        if holder is not None:
            yield LossCause.OVERRUN if holder.node_id == skip.node.node_id else LossCause.OLT_BUSY
        elif self.touches(Trouble.FULL, self.sites[skip.node.olt.site], now):
            yield LossCause.POOL_FULL
        else:
            yield LossCause.UNKNOWN

    def _nothing_ticked(self, slot: datetime, now: datetime) -> bool:
        return any(
            span.since <= slot and (span.until is None or span.until > slot) and (span.until or now) <= now
            for span in self.book.spans.get((Trouble.DOWN, 0), ())
        )

    # Run

    def _of_run(self, run: Run) -> frozenset[LossCause]:
        olt_id, ended = run.node.olt.olt_id, run.finished_at
        if ended is None or run.status is ExecutionStatus.SUCCESS:
            return frozenset()
        if run.status is ExecutionStatus.INTERRUPTED:
            return frozenset(self._taken_away(run, ended)) or frozenset({LossCause.UNKNOWN})
        if run.losses >= MAX_LOSSES or not run.failures:
            return frozenset({LossCause.WORKER_LOST})
        tries = [hold for hold in self.holds[olt_id] if hold.execution_id == run.execution_id]
        silent = any(self._overlaps(Trouble.SILENT, olt_id, hold) for hold in tries[-1:])
        return frozenset({LossCause.TIMEOUT if silent else LossCause.DEVICE})

    def _taken_away(self, run: Run, now: datetime) -> Iterator[LossCause]:
        olt_id = run.node.olt.olt_id
        if self.touches(Trouble.NODE_OFF, run.node.node_id, now) or self.touches(Trouble.OLT_OFF, olt_id, now):
            yield LossCause.DISABLED
        if self.touches(Trouble.PAUSED, olt_id, now):
            yield LossCause.PAUSED
        if self.touches(Trouble.UNREACHABLE, olt_id, now):
            yield LossCause.UNREACHABLE

    # What was so when

    def when_ticked(self, trouble: Trouble, ident: int, now: datetime) -> bool:
        """It was so at the tick of a moment: whatever people and periodic jobs do at a moment comes before its tick."""
        return any(span.until is None or span.until > now for span in self._near(trouble, ident, now))

    def touches(self, trouble: Trouble, ident: int, now: datetime) -> bool:
        """It was so at a moment, or began or ended with it."""
        return any(span.until is None or span.until >= now for span in self._near(trouble, ident, now))

    def _near(self, trouble: Trouble, ident: int, now: datetime) -> list[Span]:
        """The last two that began at or before a moment."""
        place = bisect_right(self._since.get((trouble, ident), []), now)
        return self.book.spans[trouble, ident][max(0, place - 2) : place] if place else []

    def _overlaps(self, trouble: Trouble, ident: int, hold: Hold) -> bool:
        return any(
            (hold.until is None or span.since <= hold.until) and (span.until is None or span.until > hold.since)
            for span in self.book.spans.get((trouble, ident), ())
        )

    def holder(self, olt_id: int, now: datetime) -> Hold | None:
        """Who held an OLT at the tick of a moment: claims of that very moment come after it."""
        holds = self.holds.get(olt_id, [])
        place = bisect_right(self._starts.get(olt_id, []), now)
        for hold in reversed(holds[max(0, place - 2) : place]):
            if hold.since < now and (hold.until is None or hold.until > now):
                return hold
        return None
