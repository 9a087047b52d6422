"""Makes the world follow a decision, through services: abort, unqueue, recount, replan, log. A transaction a chunk."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Table, select
from sqlalchemy.orm import Session

from portal.domain import quota
from portal.domain.messages import N_, Message
from portal.domain.statuses import EventType, QuotaStatus, SkipReason
from portal.extensions import after_commit, transaction
from portal.services import bulk, decisions
from portal.services.bulk_rows import change_rows, moment
from portal.services.coordinating import plans, trackers
from portal.services.coordinating.trackers import Adjusted
from portal.services.dispatch import executions, waiting
from portal.tables import CoordinatorState, Execution, Olt
from scheduler.coordinator import decide, observe
from scheduler.coordinator.decide import Change, ChangeKind, Decision, Snapshot

log = logging.getLogger(__name__)

_STATES = cast(Table, CoordinatorState.__table__)
HOURS_BACK = 2  # hours before the present one whose promises may still change: their last slots end late


@dataclass(frozen=True)
class Seen:
    """One OLT in hand: what is to be done, what is to be remembered."""

    olt_id: int
    decision: Decision
    text: str
    opens: bool  # its promises of the present hour are not there yet


def reconcile(olt_ids: Collection[int], now: datetime) -> int:
    """Look at these OLTs again under a lock, and act on each change exactly once; returns how many changes there were.

    The lock is the row of what was seen last: whoever comes second finds nothing left to do. All of it is undone when
    it fails, and done by the next pass.
    """
    with transaction() as session:
        seen = _look(session, olt_ids, quota.hour_at(now), now)
        _stop_work(session, seen, now)
        adjusted = _recount(session, seen, now)
        _replan(session, seen, now)
        _log(session, seen, adjusted, now)
        _remember(session, seen, now)
        return sum(len(one.decision.changes) for one in seen)


def _look(session: Session, olt_ids: Collection[int], hour: datetime, now: datetime) -> list[Seen]:
    blank = {"version": 0, "digest": "", "snapshot": "", "hour": None, "observed_at": now}
    bulk.insert_new(session, _STATES, [{"olt_id": ident, **blank} for ident in sorted(olt_ids)], ("olt_id",))
    query = select(
        CoordinatorState.olt_id, CoordinatorState.version, CoordinatorState.snapshot, CoordinatorState.hour
    ).where(CoordinatorState.olt_id.in_(olt_ids))  # fmt: skip
    before = {row.olt_id: row for row in session.execute(query.order_by(CoordinatorState.olt_id).with_for_update())}
    texts = observe.texts(session, before)
    found = []
    for ident, row in before.items():
        text, opens = texts[ident], row.hour is None or row.hour < hour
        if text == row.snapshot and row.version == decide.VERSION and not opens:
            continue
        found.append(Seen(ident, _decide(row, text), text, opens))
    return found


def _decide(row: Any, text: str) -> Decision:
    after = decide.parse(text)
    if row.version == 0:
        return decide.decide(None, after)
    before = _remembered(row)
    if before is None:
        # What changed since then cannot be told; promises and plan can be made anew, as if a clock had been wound.
        return replace(decide.decide(after, after), recount=True, replan=True)
    return decide.decide(before, after)


def _remembered(row: Any) -> Snapshot | None:
    """What was seen last; None where it is written in another version of the form, or in none."""
    if row.version != decide.VERSION:
        return None
    try:
        return decide.parse(row.snapshot)
    except ValueError:
        log.warning("event=snapshot_unreadable olt=%d", row.olt_id)
        return None


def _stop_work(session: Session, seen: Sequence[Seen], now: datetime) -> None:
    """The services have done so when they disabled it; what was switched in another way is stopped here."""
    nodes = [node for one in seen for node in one.decision.abort]
    waiting.end_of_nodes(session, nodes, now, N_("its node was disabled"))
    olts = [one.olt_id for one in seen if one.decision.interrupt]
    if olts:
        waiting.end(session, Execution.olt_id.in_(olts), now, N_("its OLT was disabled"), SkipReason.OLT_DISABLED)
        after_commit(session, lambda: executions.stop_running(olts))


def _recount(session: Session, seen: Sequence[Seen], now: datetime) -> list[Adjusted]:
    present = quota.hour_at(now)
    changed = [one.olt_id for one in seen if one.decision.recount]
    opened = [one.olt_id for one in seen if one.opens and not one.decision.recount]
    hours = [present - number * quota.HOUR for number in range(HOURS_BACK, -1, -1)]
    if not changed:
        hours = [present]
    adjusted = trackers.refresh(session, hours, now, [*changed, *opened], opened) if changed or opened else []
    for interrupt, before, after in (
        (True, QuotaStatus.IN_PROGRESS, QuotaStatus.INTERRUPTED),
        (False, QuotaStatus.INTERRUPTED, QuotaStatus.IN_PROGRESS),
    ):
        ids = [one.olt_id for one in seen if (one.decision.interrupt if interrupt else one.decision.resume)]
        if ids:
            trackers.set_status(session, ids, before, after, now)
    return [one for one in adjusted if one.existed and one.key.olt_id in changed]


def _replan(session: Session, seen: Sequence[Seen], now: datetime) -> None:
    gone = [one.olt_id for one in seen if one.decision.interrupt]
    if gone:
        plans.abort(session, gone, now)
    hour = quota.hour_at(now)
    for why, changed in (("change", True), ("hour", False)):
        ids = [one.olt_id for one in seen if _plans_anew(one) and bool(one.decision.changes) is changed]
        if ids:
            plans.make(session, ids, hour, now, why)


def _plans_anew(one: Seen) -> bool:
    return (one.opens or one.decision.replan) and not one.decision.interrupt


def _log(session: Session, seen: Sequence[Seen], adjusted: Sequence[Adjusted], now: datetime) -> None:
    told = [one for one in seen if one.decision.changes or one.decision.reorder]
    if not told:
        return
    named = select(Olt.id, Olt.name).where(Olt.id.in_([one.olt_id for one in told]))
    names = {row.id: row.name for row in session.execute(named)}
    for one in told:
        tasks = decide.parse(one.text).tasks
        for change in one.decision.changes:
            there = change.task is not None and change.task.id in tasks  # a node that was deleted cannot be referred to
            _log_change(session, one.olt_id, names[one.olt_id], change, now, there=there)
        _log_plan(session, one, names[one.olt_id], now)
    for tracker in adjusted:
        key = tracker.key
        message = N_(
            "%(task)s: %(before)d → %(after)d runs promised in the hour from %(hour)s UTC",
            task=key.task_type, before=tracker.before, after=tracker.after, hour=f"{key.hour:%H:%M}",
        )  # fmt: skip
        facts = {"task_type": key.task_type, "period_start": key.hour.isoformat(), "before": tracker.before,
                 "after": tracker.after}  # fmt: skip
        decisions.record(session, EventType.QUOTA_ADJUSTED, message, now, olt_id=key.olt_id, details=facts)


def _log_change(session: Session, olt_id: int, name: str, change: Change, now: datetime, *, there: bool) -> None:
    task = change.task
    level = "WARNING" if change.kind in (ChangeKind.TASK_REMOVED, ChangeKind.OLT_DISABLED) else "INFO"
    facts: dict[str, Any] = {}
    if task is not None:
        facts = {"key": task.key, "task_type": task.task_type, "pace": task.pace, "node_id": task.id}
        if change.kind is ChangeKind.TASK_INTERVAL_CHANGED and change.before is not None:
            facts["before"] = change.before.pace
    decisions.record(
        session, change.kind.event, _words(name, change), now, olt_id=olt_id, level=level,
        node_id=task.id if task is not None and there else None, details=facts,
    )  # fmt: skip


def _words(olt: str, change: Change) -> Message:
    task = change.task
    if change.kind is ChangeKind.OLT_ENABLED:
        return N_("%(olt)s: the OLT was enabled", olt=olt)
    if task is None or change.kind is ChangeKind.OLT_DISABLED:
        return N_("%(olt)s: the OLT was disabled", olt=olt)
    if change.kind is ChangeKind.TASK_ADDED:
        return N_("%(olt)s: task %(key)s added (%(pace)s)", olt=olt, key=task.key, pace=task.pace)
    if change.kind is ChangeKind.TASK_REMOVED:
        return N_("%(olt)s: task %(key)s removed from the plan", olt=olt, key=task.key)
    before = change.before.pace if change.before else "?"
    return N_("%(olt)s: task %(key)s: %(before)s → %(after)s", olt=olt, key=task.key, before=before, after=task.pace)


def _log_plan(session: Session, one: Seen, name: str, now: datetime) -> None:
    tasks = [task for task in decide.parse(one.text).tasks.values() if task.on and task.master_id is None]
    why = [change.kind.value for change in one.decision.changes] or ["clock" if one.decision.recount else "order"]
    message = (
        N_("%(olt)s: plan aborted", olt=name) if one.decision.interrupt
        else N_("%(olt)s: new plan with %(count)d tasks", olt=name, count=len(tasks))
    )  # fmt: skip
    decisions.record(
        session, EventType.PLAN_ADJUSTED, message, now, olt_id=one.olt_id, details={"why": why, "tasks": len(tasks)}
    )


def _remember(session: Session, seen: Sequence[Seen], now: datetime) -> None:
    hour = moment(session, quota.hour_at(now))
    rows = [
        (one.olt_id, decide.VERSION, decide.digest(one.text), one.text, hour, moment(session, now)) for one in seen
    ]  # fmt: skip
    columns = ("olt_id", "version", "digest", "snapshot", "hour", "observed_at")
    change_rows(session, CoordinatorState, columns, rows, ("olt_id",))
