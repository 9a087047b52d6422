"""The ledger: what each node costs its OLT and how much of what it reads is new; as a page and as a file."""

from datetime import UTC

from flask import Blueprint, Response, request
from flask_babel import LazyString
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l

from portal.domain.ledger import Verdict
from portal.domain.statuses import Role
from portal.queries import executions, keyset, ledger
from portal.web import args, live
from portal.web.access import requires
from portal.web.export import MOST, Cell, csv_file
from portal.web.formatting import clock, duration_ms, percent
from portal.web.words import face

bp = Blueprint("ledger", __name__, url_prefix="/ledger")

SPANS: dict[str, LazyString] = {"1": _l("Day"), "7": _l("7 days"), "30": _l("30 days")}
SORTS = [*ledger.SORTS, *(f"-{word}" for word in ledger.SORTS)]
FINE = 10.0  # percent below which a decimal is shown

HEAD = (
    _l("OLT"), _l("Node"), _l("Kind"), _l("Interval (s)"), _l("From"), _l("Up to"), _l("Runs"), _l("Failures"),
    _l("OLT time (ms)"), _l("Share (%)"), _l("Values read"), _l("Changed"), _l("Changed share (%)"), _l("Delay (ms)"),
    _l("Verdict"),
)  # fmt: skip
VERDICTS = {Verdict.COSTLY: _l("Costs much, changes little"), Verdict.FAILING: _l("Most of its runs fail")}


def fine(value: float | None) -> str:
    """A percentage: 38 %, 4,2 %, 0,1 %; what is more than nothing is never shown as 0."""
    if value is not None and 0 < value < 0.1:
        return f"<{percent(0.1, 1)}"
    return percent(value, 1 if value is not None and 0 < value < FINE else 0)


def told(row: ledger.Row) -> str:
    """What is to be said of a node; "" of most."""
    if row.sums.verdict is Verdict.COSTLY:
        free = duration_ms(round(row.sums.freed_ms / 60_000) * 60_000)
        return _("Costs much, changes little: half as often would free %(time)s a day", time=free)
    if row.sums.verdict is Verdict.FAILING:
        return _("Most of its runs fail: their time is spent for nothing")
    return ""


def _asked() -> tuple[ledger.Period | None, int | None, str]:
    """Period, OLT and order in the URL."""
    days = int(args.word("days", SPANS, "1"))
    return ledger.period(days), args.number("olt"), args.word("sort", SORTS, ledger.DEFAULT_SORT)


def _title(rows: list[ledger.Row], olt: str) -> str:
    """The answer, where one OLT is asked for: what costs it most, and what came of it."""
    if not rows:
        return _("Ledger of %(olt)s", olt=olt) if olt else _("Ledger")
    first = rows[0]
    facts = {"node": first.node, "olt": olt, "share": fine(first.sums.share)}
    changed = first.sums.changed_percent
    if changed is None:
        return _("%(node)s: %(share)s of the time of %(olt)s", **facts)
    return _("%(node)s: %(share)s of the time of %(olt)s, %(changed)s changed", changed=fine(changed), **facts)


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """Nodes by what they cost: ?olt= (left out: all), ?days= of SPANS, ?sort=."""
    asked, olt_id, sort = _asked()
    names = dict(executions.olt_names())
    olt = names.get(olt_id, "") if olt_id is not None else ""
    page = ledger.page(asked, olt_id, sort, keyset.cursor(request.args)) if asked else keyset.Page[ledger.Row](())
    first = ledger.top(asked, olt_id, 1) if asked and olt_id is not None and olt else []
    return live.render(
        "ledger/index.html",
        title=_title(first, olt),
        lead=_("From %(start)s up to %(end)s", start=clock(asked.start, seconds=False),
               end=clock(asked.up_to, seconds=False)) if asked else "",
        asked=asked, page=page, olt_id=olt_id, olt=olt, spans=SPANS.items(), told=told, fine=fine,
        most=MOST,
        filters=[{"name": "olt", "label": _("All OLTs"), "value": olt_id or "", "options": list(names.items())}],
    )  # fmt: skip


@bp.get("/export.csv")
@requires(Role.VIEWER)
def export() -> Response:
    """The first MOST rows of the list with the same arguments."""
    asked, olt_id, sort = _asked()
    rows = ledger.all_rows(asked, olt_id, sort, most=MOST + 1) if asked else ()
    day = asked.up_to.astimezone(UTC).strftime("%Y-%m-%d") if asked else "empty"
    return csv_file(f"ledger-{day}.csv", HEAD, (_cells(row, asked) for row in rows if asked), MOST)


def _cells(row: ledger.Row, asked: ledger.Period) -> list[Cell]:
    sums, changed = row.sums, row.sums.changed_percent
    return [
        row.olt, row.node, face(row.kind).label, row.interval_seconds, asked.start, asked.up_to, sums.runs,
        sums.failures, sums.duration_ms, round(sums.share, 3), sums.values_read, sums.values_changed,
        None if changed is None else round(changed, 4), row.delay_ms,
        VERDICTS[sums.verdict] if sums.verdict else None,
    ]  # fmt: skip
