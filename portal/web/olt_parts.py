"""Pages of an OLT's ports, cards and of itself: what is read of them, and one reading over time."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from flask import Blueprint, Response, abort, render_template
from flask_babel import lazy_gettext as _l

from portal.domain.series import Step, thinned
from portal.domain.statuses import Role
from portal.queries import parts
from portal.queries.parts import Part, Reading
from portal.web import args, live, metrics
from portal.web.access import requires
from portal.web.formatting import day, duration_s, now, number, zone
from portal.web.onu_power import SPANS, begin
from portal.web.workflow_answers import olt_or_404

bp = Blueprint("olt_parts", __name__, url_prefix="/olts")

WIDTH, HEIGHT = 600.0, 180.0
# What an operator looks for first; what else there is follows by its name.
FIRST = (
    "pon_port_state", "pon_port_admin_state", "if_oper_status", "pon_port_tx_power", "pon_port_tx_power_sfp",
    "pon_port_rx_power", "pon_port_temperature", "pon_port_onu_count", "pon_port_onu_online_count", "card_name",
    "card_type", "card_state", "card_temperature", "card_cpu", "card_memory", "system_temperature", "system_cpu",
    "sys_up_time", "system_version",
)  # fmt: skip
MOST_COLUMNS = 8
# Over a column of a table of ports or cards, which needs no telling of what.
HEADS = {
    "pon_port_state": _l("State"), "pon_port_admin_state": _l("Administrative state"),
    "pon_port_name": _l("Name"), "pon_port_description": _l("Description"), "pon_port_onu_count": _l("ONUs"),
    "pon_port_onu_online_count": _l("ONUs online"), "pon_port_tx_power": _l("Sent"),
    "pon_port_rx_power": _l("Received"), "pon_port_temperature": _l("Temperature"), "pon_port_voltage": _l("Voltage"),
    "pon_port_bias_current": _l("Bias current"), "card_name": _l("Name"), "card_state": _l("State"),
    "card_type": _l("Type"), "card_serial": _l("Serial number"), "card_temperature": _l("Temperature"),
    "card_cpu": _l("Processor"), "card_memory": _l("Memory"), "card_port_count": _l("Ports"),
}  # fmt: skip
EDGE = 0.04  # of the width: no tick so near the ends, whose label would be cut


class Plot(NamedTuple):
    """A reading over time as stretches of points in a box of WIDTH × HEIGHT, the hours' ranges as bands, and its scale.

    `ticks`: height and value of the lines across; `times`: place and words of those that go up.
    """

    lines: tuple[str, ...]
    bands: tuple[str, ...]
    ticks: tuple[tuple[float, float], ...]
    times: tuple[tuple[float, str], ...]
    low: float
    high: float


@bp.get("/<int:olt_id>/parts")
@requires(Role.VIEWER)
def all_of(olt_id: int) -> Response:
    """Its ports, cards and itself, by their latest readings. Live."""
    olt, found = olt_or_404(olt_id), parts.of_olt(olt_id)
    columns = {"port_columns": columns_of(found.ports), "card_columns": columns_of(found.cards)}  # metric → its name
    itself = sorted(found.itself, key=lambda reading: _order(reading.metric))
    return live.render(
        "olts/panel.html", olt=olt, panel="parts", parts=found, itself=itself, words=words, label=label, **columns
    )  # fmt: skip


@bp.get("/<int:olt_id>/parts/<metric>")
@requires(Role.VIEWER)
def over_time(olt_id: int, metric: str) -> str:
    """One reading of one part over ?span= (day, week, month); ?index= names the part."""
    olt, span = olt_or_404(olt_id), args.word("span", SPANS, "month")
    known = parts.reading(olt_id, metric, args.text("index"))
    if known is None:
        abort(404)
    reading, name = known
    since = begin(span, now())
    plot = plotted(parts.history(olt_id, metric, reading.index, since, now()), since, now(), reading.read_at)
    return render_template(
        "olts/part.html", olt=olt, reading=reading, name=name, label=label, words=words, plot=plot, span=span,
        spans=[(key, word) for key, (word, _length) in SPANS.items()], width=WIDTH, height=HEIGHT,
        axis=lambda value: figure(value, reading.unit),
    )  # fmt: skip


def columns_of(found: Sequence[Part]) -> dict[str, str]:
    """Metrics that any of them has, with their names, those first that are looked for first."""
    known = {metric for part in found for metric in part.readings}
    return {metric: str(HEADS.get(metric) or label(metric)) for metric in sorted(known, key=_order)[:MOST_COLUMNS]}


def _order(metric: str) -> tuple[int, str]:
    return (FIRST.index(metric) if metric in FIRST else len(FIRST), metric)


def label(metric: str) -> str:
    """What it is called."""
    return str(metrics.metric(metric).label)


def words(reading: Reading) -> str:
    """Its value for people, with its unit; "" where there is none."""
    if reading.text is not None:
        return str(metrics.value_word(reading.text, reading.metric))
    digits = metrics.metric(reading.metric).digits  # the same all down a column
    return figure(reading.number, reading.unit, digits) if reading.number is not None else ""


def figure(value: float, unit: str, digits: int | None = None) -> str:
    """A number with its unit: without `digits` whole ones have no decimals; seconds as days and hours."""
    if unit == "s":
        return duration_s(value)
    digits = digits if digits is not None else {"dBm": 1, "V": 2}.get(unit, 0 if value == int(value) else 1)
    return f"{number(value, digits)}\u202f{unit}" if unit else number(value, digits)


def plotted(steps: Sequence[Step], since: datetime, now: datetime, until: datetime) -> Plot | None:
    """The picture of a reading; None when nothing was read in that time. `until`: when it was read last."""
    drawn = [step for step in thinned(list(steps)) if step.at < now]
    ranges = [step.range for step in drawn if step.range is not None]
    if not ranges or until <= since:
        return None
    low, high = min(least for least, _ in ranges), max(most for _, most in ranges)
    step = _step((high - low) or max(abs(high) * 0.1, 1.0))
    bottom, top = (low // step) * step, (high // step + 1) * step
    scale = _Scale(since, now, bottom, top)
    return Plot(
        tuple(_lines(drawn, scale, min(until, now))), tuple(_bands(drawn, scale)),
        tuple((scale.y(value), value) for value in _between(bottom, top, step)), tuple(_times(scale)), low, high,
    )  # fmt: skip


def _times(scale: "_Scale") -> Iterator[tuple[float, str]]:
    """Weeks of a month, days of a week, quarters of a day, by the portal's clock."""
    length = scale.now - scale.since
    hours = 6 if length <= timedelta(days=2) else 24 if length <= timedelta(days=8) else 7 * 24
    local = scale.since.astimezone(zone()).replace(hour=0, minute=0, second=0, microsecond=0)
    while (at := local.astimezone(UTC)) < scale.now:
        if EDGE < (x := scale.x(at) / WIDTH) < 1 - 2 * EDGE:
            yield round(100 * x, 2), f"{local:%H:%M}" if hours < 24 else day(at)
        local += timedelta(hours=hours)


class _Scale(NamedTuple):
    since: datetime
    now: datetime
    bottom: float
    top: float

    def x(self, at: datetime) -> float:
        share = (min(max(at, self.since), self.now) - self.since) / (self.now - self.since)
        return round(share * WIDTH, 1)

    def y(self, value: float) -> float:
        return round((self.top - value) / (self.top - self.bottom) * HEIGHT, 1)


def _lines(steps: Sequence[Step], scale: _Scale, end: datetime) -> list[str]:
    """Stretches with a value, as steps: each holds until the next."""
    found: list[list[str]] = [[]]
    for at, step in enumerate(steps):
        if step.value is None:
            found.append([])
            continue
        until = steps[at + 1].at if at + 1 < len(steps) else end
        y = scale.y(step.value)
        found[-1] += [f"{scale.x(step.at)},{y}", f"{scale.x(max(until, step.at))},{y}"]
    return [" ".join(points) for points in found if points]


def _bands(steps: Sequence[Step], scale: _Scale) -> list[str]:
    """The range of each hour that has one: x, y, width, height."""
    found = []
    for step, after in zip(steps, steps[1:], strict=False):
        least, most = step.range or (0.0, 0.0)
        if least < most:
            x, y = scale.x(step.at), scale.y(most)
            found.append(f"M{x} {y}H{max(scale.x(after.at), x + 1)}V{scale.y(least)}H{x}Z")
    return found


def _step(height: float) -> float:
    """A round distance of lines, three to six in that height."""
    size = 10.0 ** (len(str(int(height))) - 1) if height >= 1 else 0.1
    return next(size * factor for factor in (0.2, 0.5, 1, 2, 5, 10) if height / (size * factor) <= 5)


def _between(bottom: float, top: float, step: float) -> list[float]:
    return [bottom + step * at for at in range(round((top - bottom) / step) + 1)]
