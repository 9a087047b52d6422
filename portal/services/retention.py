"""Deleting what has been kept long enough. Every step lets others write: short transactions, and a rest after each.

What is to go is found before the lock is taken, and by an index: rows get their ids in the order of time, so that the
oldest ids are looked at until none of a look is past its time. What is kept is never gone through.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, literal_column, select, true

from portal.domain.statuses import ExecutionStatus, NotificationStatus
from portal.extensions import Base, db, transaction
from portal.services.collecting import history
from portal.services.decisions import LOG_DAYS
from portal.tables import (
    CoordinatorLog,
    Execution,
    ExecutionPlan,
    NodeDay,
    Notification,
    Onu,
    OnuEvent,
    PollerStats,
    Probe,
    QuotaLoss,
    QuotaTracker,
    QuotaViolation,
    Trial,
    Workflow,
    WorkflowRevision,
)

log = logging.getLogger(__name__)

LOOK = 500  # rows looked at in one statement
BATCHES = (5, 200)  # rows deleted in one transaction, at least and at most: an ONU takes its history along
HELD = 0.025  # seconds that a transaction should hold the lock
BUDGET = 300.0  # seconds of one run, rests included; its job may take twice as long
STATS_DAYS = 7
EVENT_DAYS = 365
PROBE_DAYS = 1
TRIAL_DAYS = 1
LEDGER_DAYS = 730
PLAN_DAYS = 3
QUOTA_DAYS = 60
VIOLATION_DAYS = 365
ALERT_DAYS = 30
REVISION_DAYS = 30
REVISIONS_KEPT = 20  # of each workflow, however old

Steps = Mapping[str, Iterator[int]]  # name → one transaction at a time, with how many rows it took away


def clean_up(
    now: datetime, days: int, failed_days: int, ledger_days: int = LEDGER_DAYS, plan_days: int = PLAN_DAYS,
    quota_days: int = QUOTA_DAYS, gone_days: int = 0,
) -> int:  # fmt: skip
    """Delete everything past its time, and thin the history; returns how many rows went.

    Steps and attempts go with their execution. ONUs that no discovery has listed for `gone_days` (0 = never) go with
    all that was read of them. What the time does not suffice for is left to the next run. ExceptionGroup: some steps
    failed; the others were done.
    """
    over = Notification.status.in_((NotificationStatus.SENT, NotificationStatus.GIVEN_UP))

    def past(
        column: Any, kept: int, *among: ColumnElement[bool], only: ColumnElement[bool] | None = None
    ) -> Iterator[int]:  # fmt: skip
        return _past(column, now, timedelta(days=kept), among, true() if only is None else only)

    def ended(status: ExecutionStatus, kept: int) -> Iterator[int]:
        return past(Execution.finished_at, kept, Execution.status == status)

    steps = {
        "successes": ended(ExecutionStatus.SUCCESS, days),
        "interruptions": ended(ExecutionStatus.INTERRUPTED, days),
        "failures": ended(ExecutionStatus.FAILED, failed_days),
        "decisions": past(CoordinatorLog.timestamp, LOG_DAYS),
        "pool": past(PollerStats.timestamp, STATS_DAYS),
        "ledger": past(NodeDay.day, ledger_days),
        "plans": past(ExecutionPlan.created_at, plan_days),
        "losses": past(QuotaLoss.period_start, quota_days),
        "trackers": past(QuotaTracker.period_start, quota_days),
        "violations": past(QuotaViolation.period_start, VIOLATION_DAYS),
        "events": past(OnuEvent.happened_at, EVENT_DAYS),
        "probes": past(Probe.created_at, PROBE_DAYS),
        "trials": past(Trial.created_at, TRIAL_DAYS),
        "alerts": past(Notification.created_at, ALERT_DAYS, only=over),
        "revisions": _found(WorkflowRevision, _superseded(now - timedelta(days=REVISION_DAYS))),
        "history": history.thin(now),
    }
    if gone_days:
        away: ColumnElement[bool] = literal_column("presence = 'DISABLED'")
        gone = (away, Onu.presence_since < now - timedelta(days=gone_days))
        steps["onus"] = _found(Onu, select(Onu.id).where(*gone).order_by(Onu.presence_since), *gone)
    return take_turns(steps, BUDGET, first=int(now.timestamp()) // 3600)


def take_turns(
    steps: Steps, seconds: float, first: int = 0, clock: Callable[[], float] = time.monotonic,
    rest: Callable[[float], object] = time.sleep,
) -> int:  # fmt: skip
    """One transaction of each step in turn, beginning with the step `first`, until all are done or `seconds` are over.

    After each comes a rest as long as it took. A step that fails ends alone; all failures are raised at the end.
    """
    until, taken, failures = clock() + seconds, 0, []
    waiting = deque(steps.items())
    waiting.rotate(-first)
    while waiting and clock() < until:
        name, step = waiting.popleft()
        began = clock()
        try:
            count = next(step, None)
        except Exception as error:
            log.exception("event=clean_up_failed step=%s", name)
            failures.append(error)
            continue
        if count is not None:
            taken += count
            waiting.append((name, step))
            rest(clock() - began)
    if waiting:
        log.warning("event=clean_up_cut rows=%d left=%s", taken, ",".join(sorted(name for name, _step in waiting)))
    if failures:
        raise ExceptionGroup("steps of the clean-up failed", failures)
    return taken


def _past(
    at: Any, now: datetime, kept: timedelta, among: Sequence[ColumnElement[bool]], only: ColumnElement[bool]
) -> Iterator[int]:  # fmt: skip
    """Delete the rows whose moment `at` is longer ago than `kept`, `among` those (told by an index) and `only` such.

    Those of a time to come are passed over: a clock that was ahead has left them, and older ones may lie behind.
    """
    table, edge, last = at.class_, now - kept, 0
    while True:
        look = select(table.id, at, only).where(*among, table.id > last, at.is_not(None))
        rows = _read(look.order_by(table.id).limit(LOOK))
        old = [row[0] for row in rows if row[1] < edge and row[2]]
        yield from _delete(table, old, at < edge, only)
        if len(rows) < LOOK or all(edge <= row[1] <= now for row in rows):
            return
        last = rows[-1][0]


def _found(table: Any, query: Select[Any], *still: ColumnElement[bool]) -> Iterator[int]:
    """Delete the rows that `query` finds by an index, as long as they are what they were."""
    while ids := [row[0] for row in _read(query.limit(LOOK))]:
        yield from _delete(table, ids, *still)
        if len(ids) < LOOK:
            return


def _superseded(edge: datetime) -> Select[Any]:
    """Revisions before `edge` that are not among the newest of their workflow: their numbers have no gaps."""
    return (
        select(WorkflowRevision.id)
        .join(Workflow, Workflow.id == WorkflowRevision.workflow_id)
        .where(WorkflowRevision.number <= Workflow.revision - REVISIONS_KEPT, WorkflowRevision.made_at < edge)
    )


def _read(query: Select[Any]) -> Sequence[Any]:
    rows = db.session.execute(query).all()
    db.session.rollback()
    return rows


def _delete(table: type[Base], ids: Sequence[int], *still: ColumnElement[bool]) -> Iterator[int]:
    """Delete these rows, as many at a time as fit into HELD; how many went each time."""
    model: Any = table
    least, most = BATCHES
    size = least
    while ids:
        batch, ids = ids[:size], ids[size:]
        with transaction() as session:
            began = time.monotonic()
            wanted = delete(model).where(model.id.in_(batch), *still)
            gone = session.execute(wanted, execution_options={"synchronize_session": False})
        took = time.monotonic() - began
        size = min(most, max(least, min(2 * size, int(size * HELD / max(took, 0.001)))))
        yield gone.rowcount  # type: ignore[attr-defined]
