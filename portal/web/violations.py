"""Quota violations: the list with filters in the URL, and one with its report that adds up. Parse, query, render."""

from collections.abc import Mapping
from datetime import timedelta

from flask import Blueprint, Response, abort, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext

from portal.domain import quota
from portal.domain.statuses import Role, Severity
from portal.queries import executions, keyset, quota_slots, quotas, violations
from portal.web import args, live
from portal.web.access import requires
from portal.web.formatting import hour_span, now, number
from portal.web.words import face, task_words

bp = Blueprint("violations", __name__, url_prefix="/violations")

WINDOWS = {
    "1h": (timedelta(hours=1), _l("Last full hour")),
    "24h": (timedelta(hours=24), _l("Last 24 hours")),
    "7d": (timedelta(days=7), _l("Last 7 days")),
}
NOTIFIED = {"yes": _l("Notified"), "no": _l("Not notified")}


def _wanted(window: str) -> violations.Filter:
    severity, notified = args.word("severity", {one.value for one in Severity}), args.word("notified", NOTIFIED)
    return violations.Filter(
        severity=Severity(severity) if severity else None,
        olt_id=args.number("olt"),
        task_type=args.text("task", 70),
        notified=notified == "yes" if notified else None,
        since=quota.hour_at(now()) - WINDOWS[window][0] if window else None,
    )


def _filters(wanted: violations.Filter, window: str, names: Mapping[int, str]) -> list[dict[str, object]]:
    severities = [(one.value, face(one).label) for one in reversed(Severity)]
    windows = [(key, label) for key, (_span, label) in WINDOWS.items()]
    return [
        {"name": "severity", "label": _("Severity"), "value": wanted.severity or "", "options": severities},
        {"name": "olt", "label": _("OLT"), "value": wanted.olt_id or "", "options": list(names.items())},
        {"name": "window", "label": _("Time"), "value": window, "options": windows},
        {"name": "notified", "label": _("Notification"), "value": args.word("notified", NOTIFIED),
         "options": list(NOTIFIED.items())},
    ]  # fmt: skip


def _chips(wanted: violations.Filter, window: str, names: Mapping[int, str]) -> list[tuple[str, str]]:
    notified = args.word("notified", NOTIFIED)
    on = (
        ("severity", wanted.severity and str(face(wanted.severity).label)),
        ("olt", wanted.olt_id and _("OLT: %(value)s", value=names.get(wanted.olt_id, wanted.olt_id))),
        ("task", wanted.task_type and task_words(wanted.task_type)),
        ("window", window and str(WINDOWS[window][1])),
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
    return _("No violation in the last day")


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """Newest first, with filters in the URL; the first page is live."""
    window, cursor, names = args.word("window", WINDOWS), keyset.cursor(request.args), dict(executions.olt_names())
    wanted, glance = _wanted(window), quotas.glance(now())
    return live.render(
        "violations/index.html",
        title=_title(glance),
        met=quota.MET,
        page=violations.page(wanted, cursor),
        filters=_filters(wanted, window, names),
        chips=_chips(wanted, window, names),
        first=not cursor,
    )


@bp.get("/<int:violation_id>")
@requires(Role.VIEWER)
def detail(violation_id: int) -> Response:
    """One violation: to what each lost slot was lost, and the hours around it."""
    row = violations.get(violation_id) or abort(404)
    tracker_id = violations.tracker_id(row)
    found = quota_slots.get(tracker_id, now()) if tracker_id else None
    return live.render(
        "violations/detail.html",
        title=_("%(task)s on %(olt)s: %(completed)s of %(required)s", task=task_words(row.task_type), olt=row.olt_name,
                completed=number(row.completed), required=number(row.required)),
        lead=hour_span(row.hour),
        row=row,
        one=found,
        slots=[slot for slot in found.slots if slot.lost] if found else [],
        around=quota_slots.neighbours(found.row, now()) if found else [],
    )  # fmt: skip
