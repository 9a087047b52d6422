"""What a run of the time machine came to, summed up so that it does not grow with time: delays, loads, skips. Pure."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from portal.domain import schedule
from portal.domain.statuses import ExecutionStatus, SkipReason
from scheduler.timemachine.world import Run

STEP = math.log(1.02)  # buckets of delays are 2 % wide


@dataclass
class Delays:
    """Delays by buckets of growing width: any quantile to 2 %, in a few hundred numbers at most."""

    buckets: Counter[int] = field(default_factory=Counter)
    count: int = 0

    def add(self, milliseconds: int) -> None:
        """One start."""
        self.buckets[int(math.log(milliseconds) / STEP) if milliseconds > 0 else -1] += 1
        self.count += 1

    def quantile(self, share: float) -> float:
        """Seconds that this share of the starts was not later than; 0 without any."""
        rest = math.ceil(share * self.count)
        for bucket in sorted(self.buckets):
            rest -= self.buckets[bucket]
            if rest <= 0:
                return 0.0 if bucket < 0 else round(math.exp((bucket + 0.5) * STEP) / 1000, 3)
        return 0.0


@dataclass
class Figures:
    """Sums from `since` on, of the OLTs `watched` (None: all) and of the pollers that serve them. Times in seconds."""

    since: datetime
    watched: frozenset[int] | None = None
    delays: Delays = field(default_factory=Delays)
    delayed: int = 0
    ended: Counter[ExecutionStatus] = field(default_factory=Counter)
    skipped: Counter[SkipReason] = field(default_factory=Counter)
    tries: int = 0
    olt_busy: Counter[int] = field(default_factory=Counter)  # OLT → seconds held
    pollers_busy: Counter[str] = field(default_factory=Counter)  # pollers of which site → seconds
    full_since: datetime | None = None
    full_seconds: float = 0.0  # no poller was free

    @property
    def composites(self) -> int:
        """Executions that came to an end."""
        return sum(self.ended.values())

    def started(self, run: Run) -> None:
        """A try begins; of the first one the delay counts."""
        if not self._counts(run.node.olt.olt_id):
            return
        self.tries += 1
        if run.attempt == 1 and run.delay_ms is not None and run.started_at is not None:
            self.delays.add(run.delay_ms)
            self.delayed += schedule.is_delayed(run.scheduled_for, run.started_at)

    def over(self, run: Run, status: ExecutionStatus) -> None:
        """An execution has come to its end."""
        if self._counts(run.node.olt.olt_id):
            self.ended[status] += 1

    def skip(self, olt_id: int, reason: SkipReason, slots: int) -> None:
        """Slots that do not run."""
        if self._counts(olt_id):
            self.skipped[reason] += slots

    def held(self, run: Run, now: datetime) -> None:
        """A try is over, or lasts to this moment."""
        if run.started_at is not None:
            seconds = (now - run.started_at).total_seconds()
            self.olt_busy[run.node.olt.olt_id] += seconds  # type: ignore[assignment]
            self.pollers_busy[run.poller[0]] += seconds  # type: ignore[assignment]

    def _counts(self, olt_id: int) -> bool:
        return self.watched is None or olt_id in self.watched

    def pool(self, free: int, now: datetime) -> None:
        """The number of free pollers that serve the watched OLTs changed."""
        if free == 0 and self.full_since is None:
            self.full_since = now
        elif free and self.full_since is not None:
            self.full_seconds += (now - self.full_since) / timedelta(seconds=1)
            self.full_since = None

    def full_share(self, now: datetime) -> float:
        """Percent of the time so far without a free poller."""
        lasting = (now - self.full_since) / timedelta(seconds=1) if self.full_since is not None else 0.0
        return 100 * (self.full_seconds + lasting) / max(1.0, (now - self.since) / timedelta(seconds=1))

    def busy_share(self, olt_id: int, now: datetime) -> float:
        """Percent of the time so far that an OLT was held."""
        return 100 * self.olt_busy[olt_id] / max(1.0, (now - self.since) / timedelta(seconds=1))

    def pool_share(self, pollers: Mapping[str, int], now: datetime) -> float:
        """Percent of the time so far of these pollers (site → how many) that they were busy."""
        busy, lived = sum(self.pollers_busy[group] for group in pollers), (now - self.since) / timedelta(seconds=1)
        return 100 * busy / max(1.0, sum(pollers.values()) * lived)
