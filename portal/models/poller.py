"""Pollers and the pool's history; rows, since many processes look at them."""

from datetime import datetime

from sqlalchemy import JSON, CheckConstraint, ForeignKey, String, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column, relationship

from portal.domain.statuses import PollerStatus
from portal.extensions import Base
from portal.models.olt import Olt, WorkflowNode
from portal.models.types import BigId, UTCDateTime, Word, one_of


class Pool(Base):
    """The pollers that one process keeps alive. `size` is how many it shall keep: who changes it changes the pool.

    `site`: None = serves every OLT, "" = only OLTs without a site, else only those of that site.
    """

    __tablename__ = "pools"
    __table_args__ = (CheckConstraint("size BETWEEN 0 AND 200", name="size"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(180), unique=True)
    host: Mapped[str] = mapped_column(String(120))
    site: Mapped[str | None] = mapped_column(String(60))
    pid: Mapped[int]
    size: Mapped[int]
    started_at: Mapped[datetime] = mapped_column(UTCDateTime)
    seen_at: Mapped[datetime] = mapped_column(UTCDateTime)


class Poller(Base):
    """One worker process. The number is stable, `worker` is fresh at each start. Seconds since `started_at`."""

    __tablename__ = "pollers"
    __table_args__ = (UniqueConstraint("pool_id", "poller_id"), one_of("status", PollerStatus, "status"))

    id: Mapped[int] = mapped_column(primary_key=True)
    pool_id: Mapped[int] = mapped_column(ForeignKey("pools.id", ondelete="CASCADE"))
    host: Mapped[str] = mapped_column(String(120))
    poller_id: Mapped[int]
    worker: Mapped[str] = mapped_column(String(120))
    pid: Mapped[int]
    status: Mapped[PollerStatus] = mapped_column(Word(PollerStatus, 10), default=PollerStatus.FREE)
    current_node_id: Mapped[int | None] = mapped_column(ForeignKey("workflow_nodes.id", ondelete="SET NULL"))
    current_olt_id: Mapped[int | None] = mapped_column(ForeignKey("olts.id", ondelete="SET NULL"))
    current_execution_id: Mapped[int | None] = mapped_column(BigId)
    busy_since: Mapped[datetime | None] = mapped_column(UTCDateTime)
    busy_time: Mapped[float] = mapped_column(default=0.0)
    busy_last_minute: Mapped[float] = mapped_column(default=0.0)
    # (moment, seconds busy up to then) of the last minute, oldest first: portal.domain.pool.busy_lately
    busy_samples: Mapped[list[list[float]]] = mapped_column(JSON, default=list, server_default="[]")
    tasks_completed: Mapped[int] = mapped_column(default=0)
    tasks_delayed: Mapped[int] = mapped_column(default=0)
    started_at: Mapped[datetime] = mapped_column(UTCDateTime)
    seen_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)
    restart_requested: Mapped[bool] = mapped_column(default=False, server_default=false())

    pool: Mapped[Pool] = relationship()
    current_node: Mapped[WorkflowNode | None] = relationship()
    current_olt: Mapped[Olt | None] = relationship()


class PollerStats(Base):
    """State of the whole pool at one moment."""

    __tablename__ = "poller_stats"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    total_pollers: Mapped[int] = mapped_column(default=0)
    free_pollers: Mapped[int] = mapped_column(default=0)
    busy_pollers: Mapped[int] = mapped_column(default=0)
    busy_percentage: Mapped[float] = mapped_column(default=0.0)
    queue_size: Mapped[int] = mapped_column(default=0)
    is_saturated: Mapped[bool] = mapped_column(default=False)
    total_tasks_completed: Mapped[int] = mapped_column(BigId, default=0)
    total_tasks_delayed: Mapped[int] = mapped_column(BigId, default=0)
    timestamp: Mapped[datetime] = mapped_column(UTCDateTime, index=True)


class SchedulerState(Base):
    """One row: what the leader of the scheduler last did. The portal's pulse.

    `furthest_tick_at`: the highest time that a tick has used; a clock below it was set back. `zone`: in which cron
    lines were planned, "" = not known yet.
    """

    __tablename__ = "scheduler_state"

    id: Mapped[int] = mapped_column(primary_key=True)
    leader: Mapped[str] = mapped_column(String(120), default="")
    last_tick_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    furthest_tick_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    zone: Mapped[str] = mapped_column(String(64), default="", server_default="")
    last_tick_ms: Mapped[int | None]
    last_planned: Mapped[int] = mapped_column(default=0)
    last_skipped: Mapped[int] = mapped_column(default=0)
    error: Mapped[str] = mapped_column(String(500), default="")
