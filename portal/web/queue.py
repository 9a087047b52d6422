"""The queue page, and all that waits as a file. Parse, query, render."""

from flask import Blueprint, Response
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext

from portal.domain.statuses import Role
from portal.queries import pulse, queue
from portal.queries.queue import Cause
from portal.web import live
from portal.web.access import requires
from portal.web.export import Cell, csv_file
from portal.web.formatting import now, number
from portal.web.words import face, lane_word

bp = Blueprint("queue", __name__, url_prefix="/queue")

MOST = 10_000  # rows of the file: the cause of each is reckoned from all of them

HEAD = (
    _l("Number"), _l("Node"), _l("OLT"), _l("Site"), _l("Why it waits"), _l("Waits for the execution"), _l("Lane"),
    _l("Priority"), _l("Trigger"), _l("Asked for by"), _l("Try"), _l("Scheduled for"), _l("Due since"),
)  # fmt: skip

# As a cell of a file; the page says more, and with links.
CAUSES = {
    Cause.CANCELLED: _l("Cancelled, about to end"),
    Cause.OLT_DISABLED: _l("The OLT is disabled"),
    Cause.OLT_PAUSED: _l("The OLT is paused"),
    Cause.OLT_UNREACHABLE: _l("The OLT does not answer"),
    Cause.RETRY: _l("It failed and is tried again later"),
    Cause.SPREAD: _l("Starts are spread after a restart"),
    Cause.OLT_BUSY: _l("The OLT is busy with another execution"),
    Cause.BEHIND: _l("Behind another execution of the same OLT"),
    Cause.NOT_QUEUED: _l("Not handed to the queue yet"),
    Cause.NO_POLLERS: _l("No poller runs"),
    Cause.NO_POLLERS_AT_SITE: _l("No poller serves its site"),
    Cause.NO_FREE_POLLER: _l("Waits for a free poller"),
    Cause.NEXT: _l("Next to be taken"),
}


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
        most=MOST,
    )


@bp.get("/export.csv")
@requires(Role.VIEWER)
def export() -> Response:
    """All that waits, in the order of the page."""
    return csv_file(f"queue-{now():%Y-%m-%d}.csv", HEAD, map(_cells, queue.next_up(now(), MOST + 1)), MOST)


def _cells(row: queue.Explained) -> list[Cell]:
    one, before = row.waiting, row.holder or row.other
    return [
        one.id, one.node_name, one.olt_name, one.site, CAUSES[row.cause], before.id if before else None,
        lane_word(one.lane), one.priority, face(one.trigger).label, one.requested_by, one.attempt, one.scheduled_for,
        one.due if one.due <= now() else None,
    ]  # fmt: skip
