"""Quotas: an hour's promises worst first, and what one of them stands for. Parse, query, render."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from flask import Blueprint, Response, abort, current_app, request, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import lazy_pgettext, ngettext

from portal.domain import forecast, moments, quota, saying
from portal.domain.statuses import LossCause, QuotaStatus, Role
from portal.queries import executions, keyset, quota_slots, quotas
from portal.queries.quotas import Row, Summary
from portal.web import args, live
from portal.web.access import requires
from portal.web.export import MOST, Cell, csv_file
from portal.web.formatting import clock, hour_span, now, number
from portal.web.words import AT_RISK, face, labels, lost_words, task_words

bp = Blueprint("quotas", __name__, url_prefix="/quotas")

HEAD = (
    _l("OLT"), _l("Task"), _l("Hour from"), _l("Hour until"), _l("Promised"), lazy_pgettext("slots", "Completed"),
    lazy_pgettext("slots", "Failed"), lazy_pgettext("slots", "Skipped"), lazy_pgettext("slots", "Pending"),
    _l("Status"), _l("Lost to"), _l("Forecast"), _l("Mean duration (ms)"),
)  # fmt: skip
SHOWN = 24  # hours in the row of hours
WEEK = timedelta(days=7)
KEPT = ("olt", "task", "status", "q", "sort")  # from one hour to the other
MINUTES = 60  # in the steps of which the expected position moves: else each look at the page would differ


class Hour(NamedTuple):
    """One hour of the row of hours: its address and how many violations it has (None: not all is judged)."""

    start: datetime
    url: str
    broken: int | None
    chosen: bool
    present: bool


class Card(NamedTuple):
    """The quotas of one OLT: this hour and the last day of each task; `gone`: how much of this hour is over."""

    strips: list[quotas.Strip]
    gone: float | None


class Hours(NamedTuple):
    """The hours that can be chosen; `earlier` and `later` are addresses, "" where there is nothing."""

    shown: tuple[Hour, ...]
    earlier: str
    later: str


def gone(start: datetime) -> float | None:
    """How much of an hour is over, 0 to 1 in whole minutes; None when all of it is."""
    share = (now() - start) / quota.HOUR
    return max(0, int(share * MINUTES)) / MINUTES if share < 1 else None


def forecast_words(row: Row) -> str:
    """How an open hour will end and why, in the reader's language; "" when nobody has reckoned it."""
    if not row.open or row.forecast is None:
        return ""
    told, known = row.forecast_details or {}, {"cause", "node", "seconds"}
    expected = forecast.Forecast(row.task_type, row.forecast, row.counts.required)
    if known <= told.keys():
        expected = forecast.from_json(row.task_type, row.forecast, row.counts.required, told)
    text = saying.say(forecast.sentence(expected), _, clock)
    return text[:1].upper() + text[1:]


def card(olt_id: int) -> Card:
    """For the OLT's page."""
    return Card(quotas.of_olt(olt_id, now()), gone(quota.hour_at(now())))


def _chosen_hour() -> datetime:
    """The hour in the URL, no older than quotas are kept; the running one where there is none."""
    try:
        asked = moments.parse(request.args.get("hour", "").replace(" ", "+"))
    except ValueError:
        asked = now()
    kept = timedelta(days=current_app.config["QUOTA_RETENTION_DAYS"])
    return quota.hour_at(min(max(asked, now() - kept), now()))


def _wanted() -> quotas.Filter:
    return quotas.Filter(
        hour=_chosen_hour(),
        olt_id=args.number("olt"),
        task_type=args.text("task", 70),
        status=args.word("status", quotas.STATUSES),
        text=args.text("q"),
        sort=args.word("sort", quotas.SORTS),
    )


def _status_word(status: str) -> str:
    return str(AT_RISK.label if status == quotas.AT_RISK else face(QuotaStatus(status)).label)


def _filters(wanted: quotas.Filter, names: Mapping[int, str], statuses: Mapping[str, int]) -> list[dict[str, object]]:
    tasks = [(task, task_words(task)) for task in quotas.task_types(wanted.hour)]
    states = [(one, f"{_status_word(one)} ({number(statuses.get(one, 0))})") for one in quotas.STATUSES]
    return [
        {"name": "olt", "label": _("OLT"), "value": wanted.olt_id or "", "options": list(names.items())},
        {"name": "task", "label": _("Task"), "value": wanted.task_type, "options": tasks},
        {"name": "status", "label": _("Status"), "value": wanted.status, "options": states},
    ]


def _chips(wanted: quotas.Filter, names: Mapping[int, str]) -> list[tuple[str, str]]:
    on = (
        ("q", wanted.text and f"“{wanted.text}”"),
        ("olt", wanted.olt_id and _("OLT: %(value)s", value=names.get(wanted.olt_id, wanted.olt_id))),
        ("task", wanted.task_type and task_words(wanted.task_type)),
        ("status", wanted.status and _status_word(wanted.status)),
    )
    return [(name, text) for name, text in on if text]


def _address(start: datetime) -> str:
    """The same filters in another hour."""
    present = start >= quota.hour_at(now())
    kept = {name: value for name, value in request.args.items() if name in KEPT and value}
    return url_for("quotas.index", **kept, **({} if present else {"hour": start.isoformat()}))  # type: ignore[arg-type]


def _hours(chosen: datetime) -> Hours:
    """The last 24 hours, or those around an older one; a week back."""
    present = quota.hour_at(now())
    blocks = max(0, int((present - chosen) / quota.HOUR) - SHOWN + 1) + SHOWN - 1
    last = present - blocks // SHOWN * SHOWN * quota.HOUR
    first = last - (SHOWN - 1) * quota.HOUR
    broken = quotas.broken_by_hour(first, last)
    starts = [last - step * quota.HOUR for step in range(SHOWN)]  # the newest first: on a phone that one is seen
    shown = tuple(Hour(one, _address(one), broken.get(one, 0), one == chosen, one == present) for one in starts)
    earlier = _address(first - quota.HOUR) if present - first < WEEK else ""
    later = _address(min(present, last + SHOWN * quota.HOUR)) if last < present else ""
    return Hours(shown, earlier, later)


def _title(summary: Summary) -> str:
    """The answer to the first question: is every promise kept?"""
    broken, risky = sum(summary.statuses.get(one.value, 0) for one in quotas.BROKEN), summary.at_risk
    interrupted = summary.statuses.get(QuotaStatus.INTERRUPTED.value, 0)
    if not summary.trackers:
        return _("Nothing was promised")
    if interrupted == summary.trackers:
        return ngettext("The quota was interrupted", "All %(n)s quotas were interrupted", interrupted,
                        n=number(interrupted))  # fmt: skip
    if risky:
        return ngettext("%(n)s quota at risk", "%(n)s quotas at risk", risky, n=number(risky))
    if broken:
        return ngettext("%(n)s quota not met", "%(n)s quotas not met", broken, n=number(broken))
    return _("No quota at risk") if summary.statuses.get(QuotaStatus.IN_PROGRESS.value) else _("All quotas were met")


def _lead(summary: Summary, hour: datetime) -> str:
    kept = _("%(kept)s of %(all)s OLTs keep all their promises", kept=number(summary.kept), all=number(summary.olts))
    return f"{hour_span(hour)} · {kept}" if summary.olts else hour_span(hour)


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """One hour, worst first or as ?sort= says, with filters in the URL; the running one is live."""
    wanted, names, cursor = _wanted(), dict(executions.olt_names()), keyset.cursor(request.args)
    alike = quotas.groups(wanted)
    summary = quotas.summary(wanted, alike, now())
    return live.render(
        "quotas/index.html",
        title=_title(summary),
        lead=_lead(summary, wanted.hour),
        wanted=wanted,
        summary=summary,
        page=quotas.page(wanted, alike, now(), cursor),
        hours=_hours(wanted.hour),
        filters=_filters(wanted, names, summary.statuses),
        chips=_chips(wanted, names),
        expected=gone(wanted.hour),
        forecast_words=forecast_words,
        active=not cursor and summary.statuses.get(QuotaStatus.IN_PROGRESS.value, 0) > 0,
        most=MOST,
    )


@bp.get("/export.csv")
@requires(Role.VIEWER)
def export() -> Response:
    """All quotas of the hour with the same arguments."""
    wanted = _wanted()
    rows = quotas.of_hour(wanted, quotas.groups(wanted), now(), MOST + 1)
    return csv_file(f"quotas-{wanted.hour:%Y-%m-%dT%H}Z.csv", HEAD, _lines(rows), MOST)


def _lines(rows: Iterator[Row]) -> Iterator[list[Cell]]:
    words, at_risk = labels(QuotaStatus, LossCause), str(AT_RISK.label)
    for row in rows:
        counts = row.counts
        yield [
            row.olt_name, task_words(row.task_type), row.hour, row.end, counts.required, counts.completed,
            counts.failed, counts.skipped, counts.pending, at_risk if row.at_risk else words[row.status],
            lost_words(row.lost, words), row.forecast if row.open else None, row.duration_ms or None,
        ]  # fmt: skip


@bp.get("/<int:tracker_id>")
@requires(Role.VIEWER)
def detail(tracker_id: int) -> Response:
    """One promise with the slots that it stands for. Live while its hour is open."""
    found = quota_slots.get(tracker_id, now()) or abort(404)
    row = found.row
    return live.render(
        "quotas/detail.html",
        title=_("%(task)s on %(olt)s", task=task_words(row.task_type), olt=row.olt_name),
        lead=hour_span(row.hour),
        one=found,
        row=row,
        around=quota_slots.neighbours(row, now()),
        expected=gone(row.hour),
        forecast_words=forecast_words,
    )
