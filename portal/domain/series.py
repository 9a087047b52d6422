"""The history of a reading: a value holds from its moment until the next one; old hours are one row each. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import NamedTuple

SINGLE, SETTLED, HOUR = 0, 1, 3600
"""`span` of a row: one reading; one reading that was its hour's only change and stays as it is; an hour of readings."""
MOST_STEPS = 750  # of one series on a chart
_KEPT_OF_BUCKET = 5  # first, last, least, greatest, and where the reading stopped
RAW_AGE = timedelta(hours=48)
"""Hours that ended longer ago are gathered, on charts and in the table alike."""


class Row(NamedTuple):
    """What a reading was from `at` on. Of one reading mean, minimum, maximum and last are the same.

    Of an hour they are over the time with a value, weighted by it, with what held when the hour began; `last` is what
    held when it ended. None is no value; `without` the seconds of the hour that had none.
    """

    at: datetime
    mean: float | None
    minimum: float | None
    maximum: float | None
    last: float | None
    samples: int = 1
    span: int = SINGLE
    without: int = 0


VALUES = Row._fields[1:]
"""Names of all but the moment, in their order."""


class Step(NamedTuple):
    """A value that holds from `at` until the next one, None for none; of an hour its `least` and `most` too."""

    at: datetime
    value: float | None
    least: float | None = None
    most: float | None = None

    @property
    def range(self) -> tuple[float, float] | None:
        """The least and the greatest value; None without one."""
        if self.value is None:
            return None
        least, most = self.least, self.most
        return self.value if least is None else least, self.value if most is None else most


def single(at: datetime, value: float | None) -> Row:
    """The row of one reading."""
    return Row(at, *values_of(value))


def values_of(value: float | None) -> tuple[float | None, float | None, float | None, float | None, int, int, int]:
    """VALUES of one reading."""
    return (value, value, value, value, 1, SINGLE, 0)


def hour_of(moment: datetime) -> datetime:
    """The beginning of the hour in which it lies."""
    return moment.replace(minute=0, second=0, microsecond=0)


def gathering_edge(now: datetime) -> datetime:
    """Readings before it are gathered by the hour."""
    return hour_of(now - RAW_AGE)


def gathered(rows: Sequence[Row], carried: float | None) -> list[Row]:
    """The rows of one hour of one series, oldest first, as they are kept for long. `carried`: what held before them.

    The only change of an hour stays as it is: a row that sums it up would say less. More than one become one row.
    """
    if len(rows) == 1:
        (only,) = rows
        return [only if only.span == HOUR else only._replace(span=SETTLED)]
    begin = hour_of(rows[0].at)
    end = begin + timedelta(seconds=HOUR)
    parts = [(begin, single(begin, carried)), *((row.at, row) for row in rows), (end, single(end, None))]
    held = [((until - at).total_seconds(), row) for (at, row), (until, _) in pairwise(parts)]
    known = [(seconds, row) for seconds, row in held if row.mean is not None and (seconds or row.span == HOUR)]
    total = sum(seconds for seconds, _ in known)
    if not known or not total:
        return [Row(begin, None, None, None, rows[-1].last, _samples(rows), HOUR, HOUR)]
    mean = sum(seconds * (row.mean or 0.0) for seconds, row in known) / total
    least = min(row.minimum for _, row in known if row.minimum is not None)
    most = max(row.maximum for _, row in known if row.maximum is not None)
    return [Row(begin, mean, least, most, rows[-1].last, _samples(rows), HOUR, round(HOUR - total))]


def _samples(rows: Iterable[Row]) -> int:
    return sum(row.samples for row in rows)


def settled(rows: Iterable[Row], edge: datetime) -> Iterator[Row]:
    """The rows of one series, oldest first, as they are or will be kept once all before `edge` is gathered."""
    carried: float | None = None
    for begin, members in groupby(rows, key=lambda row: hour_of(row.at)):
        hour = list(members)
        yield from gathered(hour, carried) if begin < edge else hour
        carried = hour[-1].last


def steps(rows: Iterable[Row], edge: datetime) -> Iterator[Step]:
    """What charts draw: each change at its moment; an hour that was gathered as its mean, then what held at its end."""
    for row in settled(rows, edge):
        if row.span != HOUR:
            yield Step(row.at, row.last)
            continue
        yield Step(row.at, row.mean, row.minimum, row.maximum)
        yield Step(row.at + timedelta(seconds=HOUR), row.last)


def thinned(all_steps: Sequence[Step], most: int = MOST_STEPS) -> list[Step]:
    """At most about `most` of the steps, so that neither a dip nor a gap is lost.

    Of equal times each keeps the first, the last, the least, the greatest, and the first without a value.
    """
    if len(all_steps) <= most:
        return list(all_steps)
    start, buckets = all_steps[0].at, most // _KEPT_OF_BUCKET
    width = max((all_steps[-1].at - start).total_seconds() / buckets, 1.0)
    groups: dict[int, list[Step]] = {}
    for step in all_steps:
        groups.setdefault(int((step.at - start).total_seconds() // width), []).append(step)
    return [step for group in groups.values() for step in _telling(group)]


def _telling(group: Sequence[Step]) -> list[Step]:
    values = [step for step in group if step.value is not None]
    stops = [step for step in group if step.value is None]
    telling = {group[0], group[-1], *stops[:1]}
    if values:
        telling |= {min(values, key=_least), max(values, key=_most)}
    return [step for step in group if step in telling]  # an hour's end and the next one's begin are of one moment


def _least(step: Step) -> float:
    return step.range[0] if step.range else 0.0


def _most(step: Step) -> float:
    return step.range[1] if step.range else 0.0
