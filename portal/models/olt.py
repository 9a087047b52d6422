"""OLTs and the SNMP credentials they use."""

from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import CheckConstraint, ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from portal.domain.statuses import OltState
from portal.extensions import Base
from portal.models.catalogue import Brand, OltModel
from portal.models.types import SealedText, Secret, UTCDateTime, Word, one_of

if TYPE_CHECKING:
    from portal.models.workflow import Workflow


class Credential(Base):
    """A named SNMP profile. Secrets are encrypted at rest and never shown.

    `community`, `auth_password` and `priv_password` are decrypted when they are read, not when the row is loaded:
    whoever lost the key must still be able to see the row, and to enter it again.
    """

    __tablename__ = "credentials"
    __table_args__ = (CheckConstraint("version IN ('1', '2c', '3')", name="version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)
    version: Mapped[str] = mapped_column(String(2), default="2c")
    sealed_community: Mapped[bytes | None] = mapped_column("community", SealedText)
    username: Mapped[str] = mapped_column(String(64), default="")
    auth_protocol: Mapped[str] = mapped_column(String(10), default="")
    sealed_auth_password: Mapped[bytes | None] = mapped_column("auth_password", SealedText)
    priv_protocol: Mapped[str] = mapped_column(String(10), default="")
    sealed_priv_password: Mapped[bytes | None] = mapped_column("priv_password", SealedText)

    community = Secret("sealed_community")
    auth_password = Secret("sealed_auth_password")
    priv_password = Secret("sealed_priv_password")

    def holds(self, secret: str) -> bool:
        """True when that secret is stored, whether it can be read or not."""
        return getattr(self, f"sealed_{secret}") is not None

    def __repr__(self) -> str:
        return f"<Credential {self.name}>"


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
    enabled: Mapped[bool] = mapped_column(default=True)
    site: Mapped[str] = mapped_column(String(60), default="")
    # Of descriptions that are not UTF-8, such as "gbk"; "" means latin-1 (quirk 37: SNMP declares none).
    text_encoding: Mapped[str] = mapped_column(String(20), default="", server_default="")
    timeout: Mapped[float] = mapped_column(default=2.0)
    retries: Mapped[int] = mapped_column(default=1)
    max_repetitions: Mapped[int] = mapped_column(default=20)
    max_varbinds: Mapped[int] = mapped_column(default=50)
    max_inflight: Mapped[int] = mapped_column(default=2)
    state: Mapped[OltState] = mapped_column(Word(OltState), default=OltState.UNKNOWN)
    state_since: Mapped[datetime | None] = mapped_column(UTCDateTime)
    paused_reason: Mapped[str] = mapped_column(String(255), default="")
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

    @property
    def device_key(self) -> str:
        """What at most one composite may touch at a time: management address and port."""
        return f"{self.address}:{self.port}"
