"""The decision log: filters in the URL, live on its first page, JSON of each decision. Parse, query, render."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from flask import Blueprint, Response, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l

from portal.domain import moments
from portal.domain.statuses import EventType, Role, SkipReason
from portal.queries import decision_log, executions, keyset
from portal.web import args, live
from portal.web.access import requires
from portal.web.export import MOST, Cell, csv_file
from portal.web.formatting import clock, now
from portal.web.words import LEVELS, decided, face, labels, level_face, skip_words

bp = Blueprint("log", __name__, url_prefix="/log")

WINDOWS = {
    "1h": (timedelta(hours=1), _l("Last hour")),
    "6h": (timedelta(hours=6), _l("Last 6 hours")),
    "24h": (timedelta(hours=24), _l("Last 24 hours")),
    "7d": (timedelta(days=7), _l("Last 7 days")),
}
NEWEST = "X-Newest"  # header: the id of the newest decision that a page knows of
HEAD = (
    _l("Number"), _l("Time"), _l("Level"), _l("Event"), _l("Reason"), _l("OLT"), _l("Node"), _l("Execution"),
    _l("Scheduled for"), _l("Decision"), _l("Details"),
)  # fmt: skip
STEP = 10  # seconds by which a window's beginning moves: else each look at the page would be another


def _moment(name: str) -> datetime | None:
    """A time of the URL with its zone, as links carry it."""
    try:
        return moments.parse(request.args.get(name, ""))
    except ValueError:
        return None


def _wanted(window: str) -> decision_log.Filter:
    """The filter in the URL; what means nothing is left out."""
    wanted = decision_log.Filter(
        level=args.word("level", decision_log.LEVELS),
        event=EventType(name) if (name := args.word("type", {one.value for one in EventType})) else None,
        olt_id=args.number("olt"),
        node_id=args.number("node"),
        text=args.text("q"),
        since=_moment("since"),
        until=_moment("until"),
    )
    return replace(wanted, since=_begin(window)) if window else wanted


def _begin(window: str) -> datetime:
    moment = now() - WINDOWS[window][0]
    return moment - timedelta(seconds=moment.timestamp() % STEP)


def _filters(wanted: decision_log.Filter, window: str, names: dict[int, str]) -> list[dict[str, object]]:
    levels = [(level, level_face(level).label) for level in reversed(decision_log.LEVELS)]
    events = sorted(((one.value, str(face(one).label)) for one in EventType), key=lambda pair: pair[1].lower())
    windows = [(key, label) for key, (_span, label) in WINDOWS.items()]
    return [
        {"name": "level", "label": _("Level"), "value": wanted.level, "options": levels},
        {"name": "type", "label": _("Event"), "value": wanted.event or "", "options": events},
        {"name": "olt", "label": _("OLT"), "value": wanted.olt_id or "", "options": list(names.items())},
        {"name": "window", "label": _("Time"), "value": window, "options": windows},
    ]


def _chips(wanted: decision_log.Filter, window: str, names: dict[int, str]) -> list[tuple[str, str]]:
    on = (
        ("q", wanted.text and f"“{wanted.text}”"),
        ("level", wanted.level and str(level_face(wanted.level).label)),
        ("type", wanted.event and str(face(wanted.event).label)),
        ("olt", wanted.olt_id and _("OLT: %(value)s", value=names.get(wanted.olt_id, wanted.olt_id))),
        ("node", wanted.node_id and _("Node %(value)s", value=wanted.node_id)),
        ("window", window and str(WINDOWS[window][1])),
        ("since", not window and wanted.since and _("From %(time)s", time=clock(wanted.since))),
        ("until", wanted.until and _("Until %(time)s", time=clock(wanted.until))),
    )
    return [(name, text) for name, text in on if text]


def _json(row: decision_log.Row) -> str:
    """All that is known of a decision, as JSON for people."""
    known = {
        "id": row.id, "timestamp": row.timestamp.isoformat(), "level": row.level, "event_type": row.event,
        "reason": row.reason, "message": row.message, "olt": row.olt_id, "node": row.node_id,
        "execution": row.execution_id, "scheduled_for": row.scheduled_for and row.scheduled_for.isoformat(),
        "details": row.details,
    }  # fmt: skip
    return json.dumps(known, indent=2, ensure_ascii=False)


def _bounded(given: decision_log.Filter) -> decision_log.Filter:
    return given.bounded(_begin("1h") + WINDOWS["1h"][0])


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """Newest first, with filters in the URL; ?follow=1: live. With 204 to whoever knows the newest decision."""
    window, cursor = args.word("window", WINDOWS), keyset.cursor(request.args)
    follows, newest = bool(args.word("follow", ("1",))) and not cursor, str(decision_log.newest_id())
    if follows and request.headers.get(NEWEST) == newest:
        return Response(status=204)  # nothing was written anywhere: the rows need not be looked for
    given, names = _wanted(window), dict(executions.olt_names())
    wanted = _bounded(given)
    return live.render(
        "log/index.html",
        {NEWEST: newest},
        title=_("Decision log"),
        page=decision_log.page(wanted, cursor),
        as_json=_json,
        wanted=wanted,
        filters=_filters(wanted, window, names),
        chips=_chips(given, window, names),
        cut=wanted.since if wanted.since != given.since else None,
        follows=follows, newest=newest, most=MOST,
    )  # fmt: skip


@bp.get("/export.csv")
@requires(Role.VIEWER)
def export() -> Response:
    """The newest MOST of the list with the same arguments."""
    wanted = _bounded(_wanted(args.word("window", WINDOWS)))
    return csv_file(f"decisions-{now():%Y-%m-%d}.csv", HEAD, _lines(decision_log.newest(wanted, MOST + 1)), MOST)


def _lines(rows: Iterator[decision_log.Row]) -> Iterator[list[Cell]]:
    levels = {level: str(one.label) for level, one in LEVELS.items()}
    events = labels(EventType)
    reasons = {one: str(skip_words(one)) for one in SkipReason}
    for row in rows:
        details = json.dumps(row.details, ensure_ascii=False) if row.details else ""
        yield [
            row.id, row.timestamp, levels[row.level], events[row.event], reasons[row.reason] if row.reason else "",
            row.olt_name, row.node_name, row.execution_id, row.scheduled_for, decided(row), details,
        ]  # fmt: skip
