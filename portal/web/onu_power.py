"""The power chart of an ONU: its spans, what the script draws as JSON, and the same as a picture. No queries."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from flask_babel import LazyString
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l

from portal.domain.series import Step, thinned
from portal.queries.onu_power import SERIES, Power
from portal.queries.onus import OLT_RX, RX
from portal.web import metrics, onu_events

SPANS: dict[str, tuple[LazyString, timedelta]] = {
    "day": (_l("Day"), timedelta(days=1)),
    "week": (_l("Week"), timedelta(days=7)),
    "month": (_l("Month"), timedelta(days=30)),
}
USUAL = "week"
NOTHING = Step(datetime.fromtimestamp(0, UTC), None)


class Line(NamedTuple):
    """One series of the picture. `kind`: rx or olt; `label` names it beside the line."""

    kind: str
    label: str
    chart: metrics.Chart


def begin(span: str, now: datetime) -> datetime:
    """When the span that ends now began."""
    return now - SPANS[span][1]


def _named() -> dict[str, tuple[str, str]]:
    return {RX: ("rx", _("ONU receives")), OLT_RX: ("olt", _("OLT receives"))}


def picture(power: Power, since: datetime, now: datetime) -> list[Line]:
    """What is drawn where no script draws it; [] when nothing was read in the span."""
    charts = ((name, metrics.chart(thinned(power.samples[name]), since, now, _until(power, name))) for name in SERIES)
    return [Line(*_named()[name], made) for name, made in charts if made is not None]


def _until(power: Power, metric: str) -> datetime | None:
    """Until when the last value holds: it was read then, though perhaps it did not change."""
    moments = [at for at in (power.read_at.get(metric), *(one.at for one in power.samples[metric][-1:])) if at]
    return max(moments) if moments else None


def as_json(power: Power, since: datetime, now: datetime) -> dict[str, Any]:
    """{"from", "to", "x": [s…], "series": [{"kind", "label", "y", "least", "most"}], "marks": [{"t", "look", "text"}]}.

    Times in seconds since 1970. Each series has dBm or null for each x: what it is from then on, and the least and the
    greatest value where that is an hour's mean; null is no reading.
    """
    low, high = int(since.timestamp()), int(now.timestamp())
    steps = {name: _steps(thinned(power.samples[name]), low, high, _until(power, name)) for name in SERIES}
    x = sorted({at for points in steps.values() for at, _step in points})
    series = [
        {"kind": _named()[name][0], "label": _named()[name][1], **_held(points, x)}
        for name, points in steps.items()
        if any(step.value is not None for _at, step in points)
    ]
    marks = [
        {"t": int(at.timestamp()), "look": onu_events.look(kind, after), "text": onu_events.short(kind, after)}
        for at, kind, after in power.marks
    ]
    return {"from": low, "to": high, "x": x, "series": series, "marks": marks}


def _steps(samples: Sequence[Step], low: int, high: int, until: datetime | None) -> list[tuple[int, Step]]:
    """(second, what holds from then on), inside the span. Where a reading ends its last value stands once more."""
    found: list[tuple[int, Step]] = []
    held: Step | None = None
    for step in samples:
        at = min(max(int(step.at.timestamp()), low), high)
        if step.value is None and held is not None and held.value is not None:
            found += [(at, held), (at + 1, step)]
        else:
            found.append((at, step))
        held = step
    if held is not None and held.value is not None:
        end = high if until is None else min(max(int(until.timestamp()), low), high)
        found += [(end, held), (end + 1, NOTHING)]
    return found


def _held(points: Sequence[tuple[int, Step]], x: Sequence[int]) -> dict[str, list[float | None]]:
    """The value at each of `x`, and its range: those of the last point until then."""
    values: dict[str, list[float | None]] = {"y": [], "least": [], "most": []}
    held, at = NOTHING, 0
    for moment in x:
        while at < len(points) and points[at][0] <= moment:
            held, at = points[at][1], at + 1
        least, most = held.range or (None, None)
        for name, value in (("y", held.value), ("least", least), ("most", most)):
            values[name].append(value if value is None else round(value, 2))
    return values
