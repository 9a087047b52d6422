"""Pages of ONUs: search over all OLTs or one, and everything known of one ONU."""

from collections.abc import Mapping
from datetime import timedelta

from flask import Blueprint, Response, abort, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext

from portal.domain.statuses import Role
from portal.models import Olt
from portal.queries import keyset, olts, onus
from portal.web import args, live, metrics
from portal.web.access import requires
from portal.web.formatting import now, number

bp = Blueprint("onus", __name__)

WEEK = timedelta(days=7)
STATE_WORDS = {
    "offline": _l("Offline"),
    "weak": _l("Weak signal"),
    "unread": _l("No reading"),
    "online": _l("Online"),
    "gone": _l("Gone"),
}


def _wanted(olt_id: int | None = None) -> onus.OnuFilter:
    """The filter in the URL; words that mean nothing are left out."""
    return onus.OnuFilter(
        q=args.text("q"),
        state=args.word("state", onus.STATES),
        sort=args.word("sort", onus.SORTS, "position"),
        olt_id=olt_id,
        slot=args.number("slot"),
        port=args.number("port"),
    )


def _list(wanted: onus.OnuFilter, olt: Olt | None) -> Response:
    found = onus.find(wanted)
    small = bool(found and (found.found is not None or onus.scope_size(wanted) <= onus.SORT_LIMIT))
    counts = onus.counts(found) if found and small else {}
    return live.render(
        "onus/index.html",
        title=_title(wanted, counts, olt),
        lead=_lead(counts, wide=found is None),
        wanted=wanted,
        olt=olt,
        small=small,
        states=[(key, f"{word} ({number(counts[key])})" if counts else word) for key, word in STATE_WORDS.items()],
        chips=_chips(wanted),
        page=onus.page(found or wanted, keyset.cursor(request.args), sorted_rows=small),
    )


def _title(wanted: onus.OnuFilter, counts: Mapping[str, int], olt: Olt | None) -> str:
    """The answer to the first question: how many are dark?"""
    if not counts:
        return _("ONUs")
    if not counts[""]:
        return _("No ONU matches") if wanted.active else _("No ONUs known yet")
    dark, total = counts["offline"], counts[""]
    if dark:
        found = ngettext("%(count)s ONU is offline", "%(count)s ONUs are offline", dark, count=number(dark))
    else:
        found = ngettext("%(count)s ONU, none offline", "%(count)s ONUs, none offline", total, count=number(total))
    return _("%(olt)s: %(found)s", olt=olt.name, found=found) if olt else found


def _lead(counts: Mapping[str, int], *, wide: bool) -> str:
    """240 ONUs: Online 228 · Offline 12."""
    if wide:
        return _("More than %(limit)s ONUs match: write more of it.", limit=number(onus.FOUND_LIMIT))
    if not counts:
        return _("More than %(limit)s ONUs: search by serial, description or position.", limit=number(onus.SORT_LIMIT))
    parts = [f"{word} {number(counts[key])}" for key, word in STATE_WORDS.items() if counts[key]]
    total = ngettext("%(count)s ONU", "%(count)s ONUs", counts[""], count=number(counts[""]))
    return f"{total}: {' · '.join(parts)}" if parts else total


def _chips(wanted: onus.OnuFilter) -> list[tuple[str, str]]:
    """The filters in force, by argument of the URL."""
    shown = {
        "q": f"“{wanted.q}”" if wanted.q else "",
        "state": str(STATE_WORDS[wanted.state]) if wanted.state else "",
        "slot": _("Slot %(slot)s", slot=wanted.slot) if wanted.slot is not None else "",
        "port": _("Port %(port)s", port=wanted.port) if wanted.port is not None else "",
    }
    return [(name, text) for name, text in shown.items() if text]


@bp.get("/onus/")
@requires(Role.VIEWER)
def index() -> Response:
    """ONUs of all OLTs. Live."""
    olt_id = args.number("olt")
    return _list(_wanted(olt_id), olts.get(olt_id) if olt_id else None)


@bp.get("/olts/<int:olt_id>/onus")
@requires(Role.VIEWER)
def of_olt(olt_id: int) -> Response:
    """ONUs of one OLT. Live."""
    olt = olts.get(olt_id) or abort(404)
    return _list(_wanted(olt_id), olt)


@bp.get("/onus/<int:onu_id>")
@requires(Role.VIEWER)
def detail(onu_id: int) -> Response:
    """One ONU on one screen: is it lit, since when, how strong, and how are its neighbours. Live."""
    row = onus.get(onu_id) or abort(404)
    onu = row.onu
    return live.render(
        "onus/detail.html",
        onu=onu,
        row=row,
        neighbours=onus.neighbours(onu),
        events=onus.events(onu_id),
        next_run=olts.expected(onu.olt, olts.next_run(onu.olt_id)),
        chart=metrics.chart(onus.history(onu_id, onus.RX, now() - WEEK), now() - WEEK, now()),
        metrics=metrics,
    )
