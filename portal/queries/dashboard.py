"""The start page in numbers: what is wrong now, the pool's last hour, what ran in the last day. Reads only."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import case, func, select

from portal.domain import quota
from portal.domain.statuses import ErrorKind, ExecutionStatus, OltCondition, Severity, Trigger
from portal.extensions import db
from portal.queries import executions, mismatches, olts, quotas
from portal.queries.freshness import condition
from portal.queries.mismatches import Mismatch
from portal.queries.remembered import remembered
from portal.tables import Execution, Olt, PollerStats, QuotaTracker, QuotaViolation

TROUBLED = 8  # OLTs that are named; of the others there is the list
FAILURES = 8
LATEST = 10
RECENT = timedelta(days=1)
HOUR = timedelta(hours=1)

_UNREAD = (OltCondition.OTHER_DEVICE, OltCondition.FAILING)


@dataclass(frozen=True)
class Failure:
    """One execution that failed. `slot`: None of a run by hand, or of a node that is gone."""

    id: int
    olt_id: int
    olt_name: str
    node_name: str
    finished_at: datetime
    error_kind: ErrorKind | None
    error_message: str
    node_id: int | None
    scheduled_for: datetime
    trigger: Trigger

    @property
    def slot(self) -> datetime | None:
        """When it was planned for."""
        return self.scheduled_for if self.node_id is not None and self.trigger is Trigger.SCHEDULE else None


@dataclass(frozen=True)
class Troubled:
    """An enabled OLT that does not answer, is not what it was, is not read, or is paused."""

    id: int
    name: str
    condition: OltCondition
    since: datetime | None
    reason: str
    until: datetime | None
    failures: int
    probe_at: datetime | None


@dataclass(frozen=True)
class Promises:
    """`at_risk` of `trackers` of this hour; violations of the last day that nobody has acknowledged, worst first."""

    trackers: int
    at_risk: int
    violations: tuple[tuple[Severity, int], ...]

    @property
    def open(self) -> int:
        """Violations that nobody has acknowledged."""
        return sum(count for _severity, count in self.violations)


@dataclass(frozen=True)
class PoolPoint:
    """The pool at a moment; `late`: how many runs its pollers had begun late in all their lives."""

    at: datetime
    busy_percent: float
    waiting: int
    late: int


@dataclass(frozen=True)
class HourRuns:
    """What became of the slots that were promised for one hour."""

    hour: datetime
    done: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.done + self.failed + self.skipped


@dataclass(frozen=True)
class Overview:
    """All that the start page shows."""

    counts: dict[str, int]
    troubled: list[Troubled]
    promises: Promises
    failures: list[Failure]
    pool: list[PoolPoint]
    hours: list[HourRuns]
    latest: tuple[executions.Row, ...]
    mismatches: list[Mismatch]

    def more(self, state: str) -> int:
        """OLTs of this state that are not named."""
        return self.counts.get(state, 0) - sum(row.condition == state for row in self.troubled)


def overview(now: datetime) -> Overview:
    """At most ten SQL statements whatever the number of OLTs."""
    return Overview(
        counts=olts.counts(olts.OltFilter()),
        troubled=_troubled(),
        promises=_promises(now),
        failures=_failures(now),
        pool=_pool(now),
        hours=_hours(now),
        latest=executions.page(executions.Filter(), size=LATEST).rows,
        mismatches=mismatches.of_all(),
    )


def _troubled() -> list[Troubled]:
    """Those that do not answer before those that a person has paused; of each kind the newest trouble first."""
    columns = (
        Olt.id, Olt.name, condition, case((condition.in_(_UNREAD), Olt.stale_at), else_=Olt.state_since),
        Olt.paused_reason, Olt.paused_until, Olt.consecutive_failures,
        Olt.probe_at,
    )  # fmt: skip
    wanted = (OltCondition.UNREACHABLE, OltCondition.REFUSED, *_UNREAD, OltCondition.PAUSED)
    rank = case({one: number for number, one in enumerate(wanted)}, value=condition)
    query = select(*columns).where(condition.in_(wanted), Olt.deleted_at.is_(None))
    query = query.order_by(rank, Olt.state_since.desc(), Olt.name).limit(TROUBLED)
    return [Troubled(*row) for row in db.session.execute(query)]


def _promises(now: datetime) -> Promises:
    hour = quota.hour_at(now)
    alike = quotas.groups(quotas.Filter(hour))
    query = (
        select(QuotaViolation.severity, func.count())
        .where(QuotaViolation.period_start >= hour - RECENT, QuotaViolation.acknowledged_at.is_(None))
        .group_by(QuotaViolation.severity)
    )
    found = {severity: count for severity, count in db.session.execute(query)}
    worst_first = tuple((severity, found[severity]) for severity in reversed(Severity) if severity in found)
    risky = sum(one.trackers for one in alike if one.at_risk(hour, now))
    return Promises(sum(one.trackers for one in alike), risky, worst_first)


def _failures(now: datetime) -> list[Failure]:
    query = (
        select(
            Execution.id, Execution.olt_id, Olt.name, Execution.node_name, Execution.finished_at,
            Execution.error_kind, Execution.error_message, Execution.node_id, Execution.scheduled_for,
            Execution.trigger,
        )
        .join(Olt, Olt.id == Execution.olt_id)
        .where(Execution.status == ExecutionStatus.FAILED)
        .order_by(Execution.id.desc())
        .limit(FAILURES)
    )  # fmt: skip
    # The age is compared here: in SQL it would walk all failures of a month when the last day had none.
    return [Failure(*row) for row in db.session.execute(query) if row.finished_at and row.finished_at > now - RECENT]


def _pool(now: datetime) -> list[PoolPoint]:
    """Every third point of the last hour, which is one each 30 s."""
    query = (
        select(PollerStats.timestamp, PollerStats.busy_percentage, PollerStats.queue_size,
               PollerStats.total_tasks_delayed)
        .where(PollerStats.timestamp > now - HOUR, PollerStats.id % 3 == 0)
        .order_by(PollerStats.timestamp)
    )  # fmt: skip
    return [PoolPoint(at, float(busy), waiting, late) for at, busy, waiting, late in db.session.execute(query)]


def _hours(now: datetime) -> list[HourRuns]:
    """The last 24 hours and this one, oldest first. Sums over all promises of a day: made anew once a minute."""
    return remembered("hours of the start page", now, lambda: _read_hours(now))


def _read_hours(now: datetime) -> list[HourRuns]:
    last = quota.hour_at(now)
    sums = (QuotaTracker.quota_completed, QuotaTracker.quota_failed, QuotaTracker.quota_skipped)
    query = (
        select(QuotaTracker.period_start, *(func.sum(column) for column in sums))
        .where(QuotaTracker.period_start >= last - RECENT)
        .group_by(QuotaTracker.period_start)
    )
    found = {hour: HourRuns(hour, int(done), int(failed), int(skipped))
             for hour, done, failed, skipped in db.session.execute(query)}  # fmt: skip
    hours = (last - RECENT + HOUR * number for number in range(25))
    return [found.get(hour, HourRuns(hour)) for hour in hours]
