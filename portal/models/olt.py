"""OLTs, their workflows (what is done on one) and templates (the same set of nodes for many)."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    ColumnElement,
    ForeignKey,
    Index,
    String,
    UniqueConstraint,
    and_,
    false,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column, query_expression, relationship

from portal.domain.statuses import NodeKind, OltCondition, OltState, RolloutStatus
from portal.extensions import Base
from portal.models.catalogue import Brand, OltModel
from portal.models.credential import Credential
from portal.models.device import OltDevice
from portal.models.types import BigId, UTCDateTime, Word, one_of

ONE_CLOCK = (
    "(master_id IS NULL AND (interval_seconds IS NULL) <> (cron IS NULL))"
    " OR (master_id IS NOT NULL AND interval_seconds IS NULL AND cron IS NULL)"
)


class Olt(Base):
    """One fibre access node. Times in seconds. A deleted OLT keeps its row, and frees its name and address."""

    __tablename__ = "olts"
    __table_args__ = (
        Index("uq_olts_name", "name", unique=True, sqlite_where=text("deleted_at IS NULL"),
              postgresql_where=text("deleted_at IS NULL")),
        Index("uq_olts_address_port", "address", "port", unique=True, sqlite_where=text("deleted_at IS NULL"),
              postgresql_where=text("deleted_at IS NULL")),
        CheckConstraint("port BETWEEN 1 AND 65535", name="port"),
        CheckConstraint("timeout > 0 AND retries >= 0", name="timing"),
        CheckConstraint("max_repetitions BETWEEN 1 AND 50", name="max_repetitions"),
        CheckConstraint("max_varbinds BETWEEN 1 AND 500", name="max_varbinds"),
        CheckConstraint("max_inflight BETWEEN 1 AND 16", name="max_inflight"),
        one_of("state", OltState, "state"),
    )  # fmt: skip

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80))
    address: Mapped[str] = mapped_column(String(255))
    port: Mapped[int] = mapped_column(default=161)
    brand_id: Mapped[int] = mapped_column(ForeignKey("brands.id"))
    model_id: Mapped[int | None] = mapped_column(ForeignKey("olt_models.id", ondelete="SET NULL"))
    credential_id: Mapped[int] = mapped_column(ForeignKey("credentials.id"))
    # Its credential may be sent to its address and port, in whichever network they are (services.pairing).
    credential_approved: Mapped[bool] = mapped_column(default=False, server_default=false())
    enabled: Mapped[bool] = mapped_column(default=True)
    site: Mapped[str] = mapped_column(String(60), default="")
    # Of descriptions that are not UTF-8, such as "gbk"; "" means Windows-1252 (quirk 37: SNMP declares none).
    text_encoding: Mapped[str] = mapped_column(String(20), default="", server_default="")
    timeout: Mapped[float] = mapped_column(default=2.0)
    retries: Mapped[int] = mapped_column(default=1)
    max_repetitions: Mapped[int] = mapped_column(default=20)
    max_varbinds: Mapped[int] = mapped_column(default=50)
    max_inflight: Mapped[int] = mapped_column(default=2)
    state: Mapped[OltState] = mapped_column(Word(OltState), default=OltState.UNKNOWN)
    state_since: Mapped[datetime | None] = mapped_column(UTCDateTime)
    # When what is known of its ONUs is too old to be told as of now; None: their states were never read.
    stale_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    paused_reason: Mapped[str] = mapped_column(String(255), default="")
    # It answers that the credential is wrong; then it is UNREACHABLE.
    refused: Mapped[bool] = mapped_column(default=False, server_default=false())
    paused_until: Mapped[datetime | None] = mapped_column(UTCDateTime)
    consecutive_failures: Mapped[int] = mapped_column(default=0)
    # While the OLT is unreachable: when it is asked next whether it is back, and how often it was asked.
    probe_at: Mapped[datetime | None] = mapped_column(UTCDateTime, index=True)
    probes_sent: Mapped[int] = mapped_column(default=0, server_default="0")
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    deleted_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    deleted_reason: Mapped[str] = mapped_column(String(255), default="")

    brand: Mapped[Brand] = relationship()
    model: Mapped[OltModel | None] = relationship()
    credential: Mapped[Credential] = relationship()
    workflow: Mapped["Workflow | None"] = relationship(back_populates="olt", uselist=False)
    device: Mapped[OltDevice | None] = relationship(uselist=False, viewonly=True)
    condition: Mapped[OltCondition] = query_expression()  # filled by queries that ask for it (queries.freshness)

    @property
    def device_key(self) -> str:
        """What at most one composite may touch at a time: management address and port."""
        return f"{self.address}:{self.port}"

    @hybrid_property
    def in_service(self) -> bool:
        """Whether a person lets it be read."""
        return self.enabled and self.deleted_at is None

    @in_service.inplace.expression
    @classmethod
    def _in_service(cls) -> ColumnElement[bool]:
        return and_(cls.enabled.is_(True), cls.deleted_at.is_(None))


class _NodeColumns:
    """What a node of a workflow and a node of a template have in common. Times in seconds."""

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(60))
    name: Mapped[str] = mapped_column(String(120))
    kind: Mapped[NodeKind] = mapped_column(Word(NodeKind))
    oid: Mapped[str] = mapped_column(String(255))
    interval_seconds: Mapped[int | None]
    cron: Mapped[str | None] = mapped_column(String(120))
    override_reason: Mapped[str] = mapped_column(String(255), default="")
    priority: Mapped[int]
    enabled: Mapped[bool] = mapped_column(default=True)
    position: Mapped[int] = mapped_column(default=0)
    max_retries: Mapped[int] = mapped_column(default=2)
    retry_delay: Mapped[int] = mapped_column(default=120)
    time_limit: Mapped[int] = mapped_column(default=120)
    stop_on_failure: Mapped[bool] = mapped_column(default=False)


def _node_checks() -> tuple[CheckConstraint, ...]:
    return (
        CheckConstraint(ONE_CLOCK, name="one_clock"),
        CheckConstraint("interval_seconds IS NULL OR interval_seconds >= 1", name="interval"),
        CheckConstraint("priority BETWEEN 1 AND 100", name="priority"),
        CheckConstraint("max_retries BETWEEN 0 AND 10", name="max_retries"),
        CheckConstraint("time_limit BETWEEN 1 AND 3600", name="time_limit"),
        one_of("kind", NodeKind, "kind"),
    )


class WorkflowTemplate(Base):
    """A set of nodes applied to many OLTs."""

    __tablename__ = "workflow_templates"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)
    description: Mapped[str] = mapped_column(String(255), default="")
    enabled: Mapped[bool] = mapped_column(default=True, server_default=true())
    revision: Mapped[int] = mapped_column(default=0, server_default="0")  # raised by each change of it or of its nodes
    nodes: Mapped[list["TemplateNode"]] = relationship(
        back_populates="template", order_by="TemplateNode.position", cascade="all, delete-orphan"
    )


class TemplateNode(_NodeColumns, Base):
    """One node of a template; `master_id` None = it has a clock."""

    __tablename__ = "template_nodes"
    __table_args__ = (UniqueConstraint("template_id", "key"), *_node_checks())

    template_id: Mapped[int] = mapped_column(ForeignKey("workflow_templates.id", ondelete="CASCADE"), index=True)
    master_id: Mapped[int | None] = mapped_column(ForeignKey("template_nodes.id", ondelete="CASCADE"), index=True)
    template: Mapped[WorkflowTemplate] = relationship(back_populates="nodes")
    master: Mapped["TemplateNode | None"] = relationship(remote_side="TemplateNode.id", back_populates="chained")
    chained: Mapped[list["TemplateNode"]] = relationship(back_populates="master", order_by="TemplateNode.position")


class Workflow(Base):
    """The nodes of one OLT. `template` says which set it was made from, if any."""

    __tablename__ = "workflows"

    id: Mapped[int] = mapped_column(primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"), unique=True)
    template_id: Mapped[int | None] = mapped_column(ForeignKey("workflow_templates.id", ondelete="SET NULL"))
    enabled: Mapped[bool] = mapped_column(default=True)
    revision: Mapped[int] = mapped_column(default=0, server_default="0")  # raised by each change of it or of its nodes
    olt: Mapped[Olt] = relationship(back_populates="workflow")
    template: Mapped[WorkflowTemplate | None] = relationship()
    nodes: Mapped[list["WorkflowNode"]] = relationship(
        back_populates="workflow", order_by="WorkflowNode.position", cascade="all, delete-orphan"
    )


class WorkflowNode(_NodeColumns, Base):
    """One thing to read on one OLT. Masters have a clock (`next_run_at`, `anchor_at`), chained nodes have none."""

    __tablename__ = "workflow_nodes"
    __table_args__ = (
        UniqueConstraint("workflow_id", "key"),
        CheckConstraint("master_id IS NULL OR next_run_at IS NULL", name="chained_has_no_clock"),
        CheckConstraint("master_id IS NULL OR master_id <> id", name="not_its_own_master"),
        *_node_checks(),
        Index("ix_workflow_nodes_next_run_at", "next_run_at"),
    )

    workflow_id: Mapped[int] = mapped_column(ForeignKey("workflows.id", ondelete="CASCADE"), index=True)
    template_node_id: Mapped[int | None] = mapped_column(
        ForeignKey("template_nodes.id", ondelete="SET NULL"), index=True
    )
    overridden: Mapped[bool] = mapped_column(default=False)
    master_id: Mapped[int | None] = mapped_column(ForeignKey("workflow_nodes.id", ondelete="CASCADE"), index=True)
    next_run_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    anchor_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    last_run_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    last_success_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    last_failure_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    # A complete walk lost more than half of a known table at this time; a second one must agree (services.readings).
    suspect_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    poisoned: Mapped[int] = mapped_column(default=0, server_default="0")  # slots in a row that ended all their workers
    held_until: Mapped[datetime | None] = mapped_column(UTCDateTime)  # no slot runs before, for that (dispatch.poison)
    progress: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))  # portal.domain.composite.Progress

    workflow: Mapped[Workflow] = relationship(back_populates="nodes")
    master: Mapped["WorkflowNode | None"] = relationship(remote_side="WorkflowNode.id", back_populates="chained")
    chained: Mapped[list["WorkflowNode"]] = relationship(
        back_populates="master", order_by="WorkflowNode.position", cascade="all"
    )

    @property
    def is_master(self) -> bool:
        """True when the node has a clock of its own."""
        return self.master_id is None

    @property
    def switched_on(self) -> bool:
        """Whether it and the template that it came from are enabled."""
        template = self.workflow.template if self.template_node_id is not None else None
        return self.enabled and (template is None or template.enabled)

    @hybrid_property
    def runs(self) -> bool:
        """Whether the schedule runs it: it, its workflow, the template that it came from and its OLT are enabled.

        Also as a condition on nodes: `where(WorkflowNode.runs)`.
        """
        return self.switched_on and self.workflow.enabled and self.workflow.olt.in_service

    @runs.inplace.expression
    @classmethod
    def _runs(cls) -> ColumnElement[bool]:
        above = (
            select(Workflow.id)
            .join(Olt, Olt.id == Workflow.olt_id)
            .outerjoin(WorkflowTemplate, WorkflowTemplate.id == Workflow.template_id)
            .where(Workflow.id == cls.workflow_id, cls.runs_joined())
        )
        return above.correlate(cls).exists()

    @classmethod
    def runs_joined(cls) -> ColumnElement[bool]:
        """`runs` for a statement that joins the workflow, its OLT and, if there is one, its template by itself."""
        by_template = or_(
            cls.template_node_id.is_(None), WorkflowTemplate.id.is_(None), WorkflowTemplate.enabled.is_(True)
        )
        return and_(cls.enabled.is_(True), Workflow.enabled.is_(True), Olt.in_service, by_template)


class WorkflowRevision(Base):
    """What a workflow was before one change of it: what an undo goes back to, and what a conflict is told from."""

    __tablename__ = "workflow_revisions"
    __table_args__ = (UniqueConstraint("workflow_id", "number"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    workflow_id: Mapped[int] = mapped_column(ForeignKey("workflows.id", ondelete="CASCADE"))
    number: Mapped[int]  # `Workflow.revision` after the change
    made_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)
    actor: Mapped[str] = mapped_column(String(80))
    action: Mapped[str] = mapped_column(String(60))  # as in the audit log
    subject: Mapped[str] = mapped_column(String(120))  # name of the node, or "" for the whole workflow
    before: Mapped[list[dict[str, Any]]] = mapped_column(JSON)  # the tree before it (services.network.revisions)


class TemplateRollout(Base):
    """A template on its way to many OLTs: tried on one first (the canary), then on the rest, or taken back."""

    __tablename__ = "template_rollouts"
    __table_args__ = (one_of("status", RolloutStatus, "status"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    template_id: Mapped[int] = mapped_column(ForeignKey("workflow_templates.id", ondelete="CASCADE"), index=True)
    canary_olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"), index=True)
    olt_ids: Mapped[list[int]] = mapped_column(JSON)  # the rest, in the order of their names
    status: Mapped[RolloutStatus] = mapped_column(Word(RolloutStatus, 12))
    before: Mapped[list[dict[str, Any]]] = mapped_column(JSON)  # the canary's tree before it, as in WorkflowRevision
    template_before_id: Mapped[int | None]  # the template the canary had before, by number only: it may be gone
    actor: Mapped[str] = mapped_column(String(80))
    started_at: Mapped[datetime] = mapped_column(UTCDateTime)
    ended_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
