"""The address /ledger: what nodes cost their OLTs, and how much of what they read was new. Reads only."""

from typing import Any

from flask import request, url_for

from portal.api import args, bodies
from portal.api.operations import Reply, operation
from portal.domain.ledger import Verdict
from portal.domain.statuses import Role
from portal.queries import keyset, ledger

TAG = "Ledger"
PAGE = 50
LARGEST_PAGE = 200


def _cursor(text: str) -> str:
    """A cursor of this list: milliseconds and a node's id, and no way back."""
    try:
        found = keyset.decode(text, 2)
    except RecursionError:
        found = None
    if found is None or found[1] or not all(type(one) is int and 0 <= one < 2**63 for one in found[0]):
        raise args.ArgError("is not one that this list gave out: follow `next`, or leave it out to begin anew")
    return text


LEDGER_ARGS = (
    args.whole("olt", "Only nodes of the OLT with this id."),
    args.whole("days", "Of so many UTC days, the last of which reaches to the last hour that was entered.", 1,
               ledger.MOST_DAYS, 1),
    args.whole("limit", "Length of a page.", 1, LARGEST_PAGE, PAGE),
    args.opaque("cursor", "Where the page begins; a part of `next`.", _cursor),
)  # fmt: skip


@operation(
    "GET", "/ledger/", Role.VIEWER, "What nodes cost their OLTs", {200: ("One page.", bodies.Ledger)},
    tag=TAG, args=LEDGER_ARGS,
)  # fmt: skip
def show_ledger(olt: int | None, days: int, limit: int, cursor: str | None) -> Reply:
    """Dearest first. Each hour is entered some minutes after its end; a run counts in the hour in which it ended."""
    asked = ledger.period(days)
    if asked is None:
        return Reply(bodies.Ledger(None, None, [], None))
    page = ledger.page(asked, olt, cursor=cursor or "", size=limit)
    following = _following(page.next) if page.next else None
    return Reply(bodies.Ledger(asked.start, asked.up_to, [_row(row) for row in page.rows], following))


def _following(cursor: str) -> str:
    same: dict[str, Any] = {**request.args, "cursor": cursor}
    return url_for("api.show_ledger", **same)


def _row(row: ledger.Row) -> bodies.LedgerRow:
    sums, changed = row.sums, row.sums.changed_percent
    return bodies.LedgerRow(
        node_id=row.node_id, node_name=row.node, kind=row.kind, chained=row.chained,
        interval_seconds=row.interval_seconds, olt_id=row.olt_id, olt_name=row.olt, runs=sums.runs,
        failures=sums.failures, olt_time_ms=sums.duration_ms, olt_time_percentage=round(sums.share, 3),
        delay_ms=row.delay_ms, values_read=sums.values_read, values_changed=sums.values_changed,
        values_changed_percentage=None if changed is None else round(changed, 4), verdict=sums.verdict,
        freed_ms_per_day=round(sums.freed_ms) if sums.verdict is Verdict.COSTLY else None,
    )  # fmt: skip
