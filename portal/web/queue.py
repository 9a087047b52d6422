"""The queue page. Parse, query, render."""

from flask import Blueprint, Response
from flask_babel import gettext as _
from flask_babel import ngettext

from portal.domain.statuses import Role
from portal.queries import pulse, queue
from portal.web import live
from portal.web.access import requires
from portal.web.formatting import now, number

bp = Blueprint("queue", __name__, url_prefix="/queue")


def _title(waiting: int) -> str:
    if not waiting:
        return _("Nothing waits")
    return ngettext("%(n)s composite waits", "%(n)s composites wait", waiting, n=number(waiting))


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """The next composites and why each has not started. Live."""
    beat = pulse.read(now())
    return live.render(
        "queue/index.html",
        title=_title(beat.waiting),
        beat=beat,
        rows=queue.next_up(now()),
        shown=queue.SHOWN,
    )
