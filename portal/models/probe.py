"""Connection tests asked for on a page or a command line: the row is the request and the answer."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, ForeignKey, String, false
from sqlalchemy.orm import Mapped, mapped_column, relationship

from portal.domain.statuses import ErrorKind
from portal.extensions import Base
from portal.models.credential import Credential
from portal.models.types import BigId, UTCDateTime, Word, one_of


class ProbeStatus(StrEnum):
    """Life of a connection test."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"


class Probe(Base):
    """One connection test. The credential is named by id: no secret leaves its table.

    `result`: {"sysdescr", "sysobjectid", "sysname", "uptime_s", "rtt_ms", "brand", "model", "fits", "family",
    "families", "decided", "requests"}; brand, model and family are catalogue keys or None, `fits` lists all models that
    may be meant ("cdata.FD12XX"), `decided` grounds {"by", "seen", "means", "text"}
    (portal.domain.recognising.Ground).
    """

    __tablename__ = "probes"
    __table_args__ = (one_of("status", ProbeStatus, "status"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    olt_id: Mapped[int | None] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"), index=True)
    address: Mapped[str] = mapped_column(String(255))
    port: Mapped[int]
    credential_id: Mapped[int] = mapped_column(ForeignKey("credentials.id", ondelete="CASCADE"))
    credential_approved: Mapped[bool] = mapped_column(default=False, server_default=false())  # as in Olt
    timeout: Mapped[float] = mapped_column(default=2.0)
    retries: Mapped[int] = mapped_column(default=1)
    requested_by: Mapped[str] = mapped_column(String(80), default="")
    status: Mapped[ProbeStatus] = mapped_column(Word(ProbeStatus, 10), default=ProbeStatus.PENDING)
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    error_kind: Mapped[ErrorKind | None] = mapped_column(Word(ErrorKind))
    error_message: Mapped[str] = mapped_column(String(500), default="")
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)
    finished_at: Mapped[datetime | None] = mapped_column(UTCDateTime)

    credential: Mapped[Credential] = relationship()
