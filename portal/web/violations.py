"""Quota violations: the list with filters in the URL; one with its report that adds up, to be acknowledged."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from flask import Blueprint, Response, abort, flash, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext
from flask_login import current_user

from portal.domain import quota
from portal.domain.statuses import ACTIVE, Role, Severity
from portal.queries import executions, keyset, quota_slots, quotas, violations
from portal.services.coordinating import acknowledging as service
from portal.services.errors import Conflict, Invalid, NotFound
from portal.web import args, live
from portal.web.access import requires
from portal.web.formatting import hour_span, now, number
from portal.web.forms import refusal, said
from portal.web.words import face, task_words

bp = Blueprint("violations", __name__, url_prefix="/violations")

WINDOWS = {
    "1h": (timedelta(hours=1), _l("Last full hour")),
    "24h": (timedelta(hours=24), _l("Last 24 hours")),
    "7d": (timedelta(days=7), _l("Last 7 days")),
}
ACKNOWLEDGED = {"no": _l("Not acknowledged"), "yes": _l("Acknowledged")}
NOTIFIED = {"yes": _l("Notified"), "no": _l("Not notified")}


def _wanted(window: str) -> violations.Filter:
    severity, notified = args.word("severity", {one.value for one in Severity}), args.word("notified", NOTIFIED)
    return violations.Filter(
        severity=Severity(severity) if severity else None,
        olt_id=args.number("olt"),
        task_type=args.text("task", 70),
        notified=notified == "yes" if notified else None,
        acknowledged=_acknowledged(),
        since=quota.hour_at(now()) - WINDOWS[window][0] if window else None,
    )


def _acknowledged() -> bool | None:
    word = args.word("seen", ACKNOWLEDGED)
    return word == "yes" if word else None


def _filters(wanted: violations.Filter, window: str, names: Mapping[int, str]) -> list[dict[str, object]]:
    severities = [(one.value, face(one).label) for one in reversed(Severity)]
    windows = [(key, label) for key, (_span, label) in WINDOWS.items()]
    return [
        {"name": "severity", "label": _("Severity"), "value": wanted.severity or "", "options": severities},
        {"name": "olt", "label": _("OLT"), "value": wanted.olt_id or "", "options": list(names.items())},
        {"name": "window", "label": _("Time"), "value": window, "options": windows},
        {"name": "seen", "label": _("Acknowledged"), "value": args.word("seen", ACKNOWLEDGED),
         "options": list(ACKNOWLEDGED.items())},
        {"name": "notified", "label": _("Notification"), "value": args.word("notified", NOTIFIED),
         "options": list(NOTIFIED.items())},
    ]  # fmt: skip


def _chips(wanted: violations.Filter, window: str, names: Mapping[int, str]) -> list[tuple[str, str]]:
    notified, seen = args.word("notified", NOTIFIED), args.word("seen", ACKNOWLEDGED)
    on = (
        ("severity", wanted.severity and str(face(wanted.severity).label)),
        ("olt", wanted.olt_id and _("OLT: %(value)s", value=names.get(wanted.olt_id, wanted.olt_id))),
        ("task", wanted.task_type and task_words(wanted.task_type)),
        ("window", window and str(WINDOWS[window][1])),
        ("seen", seen and str(ACKNOWLEDGED[seen])),
        ("notified", notified and str(NOTIFIED[notified])),
    )
    return [(name, text) for name, text in on if text]


def _title(glance: quotas.Glance) -> str:
    last = glance.last_hour
    if last:
        text = ngettext("%(n)s violation in the last hour", "%(n)s violations in the last hour", last, n=number(last))
        return str(text)
    day = glance.last_day
    if day:
        return ngettext("%(n)s violation in the last day", "%(n)s violations in the last day", day, n=number(day))
    if glance.judging:
        return _("No violation in the last day; the last hour is being judged")
    return _("No violation in the last day")


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """Newest first, with filters in the URL; the first page is live."""
    window, cursor, names = args.word("window", WINDOWS), keyset.cursor(request.args), dict(executions.olt_names())
    wanted, glance = _wanted(window), quotas.glance(now())
    page = violations.page(wanted, cursor)
    return live.render(
        "violations/index.html",
        title=_title(glance),
        met=quota.MET,
        page=page,
        judged=bool(page.rows) or violations.anything_judged(),
        filters=_filters(wanted, window, names),
        chips=_chips(wanted, window, names),
        first=not cursor,
    )


def _not_listed(row: violations.Row, found: quota_slots.Detail, listed: int) -> str:
    """What became of the lost slots that are not in the list: a violation stays though a slot ends late."""
    active = sum(slot.status in ACTIVE for slot in found.slots)
    late = max(0, found.row.counts.completed - row.completed)
    gone = max(0, row.required - row.completed - listed - active - late)
    parts = (
        (late, ngettext("%(n)s slot was completed after the hour was judged",
                        "%(n)s slots were completed after the hour was judged", late, n=number(late))),
        (active, ngettext("%(n)s slot has not ended yet", "%(n)s slots have not ended yet", active, n=number(active))),
        (gone, ngettext("of %(n)s slot nothing is kept any more", "of %(n)s slots nothing is kept any more", gone,
                        n=number(gone))),
    )  # fmt: skip
    told = "; ".join(text for slots, text in parts if slots)
    return f"{told[:1].upper()}{told[1:]}." if told else ""


@bp.get("/<int:violation_id>")
@requires(Role.VIEWER)
def detail(violation_id: int) -> ResponseReturnValue:
    """One violation: to what each lost slot was lost, and the hours around it."""
    return _page(violation_id)


@bp.post("/<int:violation_id>/acknowledge")
@requires(Role.OPERATOR)
def acknowledge(violation_id: int) -> ResponseReturnValue:
    """Somebody has seen it, and says so."""
    note = request.form.get("note", "")
    try:
        service.acknowledge(violation_id, note, current_user.username, datetime.now(UTC))
    except NotFound:
        abort(404)
    except Invalid as error:
        return _page(violation_id, note, {name: said(text) for name, text in error.errors.items()}), 422
    except Conflict as error:
        flash(refusal(error), "error")
    else:
        flash(_("The violation is acknowledged."), "success")
    return redirect(url_for("violations.detail", violation_id=violation_id), 303)


@bp.post("/<int:violation_id>/reopen")
@requires(Role.OPERATOR)
def reopen(violation_id: int) -> ResponseReturnValue:
    """It is to be looked at again."""
    try:
        service.reopen(violation_id, current_user.username, datetime.now(UTC))
    except NotFound:
        abort(404)
    flash(_("The violation is open again."), "success")
    return redirect(url_for("violations.detail", violation_id=violation_id), 303)


def _page(violation_id: int, note: str = "", errors: Mapping[str, str] | None = None) -> Response:
    row = violations.get(violation_id) or abort(404)
    tracker_id = violations.tracker_id(row)
    found = quota_slots.get(tracker_id, now()) if tracker_id else None
    slots = [slot for slot in found.slots if slot.lost] if found else []
    return live.render(
        "violations/detail.html",
        title=_("%(task)s on %(olt)s: %(completed)s of %(required)s", task=task_words(row.task_type), olt=row.olt_name,
                completed=number(row.completed), required=number(row.required)),
        lead=hour_span(row.hour),
        row=row,
        one=found,
        slots=slots,
        not_listed=_not_listed(row, found, len(slots)) if found else "",
        around=quota_slots.neighbours(found.row, now()) if found else [],
        note=note,
        note_length=service.NOTE_LENGTH,
        errors=errors or {},
    )  # fmt: skip
