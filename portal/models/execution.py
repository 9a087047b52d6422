"""Executions (one slot's run of one composite), their attempts, and the steps inside an attempt."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from portal.domain.quota import TASK_TYPE_LENGTH
from portal.domain.statuses import (
    AttemptStatus,
    ErrorKind,
    ExecutionStatus,
    SkipReason,
    StepStatus,
    Trigger,
)
from portal.extensions import Base
from portal.models.olt import Olt, WorkflowNode
from portal.models.types import BigId, UTCDateTime, Word, one_of

# Literally the condition of the partial index: with bound values SQLite would read a node's whole history instead.
ACTIVE_SQL = text("executions.status IN ('PENDING', 'RUNNING')")
_ACTIVE = text("status IN ('PENDING', 'RUNNING')")
_PENDING = text("status = 'PENDING'")
_RUNNING = text("status = 'RUNNING'")


class Execution(Base):
    """One slot's, or one manual, run of one composite on one OLT. The law is in the indexes:

    a slot exists once; a node has at most one ACTIVE execution; a device has at most one RUNNING execution.
    """

    __tablename__ = "executions"
    __table_args__ = (
        UniqueConstraint("node_id", "scheduled_for", "trigger"),
        Index("uq_executions_active_node", "node_id", unique=True, sqlite_where=_ACTIVE, postgresql_where=_ACTIVE),
        Index("uq_executions_running_device", "device_key", unique=True, sqlite_where=_RUNNING,
              postgresql_where=_RUNNING),
        Index("ix_executions_active", "status", sqlite_where=_ACTIVE, postgresql_where=_ACTIVE),
        Index("ix_executions_not_before", "not_before", sqlite_where=_PENDING, postgresql_where=_PENDING),
        Index("ix_executions_olt_id_id", "olt_id", "id"),
        Index("ix_executions_status_id", "status", "id"),
        Index("ix_executions_finished_at", "finished_at"),
        Index("ix_executions_scheduled_for_id", "scheduled_for", "id"),
        one_of("status", ExecutionStatus, "status"),
        one_of("trigger", Trigger, "trigger"),
    )  # fmt: skip

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    node_id: Mapped[int | None] = mapped_column(ForeignKey("workflow_nodes.id", ondelete="SET NULL"))
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    node_name: Mapped[str] = mapped_column(String(120))
    task_type: Mapped[str] = mapped_column(String(TASK_TYPE_LENGTH), default="", server_default="")
    device_key: Mapped[str] = mapped_column(String(300))
    status: Mapped[ExecutionStatus] = mapped_column(Word(ExecutionStatus, 12), default=ExecutionStatus.PENDING)
    trigger: Mapped[Trigger] = mapped_column(Word(Trigger, 10), default=Trigger.SCHEDULE)
    requested_by: Mapped[str] = mapped_column(String(80), default="")
    cancelled_by: Mapped[str] = mapped_column(String(80), default="", server_default="")
    priority: Mapped[int]
    scheduled_for: Mapped[datetime] = mapped_column(UTCDateTime)
    overdue_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    not_before: Mapped[datetime | None] = mapped_column(UTCDateTime)
    queued_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    duration_ms: Mapped[int | None]
    delay_ms: Mapped[int | None]
    attempt: Mapped[int] = mapped_column(default=0)
    failures: Mapped[int] = mapped_column(default=0)
    losses: Mapped[int] = mapped_column(default=0)
    worker: Mapped[str] = mapped_column(String(120), default="")
    token: Mapped[int | None] = mapped_column(BigInteger)
    lease_expires_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    error_kind: Mapped[ErrorKind | None] = mapped_column(Word(ErrorKind))
    error_message: Mapped[str] = mapped_column(String(500), default="")
    skip_reason: Mapped[SkipReason | None] = mapped_column(Word(SkipReason))  # of INTERRUPTED ones

    node: Mapped[WorkflowNode | None] = relationship()
    olt: Mapped[Olt] = relationship()
    attempts: Mapped[list["ExecutionAttempt"]] = relationship(
        back_populates="execution", order_by="ExecutionAttempt.number", passive_deletes=True
    )


class ExecutionAttempt(Base):
    """One try of an execution."""

    __tablename__ = "execution_attempts"
    __table_args__ = (UniqueConstraint("execution_id", "number"), one_of("status", AttemptStatus, "status"))

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    execution_id: Mapped[int] = mapped_column(ForeignKey("executions.id", ondelete="CASCADE"))
    number: Mapped[int]
    worker: Mapped[str] = mapped_column(String(120))
    token: Mapped[int] = mapped_column(BigInteger)
    status: Mapped[AttemptStatus] = mapped_column(Word(AttemptStatus, 12), default=AttemptStatus.RUNNING)
    started_at: Mapped[datetime] = mapped_column(UTCDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    duration_ms: Mapped[int | None]
    error_kind: Mapped[ErrorKind | None] = mapped_column(Word(ErrorKind))
    error_message: Mapped[str] = mapped_column(String(500), default="")

    execution: Mapped[Execution] = relationship(back_populates="attempts")
    steps: Mapped[list["ExecutionStep"]] = relationship(
        back_populates="attempt", order_by="ExecutionStep.position", passive_deletes=True
    )


class ExecutionStep(Base):
    """One node of the chain inside one attempt."""

    __tablename__ = "execution_steps"
    __table_args__ = (UniqueConstraint("attempt_id", "position"), one_of("status", StepStatus, "status"))

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    attempt_id: Mapped[int] = mapped_column(ForeignKey("execution_attempts.id", ondelete="CASCADE"))
    position: Mapped[int]
    node_id: Mapped[int | None] = mapped_column(ForeignKey("workflow_nodes.id", ondelete="SET NULL"), index=True)
    node_key: Mapped[str] = mapped_column(String(60))
    status: Mapped[StepStatus] = mapped_column(Word(StepStatus, 12))
    skip_reason: Mapped[SkipReason | None] = mapped_column(Word(SkipReason))
    started_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    duration_ms: Mapped[int | None]
    pdus: Mapped[int] = mapped_column(default=0)
    timeouts: Mapped[int] = mapped_column(default=0)
    retries: Mapped[int] = mapped_column(default=0, server_default="0")
    rows: Mapped[int] = mapped_column(default=0)
    octets: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    values_read: Mapped[int] = mapped_column(default=0, server_default="0")
    values_changed: Mapped[int] = mapped_column(default=0, server_default="0")
    error_kind: Mapped[ErrorKind | None] = mapped_column(Word(ErrorKind))
    error_message: Mapped[str] = mapped_column(String(500), default="")
    # Columns read to their end that hold a value of few ONUs: metric → [ONUs with a value, ONUs expected].
    sparse: Mapped[dict[str, list[int]] | None] = mapped_column(JSON(none_as_null=True))

    attempt: Mapped[ExecutionAttempt] = relationship(back_populates="steps")


class NodeDay(Base):
    """Sums of one node over one UTC day, kept longer than its executions.

    `duration_ms`: what the OLT was kept busy by this node alone; a composite's time is that of its steps. `delay_ms`
    and `skips` (cause → slots) are of masters.
    """

    __tablename__ = "node_days"
    __table_args__ = (
        UniqueConstraint("node_id", "day"),
        Index("ix_node_days_olt_id_day", "olt_id", "day"),
        Index("ix_node_days_day", "day"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("workflow_nodes.id", ondelete="CASCADE"))
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    day: Mapped[datetime] = mapped_column(UTCDateTime)
    runs: Mapped[int] = mapped_column(default=0)
    failures: Mapped[int] = mapped_column(default=0)
    skips: Mapped[dict[str, int]] = mapped_column(JSON, default=dict)
    duration_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    delay_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    values_read: Mapped[int] = mapped_column(BigInteger, default=0)
    values_changed: Mapped[int] = mapped_column(BigInteger, default=0)
