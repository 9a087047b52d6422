"""Lines of charts as points of an SVG box, and what their axes say. Drawing only: no queries, no colours."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from portal.domain.pool import SATURATED_ABOVE
from portal.queries.pollers import StatsPoint

WIDTH, HEIGHT = 360.0, 100.0
TABLE_ROWS = 24


class Line(NamedTuple):
    """One unbroken stretch: `points` as SVG wants them, and the same closed down to the bottom as an area."""

    points: str
    area: str


class Curve(NamedTuple):
    """The stretches of one value over time; `top` is the value at the upper edge, `last` the newest (None: none)."""

    lines: tuple[Line, ...]
    top: float
    last: float | None
    highest: float | None


class Window(NamedTuple):
    """What is drawn: from `since` to `until`; points further apart than `gap` are not joined."""

    since: datetime
    until: datetime
    gap: timedelta


def window(now: datetime, span: timedelta, edge: timedelta, gap: timedelta) -> Window:
    """The last `span`. The right edge moves in steps of `edge`: else each look at the page would differ."""
    until = datetime.fromtimestamp(now.timestamp() // edge.total_seconds() * edge.total_seconds(), now.tzinfo)
    return Window(until - span, until, gap)


def curve(points: Iterable[tuple[datetime, float]], box: Window, top: float) -> Curve:
    """The values as lines in a box of WIDTH × HEIGHT, kept inside it. A stretch of one point is not drawn."""
    known = [(at, value) for at, value in points if at > box.since]
    stretches: list[list[tuple[datetime, float]]] = []
    for at, value in known:
        if not stretches or at - stretches[-1][-1][0] > box.gap:
            stretches.append([])
        stretches[-1].append((at, value))
    drawn = tuple(_line(stretch, box, top) for stretch in stretches if len(stretch) > 1)
    values = [value for _at, value in known]
    return Curve(drawn, top, values[-1] if values else None, max(values, default=None))


def _line(stretch: Sequence[tuple[datetime, float]], box: Window, top: float) -> Line:
    span = box.until - box.since
    xs = [min(WIDTH, (at - box.since) / span * WIDTH) for at, _value in stretch]
    ys = [HEIGHT - min(1.0, value / top) * HEIGHT for _at, value in stretch]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    return Line(points, f"{xs[0]:.1f},{HEIGHT:.0f} {points} {xs[-1]:.1f},{HEIGHT:.0f}")


def busy(points: Sequence[StatsPoint], box: Window) -> Curve:
    """Busy percent, the upper edge is 100 %."""
    return curve(((point.at, point.busy_percent) for point in points), box, 100.0)


def waiting(points: Sequence[StatsPoint], box: Window) -> Curve:
    """Composites that waited; the upper edge is a round number above the highest."""
    return curve(((point.at, float(point.waiting)) for point in points), box, round_above(_highest(points)))


def _highest(points: Sequence[StatsPoint]) -> int:
    return max((point.waiting for point in points), default=0)


def round_above(value: float) -> float:
    """The smallest of 4, 10, 20, 40, 100, 200, 400 … that is not below `value`."""
    step = 1.0
    while True:
        for factor in (4, 10, 20):
            if value <= factor * step:
                return factor * step
        step *= 10


def saturation_height() -> float:
    """Height of the line of saturation in the box of `busy`."""
    return HEIGHT - SATURATED_ABOVE / 100 * HEIGHT


def ticks(box: Window, parts: int, write: Callable[[datetime], str]) -> list[str]:
    """What stands under the box from its left to its right edge, evenly spaced: parts + 1 texts."""
    step = (box.until - box.since) / parts
    return [write(box.since + step * n) for n in range(parts + 1)]


def table(points: Sequence[StatsPoint]) -> list[StatsPoint]:
    """The points as at most TABLE_ROWS lines, newest first: what the chart shows, for those who do not see it."""
    every = max(1, -(-len(points) // TABLE_ROWS))
    return [_together(points[max(0, end - every) : end]) for end in range(len(points), 0, -every)]


def _together(points: Sequence[StatsPoint]) -> StatsPoint:
    mean = sum(point.busy_percent for point in points) / len(points)
    return StatsPoint(points[-1].at, mean, _highest(points))
