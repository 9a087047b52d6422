"""The start page and the pulse strip. Parse, query, render."""

from datetime import timedelta

from flask import Blueprint, Response, url_for
from flask_babel import gettext as _
from flask_babel import ngettext
from markupsafe import Markup

from portal.domain.statuses import Role
from portal.queries import dashboard, quotas
from portal.web import charts, live
from portal.web.access import requires
from portal.web.formatting import now, number

bp = Blueprint("dashboard", __name__)

EDGE, GAP = timedelta(seconds=10), timedelta(minutes=1)  # the pool writes a point every ten seconds


def _title(counts: dict[str, int]) -> str:
    if not counts.get(""):
        return _("No OLT yet")
    up, lost = counts.get("up", 0), counts.get("unreachable", 0)
    responding = ngettext("%(n)s OLT responds", "%(n)s OLTs respond", up, n=number(up))
    missing = ngettext("%(n)s unreachable", "%(n)s unreachable", lost, n=number(lost))
    return f"{responding}, {missing}"


def _lead(counts: dict[str, int]) -> Markup:
    """The groups of OLTs that are not simply read, each as the way to its list."""
    lost = counts.get("unreachable", 0)
    words = {"paused": _("paused"), "unknown": _("not read yet"), "disabled": _("disabled")}
    others = {"unreachable": ngettext("%(n)s unreachable", "%(n)s unreachable", lost, n=number(lost))}
    others |= {state: f"{number(counts.get(state, 0))} {word}" for state, word in words.items()}
    link = Markup('<a href="{}">{}</a>')
    shown = [link.format(url_for("olts.index", state=key), text) for key, text in others.items() if counts.get(key)]
    return Markup(" · ").join(shown)


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """The state of everything at a glance. Live."""
    found = dashboard.overview(now())
    return live.render(
        "dashboard/index.html",
        title=_title(found.counts),
        lead=_lead(found.counts),
        overview=found,
        glance=quotas.glance(now()),
        busy=charts.busy(found.pool, charts.window(now(), dashboard.HOUR, EDGE, GAP)),
        limit=charts.saturation_height(),
    )


@bp.get("/pulse")
@requires(Role.VIEWER)
def pulse() -> Response:
    """The strip at the top of every page. Live."""
    return live.render("partials/pulse.html")
