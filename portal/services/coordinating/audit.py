"""The proof: every tracker counted again from the executions and skipped slots that it stands for. Writes nothing."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from flask import current_app
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from portal.domain import quota
from portal.domain.quota import Settlement, TrackerKey
from portal.domain.statuses import ACTIVE, EventType, ExecutionStatus, LossCause, SkipReason, Trigger
from portal.extensions import db
from portal.services.coordinating.slots_to_come import hours_between, pending
from portal.services.decisions import LOG_DAYS
from portal.tables import CoordinatorLog, CoordinatorState, Execution, QuotaLoss, QuotaTracker


@dataclass
class Account:
    """What one tracker must say, or says."""

    completed: int = 0
    failed: int = 0
    skipped: int = 0
    pending: int = 0
    duration_ms: int = 0
    timed: int = 0
    lost: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def required(self) -> int:
        """Slots promised."""
        return self.completed + self.failed + self.skipped + self.pending

    def add(self, one: Settlement) -> None:
        """Slots that came to their end."""
        self.completed += one.counts.completed
        self.failed += one.counts.failed
        self.skipped += one.counts.skipped
        self.duration_ms += one.duration_ms
        self.timed += one.timed
        if one.cause is not None:
            self.lost[one.cause.value] += one.slots


@dataclass(frozen=True)
class Difference:
    """A tracker that does not say what it must. `what`: completed, failed, skipped, pending, duration_ms, lost …"""

    key: TrackerKey
    what: str
    stored: int
    counted: int


@dataclass(frozen=True)
class Audited:
    """How many trackers of how many hours were looked at, and what is wrong with them.

    `unopened`: OLTs whose promises of the present hour the coordinator has not opened yet; what is pending there is
    not compared.
    """

    trackers: int
    slots: int
    differences: tuple[Difference, ...]
    hours: int = 0
    unopened: int = 0


def audit(now: datetime, hours: int) -> Audited:
    """Recompute the trackers of the last `hours` hours, the present one included. One snapshot of the database.

    Hours of which something has been cleaned up are left out: `most_hours`. Slots of changes that the coordinator has
    not seen yet (it looks each 5 s) show as a difference in `pending`.
    """
    session = db.session()
    session.rollback()
    if session.get_bind().dialect.name == "postgresql":
        session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    last = quota.hour_at(now)
    asked = list(hours_between(last - (min(hours, most_hours()) - 1) * quota.HOUR, last))
    try:
        counted, stored, opened = _count(session, asked, now), _stored(session, asked), _opened(session, last)
    finally:
        session.rollback()
    keys = sorted(counted.keys() | stored.keys(), key=lambda key: (key.hour, key.olt_id, key.task_type))
    unopened = {key.olt_id for key in keys if key.hour == last} - opened
    found = tuple(
        one for key in keys for one in _compare(key, stored.get(key), counted.get(key))
        if one.what != "pending" or key.hour != last or key.olt_id in opened
    )  # fmt: skip
    return Audited(len(stored), sum(one.required for one in counted.values()), found, len(asked), len(unopened))


def most_hours() -> int:
    """So many hours, the present one included, are complete at any moment: what is older is cleaned up."""
    config = current_app.config
    kept = (config["RETENTION_DAYS"], config["RETENTION_FAILED_DAYS"], config["QUOTA_RETENTION_DAYS"], LOG_DAYS)
    return int(min(kept)) * 24 - 1


def _opened(session: Session, hour: datetime) -> set[int]:
    """OLTs whose promises of the hour the coordinator has opened: after its beginning that takes a few passes."""
    return set(session.scalars(select(CoordinatorState.olt_id).where(CoordinatorState.hour >= hour)))


def _count(session: Session, hours: Sequence[datetime], now: datetime) -> dict[TrackerKey, Account]:
    accounts: dict[TrackerKey, Account] = defaultdict(Account)
    wanted = set(hours)
    for one in _ended(session, hours):
        accounts[one.key].add(one)
    for one in _skipped(session, hours[0]):
        if one.key.hour in wanted:
            accounts[one.key].add(one)
    for key, left in pending(session, hours, now).items():
        accounts[key].pending += left.slots
    return dict(accounts)


def _ended(session: Session, hours: Sequence[datetime]) -> Iterator[Settlement]:
    for hour in hours:
        groups = (
            Execution.olt_id, Execution.task_type, Execution.status, Execution.error_kind, Execution.skip_reason
        )  # fmt: skip
        query = (
            select(*groups, func.count(), func.coalesce(func.sum(Execution.duration_ms), 0),
                   func.count(Execution.duration_ms))
            .where(
                Execution.scheduled_for > hour, Execution.scheduled_for <= hour + quota.HOUR,
                Execution.trigger == Trigger.SCHEDULE, Execution.task_type != "", Execution.status.not_in(ACTIVE),
            )
            .group_by(*groups)
        )  # fmt: skip
        for olt_id, task_type, status, kind, reason, slots, duration, timed in session.execute(query):
            cause = quota.cause_of_end(ExecutionStatus(status), kind, reason)
            yield Settlement(TrackerKey(olt_id, task_type, hour), status, cause, slots, int(duration), timed)


def _skipped(session: Session, since: datetime) -> Iterator[Settlement]:
    """Skipped slots are logged when or after the last of them was due."""
    query = select(CoordinatorLog.olt_id, CoordinatorLog.reason, CoordinatorLog.details).where(
        CoordinatorLog.event_type == EventType.SLOT_SKIPPED, CoordinatorLog.timestamp > since
    )
    for olt_id, reason, details in session.execute(query):
        task_type = details.get("task_type", "")
        if not task_type or olt_id is None:
            continue
        for hour, slots in quota.skipped_by_hour(details).items():
            key = TrackerKey(olt_id, task_type, hour)
            yield Settlement(key, None, quota.cause_of_skip(SkipReason(reason)), slots)


def _stored(session: Session, hours: Sequence[datetime]) -> dict[TrackerKey, Account]:
    accounts: dict[TrackerKey, Account] = {}
    rows = session.execute(
        select(
            QuotaTracker.olt_id, QuotaTracker.task_type, QuotaTracker.period_start, QuotaTracker.quota_completed,
            QuotaTracker.quota_failed, QuotaTracker.quota_skipped, QuotaTracker.quota_pending,
            QuotaTracker.total_duration_ms, QuotaTracker.timed,
        ).where(QuotaTracker.period_start.in_(hours))
    )  # fmt: skip
    for olt_id, task_type, hour, *counts in rows:
        accounts[TrackerKey(olt_id, task_type, hour)] = Account(*counts)
    losses = select(
        QuotaLoss.olt_id, QuotaLoss.task_type, QuotaLoss.period_start, QuotaLoss.cause,
        QuotaLoss.failed + QuotaLoss.skipped,
    ).where(QuotaLoss.period_start.in_(hours))  # fmt: skip
    for olt_id, task_type, hour, cause, slots in session.execute(losses):
        accounts.setdefault(TrackerKey(olt_id, task_type, hour), Account()).lost[LossCause(cause).value] += slots
    return accounts


def _compare(key: TrackerKey, stored: Account | None, counted: Account | None) -> Iterator[Difference]:
    has, must = stored or Account(), counted or Account()
    for what in ("completed", "failed", "skipped", "pending", "duration_ms", "timed"):
        if getattr(has, what) != getattr(must, what):
            yield Difference(key, what, getattr(has, what), getattr(must, what))
    for cause in sorted(has.lost.keys() | must.lost.keys()):
        if has.lost.get(cause, 0) != must.lost.get(cause, 0):
            yield Difference(key, f"lost to {cause}", has.lost.get(cause, 0), must.lost.get(cause, 0))
