"""Which slots a skip in the decision log stands for: those of a cron line need not be evenly spaced. Reads no table."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from portal import cron

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True)
class Span:
    """`count` slots from `first` to `last`. `line`: the cron line that made them; None = evenly spaced.

    `uneven`: of a cron line that the row does not name (it is older than this field): only the ends are known.
    """

    first: datetime
    last: datetime
    count: int
    line: str | None = None
    uneven: bool = False

    def between(self, since: datetime, until: datetime, most: int) -> list[datetime]:
        """Those in [since, until), `most` at most."""
        begin, end = max(since, self.first), min(until, self.last + _INSTANT)
        if begin >= end:
            return []
        if self.count < 2 or self.uneven:
            return [slot for slot in sorted({self.first, self.last}) if begin <= slot < end]
        if self.line is not None:
            return list(cron.firings(self.line, begin - _INSTANT, end - _INSTANT)[:most])
        step = (self.last - self.first) / (self.count - 1)
        passed = -((self.first - begin) // step)
        slots = (self.first + number * step for number in range(passed, min(self.count, passed + most)))
        return [slot for slot in slots if slot < end]

    def latest(self, at: datetime) -> datetime | None:
        """The last one at or before `at`."""
        if at < self.first or self.count < 2:
            return self.last if at >= self.last else None
        if at >= self.last:
            return self.last
        if self.uneven:
            return self.first
        if self.line is not None:
            return cron.latest_firing(self.line, at)
        step = (self.last - self.first) / (self.count - 1)
        return self.first + (at - self.first) // step * step


def span(details: Mapping[str, Any], last: datetime) -> Span:
    """The slots of a row that stands at `last`; where its details do not say, that one alone."""
    try:
        first, count = min(datetime.fromisoformat(details["first"]), last), int(details["slots"])
    except (KeyError, TypeError, ValueError):
        return Span(last, last, 1)
    line = details.get("cron")
    return Span(first, last, count, line if isinstance(line, str) else None, "hours" in details and line is None)
