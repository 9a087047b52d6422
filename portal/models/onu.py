"""What is known of PON ports and ONUs: identity, latest readings, history, events."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from portal.domain import searching
from portal.domain.statuses import OnuEventKind, Presence
from portal.extensions import Base
from portal.models.history import HistoryColumns
from portal.models.olt import Olt
from portal.models.types import BigId, UTCDateTime, Word, one_of

METRIC_LENGTH, RAW_LENGTH, TEXT_LENGTH, REASON_LENGTH = 60, 512, 255, 80
TABLE_LENGTH = 20  # of "@" and the id of a discovery
_GONE = text("presence = 'DISABLED'")


class PonPort(Base):
    """A row of an interface table: a port, or an ONU where the device lists those as interfaces too.

    `index_key` is the device's own index, as text; `onu_number` None for a port.
    """

    __tablename__ = "pon_ports"
    __table_args__ = (UniqueConstraint("olt_id", "index_key"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    index_key: Mapped[str] = mapped_column(String(60))
    name: Mapped[str] = mapped_column(String(255), default="")
    frame: Mapped[int | None]
    slot: Mapped[int | None]
    port: Mapped[int | None]
    onu_number: Mapped[int | None]
    last_seen: Mapped[datetime] = mapped_column(UTCDateTime)
    found_by: Mapped[int | None]  # id of the table node that lists it; it may have been deleted since
    olt: Mapped[Olt] = relationship()


def _first_seen(context: Any) -> Any:
    return context.get_current_parameters()["first_seen"]


def _search(context: Any) -> str:
    given = context.get_current_parameters()
    return searching.of_onu(given.get("description") or "", given.get("serial"))


class Onu(Base):
    """A customer terminal: one row for one serial where that is known, else for one index of the device's table.

    `index_key` is the raw index text, None once another ONU has taken that place; frame, slot, port and number are
    derived from it, and stay as they were last. `decoded` False: no formula and no name says where the index is.
    `found_by`: id of the discovery node that answers for it; it may have been deleted since.
    `serial`: 16 hex digits of a GPON serial, or the 12 of an EPON ONU's MAC address.
    """

    __tablename__ = "onus"
    __table_args__ = (
        UniqueConstraint("olt_id", "index_key"),
        Index("ix_onus_serial", "serial"),
        Index("ix_onus_olt_id_position", "olt_id", "slot", "port", "onu_number"),
        Index("ix_onus_gone", "presence_since", sqlite_where=_GONE, postgresql_where=_GONE),
        one_of("presence", Presence, "presence"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    index_key: Mapped[str | None] = mapped_column(String(120))
    frame: Mapped[int | None]
    slot: Mapped[int | None]
    port: Mapped[int | None]
    onu_number: Mapped[int | None]
    decoded: Mapped[bool] = mapped_column(default=True)
    found_by: Mapped[int | None]
    serial: Mapped[str | None] = mapped_column(String(16))
    description: Mapped[str] = mapped_column(String(255), default="")
    search: Mapped[str] = mapped_column(String(searching.LONGEST), default=_search)  # goes with description and serial
    model: Mapped[str] = mapped_column(String(80), default="")
    presence: Mapped[Presence] = mapped_column(Word(Presence, 10), default=Presence.ENABLED)
    presence_since: Mapped[datetime] = mapped_column(UTCDateTime, default=_first_seen)
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
    """The latest reading of one metric of one ONU. `number` and `text` are both None for "no reading".

    `collected_at` and `execution_id` tell when this value came; an equal one that was read later leaves them alone
    (OltRead has when). `kept` is the number that the history holds last, None for "no reading". The execution may
    have been deleted since: no foreign key, which would have to be looked up for each of a day's million deletions.
    """

    __tablename__ = "onu_data"
    __table_args__ = ({"sqlite_with_rowid": False},)  # and fillfactor 70 on PostgreSQL, see migration 0003

    onu_id: Mapped[int] = mapped_column(ForeignKey("onus.id", ondelete="CASCADE"), primary_key=True)
    metric: Mapped[str] = mapped_column(String(METRIC_LENGTH), primary_key=True)
    number: Mapped[float | None]
    text: Mapped[str | None] = mapped_column(String(TEXT_LENGTH))
    raw: Mapped[str] = mapped_column(String(RAW_LENGTH), default="")
    reason: Mapped[str] = mapped_column(String(REASON_LENGTH), default="")
    kept: Mapped[float | None]
    collected_at: Mapped[datetime] = mapped_column(UTCDateTime)
    execution_id: Mapped[int | None] = mapped_column(BigInteger)

    onu: Mapped[Onu] = relationship(back_populates="data")


class OltRead(Base):
    """When a metric was last read of all ONUs of an OLT that were present then.

    Where the OLT has several tables of ONUs (GPON, EPON) it is "<metric>@<id of the discovery>", of that one's ONUs.
    """

    __tablename__ = "olt_reads"

    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"), primary_key=True)
    metric: Mapped[str] = mapped_column(String(METRIC_LENGTH + TABLE_LENGTH), primary_key=True)
    read_at: Mapped[datetime] = mapped_column(UTCDateTime)
    execution_id: Mapped[int | None] = mapped_column(BigInteger)


class OnuHistory(HistoryColumns, Base):
    """What a numeric reading was from a moment on: one reading, or an hour of them (portal.domain.series.Row).

    Of one reading mean, minimum, maximum and last are the same; all None for "no reading".
    """

    __tablename__ = "onu_history"
    __table_args__ = (Index("ix_onu_history_span_collected_at", "span", "collected_at"), {"sqlite_with_rowid": False})

    onu_id: Mapped[int] = mapped_column(ForeignKey("onus.id", ondelete="CASCADE"), primary_key=True)
    metric: Mapped[str] = mapped_column(String(METRIC_LENGTH), primary_key=True)
    collected_at: Mapped[datetime] = mapped_column(UTCDateTime, primary_key=True)


class OnuEvent(Base):
    """Something that happened to an ONU; `before` and `after` are what its kind is about."""

    __tablename__ = "onu_events"
    __table_args__ = (
        Index("ix_onu_events_onu_id_happened_at", "onu_id", "happened_at"),
        Index("ix_onu_events_happened_at", "happened_at"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    onu_id: Mapped[int] = mapped_column(ForeignKey("onus.id", ondelete="CASCADE"))
    kind: Mapped[OnuEventKind] = mapped_column(Word(OnuEventKind))
    before: Mapped[str] = mapped_column(String(255), default="")
    after: Mapped[str] = mapped_column(String(255), default="")
    happened_at: Mapped[datetime] = mapped_column(UTCDateTime)
    execution_id: Mapped[int | None] = mapped_column(BigInteger)
