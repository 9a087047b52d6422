"""Readings of an OLT's parts: its ports, its cards, and what there is one of."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from portal.extensions import Base
from portal.models.history import HistoryColumns
from portal.models.onu import METRIC_LENGTH, RAW_LENGTH, REASON_LENGTH, TEXT_LENGTH
from portal.models.types import UTCDateTime

INDEX_LENGTH = 60
READ_AS = "part:"  # and the metric: the row of olt_reads that tells when a whole column of parts was last read


class OltData(Base):
    """The latest reading of one metric of one part. As OnuData, but for who it is of.

    `shape` says what a part is (portal.domain.catalogue_data.Shape); `index_key` is the device's own index of it, "0"
    of what there is one of.
    """

    __tablename__ = "olt_data"
    __table_args__ = ({"sqlite_with_rowid": False},)

    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"), primary_key=True)
    metric: Mapped[str] = mapped_column(String(METRIC_LENGTH), primary_key=True)
    index_key: Mapped[str] = mapped_column(String(INDEX_LENGTH), primary_key=True)
    shape: Mapped[str] = mapped_column(String(10))
    number: Mapped[float | None]
    text: Mapped[str | None] = mapped_column(String(TEXT_LENGTH))
    unit: Mapped[str] = mapped_column(String(20), default="")
    raw: Mapped[str] = mapped_column(String(RAW_LENGTH), default="")
    reason: Mapped[str] = mapped_column(String(REASON_LENGTH), default="")
    kept: Mapped[float | None]
    collected_at: Mapped[datetime] = mapped_column(UTCDateTime)
    execution_id: Mapped[int | None] = mapped_column(BigInteger)


class OltHistory(HistoryColumns, Base):
    """What a number of a part was from a moment on (portal.domain.series.Row)."""

    __tablename__ = "olt_history"
    __table_args__ = (Index("ix_olt_history_span_collected_at", "span", "collected_at"), {"sqlite_with_rowid": False})

    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"), primary_key=True)
    metric: Mapped[str] = mapped_column(String(METRIC_LENGTH), primary_key=True)
    index_key: Mapped[str] = mapped_column(String(INDEX_LENGTH), primary_key=True)
    collected_at: Mapped[datetime] = mapped_column(UTCDateTime, primary_key=True)
