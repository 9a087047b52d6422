"""Message sizes that were learned: how many values one request to a table of one OLT may ask for."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from portal.extensions import Base
from portal.models.types import UTCDateTime


class TableSize(Base):
    """One table of one OLT and one kind of request. `too_big` is the least size that failed, None when none did.

    `evidence`: [size, outcome, moment as ISO text], oldest first, at most 20 (portal.domain.table_sizes).
    """

    __tablename__ = "table_sizes"
    __table_args__ = (
        UniqueConstraint("olt_id", "operation", "root"),
        CheckConstraint("operation IN ('get', 'walk')", name="operation"),
        CheckConstraint("size >= 1", name="size"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    operation: Mapped[str] = mapped_column(String(4))
    root: Mapped[str] = mapped_column(String(255))  # OID of the table
    size: Mapped[int]
    too_big: Mapped[int | None]
    evidence: Mapped[list[list[Any]]] = mapped_column(JSON, default=list)
    learned_at: Mapped[datetime] = mapped_column(UTCDateTime)
    retry_larger_after: Mapped[datetime | None] = mapped_column(UTCDateTime)

    def __repr__(self) -> str:
        return f"<TableSize {self.operation} {self.root}: {self.size}>"
