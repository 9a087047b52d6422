"""Nodes and OIDs read once because somebody wants to see what comes back: the row is the request and the answer."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from portal.domain.statuses import ErrorKind
from portal.extensions import Base
from portal.models.types import BigId, UTCDateTime, Word, one_of


class TrialStatus(StrEnum):
    """Life of a trial. FAILED may carry a result too: what arrived before it went wrong."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"


class TrialMode(StrEnum):
    """How the OID is read."""

    WALK = "walk"  # all rows under it
    GET = "get"  # its instance of each of the first known ONUs
    EXACT = "exact"  # this very instance, by one GET


OF_ONU = "onu:"  # no OID and no key of the catalogue begins so


class Trial(Base):
    """One reading that is shown and stored nowhere else. Of a node, or (node_id None) of an OID that somebody typed.

    `oid` holds catalogue keys or dotted OIDs with commas between, as a node does; or "onu:" and an ONU's id: all that
    the workflow reads of that ONU. `result` is described at portal.services.trying.trials.summary; it is bounded there.
    """

    __tablename__ = "trials"
    __table_args__ = (one_of("status", TrialStatus, "status"), one_of("mode", TrialMode, "mode"))

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"), index=True)
    node_id: Mapped[int | None] = mapped_column(ForeignKey("workflow_nodes.id", ondelete="SET NULL"), index=True)
    node_name: Mapped[str] = mapped_column(String(120), default="")
    oid: Mapped[str] = mapped_column(String(255))
    mode: Mapped[TrialMode] = mapped_column(Word(TrialMode, 10))
    requested_by: Mapped[str] = mapped_column(String(80), default="")
    status: Mapped[TrialStatus] = mapped_column(Word(TrialStatus, 10), default=TrialStatus.PENDING)
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    error_kind: Mapped[ErrorKind | None] = mapped_column(Word(ErrorKind))
    error_message: Mapped[str] = mapped_column(String(500), default="")
    created_at: Mapped[datetime] = mapped_column(UTCDateTime, index=True)
    started_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UTCDateTime)

    @property
    def onu_id(self) -> int | None:
        """The ONU whose readings it asks for (which may have been deleted since), or None."""
        return int(self.oid.removeprefix(OF_ONU)) if self.oid.startswith(OF_ONU) else None
