"""Settling slots: trackers and losses of all that ended in a transaction, written at its end in one order.

Whoever ends an execution or skips a slot says so here. The rows are written last, sorted, in two statements at most:
two transactions that end many executions can wait for each other, never both.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from portal.domain import quota
from portal.domain.quota import Settlement, TrackerKey
from portal.domain.statuses import ExecutionStatus, Trigger
from portal.extensions import before_commit
from portal.services.bulk_rows import moment
from portal.tables import Execution

_NAME = "quotas"
# completed, failed; the rest is skipped (2)
_COLUMN: Mapping[ExecutionStatus | None, int] = {ExecutionStatus.SUCCESS: 0, ExecutionStatus.FAILED: 1}

_GIVEN = {
    "sqlite": """
        SELECT json_extract(value, '$.olt_id') AS olt_id, json_extract(value, '$.task_type') AS task_type,
               json_extract(value, '$.period_start') AS period_start,
               {columns}
        FROM json_each(:rows) WHERE true""",
    "postgresql": """
        SELECT olt_id, task_type, period_start, {columns}
        FROM json_to_recordset(CAST(:rows AS json)) AS given (
            olt_id integer, task_type text, period_start timestamptz, {types})""",
}


def _given(dialect: str, **columns: str) -> str:
    """SELECT of the rows in `:rows`, in their order: the key, then `columns` (name → PostgreSQL's type)."""
    if dialect == "sqlite":
        picked = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in columns)
        return _GIVEN[dialect].format(columns=picked)
    types = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    return _GIVEN[dialect].format(columns=", ".join(columns), types=types)


# The slots that come to their end were pending, unless their tracker did not know of them yet. The row to be inserted
# keeps the table's law as well: PostgreSQL checks it even where the row exists.
_TRACKERS = """
INSERT INTO quota_trackers AS kept (
    olt_id, task_type, period_start, period_end, quota_completed, quota_failed, quota_skipped, quota_required,
    total_duration_ms, timed, avg_duration_ms, created_at, updated_at, quota_pending, status, basis)
SELECT olt_id, task_type, period_start, period_end, completed, failed, skipped, completed + failed + skipped,
       duration, timed, CASE WHEN timed > 0 THEN duration / timed ELSE 0 END, now, now, 0, 'IN_PROGRESS', '[]'
FROM ({given}) AS given WHERE true
ON CONFLICT (olt_id, task_type, period_start) DO UPDATE SET
    quota_completed = kept.quota_completed + excluded.quota_completed,
    quota_failed = kept.quota_failed + excluded.quota_failed,
    quota_skipped = kept.quota_skipped + excluded.quota_skipped,
    quota_pending = {pending},
    quota_required = {required},
    total_duration_ms = kept.total_duration_ms + excluded.total_duration_ms,
    timed = kept.timed + excluded.timed,
    avg_duration_ms = CASE WHEN kept.timed + excluded.timed > 0
        THEN (kept.total_duration_ms + excluded.total_duration_ms) / (kept.timed + excluded.timed) ELSE 0 END,
    status = CASE
        WHEN kept.status IN ('IN_PROGRESS', 'INTERRUPTED') THEN kept.status
        WHEN kept.quota_completed + excluded.quota_completed >= {required} THEN 'COMPLETED'
        WHEN kept.quota_completed + excluded.quota_completed = 0 THEN 'FAILED'
        WHEN (kept.quota_completed + excluded.quota_completed) * 100 >= {required} * {met} THEN 'PARTIAL'
        ELSE 'QUOTA_NOT_MET' END,
    updated_at = excluded.updated_at
"""

_PENDING = (
    "CASE WHEN kept.quota_pending > excluded.quota_required "
    "THEN kept.quota_pending - excluded.quota_required ELSE 0 END"
)
_REQUIRED = (
    "(kept.quota_completed + kept.quota_failed + kept.quota_skipped + CASE WHEN kept.quota_pending > "
    "excluded.quota_required THEN kept.quota_pending ELSE excluded.quota_required END)"
)

_LOSSES = """
INSERT INTO quota_losses AS kept (olt_id, task_type, period_start, cause, failed, skipped)
SELECT olt_id, task_type, period_start, cause, failed, skipped FROM ({given}) AS given WHERE true
ON CONFLICT (olt_id, task_type, period_start, cause) DO UPDATE SET
    failed = kept.failed + excluded.failed, skipped = kept.skipped + excluded.skipped
"""


def _trackers(dialect: str) -> str:
    time = "timestamptz" if dialect == "postgresql" else "text"
    given = _given(
        dialect, period_end=time, completed="integer", failed="integer", skipped="integer", duration="bigint",
        timed="integer", now=time,
    )  # fmt: skip
    return _TRACKERS.format(given=given, pending=_PENDING, required=_REQUIRED, met=round(quota.MET * 100))


_SETTLE = {name: text(_trackers(name)) for name in _GIVEN}
_LOSE = {
    name: text(_LOSSES.format(given=_given(name, cause="text", failed="integer", skipped="integer"))) for name in _GIVEN
}


class _Book:
    """What was settled in one transaction; called at its end."""

    def __init__(self, session: Session, now: datetime) -> None:
        self.session, self.now = session, now
        self.settlements: list[Settlement] = []

    def __call__(self) -> bool:
        """Write what was settled since the last time; True when there was anything."""
        if not self.settlements:
            return False
        rows = json.dumps(_tracker_rows(self.session, self.settlements, self.now))
        losses = _loss_rows(self.session, self.settlements)
        lost = json.dumps(losses)  # all is ready before the first lock: after a long stop it is much
        self.settlements = []
        self.session.flush()
        connection = self.session.connection()
        connection.execute(_SETTLE[connection.dialect.name], {"rows": rows})
        if losses:
            connection.execute(_LOSE[connection.dialect.name], {"rows": lost})
        return True


def settle(session: Session, settlements: Iterable[Settlement], now: datetime) -> None:
    """These slots have come to their end; written when the caller's transaction commits."""
    before_commit(session, _NAME, lambda: _Book(session, now)).settlements += settlements


def write_now(session: Session, now: datetime) -> bool:
    """What was settled so far is written at once: for who counts what is left, in the same transaction.

    False when nothing was.
    """
    return before_commit(session, _NAME, lambda: _Book(session, now))()


def unwritten(session: Session, now: datetime) -> set[TrackerKey]:
    """Whose slots were settled and not written yet: who locks trackers before that locks these with them."""
    return {one.key for one in before_commit(session, _NAME, lambda: _Book(session, now)).settlements}


def settle_execution(session: Session, execution: Execution, now: datetime) -> None:
    """The slot of an execution whose terminal status was just set. What a person asked for is nobody's promise."""
    if execution.trigger is not Trigger.SCHEDULE or not execution.task_type:
        return
    key = TrackerKey(execution.olt_id, execution.task_type, quota.hour_of(execution.scheduled_for))
    cause = quota.cause_of_end(execution.status, execution.error_kind, execution.skip_reason)
    took = execution.duration_ms
    settled = Settlement(key, execution.status, cause, duration_ms=took or 0, timed=int(took is not None))
    settle(session, [settled], now)


def _tracker_rows(session: Session, settlements: list[Settlement], now: datetime) -> list[dict[str, Any]]:
    """Plain loops: after a long stop there are ten thousand, and their masters are locked meanwhile."""
    sums: dict[TrackerKey, list[int]] = {}
    for one in settlements:
        found = sums.get(one.key)
        if found is None:
            found = sums[one.key] = [0, 0, 0, 0, 0]
        found[_COLUMN.get(one.status, 2)] += one.slots
        found[3] += one.duration_ms
        found[4] += one.timed
    told, written = cache(lambda at: moment(session, at)), moment(session, now)
    return [
        {
            "olt_id": key.olt_id, "task_type": key.task_type, "period_start": told(key.hour),
            "period_end": told(key.hour + quota.HOUR), "completed": completed, "failed": failed, "skipped": skipped,
            "duration": duration, "timed": timed, "now": written,
        }
        for key, (completed, failed, skipped, duration, timed) in sorted(sums.items(), key=lambda item: order(item[0]))
    ]  # fmt: skip


def _loss_rows(session: Session, settlements: list[Settlement]) -> list[dict[str, Any]]:
    sums: dict[tuple[TrackerKey, str], list[int]] = {}
    for one in settlements:
        if one.cause is not None:
            both = sums.setdefault((one.key, one.cause.value), [0, 0])
            both[one.status is not ExecutionStatus.FAILED] += one.slots
    told = cache(lambda at: moment(session, at))
    return [
        {
            "olt_id": key.olt_id, "task_type": key.task_type, "period_start": told(key.hour), "cause": cause,
            "failed": failed, "skipped": skipped,
        }
        for (key, cause), (failed, skipped) in sorted(sums.items(), key=lambda item: (order(item[0][0]), item[0][1]))
    ]  # fmt: skip


def order(key: TrackerKey) -> tuple[int, str, datetime]:
    """In this order everybody locks trackers. Not in a database's, which goes by its language."""
    return key.olt_id, key.task_type, key.hour.astimezone(UTC)
