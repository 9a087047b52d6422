"""The device that answers at an OLT's address, as it said last."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from portal.extensions import Base
from portal.models.types import UTCDateTime


class OltDevice(Base):
    """What an OLT's own device is called and since when it runs (portal.domain.device.Device).

    `other`: what another device that answers in its place says of itself; None while none does.
    """

    __tablename__ = "olt_devices"

    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"), primary_key=True)
    object_id: Mapped[str] = mapped_column(String(255), default="")
    name: Mapped[str] = mapped_column(String(255), default="")
    uptime: Mapped[int | None] = mapped_column(BigInteger)
    read_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    restarted_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    witnesses: Mapped[dict[str, str]] = mapped_column(JSON, default=dict)
    other: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
