"""The start page and the pulse strip. Parse, query, render."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

from flask import Blueprint, Response, flash, redirect, url_for
from flask_babel import gettext as _
from flask_babel import ngettext
from flask_login import current_user
from markupsafe import Markup
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import Role, Severity
from portal.queries import dashboard, first_run
from portal.queries.dashboard import HourRuns, PoolPoint
from portal.queries.first_run import FirstRun
from portal.queries.pollers import StatsPoint
from portal.queries.pulse import read as read_pulse
from portal.services import first_run as service
from portal.web import charts, live
from portal.web.access import requires
from portal.web.formatting import hour_span, now, number
from portal.web.words import face

bp = Blueprint("dashboard", __name__)

EDGE, GAP = timedelta(seconds=30), timedelta(minutes=2)  # a point each 30 s
BAR_WIDTH, BAR_STEP = 11, 14.4  # of 25 hours in a box of charts.WIDTH


class Step(NamedTuple):
    """One of the first steps. `url` "" = it cannot be done yet, or not by this person."""

    title: str
    text: str
    done: bool
    url: str
    action: str


class Bar(NamedTuple):
    """One hour of the chart of runs: its edge, and (class, y, height) of each part from the bottom up."""

    x: float
    parts: list[tuple[str, float, float]]
    title: str


def _title(counts: dict[str, int]) -> str:
    if not counts.get(""):
        return _("No OLT yet")
    up, lost = counts.get("up", 0) + counts.get("failing", 0), counts.get("unreachable", 0)
    responding = ngettext("%(n)s OLT responds", "%(n)s OLTs respond", up, n=number(up))
    missing = ngettext("%(n)s unreachable", "%(n)s unreachable", lost, n=number(lost))
    return f"{responding}, {missing}"


def _lead(counts: dict[str, int]) -> Markup:
    """The groups of OLTs that are not simply read, each as the way to its list."""
    lost = counts.get("unreachable", 0)
    words = {
        "refused": _("with a refused credential"),
        "other_device": _("with another device"),
        "failing": _("with failures"),
        "paused": _("paused"),
        "unknown": _("not read yet"),
        "disabled": _("disabled"),
    }
    others = {"unreachable": ngettext("%(n)s unreachable", "%(n)s unreachable", lost, n=number(lost))}
    others |= {state: f"{number(counts.get(state, 0))} {word}" for state, word in words.items()}
    link = Markup('<a href="{}">{}</a>')
    shown = [link.format(url_for("olts.index", state=key), text) for key, text in others.items() if counts.get(key)]
    return Markup(" · ").join(shown)


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """The state of everything at a glance. Live."""
    found, box = dashboard.overview(now()), charts.window(now(), dashboard.HOUR, EDGE, GAP)
    beat = read_pulse(now())
    return live.render(
        "dashboard/index.html",
        title=_title(found.counts),
        lead=_lead(found.counts),
        overview=found,
        beat=beat,
        pulse=lambda: beat,
        steps=_steps(first_run.read()),
        busy=charts.busy(_as_stats(found.pool), box),
        waiting=charts.waiting(_as_stats(found.pool), box),
        late=_late(found.pool, box),
        bars=_bars(found.hours),
        runs=found.hours,
        limit=charts.saturation_height(),
        violation_words=_severities,
    )


@bp.post("/first-steps/hide")
@requires(Role.OPERATOR)
def hide_first_steps() -> BaseResponse:
    """Put the list of first steps away, for everybody."""
    service.dismiss(current_user.username, now())
    flash(_("The first steps are put away."), "success")
    return redirect(url_for("dashboard.index"), 303)


@bp.get("/pulse")
@requires(Role.VIEWER)
def pulse() -> Response:
    """The strip at the top of every page. Live."""
    return live.render("partials/pulse.html")


# -- first steps


def _steps(first: FirstRun) -> list[Step]:
    """From the first credential to the first live ONU; none once that is reached or the list was put away."""
    if first.over:
        return []
    there = first.olt_id is not None
    flow = url_for("workflows.detail", olt_id=first.olt_id) if there else ""
    page = url_for("olts.detail", olt_id=first.olt_id) if there else ""
    return [
        Step(_("Store an SNMP credential"), _("The community or SNMPv3 user with which OLTs are read."),
             first.credential, url_for("credentials.create"), _("Create credential")),
        Step(_("Add an OLT"),
             _("Its management address and SNMP credential; the connection can be tested before saving."), there,
             url_for("olts.new") if first.credential else "", _("Add OLT")),
        Step(_("Test the connection"), _("The OLT says who it is, which tells brand and model."),
             first.tested, page, _("Open the OLT")),
        Step(_("Give it a workflow"), _("A discovery that lists its ONUs, then the readings, each with its interval."),
             first.planned, flow, _("Open the workflow")),
        Step(_("Watch it run"), _("One composite at a time per OLT; every run leaves its steps here."),
             first.ran, flow if first.planned else "", _("Run now")),
        Step(_("See the first ONU live"), _("The discovery brings each ONU with its state and position."),
             first.live, url_for("onus.index") if first.ran else "", _("ONUs")),
    ]  # fmt: skip


def _severities(found: Iterable[tuple[Severity, int]]) -> str:
    """Critical 2, High 1."""
    return ", ".join(f"{face(severity).label} {number(count)}" for severity, count in found)


# -- charts


def _as_stats(pool: list[PoolPoint]) -> list[StatsPoint]:
    return [StatsPoint(point.at, point.busy_percent, point.waiting) for point in pool]


def _late(pool: list[PoolPoint], box: charts.Window) -> charts.Curve:
    """Runs that began late, a minute. The sum falls when a poller ends: that is no run."""
    rates = [
        (after.at, max(0, after.late - before.late) * 60 / max(1.0, (after.at - before.at).total_seconds()))
        for before, after in pairwise(pool)
    ]
    return charts.curve(rates, box, charts.round_above(max((rate for _at, rate in rates), default=0)))


def _bars(hours: list[HourRuns]) -> list[Bar]:
    """Each hour as a stack: done, then failed, then skipped; empty when nothing was promised at all."""
    most = max((hour.total for hour in hours), default=0)
    return [_bar(place * BAR_STEP, hour, most) for place, hour in enumerate(hours)] if most else []


def _bar(x: float, hour: HourRuns, most: int) -> Bar:
    parts, top = [], charts.HEIGHT
    for name, count in (("done", hour.done), ("failed", hour.failed), ("skipped", hour.skipped)):
        height = count / most * charts.HEIGHT
        top -= height
        if count:
            parts.append((name, round(top, 1), round(height, 1)))
    return Bar(round(x, 1), parts, f"{hour_span(hour.hour)}: {_told(hour)}")


def _told(hour: HourRuns) -> str:
    return _("%(done)s done, %(failed)s failed, %(skipped)s skipped", done=number(hour.done),
             failed=number(hour.failed), skipped=number(hour.skipped))  # fmt: skip
