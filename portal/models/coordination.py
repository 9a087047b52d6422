"""Promise and account: quotas, violations, plans, and the decision log."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKey, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from portal.domain.pace import LONGEST_READS
from portal.domain.quota import TASK_TYPE_LENGTH
from portal.domain.statuses import EventType, LossCause, PlanStatus, QuotaStatus, Severity, SkipReason
from portal.extensions import Base
from portal.models.types import BigId, UTCDateTime, Word, one_of

_ACTIVE_PLAN = text("status = 'ACTIVE'")


class QuotaTracker(Base):
    """Runs promised and kept, per OLT, task type and UTC hour.

    `basis`: from which nodes and paces `quota_required` was reckoned. `forecast`: how many will be completed.
    """

    __tablename__ = "quota_trackers"
    __table_args__ = (
        UniqueConstraint("olt_id", "task_type", "period_start"),
        Index("ix_quota_trackers_olt_id_period_start", "olt_id", "period_start"),
        Index("ix_quota_trackers_status_period_end", "status", "period_end"),
        Index("ix_quota_trackers_period_start", "period_start"),
        one_of("status", QuotaStatus, "status"),
        CheckConstraint(
            "quota_required = quota_completed + quota_failed + quota_skipped + quota_pending", name="adds_up"
        ),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    task_type: Mapped[str] = mapped_column(String(TASK_TYPE_LENGTH))
    period_start: Mapped[datetime] = mapped_column(UTCDateTime)
    period_end: Mapped[datetime] = mapped_column(UTCDateTime)
    quota_required: Mapped[int] = mapped_column(default=0)
    quota_completed: Mapped[int] = mapped_column(default=0)
    quota_failed: Mapped[int] = mapped_column(default=0)
    quota_skipped: Mapped[int] = mapped_column(default=0)
    quota_pending: Mapped[int] = mapped_column(default=0)
    total_duration_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    timed: Mapped[int] = mapped_column(default=0, server_default="0")  # runs that have a duration, interrupted ones too
    avg_duration_ms: Mapped[int] = mapped_column(default=0)  # of these
    status: Mapped[QuotaStatus] = mapped_column(Word(QuotaStatus, 20), default=QuotaStatus.IN_PROGRESS)
    basis: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    forecast: Mapped[int | None]
    forecast_details: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)


class QuotaLoss(Base):
    """Slots of a tracker that were lost to one cause. Their sum is its `quota_failed` + `quota_skipped`."""

    __tablename__ = "quota_losses"
    __table_args__ = (
        UniqueConstraint("olt_id", "task_type", "period_start", "cause"),
        Index("ix_quota_losses_period_start", "period_start"),
        one_of("cause", LossCause, "cause"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    task_type: Mapped[str] = mapped_column(String(TASK_TYPE_LENGTH))
    period_start: Mapped[datetime] = mapped_column(UTCDateTime)
    cause: Mapped[LossCause] = mapped_column(Word(LossCause))
    failed: Mapped[int] = mapped_column(default=0)
    skipped: Mapped[int] = mapped_column(default=0)


class QuotaViolation(Base):
    """An hour in which too few of the promised runs of one task type were completed."""

    __tablename__ = "quota_violations"
    __table_args__ = (
        Index("ix_quota_violations_olt_id_created_at", "olt_id", "created_at"),
        Index("ix_quota_violations_olt_id_severity", "olt_id", "severity"),
        Index("ix_quota_violations_severity", "severity"),
        Index("ix_quota_violations_notified", "notified"),
        Index("ix_quota_violations_period_start", "period_start"),
        UniqueConstraint("olt_id", "task_type", "period_start"),
        one_of("severity", Severity, "severity"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    task_type: Mapped[str] = mapped_column(String(TASK_TYPE_LENGTH))
    period_start: Mapped[datetime] = mapped_column(UTCDateTime)
    period_end: Mapped[datetime] = mapped_column(UTCDateTime)
    report: Mapped[dict[str, Any]] = mapped_column(JSON)
    severity: Mapped[Severity] = mapped_column(Word(Severity, 20))
    notified: Mapped[bool] = mapped_column(default=False)
    notified_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    acknowledged_at: Mapped[datetime | None] = mapped_column(UTCDateTime)  # somebody has seen it, and said so
    acknowledged_by: Mapped[str] = mapped_column(String(80), default="", server_default="")
    note: Mapped[str] = mapped_column(String(500), default="", server_default="")  # what they said
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)


class ExecutionPlan(Base):
    """What an OLT is expected to do in one hour; at most one plan of it is ACTIVE."""

    __tablename__ = "execution_plans"
    __table_args__ = (
        Index(
            "uq_execution_plans_active",
            "olt_id",
            "period_start",
            unique=True,
            sqlite_where=_ACTIVE_PLAN,
            postgresql_where=_ACTIVE_PLAN,
        ),  # fmt: skip
        Index("ix_execution_plans_olt_id_period_start", "olt_id", "period_start"),
        Index("ix_execution_plans_status", "status"),
        Index("ix_execution_plans_created_at", "created_at"),
        one_of("status", PlanStatus, "status"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    period_start: Mapped[datetime] = mapped_column(UTCDateTime)
    period_end: Mapped[datetime] = mapped_column(UTCDateTime)
    plan_data: Mapped[dict[str, Any]] = mapped_column(JSON)
    status: Mapped[PlanStatus] = mapped_column(Word(PlanStatus, 20), default=PlanStatus.ACTIVE)
    total_tasks: Mapped[int] = mapped_column(default=0)
    completed_tasks: Mapped[int] = mapped_column(default=0)
    failed_tasks: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)


class PhaseAdvice(Base):
    """The phase advice for all OLTs as it was reckoned last: one row. It takes seconds, so that a job reckons it.

    `advice`: shifts (node id → seconds), measures before and after, stuck masters, and of the pool, as it is, the
    pollers in use in each second of an hour. `first`: node ids of the first moves by OLT, for the page.
    """

    __tablename__ = "phase_advice"

    id: Mapped[int] = mapped_column(primary_key=True)
    reckoned_at: Mapped[datetime] = mapped_column(UTCDateTime)
    advice: Mapped[dict[str, Any]] = mapped_column(JSON)
    pool: Mapped[list[int]] = mapped_column(JSON)
    first: Mapped[list[int]] = mapped_column(JSON)


class NodePace(Base):
    """How long one master's composite takes: its last runs, and how well that predicted the next. Milliseconds."""

    __tablename__ = "node_paces"

    node_id: Mapped[int] = mapped_column(ForeignKey("workflow_nodes.id", ondelete="CASCADE"), primary_key=True)
    reads: Mapped[str] = mapped_column(String(LONGEST_READS), default="", server_default="")  # pace.reads; "" = unknown
    durations: Mapped[list[int]] = mapped_column(JSON, default=list)  # of the last successful runs, oldest first
    p50_ms: Mapped[int] = mapped_column(default=0)
    p95_ms: Mapped[int] = mapped_column(default=0)
    predicted: Mapped[int] = mapped_column(default=0)  # runs that were predicted before they ran
    covered: Mapped[int] = mapped_column(default=0)  # … of which took no longer than the p95 said
    error_ms: Mapped[int] = mapped_column(BigInteger, default=0)  # sum of |p50 - real|
    learned_up_to: Mapped[int] = mapped_column(BigInteger, default=0)  # execution id
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)


class CoordinatorState(Base):
    """What the coordinator saw last of an OLT: the canonical snapshot, its digest, and the version of their form.

    `hour`: the last one whose promises it opened.
    """

    __tablename__ = "coordinator_states"

    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"), primary_key=True)
    version: Mapped[int]
    digest: Mapped[str] = mapped_column(String(64))
    snapshot: Mapped[str] = mapped_column(Text)
    hour: Mapped[datetime | None] = mapped_column(UTCDateTime)
    observed_at: Mapped[datetime] = mapped_column(UTCDateTime)


class CoordinatorHour(Base):
    """An hour whose books are done: each step of the close happens once, whoever runs it. None = still to do."""

    __tablename__ = "coordinator_hours"

    hour: Mapped[datetime] = mapped_column(UTCDateTime, primary_key=True)
    opened_at: Mapped[datetime] = mapped_column(UTCDateTime)
    closed_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    ledger_at: Mapped[datetime | None] = mapped_column(UTCDateTime)  # its runs are in node_days


class CoordinatorLog(Base):
    """One decision: what was skipped, delayed, aborted, lost or changed, and why. Written by services only."""

    __tablename__ = "coordinator_logs"
    __table_args__ = (
        Index("ix_coordinator_logs_olt_id_timestamp", "olt_id", "timestamp"),
        Index("ix_coordinator_logs_event_type_timestamp", "event_type", "timestamp"),
        Index("ix_coordinator_logs_level_timestamp", "level", "timestamp"),
        Index("ix_coordinator_logs_node_id_scheduled_for", "node_id", "scheduled_for"),
        CheckConstraint("level IN ('DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL')", name="level"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    olt_id: Mapped[int | None] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    node_id: Mapped[int | None] = mapped_column(ForeignKey("workflow_nodes.id", ondelete="SET NULL"))
    execution_id: Mapped[int | None] = mapped_column(ForeignKey("executions.id", ondelete="SET NULL"), index=True)
    scheduled_for: Mapped[datetime | None] = mapped_column(UTCDateTime)
    event_type: Mapped[EventType] = mapped_column(Word(EventType))
    reason: Mapped[SkipReason | None] = mapped_column(Word(SkipReason))
    level: Mapped[str] = mapped_column(String(10), default="INFO")
    message: Mapped[str] = mapped_column(Text)
    details: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    timestamp: Mapped[datetime] = mapped_column(UTCDateTime)
