"""The pollers page: pools, their pollers and their history; changing a pool's size, restarting a poller."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from flask import Blueprint, Response, abort, flash, redirect, request, url_for
from flask_babel import LazyString
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import Role
from portal.queries import pollers, pulse
from portal.queries.pollers import PollerRow, PoolRow, StatsPoint
from portal.services.dispatch import pool as service
from portal.services.errors import ServiceError
from portal.web import args, charts, live
from portal.web.access import requires
from portal.web.export import csv_file
from portal.web.formatting import day, hour, now, number
from portal.web.forms import refusal

bp = Blueprint("pollers", __name__, url_prefix="/pollers")


class Span(NamedTuple):
    """A stretch of history that can be chosen. The right edge moves by `edge`, and so often is it asked for.

    Points further apart than `gap` are not joined; the time axis has `parts`, `write` says what stands under it.
    """

    label: LazyString
    long: timedelta
    edge: timedelta
    gap: timedelta
    parts: int
    write: Callable[[datetime], str]


SPANS = {
    "1h": Span(_l("1 hour"), timedelta(hours=1), timedelta(seconds=10), timedelta(minutes=1), 4, hour),
    "24h": Span(_l("24 hours"), timedelta(days=1), timedelta(minutes=1), timedelta(minutes=30), 4, hour),
    "7d": Span(_l("7 days"), timedelta(days=7), timedelta(minutes=10), timedelta(hours=3), 7, day),
}


HEAD = (_l("Until"), _l("Busy (%)"), _l("Waiting, at most"))


class History(NamedTuple):
    """What the chart shows and says."""

    chosen: str
    every: int
    busy: charts.Curve
    waiting: charts.Curve
    ticks: list[str]
    table: list[StatsPoint]


def _title(beat: pulse.Pulse, pools: list[PoolRow]) -> str:
    if not beat.pollers:
        return _("No poller runs")
    full = [pool for pool in pools if pool.saturated]
    if len(full) == 1 and len(pools) > 1:
        return _("The pool %(name)s is saturated", name=full[0].name)
    if full:
        return _("The pool is saturated: %(busy)s of %(all)s busy", busy=number(beat.busy), all=number(beat.pollers))
    return _("%(busy)s of %(all)s pollers busy", busy=number(beat.busy), all=number(beat.pollers))


def _groups(pools: list[PoolRow]) -> list[tuple[PoolRow, list[PollerRow]]]:
    """Each pool with its pollers; one that went away and left no poller behind is not shown."""
    rows = pollers.rows(now())
    found = [(pool, [row for row in rows if row.pool_id == pool.id]) for pool in pools]
    return [(pool, members) for pool, members in found if pool.seen or members]


def _box() -> tuple[str, Span, charts.Window]:
    """The stretch that was chosen, and its edges now."""
    chosen = args.word("span", SPANS, "1h")
    span = SPANS[chosen]
    return chosen, span, charts.window(now(), span.long, span.edge, span.gap)


def _history() -> History:
    chosen, span, box = _box()
    points = pollers.history(box.since)
    marks = charts.ticks(box, span.parts, span.write)
    every = int(span.edge.total_seconds())
    return History(chosen, every, charts.busy(points, box), charts.waiting(points, box), marks, charts.table(points))


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """Who runs, what each holds, how busy it is, and how busy it was: ?span= of SPANS. Live."""
    beat, pools = pulse.read(now()), pollers.pools(now())
    return live.render(
        "pollers/index.html",
        title=_title(beat, pools),
        beat=beat,
        read_groups=lambda: _groups(pools),  # only the part of the page that is asked for reads it
        roomy=pollers.ROOMY_BELOW,
        largest=service.LARGEST_POOL,
        scheduler=pollers.scheduler(),
        read_history=_history,
        spans=[(key, span.label) for key, span in SPANS.items()],
        limit=charts.saturation_height(),
    )


@bp.get("/export.csv")
@requires(Role.VIEWER)
def export() -> Response:
    """The history of all pollers: the points of its chart, ?span= of SPANS."""
    rows = ([point.at, round(point.busy_percent, 2), point.waiting] for point in pollers.history(_box()[2].since))
    return csv_file(f"pollers-{now():%Y-%m-%d}.csv", HEAD, rows)


@bp.post("/pools/<int:pool_id>/size")
@requires(Role.ADMIN)
def scale(pool_id: int) -> BaseResponse:
    """How many pollers a pool shall keep: field `size`. It adds or ends some; the others are not touched."""
    pool = pollers.pool(pool_id) or abort(404)
    name, size = pool.name, request.form.get("size", type=int)
    try:
        service.scale(name, size or 0, current_user.username, now())
    except ServiceError as refused:
        flash(refusal(refused), "error")
    else:
        flash(_("Pool %(name)s: %(n)s pollers from now on.", name=name, n=number(size)), "success")
    return redirect(url_for("pollers.index"), 303)


@bp.post("/<int:poller_id>/restart")
@requires(Role.ADMIN)
def restart(poller_id: int) -> BaseResponse:
    """Ask a poller to end what it holds and start anew."""
    try:
        service.request_restart(poller_id, current_user.username, now())
    except ServiceError as refused:
        flash(refusal(refused), "error")
    else:
        flash(_("The poller starts anew as soon as it has ended what it holds."), "success")
    return redirect(url_for("pollers.index"), 303)
