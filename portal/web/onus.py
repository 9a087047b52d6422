"""Pages of ONUs: search over all OLTs or one, its CSV, and everything known of one ONU."""

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, abort, flash, redirect, request, url_for
from flask_babel import LazyString, ngettext
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_login import current_user
from sqlalchemy import Row
from werkzeug.wrappers import Response as BaseResponse

from portal.domain import serials
from portal.domain.spreadsheets import unguard
from portal.domain.statuses import Presence, Role
from portal.queries import executions, keyset, oids, olts, onu_detail, onu_power, onus
from portal.services.errors import ServiceError
from portal.services.network import onus as service
from portal.tables import Olt
from portal.web import args, live, metrics, onu_events
from portal.web import onu_power as power_chart
from portal.web.access import requires
from portal.web.audience import wants_fragment
from portal.web.export import Cell, csv_file
from portal.web.formatting import now, number
from portal.web.forms import refusal

bp = Blueprint("onus", __name__)

STATE_WORDS: dict[str, LazyString] = {
    "offline": _l("Offline"),
    "weak": _l("Weak signal"),
    "unread": _l("No reading"),
    "online": _l("Online"),
    "gone": _l("Gone"),
}
EXPORTED = (
    _l("OLT"), _l("Position"), _l("SNMP index"), _l("Serial"), _l("Description"), _l("Model"), _l("State"),
    _l("State since"), _l("ONU receives (dBm)"), _l("OLT receives (dBm)"), _l("Distance (m)"), _l("Last seen"),
)  # fmt: skip


def _wanted(olt_id: int | None = None) -> onus.OnuFilter:
    """The filter in the URL; words that mean nothing are left out."""
    return onus.OnuFilter(
        q=unguard(args.text("q")),  # a position or serial may come from a file of ours
        state=args.word("state", onus.STATES),
        sort=args.word("sort", onus.SORTS, "position"),
        olt_id=olt_id,
        slot=args.number("slot"),
        port=args.number("port"),
    )


def _list(wanted: onus.OnuFilter, olt: Olt | None) -> Response:
    found = onus.find(wanted)
    size = onus.scope_size(wanted) if found and found.found is None else 0
    small, large = bool(found and size <= onus.SORT_LIMIT), size > onus.LARGE
    counts = onus.counts(found, large=large) if found and small else {}
    page = onus.page(found or wanted, keyset.cursor(request.args), sorted_rows=small, large=large)
    none = not page.rows and not wanted.active
    return live.render(
        "onus/index.html",
        title=_title(wanted, counts, olt),
        lead=_lead(counts, wide=found is None),
        wanted=wanted,
        olt=olt,
        small=small,
        states=[(key, f"{word} ({number(counts[key])})" if counts else word) for key, word in STATE_WORDS.items()],
        chips=_chips(wanted),
        export=_export_link(wanted, counts) if found else None,
        page=page,
        discovery=executions.last_discovery(wanted.olt_id) if none else None,
    )


def _export_link(wanted: onus.OnuFilter, counts: Mapping[str, int]) -> tuple[str, str]:
    """Address and words of the CSV of this list; the words say where it ends."""
    asked = {"q": wanted.q, "state": wanted.state, "slot": wanted.slot, "port": wanted.port, "sort": wanted.sort}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value not in ("", None, "position")}
    olt_id = wanted.olt_id
    url = url_for("onus.export", **given) if olt_id is None else url_for("onus.export_of_olt", olt_id=olt_id, **given)
    if counts and counts[wanted.state] <= onus.MOST_EXPORTED:
        return url, _("CSV of these ONUs")
    return url, _("CSV of the first %(count)s of these ONUs", count=number(onus.MOST_EXPORTED))


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


@bp.get("/onus/export.csv")
@requires(Role.VIEWER)
def export() -> Response:
    """The ONUs of the list with the same arguments, the first MOST_EXPORTED of them."""
    return _export(_wanted(args.number("olt")))


@bp.get("/olts/<int:olt_id>/onus/export.csv")
@requires(Role.VIEWER)
def export_of_olt(olt_id: int) -> Response:
    """The same of one OLT."""
    olts.get(olt_id) or abort(404)
    return _export(_wanted(olt_id))


def _export(wanted: onus.OnuFilter) -> Response:
    """A search that finds too many to be shown is written as far as it was found."""
    rows = onus.exported(onus.find(wanted) or onus.first_found(wanted))
    states = {key: str(word) for key, word in STATE_WORDS.items()}  # translated once, not 10,000 times
    lines = (_cells(row, states) for row in rows)
    return csv_file(f"onus-{now():%Y-%m-%d}.csv", EXPORTED, lines, most=onus.MOST_EXPORTED)


def _cells(row: Row[Any], states: Mapping[str, str]) -> list[Cell]:
    serial = serials.printed(row.serial) if row.serial else ""
    return [
        row.olt, onus.position_of(row), row.index_key, serial, row.description, row.model, states[_state(row)],
        row.last_state_change, row.rx, row.olt_rx, row.distance, row.seen_at,
    ]  # fmt: skip


def _state(row: Row[Any]) -> str:
    if row.presence is Presence.DISABLED:
        return "gone"
    return "unread" if row.online is None else "online" if row.online else "offline"


@bp.get("/onus/<int:onu_id>")
@requires(Role.VIEWER)
def detail(onu_id: int) -> Response:
    """One ONU on one screen: is it lit, since when, how strong, how are its neighbours. Live. ?span= of the chart."""
    row = onus.get(onu_id) or abort(404)
    onu = row.onu
    return live.render(
        "onus/detail.html",
        onu=onu,
        row=row,
        port=onu_detail.port(onu),
        events=onu_events.told(onu_detail.events(onu_id)),
        next_run=olts.expected(onu.olt, onu_detail.next_read(onu.olt_id)),
        metrics=metrics,
        units=oids.units(onu.olt.brand_id, [name for name, one in row.readings.items() if one.number is not None]),
        **({} if wants_fragment() else _power(onu_id)),
    )


@bp.post("/onus/<int:onu_id>/forget")
@requires(Role.OPERATOR)
def forget(onu_id: int) -> BaseResponse:
    """Delete an ONU that is gone, with its history."""
    try:
        olt_id = service.forget(onu_id, current_user.username, now())
    except ServiceError as refused:
        flash(refusal(refused), "error")
        return redirect(url_for("onus.detail", onu_id=onu_id), 303)
    flash(_("The ONU is forgotten."), "success")
    return redirect(url_for("onus.of_olt", olt_id=olt_id, state="gone"), 303)


def _power(onu_id: int) -> dict[str, Any]:
    """The chart, which is no part of the fragment: its script refreshes it."""
    span = args.word("span", power_chart.SPANS, power_chart.USUAL)
    since = power_chart.begin(span, now())
    found = onu_power.history(onu_id, since, now())
    lines = power_chart.picture(found, since, now()) if found else []
    spans = [(key, word) for key, (word, _length) in power_chart.SPANS.items()]
    return {"span": span, "spans": spans, "since": since, "lines": lines}
