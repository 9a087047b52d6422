"""One execution that waits, in the API's words: fields and the sentence that says why. No queries."""

from collections.abc import Mapping
from datetime import datetime

from portal.api import bodies
from portal.queries.queue import Cause, Explained
from portal.queries.queue import Waiting as WaitingRow

WHY: Mapping[Cause, str] = {
    Cause.CANCELLED: "It was cancelled and ends as soon as it would be taken.",
    Cause.OLT_DISABLED: "{olt} is disabled: enable it, or the run ends when a poller takes it.",
    Cause.OLT_PAUSED: "{olt} is paused: resume it.",
    Cause.OLT_UNREACHABLE: "{olt} does not answer; it is asked again by itself, and runs go on when it does.",
    Cause.RETRY: "The try before failed; the next one is made at {due}.",
    Cause.SPREAD: "Its first run is put off to {due}, so that not all start at once.",
    Cause.OLT_BUSY: "{olt} is being read ({holder}); one composite at a time runs on an OLT.",
    Cause.BEHIND: "{other} goes first on {olt}.",
    Cause.NOT_QUEUED: "It has not reached the queue yet; this is repaired within seconds while Redis runs.",
    Cause.NO_POLLERS: "No poller runs: `flask work` starts them.",
    Cause.NO_POLLERS_AT_SITE: "No poller serves the site of {olt}: `flask work --site {site}` starts them.",
    Cause.NO_FREE_POLLER: "All {pollers} pollers that serve {olt} are busy.",
    Cause.NEXT: "Nothing: a free poller takes it now.",
}


def why(one: Explained) -> str:
    """The cause as a sentence."""
    row = one.waiting
    return WHY.get(one.cause, one.cause.value.replace("_", " ")).format(
        olt=row.olt_name, due=row.due.strftime("%Y-%m-%d %H:%M:%S UTC"), site=row.site or '""', pollers=one.pollers,
        holder=one.holder.node_name if one.holder else "", other=one.other.node_name if one.other else "",
    )  # fmt: skip


def _waits_for(one: Explained) -> bodies.ExecutionRef | None:
    if one.cause is Cause.OLT_BUSY and one.holder:
        return bodies.ExecutionRef(one.holder.id, one.holder.node_name)
    if one.cause is Cause.BEHIND and one.other:
        return bodies.ExecutionRef(one.other.id, one.other.node_name)
    return None


def _late(row: WaitingRow, now: datetime) -> bool:
    return row.overdue_at is not None and row.overdue_at <= now


def queued(one: Explained, node_id: int | None, now: datetime) -> bodies.QueuedNode:
    """The execution as the API shows it."""
    row = one.waiting
    return bodies.QueuedNode(
        execution_id=row.id, node_id=node_id, node_name=row.node_name, olt_id=row.olt_id, olt_name=row.olt_name,
        site=row.site, trigger=row.trigger, lane=row.lane, priority=row.priority, scheduled_for=row.scheduled_for,
        due_at=row.due, waiting_seconds=round(max(0.0, (now - row.due).total_seconds()), 3),
        delayed=_late(row, now), attempt=row.attempt, cause=one.cause, why=why(one), waits_for=_waits_for(one),
    )  # fmt: skip
