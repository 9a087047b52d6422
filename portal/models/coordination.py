"""Promise and account: quotas, violations, plans, and the decision log (requirements/2-database.md)."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from portal.domain.statuses import EventType, SkipReason
from portal.extensions import Base
from portal.models.types import BigId, UTCDateTime, Word


class QuotaTracker(Base):
    """Runs promised and kept, per OLT, task type and UTC hour."""

    __tablename__ = "quota_trackers"
    __table_args__ = (
        UniqueConstraint("olt_id", "task_type", "period_start"),
        Index("ix_quota_trackers_olt_id_period_start", "olt_id", "period_start"),
        Index("ix_quota_trackers_status", "status"),
        CheckConstraint(
            "quota_required = quota_completed + quota_failed + quota_skipped + quota_pending", name="adds_up"
        ),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    task_type: Mapped[str] = mapped_column(String(50))
    period_start: Mapped[datetime] = mapped_column(UTCDateTime)
    period_end: Mapped[datetime] = mapped_column(UTCDateTime)
    quota_required: Mapped[int] = mapped_column(default=0)
    quota_completed: Mapped[int] = mapped_column(default=0)
    quota_failed: Mapped[int] = mapped_column(default=0)
    quota_skipped: Mapped[int] = mapped_column(default=0)
    quota_pending: Mapped[int] = mapped_column(default=0)
    total_duration_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    avg_duration_ms: Mapped[int] = mapped_column(default=0)
    status: Mapped[str] = mapped_column(String(20), default="IN_PROGRESS")
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)


class QuotaViolation(Base):
    """An hour in which too few of the promised runs were completed."""

    __tablename__ = "quota_violations"
    __table_args__ = (
        Index("ix_quota_violations_olt_id_created_at", "olt_id", "created_at"),
        Index("ix_quota_violations_severity", "severity"),
        Index("ix_quota_violations_notified", "notified"),
        CheckConstraint("severity IN ('LOW', 'MEDIUM', 'HIGH', 'CRITICAL')", name="severity"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    period_start: Mapped[datetime] = mapped_column(UTCDateTime)
    period_end: Mapped[datetime] = mapped_column(UTCDateTime)
    report: Mapped[dict[str, Any]] = mapped_column(JSON)
    severity: Mapped[str] = mapped_column(String(20))
    notified: Mapped[bool] = mapped_column(default=False)
    notified_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)


class ExecutionPlan(Base):
    """What an OLT is expected to do in one hour."""

    __tablename__ = "execution_plans"
    __table_args__ = (
        Index("ix_execution_plans_olt_id_period_start", "olt_id", "period_start"),
        Index("ix_execution_plans_status", "status"),
        CheckConstraint("status IN ('ACTIVE', 'COMPLETED', 'SUPERSEDED', 'ABORTED')", name="status"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    period_start: Mapped[datetime] = mapped_column(UTCDateTime)
    period_end: Mapped[datetime] = mapped_column(UTCDateTime)
    plan_data: Mapped[dict[str, Any]] = mapped_column(JSON)
    status: Mapped[str] = mapped_column(String(20), default="ACTIVE")
    total_tasks: Mapped[int] = mapped_column(default=0)
    completed_tasks: Mapped[int] = mapped_column(default=0)
    failed_tasks: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    updated_at: Mapped[datetime] = mapped_column(UTCDateTime)


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
