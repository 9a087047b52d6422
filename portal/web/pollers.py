"""The pollers page. Parse, query, render."""

from flask import Blueprint, Response
from flask_babel import gettext as _

from portal.domain.statuses import Role
from portal.queries import pollers, pulse
from portal.web import live
from portal.web.access import requires
from portal.web.formatting import now, number

bp = Blueprint("pollers", __name__, url_prefix="/pollers")


def _title(beat: pulse.Pulse) -> str:
    if not beat.pollers:
        return _("No poller runs")
    if beat.saturated:
        return _("The pool is saturated: %(busy)s of %(all)s busy", busy=number(beat.busy), all=number(beat.pollers))
    return _("%(busy)s of %(all)s pollers busy", busy=number(beat.busy), all=number(beat.pollers))


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """Who runs, what each holds, how busy it is. Live."""
    beat = pulse.read(now())
    return live.render(
        "pollers/index.html",
        title=_title(beat),
        beat=beat,
        rows=pollers.rows(now()),
        scheduler=pollers.scheduler(),
    )
