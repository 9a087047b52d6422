"""The catalogue: what can be read from which device and how to decode it. Rows come from portal/catalogue/*.yaml."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, String, UniqueConstraint, false, true
from sqlalchemy.orm import Mapped, mapped_column, relationship

from portal.extensions import Base
from portal.models.types import UTCDateTime


class Brand(Base):
    """A maker of OLTs."""

    __tablename__ = "brands"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(40), unique=True)
    name: Mapped[str] = mapped_column(String(80))
    models: Mapped[list["OltModel"]] = relationship(back_populates="brand", order_by="OltModel.name")


class OltModel(Base):
    """A model (or family) of OLT of one brand. `match`: sysObjectID prefixes, sysDescr pattern, signature subtrees."""

    __tablename__ = "olt_models"
    __table_args__ = (UniqueConstraint("brand_id", "key"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    brand_id: Mapped[int] = mapped_column(ForeignKey("brands.id", ondelete="CASCADE"))
    key: Mapped[str] = mapped_column(String(60))
    name: Mapped[str] = mapped_column(String(80))
    match: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    bulk: Mapped[bool] = mapped_column(default=True, server_default=true())  # False: GETNEXT only (quirk 7)
    brand: Mapped[Brand] = relationship(back_populates="models")


class _Shipped:
    """What a row that we ship and an operator may edit carries: an edited row survives a sync."""

    edited: Mapped[bool] = mapped_column(default=False)


class IndexFormula(_Shipped, Base):
    """How an SNMP index becomes a position; `definition` is what portal.domain.formulas reads."""

    __tablename__ = "index_formulas"
    __table_args__ = (UniqueConstraint("brand_id", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    brand_id: Mapped[int] = mapped_column(ForeignKey("brands.id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(String(60))
    kind: Mapped[str] = mapped_column(String(20))
    definition: Mapped[dict[str, Any]] = mapped_column(JSON)


class StateMap(_Shipped, Base):
    """Meaning of the numbers of a state column: {"1": {"label": "online", "online": true}}."""

    __tablename__ = "state_maps"
    __table_args__ = (UniqueConstraint("brand_id", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    brand_id: Mapped[int] = mapped_column(ForeignKey("brands.id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(String(60))
    states: Mapped[dict[str, Any]] = mapped_column(JSON)


class Oid(_Shipped, Base):
    """One column or scalar worth reading. `variant` tells families of one brand apart ("" = whole brand)."""

    __tablename__ = "oids"
    __table_args__ = (UniqueConstraint("brand_id", "name", "variant"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    brand_id: Mapped[int] = mapped_column(ForeignKey("brands.id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(String(60))
    variant: Mapped[str] = mapped_column(String(200), default="")
    models: Mapped[list[str]] = mapped_column(JSON, default=list)
    oid: Mapped[str] = mapped_column(String(255), index=True)
    kind: Mapped[str] = mapped_column(String(20))
    shape: Mapped[str] = mapped_column(String(10))
    value_type: Mapped[str] = mapped_column(String(20))
    scale: Mapped[float] = mapped_column(default=1.0)
    offset: Mapped[float] = mapped_column(default=0.0)
    signed_bits: Mapped[int] = mapped_column(default=0)
    sentinels: Mapped[list[int]] = mapped_column(JSON, default=list)
    minimum: Mapped[float | None]
    maximum: Mapped[float | None]
    unit: Mapped[str] = mapped_column(String(20), default="")
    index_suffix: Mapped[str] = mapped_column(String(40), default="")
    safe_interval: Mapped[int | None]
    description: Mapped[str] = mapped_column(String(255), default="")
    source: Mapped[str] = mapped_column(String(255), default="")
    confidence: Mapped[str] = mapped_column(String(10), default="medium", server_default="medium")
    metric: Mapped[str] = mapped_column(String(60), default="", server_default="")  # "": the row's own name
    by_name: Mapped[bool] = mapped_column(default=False, server_default=false())
    candidates: Mapped[list[str]] = mapped_column(JSON, default=list, server_default="[]")  # names of formulas
    dead_band: Mapped[float | None]
    access: Mapped[str] = mapped_column(String(10), default="", server_default="")  # catalogue_data.Access
    zero_unsupported: Mapped[bool] = mapped_column(default=False, server_default=false())
    state_map_id: Mapped[int | None] = mapped_column(ForeignKey("state_maps.id", ondelete="SET NULL"))
    formula_id: Mapped[int | None] = mapped_column(ForeignKey("index_formulas.id", ondelete="SET NULL"))

    brand: Mapped[Brand] = relationship()
    state_map: Mapped[StateMap | None] = relationship()
    formula: Mapped[IndexFormula | None] = relationship()

    @property
    def key(self) -> str:
        """Public key, such as huawei.onu_state."""
        return f"{self.brand.key}.{self.name}"


class OltIndexFamily(Base):
    """Which formula the interface names of one OLT chose for a space (the candidates' names, joined by commas).

    `formula` "" means that none agrees with all names: only names give positions there. `definition` is the completed
    one of a formula that learns. `evidence`: {"names": n, "tried": [{formula, agree, contradict, first}]}.
    """

    __tablename__ = "olt_index_families"
    __table_args__ = (UniqueConstraint("olt_id", "space"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    olt_id: Mapped[int] = mapped_column(ForeignKey("olts.id", ondelete="CASCADE"))
    space: Mapped[str] = mapped_column(String(255))
    formula: Mapped[str] = mapped_column(String(60), default="")
    definition: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    evidence: Mapped[dict[str, Any]] = mapped_column(JSON)
    digest: Mapped[str] = mapped_column(String(64))  # of the names and formulas it was decided from
    decided_at: Mapped[datetime] = mapped_column(UTCDateTime)
