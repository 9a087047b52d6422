"""Quota violations: the list with filters in the URL; one with its report that adds up, to be acknowledged."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta

from flask import Blueprint, Response, abort, flash, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import lazy_pgettext, ngettext
from flask_login import current_user

from portal import clock
from portal.domain import quota
from portal.domain.statuses import ACTIVE, LossCause, Role, Severity
from portal.queries import executions, keyset, quota_slots, quotas, violations
from portal.services.coordinating import acknowledging as service
from portal.services.errors import Conflict, Invalid, NotFound
from portal.web import args, live
from portal.web.access import requires
from portal.web.export import MOST, Cell, csv_file
from portal.web.formatting import hour_span, now, number, plain_day, zone
from portal.web.forms import refusal, said
from portal.web.words import face, labels, lost_words, task_words

bp = Blueprint("violations", __name__, url_prefix="/violations")

WINDOWS = {
    "1h": (timedelta(hours=1), _l("Last full hour")),
    "24h": (timedelta(hours=24), _l("Last 24 hours")),
    "7d": (timedelta(days=7), _l("Last 7 days")),
}
ACKNOWLEDGED = {"no": _l("Not acknowledged"), "yes": _l("Acknowledged")}
HEAD = (
    _l("Number"), _l("Severity"), _l("OLT"), _l("Task"), _l("Hour from"), _l("Hour until"), _l("Promised"),
    lazy_pgettext("slots", "Completed"), _l("Lost to"), _l("Found"), _l("Notified"), _l("Acknowledged"), _l("By"),
    _l("Note"),
)  # fmt: skip
REPORTED = timedelta(days=7)  # what a report is about where nothing is said
LONGEST = timedelta(days=92)
EARLIEST = date(2000, 1, 1)
LISTED = 200  # violations that a report names one by one, the gravest
OLTS_LISTED = 25
NOTIFIED = {"yes": _l("Notified"), "no": _l("Not notified")}


def _wanted(window: str) -> violations.Filter:
    severity, notified = args.word("severity", {one.value for one in Severity}), args.word("notified", NOTIFIED)
    return violations.Filter(
        severity=Severity(severity) if severity else None,
        olt_id=args.number("olt"),
        task_type=args.text("task", 70),
        notified=notified == "yes" if notified else None,
        acknowledged=_acknowledged(),
        since=quota.hour_at(now()) - WINDOWS[window][0] if window else _midnight(_day("from")),
        until=None if window else _midnight(_day("to"), days=1),
        sort=args.word("sort", violations.SORTS),
    )


def _day(name: str) -> date | None:
    """A day of the URL, in the portal's zone: 2026-11-28."""
    try:
        found = date.fromisoformat(request.args.get(name, ""))
    except ValueError:
        return None
    return found if EARLIEST <= found <= _today() else None


def _today() -> date:
    return now().astimezone(zone()).date()


def _midnight(day: date | None, days: int = 0) -> datetime | None:
    """When a day of the portal's zone, or the one `days` after it, begins."""
    return datetime.combine(day + timedelta(days), time.min, zone()).astimezone(UTC) if day else None


def _period() -> tuple[date, date]:
    """First and last day of a report: the last seven where nothing is said, never more than LONGEST."""
    last = _day("to") or _today()
    first = _day("from") or last - REPORTED + timedelta(days=1)
    first, last = min(first, last), max(first, last)
    return max(first, last - LONGEST + timedelta(days=1)), last


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
        ("from", wanted.since and not window and _("From %(time)s", time=plain_day(_day("from")))),
        ("to", wanted.until and _("Until %(time)s", time=plain_day(_day("to")))),
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
    """Newest first, or the gravest (?sort=worst), with filters in the URL; the first page is live."""
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
        sort=wanted.sort,
        most=MOST,
    )


@bp.get("/export.csv")
@requires(Role.VIEWER)
def export() -> Response:
    """The first MOST of the list with the same arguments."""
    rows = violations.newest(_wanted(args.word("window", WINDOWS)), MOST + 1)
    return csv_file(f"violations-{now():%Y-%m-%d}.csv", HEAD, _lines(rows), MOST)


def _lines(rows: Iterator[violations.Row]) -> Iterator[list[Cell]]:
    words = labels(Severity, LossCause)
    for row in rows:
        yield [
            row.id, words[row.severity], row.olt_name, task_words(row.task_type), row.hour, row.end,
            row.required, row.completed, lost_words(row.lost, words), row.created_at, row.notified_at,
            row.acknowledged_at, row.acknowledged_by, row.note,
        ]  # fmt: skip


@bp.get("/report")
@requires(Role.VIEWER)
def report() -> Response:
    """?from= and ?to=: days of the portal's zone; ?olt=: one OLT. A period in numbers, then what was not kept."""
    (first, last), olt_id, names = _period(), args.number("olt"), dict(executions.olt_names())
    wanted = violations.Filter(
        olt_id=olt_id, since=_midnight(first), until=_midnight(last, days=1), sort=violations.WORST
    )
    totals, rows = violations.totals(wanted, now()), list(violations.newest(wanted, LISTED))
    return live.render(
        "violations/report.html",
        title=_report_title(totals.count, (last - first).days + 1),
        first=first, last=last, today=_today(), longest=LONGEST.days, earliest=EARLIEST,
        olt=names.get(olt_id or 0, ""), olt_id=olt_id, names=names.items(),
        totals=totals, olts=totals.olts[:OLTS_LISTED], rows=rows, causes=_causes(rows),
    )  # fmt: skip


def _report_title(count: int, days: int) -> str:
    over = ngettext("in %(n)s day", "in %(n)s days", days, n=number(days))
    if not count:
        return _("No violation %(over)s", over=over)
    return ngettext("%(n)s violation %(over)s", "%(n)s violations %(over)s", count, n=number(count), over=over)


def _causes(rows: Iterable[violations.Row]) -> list[tuple[LossCause, int]]:
    """Lost slots by cause, most first."""
    found = Counter[LossCause]()
    for row in rows:
        found.update(dict(row.lost))
    return found.most_common()


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
        service.acknowledge(violation_id, note, current_user.username, clock.now())
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
        service.reopen(violation_id, current_user.username, clock.now())
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
