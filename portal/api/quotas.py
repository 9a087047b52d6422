"""Quotas and violations: the lists, and one of each with its slots. Parse, query, answer."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from flask import request, url_for

from portal import clock
from portal.api import args
from portal.api import quota_bodies as bodies
from portal.api.errors import ApiError
from portal.api.operations import Reply, operation
from portal.domain.fields import shown
from portal.domain.quota import TASK_TYPE_LENGTH
from portal.domain.statuses import QuotaStatus, Role, Severity
from portal.queries import keyset, quota_list, quota_slots, violations
from portal.queries.quota_slots import Slot

TAG = "Quotas"
LARGEST_PAGE = 200


def _task_type(text: str) -> str:
    if not text.strip() or len(text) > TASK_TYPE_LENGTH or not text.isprintable():
        raise args.ArgError(f"must be a task type such as discovery or get_rx, not {shown(text)}")
    return text.strip()


def _yes_or_no(text: str) -> bool:
    found = {"true": True, "false": False}.get(text.strip().lower())
    if found is None:
        raise args.ArgError(f"must be true or false, not {shown(text)}")
    return found


_PLACE = (
    args.whole("limit", "Length of a page.", 1, LARGEST_PAGE, keyset.PAGE_SIZE),
    args.CURSOR,
)
_WHICH = (
    args.whole("olt", "Only those of the OLT with this id."),
    args.opaque("task_type", "Only those of this task: discovery, get_rx …", _task_type),
    args.moment(
        "since",
        "Only hours that begin at this time or later. Quotas of a task on all OLTs: default, the last 24 hours.",
    ),
    args.moment("until", "Only hours that begin before this time."),
)
QUOTA_ARGS = (args.word("status", "Only those in this state.", QuotaStatus), *_WHICH, *_PLACE)
VIOLATION_ARGS = (
    args.word("severity", "Only those of this severity.", Severity),
    args.Arg("notified", "Only those of which an alert arrived, or did not.", {"type": "boolean"}, _yes_or_no),
    args.Arg("acknowledged", "Only those that somebody acknowledged, or did not.", {"type": "boolean"}, _yes_or_no),
    *_WHICH, *_PLACE,
)  # fmt: skip


def _following(view: str, cursor: str, since: datetime | None = None) -> str | None:
    """Where the next page is; a list that was bounded keeps its bound."""
    same: dict[str, Any] = {**({"since": since.isoformat()} if since else {}), **request.args, "cursor": cursor}
    return url_for(f"api.{view}", **same) if cursor else None


@operation(
    "GET", "/quotas/", Role.VIEWER, "List quotas", {200: ("One page.", bodies.QuotaList)}, tag=TAG, args=QUOTA_ARGS
)
def list_quotas(limit: int, cursor: str | None, task_type: str | None, **given: Any) -> Reply:
    """The runs that each OLT was promised of each task in each hour, and what became of them; newest hour first."""
    wanted = quota_list.Filter(task_type=task_type or "", **given).bounded(clock.now())
    page = quota_list.page(wanted, clock.now(), args.begin(cursor, wanted.order), limit)
    items = [bodies.Quota(**row.as_dict()) for row in page.rows]
    return Reply(bodies.QuotaList(items, _following("list_quotas", page.next, wanted.since), wanted.since))


@operation(
    "GET", "/quotas/<int:quota_id>/", Role.VIEWER, "One quota",
    {200: ("The quota with the slots that it stands for.", bodies.QuotaDetail)}, tag=TAG, errors=(404,),
)  # fmt: skip
def show_quota(quota_id: int) -> Reply:
    """From which nodes it was reckoned, its slots each with its outcome, and how the promise was changed."""
    found = quota_slots.get(quota_id, clock.now())
    if found is None:
        raise ApiError(404, f"There is no quota {quota_id}: it never was, or it was old and cleaned up.")
    basis = [bodies.QuotaBasis(one.node_id, one.key, one.slots, one.interval_seconds, one.cron) for one in found.basis]
    changes = [bodies.QuotaChange(one.at, one.before, one.after) for one in found.changes]
    detail = bodies.QuotaDetail(**found.row.as_dict(), basis=basis, slots=_slots(found.slots), changes=changes,
                                violation_id=found.violation_id)  # fmt: skip
    return Reply(detail)


def _slots(slots: Iterable[Slot]) -> list[bodies.QuotaSlot]:
    return [
        bodies.QuotaSlot(one.at, one.node_id, one.node_name, one.execution_id, one.status, one.cause, one.reason)
        for one in slots
    ]


@operation(
    "GET", "/violations/", Role.VIEWER, "List violations", {200: ("One page.", bodies.ViolationList)},
    tag=TAG, args=VIOLATION_ARGS,
)  # fmt: skip
def list_violations(limit: int, cursor: str | None, olt: int | None, task_type: str | None, **given: Any) -> Reply:
    """The hours in which too few of the promised runs were completed, and to what the others were lost; newest
    first.
    """
    wanted = violations.Filter(olt_id=olt, task_type=task_type or "", **given)
    page = violations.page(wanted, args.begin(cursor, wanted.order), limit)
    items = [bodies.Violation(**_violation(row)) for row in page.rows]
    return Reply(bodies.ViolationList(items, _following("list_violations", page.next)))


def _violation(row: violations.Row) -> dict[str, Any]:
    return {
        "id": row.id, "olt_id": row.olt_id, "olt_name": row.olt_name, "task_type": row.task_type,
        "period_start": row.hour, "period_end": row.end, "severity": row.severity, "required": row.required,
        "completed": row.completed, "lost": {cause.value: slots for cause, slots in row.lost},
        "notified": row.notified, "notified_at": row.notified_at, "created_at": row.created_at,
        "acknowledged_at": row.acknowledged_at, "acknowledged_by": row.acknowledged_by, "note": row.note,
    }  # fmt: skip


@operation(
    "GET", "/violations/<int:violation_id>/", Role.VIEWER, "One violation",
    {200: ("The violation with the slots that were lost.", bodies.ViolationDetail)}, tag=TAG, errors=(404,),
)  # fmt: skip
def show_violation(violation_id: int) -> Reply:
    """Its report, which adds up, and each lost slot that is still known."""
    row = violations.get(violation_id)
    if row is None:
        raise ApiError(404, f"There is no violation {violation_id}: it never was, or it was old and cleaned up.")
    quota_id = violations.tracker_id(row)
    found = quota_slots.get(quota_id, clock.now()) if quota_id else None
    lost = _slots(one for one in found.slots if one.lost) if found else []
    return Reply(bodies.ViolationDetail(**_violation(row), quota_id=quota_id, lost_slots=lost))
