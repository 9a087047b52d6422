"""What is known of PON ports and ONUs: identity, latest readings, history, events."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from portal.domain.statuses import Presence
from portal.extensions import Base
from portal.models.olt import Olt
from portal.models.types import BigId, UTCDateTime, Word, one_of


class PonPort(Base):
    """A port that a table walk listed. `index_key` is the device's own index, as text."""

    __tablename__ = "pon_ports"
    __table_args__ = (UniqueConstraint("olt_id", "index_key"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    index_key: Mapped[str] = mapped_column(String(60))
    name: Mapped[str] = mapped_column(String(255), default="")
    frame: Mapped[int | None]
    slot: Mapped[int | None]
    port: Mapped[int | None]
    last_seen: Mapped[datetime] = mapped_column(UTCDateTime)
    olt: Mapped[Olt] = relationship()


class Onu(Base):
    """A customer terminal. `index_key` is the raw index text; slot, port and number are derived from it."""

    __tablename__ = "onus"
    __table_args__ = (
        UniqueConstraint("olt_id", "index_key"),
        Index("ix_onus_serial", "serial"),
        Index("ix_onus_olt_id_position", "olt_id", "slot", "port", "onu_number"),
        one_of("presence", Presence, "presence"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    index_key: Mapped[str] = mapped_column(String(120))
    frame: Mapped[int | None]
    slot: Mapped[int | None]
    port: Mapped[int | None]
    onu_number: Mapped[int | None]
    serial: Mapped[str | None] = mapped_column(String(16))
    description: Mapped[str] = mapped_column(String(255), default="")
    model: Mapped[str] = mapped_column(String(80), default="")
    presence: Mapped[Presence] = mapped_column(Word(Presence, 10), default=Presence.ENABLED)
    state: Mapped[int | None]
    state_label: Mapped[str] = mapped_column(String(40), default="")
    online: Mapped[bool | None]
    misses: Mapped[int] = mapped_column(default=0)
    first_seen: Mapped[datetime] = mapped_column(UTCDateTime)
    last_seen: Mapped[datetime] = mapped_column(UTCDateTime)
    last_state_change: Mapped[datetime | None] = mapped_column(UTCDateTime)

    olt: Mapped[Olt] = relationship()
    data: Mapped[list["OnuData"]] = relationship(back_populates="onu", passive_deletes=True)


class OnuData(Base):
    """The latest reading of one metric of one ONU. `number` and `text` are both None for "no reading"."""

    __tablename__ = "onu_data"
    __table_args__ = (UniqueConstraint("onu_id", "metric"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    onu_id: Mapped[int] = mapped_column(ForeignKey("onus.id", ondelete="CASCADE"))
    metric: Mapped[str] = mapped_column(String(60))
    number: Mapped[float | None]
    text: Mapped[str | None] = mapped_column(String(255))
    raw: Mapped[str] = mapped_column(String(255), default="")
    reason: Mapped[str] = mapped_column(String(80), default="")
    collected_at: Mapped[datetime] = mapped_column(UTCDateTime)
    execution_id: Mapped[int | None] = mapped_column(ForeignKey("executions.id", ondelete="SET NULL"), index=True)

    onu: Mapped[Onu] = relationship(back_populates="data")


class OnuHistory(Base):
    """A change of a numeric reading beyond its dead band, or, thinned, an hour's min, mean and max."""

    __tablename__ = "onu_history"
    __table_args__ = (Index("ix_onu_history_series", "onu_id", "metric", "collected_at"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    onu_id: Mapped[int] = mapped_column(ForeignKey("onus.id", ondelete="CASCADE"))
    metric: Mapped[str] = mapped_column(String(60))
    collected_at: Mapped[datetime] = mapped_column(UTCDateTime)
    mean: Mapped[float | None]
    minimum: Mapped[float | None]
    maximum: Mapped[float | None]
    samples: Mapped[int] = mapped_column(default=1)


class OnuEvent(Base):
    """Something that happened to an ONU: presence, state, serial, move."""

    __tablename__ = "onu_events"
    __table_args__ = (
        Index("ix_onu_events_onu_id_happened_at", "onu_id", "happened_at"),
        Index("ix_onu_events_happened_at", "happened_at"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    onu_id: Mapped[int] = mapped_column(ForeignKey("onus.id", ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(String(30))
    before: Mapped[str] = mapped_column(String(255), default="")
    after: Mapped[str] = mapped_column(String(255), default="")
    happened_at: Mapped[datetime] = mapped_column(UTCDateTime)
    execution_id: Mapped[int | None] = mapped_column(ForeignKey("executions.id", ondelete="SET NULL"), index=True)
