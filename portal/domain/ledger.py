"""What the sums of one node say: its share of the OLT's time, what was new, and whether it is worth it. Pure."""

from dataclasses import dataclass
from enum import StrEnum

MUCH = 20.0  # percent of the OLT's time from which a node costs much …
WORTH_MS = 10 * 60 * 1000  # … if that is ten minutes a day at least
LITTLE = 1.0  # percent of the values below which little changed
ENOUGH_VALUES = 100  # of fewer a share says little
ENOUGH_RUNS = 4
DAY_HOURS = 24


class Verdict(StrEnum):
    """What is to be said of a node; nothing is said of most."""

    COSTLY = "costly"  # costs much, changes little: a longer interval would free the OLT
    FAILING = "failing"  # most of its runs fail: its time is spent for nothing


@dataclass(frozen=True)
class Sums:
    """What one node did over `hours`; `olt_ms`: what all nodes of its OLT cost meanwhile. Milliseconds."""

    runs: int
    failures: int
    duration_ms: int
    olt_ms: int
    values_read: int
    values_changed: int
    hours: float

    @property
    def share(self) -> float:
        """Percent of the OLT's time; 0 when none of its nodes cost any."""
        return 100 * self.duration_ms / self.olt_ms if self.olt_ms else 0.0

    @property
    def changed_percent(self) -> float | None:
        """Percent of the values read that said something new; None when nothing was read."""
        return 100 * self.values_changed / self.values_read if self.values_read else None

    @property
    def ms_a_day(self) -> float:
        """What it costs in 24 hours. Of less than one hour nothing is concluded: 0."""
        return self.duration_ms * DAY_HOURS / self.hours if self.hours >= 1 else 0.0

    @property
    def freed_ms(self) -> float:
        """What reading half as often would free in a day."""
        return self.ms_a_day / 2

    @property
    def verdict(self) -> Verdict | None:
        """The one thing to say of it, or None."""
        if self.runs >= ENOUGH_RUNS and self.failures * 2 > self.runs:
            return Verdict.FAILING
        changed = self.changed_percent
        little = changed is not None and self.values_read >= ENOUGH_VALUES and changed < LITTLE
        much = self.share >= MUCH and self.ms_a_day >= WORTH_MS
        return Verdict.COSTLY if much and little else None
