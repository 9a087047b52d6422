"""The start page and the pulse strip. Parse, query, render."""

from flask import Blueprint, Response
from flask_babel import gettext as _
from flask_babel import ngettext

from portal.domain.statuses import Role
from portal.queries import dashboard
from portal.web import live
from portal.web.access import requires
from portal.web.formatting import now, number

bp = Blueprint("dashboard", __name__)


def _title(counts: dict[str, int]) -> str:
    if not counts.get(""):
        return _("No OLT yet")
    up, lost = counts.get("up", 0), counts.get("unreachable", 0)
    responding = ngettext("%(n)s OLT responds", "%(n)s OLTs respond", up, n=number(up))
    missing = ngettext("%(n)s unreachable", "%(n)s unreachable", lost, n=number(lost))
    return f"{responding}, {missing}"


def _lead(counts: dict[str, int]) -> str:
    others = (
        (counts.get("unknown", 0), _("not read yet")),
        (counts.get("paused", 0), _("paused")),
        (counts.get("disabled", 0), _("disabled")),
    )
    return " · ".join(f"{number(amount)} {word}" for amount, word in others if amount)


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
        lines=dashboard.spark(found.pool, now()),
        limit=dashboard.saturated_line(),
    )


@bp.get("/pulse")
@requires(Role.VIEWER)
def pulse() -> Response:
    """The strip at the top of every page. Live."""
    return live.render("partials/pulse.html")
