"""The trackers in memory: promised from clocks, settled as slots end, judged at the close of their hour. Pure.

The arithmetic is portal.domain.quota's; what the product keeps in rows is kept here in objects.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from portal.domain import quota, schedule
from portal.domain.quota import HOUR, Clock, Counts, Settlement, TrackerKey
from portal.domain.statuses import LossCause, QuotaStatus, Severity
from scheduler.timemachine.world import Node, Run

Times = Callable[[str, datetime, datetime], tuple[datetime, ...]]  # cron line, after, up to → firings

TICK = timedelta(microseconds=1)


@dataclass(slots=True)
class Tracker:
    """One row of quota_trackers with its losses."""

    key: TrackerKey
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    pending: int = 0
    duration_ms: int = 0
    losses: Counter[tuple[LossCause, bool]] = field(default_factory=Counter)  # (cause, it failed) → slots
    was_at_risk: bool = False
    ahead: int = 0  # slots foreseen where clocks go on from the end: reckoned when somebody looks
    status: QuotaStatus | None = None  # since its close

    @property
    def counts(self) -> Counts:
        """As the rules want it."""
        return Counts(self.completed, self.failed, self.skipped, self.pending + self.ahead)

    @property
    def lost(self) -> dict[LossCause, int]:
        """Slots lost by cause, and under PENDING what has not ended."""
        found = Counter({LossCause.PENDING: self.counts.pending})
        for (cause, _), slots in self.losses.items():
            found[cause] += slots
        return {cause: slots for cause, slots in found.items() if slots}


@dataclass
class Verdicts:
    """What the closed hours of the watched OLTs came to, summed up: it does not grow with time."""

    hours: int = 0
    required: int = 0
    completed: int = 0
    at_risk: int = 0
    statuses: Counter[QuotaStatus] = field(default_factory=Counter)
    severities: Counter[Severity] = field(default_factory=Counter)
    losses: Counter[LossCause] = field(default_factory=Counter)
    by_task: dict[tuple[int, str], Counter[str]] = field(default_factory=dict)  # (OLT, task type) → required, completed


class Ledger:
    """All trackers of the open hours, and of `keep` hours behind them (None: of all)."""

    def __init__(
        self, times: Times, *, keep: int | None, from_end: bool = False, watched: frozenset[int] | None = None
    ) -> None:
        self.times, self.keep, self.from_end, self.watched = times, keep, from_end, watched
        self.hours: dict[datetime, dict[tuple[int, str], Tracker]] = {}
        self.open: list[datetime] = []
        self.interrupted: set[tuple[int, datetime]] = set()  # OLTs that were disabled in an hour
        self.verdicts = Verdicts()

    def tracker(self, node: Node, hour: datetime) -> Tracker:
        """The tracker of a node's task type in an hour; made when it is asked for."""
        return self._tracker(node.olt.olt_id, node.task_type, hour)

    def _tracker(self, olt_id: int, task_type: str, hour: datetime) -> Tracker:
        trackers = self.hours.setdefault(hour, {})
        found = trackers.get((olt_id, task_type))
        if found is None:
            found = trackers[olt_id, task_type] = Tracker(TrackerKey(olt_id, task_type, hour))
        return found

    def open_hour(self, hour: datetime, nodes: list[Node]) -> None:
        """The hour (start, end] begins: what the clocks promise in it is pending."""
        self.open.append(hour)
        self.hours.setdefault(hour, {})
        for node in nodes:
            self._promise(node, hour, 1)

    def set_clock(self, node: Node, moment: datetime | None, change: Callable[[], None]) -> None:
        """A clock moves off its grid (an edit, the end of a run): what it promised is taken back, promised anew."""
        for hour in list(self.hours):  # closed ones too: slots may have come while nothing ticked
            self._promise(node, hour, -1)
        change()
        node.next_run_at = moment
        for hour in self.open:
            self._promise(node, hour, 1)

    def _promise(self, node: Node, hour: datetime, sign: int) -> None:
        slots = self.promised(node, hour)
        if slots:
            self.tracker(node, hour).pending += sign * slots

    def promised(self, node: Node, hour: datetime, ticked: datetime | None = None) -> int:
        """Slots that a clock on a grid has still to come to in an hour; `ticked`: those after this moment only."""
        if self.from_end or node.next_run_at is None or node.next_run_at > hour + HOUR:
            return 0
        times = self.times(node.cron, hour, hour + HOUR) if node.cron else ()
        if ticked is not None and ticked >= hour:
            times = tuple(at for at in times if at > ticked)
        first = node.next_run_at
        if ticked is not None and node.interval_seconds:
            first = schedule.next_on_grid(first, node.interval_seconds, ticked)
        return Clock(node.task_type, first, node.interval_seconds, times).slots(hour)

    def reckon(self, hours: Iterable[datetime], nodes: Iterable[Node], now: datetime) -> None:
        """Where clocks go on from the end, what they hold is foreseen anew: as coordinating.slots_to_come does.

        A clock that stands while its node runs is taken to go on a whole step from now.
        """
        if not self.from_end:
            return
        wanted = list(hours)
        for hour in wanted:
            for tracker in self.hours.get(hour, {}).values():
                tracker.ahead = 0
        for node in (node for node in nodes if not node.deleted):
            for hour in wanted:
                if slots := self._foreseen(node, hour, now):
                    self.tracker(node, hour).ahead += slots

    def _foreseen(self, node: Node, hour: datetime, now: datetime) -> int:
        step = None if node.interval_seconds is None else int(node.interval_seconds + node.usual)
        at = node.next_run_at
        if at is None and step is not None and node.active is not None and node.runs:
            at = now + timedelta(seconds=step)
        if at is None:
            return 0
        times = self.times(node.cron, hour, hour + HOUR) if node.cron else ()
        return Clock(node.task_type, at, step, times).slots(hour)

    def take(self, run: Run) -> None:
        """A slot became an execution. On a grid it was promised before."""
        if self.from_end:
            self.tracker(run.node, quota.hour_of(run.scheduled_for)).pending += 1

    def skip(self, one: Settlement) -> None:
        """Slots that never became an execution."""
        if self.from_end:
            self._tracker(one.key.olt_id, one.key.task_type, one.key.hour).pending += one.slots
        self.settle(one)

    def end(self, run: Run) -> Settlement:
        """The slot of an execution that has just come to its end."""
        key = self.tracker(run.node, quota.hour_of(run.scheduled_for)).key
        cause = quota.cause_of_end(run.status, run.error_kind, run.skip_reason)
        settlement = Settlement(key, run.status, cause, duration_ms=run.duration_ms or 0)
        self.settle(settlement)
        return settlement

    def settle(self, one: Settlement) -> None:
        """Slots that were pending have come to their end. AssertionError: there were not so many."""
        tracker, more = self.hours[one.key.hour][one.key.olt_id, one.key.task_type], one.counts
        tracker.completed += more.completed
        tracker.failed += more.failed
        tracker.skipped += more.skipped
        tracker.pending -= one.slots
        tracker.duration_ms += one.duration_ms
        if one.cause is not None:
            tracker.losses[one.cause, more.failed > 0] += one.slots
        if tracker.status not in (None, QuotaStatus.INTERRUPTED):  # it ended late: what was announced stays
            tracker.status = quota.judge(tracker.counts)
        if tracker.pending < 0:
            raise AssertionError(f"{one.key} settles more than was promised")

    def interrupt(self, olt_id: int, hour: datetime, interrupted: bool) -> None:
        """An OLT is disabled, or enabled again, in an hour that is not over."""
        (self.interrupted.add if interrupted else self.interrupted.discard)((olt_id, hour))

    def look(self, now: datetime) -> None:
        """Note which trackers are at risk at this moment."""
        for hour in self.open:
            for tracker in self.hours[hour].values():
                if not tracker.was_at_risk and quota.at_risk(tracker.counts, hour, now):
                    tracker.was_at_risk = True

    def close_hour(self, hour: datetime) -> list[tuple[Tracker, QuotaStatus]]:
        """Judge the trackers of an hour; those of hours long past are dropped. Returns each with its status."""
        self.open.remove(hour)
        judged = []
        for tracker in self.hours[hour].values():
            counts = tracker.counts
            if counts.required:
                interrupted = (tracker.key.olt_id, hour) in self.interrupted
                status = quota.judge_owed(counts, tracker.lost, interrupted=interrupted)
                tracker.status = status
                if self.watched is None or tracker.key.olt_id in self.watched:
                    self._sum_up(tracker, counts, status)
                judged.append((tracker, status))
        if self.keep is not None:
            self._forget(hour - self.keep * HOUR)
        return judged

    def _sum_up(self, tracker: Tracker, counts: Counts, status: QuotaStatus) -> None:
        sums, name = self.verdicts, (tracker.key.olt_id, tracker.key.task_type)
        sums.hours += 1
        sums.required += counts.required
        sums.completed += counts.completed
        sums.at_risk += tracker.was_at_risk
        sums.statuses[status] += 1
        severity = quota.severity(quota.owed(counts, tracker.lost))
        if severity is not None and status is not QuotaStatus.INTERRUPTED:
            sums.severities[severity] += 1
        sums.losses.update(tracker.lost)
        task = sums.by_task.setdefault(name, Counter())
        task["required"] += counts.required
        task["completed"] += counts.completed

    def _forget(self, before: datetime) -> None:
        old = [hour for hour in self.hours if hour < before and hour not in self.open]
        for hour in old:
            if not any(tracker.pending for tracker in self.hours[hour].values()):
                del self.hours[hour]
        self.interrupted = {(olt, hour) for olt, hour in self.interrupted if hour >= before}

    def all(self) -> Iterator[Tracker]:
        """Every tracker that is kept."""
        for trackers in self.hours.values():
            yield from trackers.values()


def settlements_of_skip(
    node: Node, first: datetime, last: datetime, count: int, cause: LossCause, times: Times
) -> Iterator[Settlement]:
    """Skipped slots by the hours that they belong to. The firings of a cron line need not be evenly spaced."""
    if node.cron and count > 1:
        hours = Counter(map(quota.hour_of, times(node.cron, first - TICK, last)))
    else:
        hours = Counter(quota.slots_by_hour(first, last, count))
    for hour, slots in hours.items():
        yield Settlement(TrackerKey(node.olt.olt_id, node.task_type, hour), None, cause, slots)
