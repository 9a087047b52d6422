"""The SNMP credentials that OLTs are read with."""

from sqlalchemy import CheckConstraint, String
from sqlalchemy.orm import Mapped, mapped_column

from portal.extensions import Base
from portal.models.types import SealedText, Secret


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

    # Where it may be sent: networks as `addresses.read_networks` joins them; "" means nowhere that is not approved.
    networks: Mapped[str] = mapped_column(String(1000), default="", server_default="")

    community = Secret("sealed_community")
    auth_password = Secret("sealed_auth_password")
    priv_password = Secret("sealed_priv_password")

    def holds(self, secret: str) -> bool:
        """True when that secret is stored, whether it can be read or not."""
        return getattr(self, f"sealed_{secret}") is not None

    def __repr__(self) -> str:
        return f"<Credential {self.name}>"
