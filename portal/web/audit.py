"""The audit log: who changed what, from where and when; filters in the URL, and as a file. Changes nothing."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from flask import Blueprint, Response, request, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l

from portal.domain.statuses import Role
from portal.queries import audit, keyset, people
from portal.services.people.tokens import ACTOR as TOKEN_ACTOR
from portal.web import args, live
from portal.web.access import requires
from portal.web.audit_changes import lines
from portal.web.audit_words import ACTIONS, CLI, FILTERS, KINDS, PAGES, action_words, actor_words, kind_words
from portal.web.export import MOST, Cell, csv_file
from portal.web.formatting import now

bp = Blueprint("audit", __name__, url_prefix="/settings/audit")
for _name, _filter in FILTERS.items():
    bp.add_app_template_filter(_filter, _name)

DEFAULT_DAYS = 30
WINDOWS = {
    "1": _l("Last 24 hours"),
    "7": _l("Last 7 days"),
    "90": _l("Last 90 days"),
    "365": _l("Last year"),
    "all": _l("Since the beginning"),
}
HEAD = (
    _l("When"), _l("Who"), _l("From"), _l("What was done"), _l("Action"), _l("About what"), _l("Number"), _l("Name"),
    _l("Changes"),
)  # fmt: skip
LONGEST_ACTOR = 80  # what the column holds


def _wanted(window: str) -> audit.Filter:
    """The filter in the URL; what means nothing is left out."""
    return audit.Filter(
        actor=args.text("actor", LONGEST_ACTOR),
        kind=args.word("kind", KINDS),
        about=_about(),
        action=args.word("action", ACTIONS),
        since=_begin(window),
        text=args.text("q"),
    )


def _begin(window: str) -> datetime | None:
    """At a full hour: else each look at the page would be another."""
    if window == "all":
        return None
    return (now() - timedelta(days=int(window or DEFAULT_DAYS))).replace(minute=0, second=0, microsecond=0)


def _about() -> audit.Place | None:
    """?about=olt:12: one subject."""
    kind, _colon, ident = request.args.get("about", "").partition(":")
    try:
        return (kind, args.whole(ident)) if kind in KINDS else None
    except ValueError:
        return None


def _filters(wanted: audit.Filter, window: str) -> list[dict[str, object]]:
    names = [CLI, *people.writers(TOKEN_ACTOR)]
    if wanted.actor and wanted.actor not in names:
        names.append(wanted.actor)
    actions = sorted(((key, str(text)) for key, text in ACTIONS.items()), key=lambda pair: pair[1].lower())
    kinds = sorted(((key, str(text)) for key, text in KINDS.items()), key=lambda pair: pair[1].lower())
    actors = [(name, actor_words(name)) for name in names]
    return [
        {"name": "actor", "label": _("Who"), "value": wanted.actor, "options": actors},
        {"name": "kind", "label": _("About what"), "value": wanted.kind, "options": kinds},
        {"name": "action", "label": _("What was done"), "value": wanted.action, "options": actions},
        {"name": "days", "label": _("Last 30 days"), "value": window, "options": list(WINDOWS.items())},
    ]


def _chips(wanted: audit.Filter, window: str) -> list[tuple[str, str]]:
    on = (
        ("q", wanted.text and f"“{wanted.text}”"),
        ("actor", wanted.actor and actor_words(wanted.actor)),
        ("kind", wanted.kind and kind_words(wanted.kind)),
        ("about", wanted.about and f"{kind_words(wanted.about[0])} #{wanted.about[1]}"),
        ("action", wanted.action and action_words(wanted.action)),
        ("days", window and str(WINDOWS[window])),
    )
    return [(name, text) for name, text in on if text]


def _links(rows: tuple[audit.Row, ...]) -> Callable[[audit.Row], str]:
    """Row → address of its subject's page, "" where there is none any more."""
    found = audit.places({(row.kind, row.subject_id) for row in rows if row.subject_id is not None})

    def link(row: audit.Row) -> str:
        place = found.get((row.kind, row.subject_id)) if row.subject_id is not None else None
        endpoint, parameter = PAGES.get(row.kind, ("", ""))
        values: dict[str, Any] = {parameter: place}
        return url_for(endpoint, **values) if place is not None and endpoint else ""

    return link


@bp.get("/")
@requires(Role.ADMIN)
def index() -> Response:
    """Newest first, with filters in the URL; the first page is live."""
    window, cursor = args.word("days", WINDOWS), keyset.cursor(request.args)
    wanted = _wanted(window)
    page = audit.page(wanted, cursor)
    return live.render(
        "audit/index.html",
        page=page,
        link=_links(page.rows),
        lines=lines,
        filters=_filters(wanted, window),
        chips=_chips(wanted, window),
        wanted=wanted,
        first=not cursor,
        most=MOST,
    )


@bp.get("/export.csv")
@requires(Role.ADMIN)
def export() -> Response:
    """The newest MOST of what is filtered; beside the words of an action stands its name, for programs."""
    rows = audit.newest(_wanted(args.word("days", WINDOWS)), MOST + 1)
    return csv_file(f"audit-{now():%Y-%m-%d}.csv", HEAD, map(_cells, rows), MOST)


def _cells(row: audit.Row) -> list[Cell]:
    changes = "; ".join(
        f"{line.label}: {line.after}" if line.before is None else f"{line.label}: {line.before} → {line.after}"
        for line in lines(row.changes)
    )
    return [
        row.happened_at, actor_words(row.actor), row.address, action_words(row.action), row.action,
        kind_words(row.kind), row.subject_id, row.name, changes,
    ]  # fmt: skip
