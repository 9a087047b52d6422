"""Reads the catalogue's own pages: the list of OIDs with its filters, single rows, formulas and state maps."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, String, func, literal, literal_column, or_, select
from sqlalchemy.orm import contains_eager, joinedload

from portal.domain.units import kept_in
from portal.extensions import db
from portal.queries import keyset
from portal.queries.matching import contains
from portal.tables import Brand, IndexFormula, Oid, Olt, OltModel, PonPort, StateMap

SHAPES = ("onu", "port", "scalar")
OLTS_OFFERED = 500


@dataclass(frozen=True)
class OidFilter:
    """What the URL asks for; "" = any. `model` counts within a brand only; `edited` "1": rows changed or added here."""

    q: str = ""
    brand: str = ""
    model: str = ""
    purpose: str = ""
    edited: str = ""

    @property
    def active(self) -> bool:
        """True when anything narrows the list."""
        return any((self.q, self.brand, self.purpose, self.edited))


@dataclass(frozen=True)
class OidRow:
    """One line of the list."""

    id: int
    brand_key: str
    brand: str
    name: str
    variant: str
    oid: str
    shape: str
    unit: str
    confidence: str
    edited: bool
    description: str

    @property
    def key(self) -> str:
        """Public key, such as huawei.onu_state."""
        return f"{self.brand_key}.{self.name}"


# A literal, not a parameter: PostgreSQL must see that DISTINCT and ORDER BY name the same expression.
_PURPOSE = func.coalesce(func.nullif(Oid.metric, literal_column("''")), Oid.name, type_=String())


def _conditions(wanted: OidFilter) -> list[ColumnElement[bool]]:
    clauses: list[ColumnElement[bool]] = []
    if wanted.q:
        key = Brand.key + literal(".") + Oid.name
        clauses.append(or_(*(contains(column, wanted.q) for column in (key, Oid.oid, Oid.description, Oid.variant))))
    if wanted.brand:
        clauses.append(Brand.key == wanted.brand)
        if wanted.model:
            listed = literal(",") + Oid.variant + literal(",")
            clauses.append((Oid.variant == "") | contains(listed, f",{wanted.model},"))
    if wanted.purpose:
        clauses.append(_PURPOSE == wanted.purpose)
    if wanted.edited:
        clauses.append(Oid.edited.is_(True))
    return clauses


def page(wanted: OidFilter, cursor: str = "", size: int = keyset.PAGE_SIZE) -> keyset.Page[OidRow]:
    """OIDs by brand and name. One SQL statement."""
    columns = (
        Oid.id, Brand.key, Brand.name, Oid.name, Oid.variant, Oid.oid, Oid.shape, Oid.unit, Oid.confidence,
        Oid.edited, Oid.description,
    )  # fmt: skip
    query: Select[Any] = select(*columns).join(Oid.brand).where(*_conditions(wanted))
    order = keyset.Order((Brand.key, Oid.name, Oid.variant, Oid.id))
    return keyset.fetch(query, order, cursor, size).map(lambda row: OidRow(*row))


def count(wanted: OidFilter) -> int:
    """How many OIDs the filter leaves. One SQL statement."""
    query = select(func.count()).select_from(Oid).join(Oid.brand).where(*_conditions(wanted))
    return db.session.scalar(query) or 0


def brands() -> list[tuple[str, str, int]]:
    """(key, name, id) of all brands, by name."""
    query = select(Brand.key, Brand.name, Brand.id).order_by(keyset.lower(Brand.name))
    return [(key, name, ident) for key, name, ident in db.session.execute(query)]


def brand(brand_id: int) -> Brand | None:
    """The brand, or None."""
    return db.session.get(Brand, brand_id)


def models(brand_key: str) -> list[tuple[str, str]]:
    """(key, name) of a brand's models."""
    query = select(OltModel.key, OltModel.name).join(OltModel.brand).where(Brand.key == brand_key)
    return [(key, name) for key, name in db.session.execute(query.order_by(OltModel.name))]


def purposes() -> list[str]:
    """Names under which readings of the catalogue are kept: what a filter offers."""
    return list(db.session.scalars(select(_PURPOSE).distinct().order_by(_PURPOSE)))


def units(brand_id: int, metrics: Iterable[str]) -> dict[str, str]:
    """Units of these readings' columns, as the brand's rows of the catalogue name them. One SQL statement, or none."""
    wanted = [metric for metric in metrics if not kept_in(metric, "")]
    if not wanted:
        return {}
    query = select(_PURPOSE, Oid.unit).where(Oid.brand_id == brand_id, _PURPOSE.in_(wanted), Oid.unit != "")
    return {metric: unit for metric, unit in db.session.execute(query)}


def get(oid_id: int) -> Oid | None:
    """The row with brand, formula and state map. One SQL statement."""
    parts = (joinedload(Oid.brand), joinedload(Oid.formula), joinedload(Oid.state_map))
    return db.session.scalar(select(Oid).options(*parts).where(Oid.id == oid_id))


def candidates(row: Oid) -> list[IndexFormula]:
    """The formulas of a row, in the row's order: its own, or those among which interface names choose."""
    if row.formula is not None:
        return [row.formula]
    if not row.candidates:
        return []
    query = select(IndexFormula).where(IndexFormula.brand_id == row.brand_id, IndexFormula.name.in_(row.candidates))
    found = {formula.name: formula for formula in db.session.scalars(query)}
    return [found[name] for name in row.candidates if name in found]


def olts_with_names(brand_id: int | None) -> list[tuple[int, str]]:
    """(id, name) of OLTs whose interface table is stored: only they can prove anything. None: of any brand."""
    stored = select(PonPort.id).where(PonPort.olt_id == Olt.id).exists()
    query = select(Olt.id, Olt.name).where(Olt.deleted_at.is_(None), stored)
    if brand_id is not None:
        query = query.where(Olt.brand_id == brand_id)
    rows = db.session.execute(query.order_by(keyset.lower(Olt.name)).limit(OLTS_OFFERED))
    return [(ident, name) for ident, name in rows]


@dataclass(frozen=True)
class PartRow:
    """A formula or a state map in its list. `users`: how many OIDs use it; `size`: states of a map."""

    id: int
    brand: str
    key: str
    kind: str
    edited: bool
    users: int
    size: int = 0


def formulas(brand_key: str = "") -> list[PartRow]:
    """All formulas by brand and name. Two SQL statements."""
    query = select(IndexFormula, Brand).join(Brand, Brand.id == IndexFormula.brand_id)
    if brand_key:
        query = query.where(Brand.key == brand_key)
    users = _formula_users()
    rows = db.session.execute(query.order_by(Brand.key, IndexFormula.name)).all()
    return [
        PartRow(row.id, owner.name, f"{owner.key}.{row.name}", row.kind, row.edited, users.get((owner.id, row.name), 0))
        for row, owner in rows
    ]


def _formula_users() -> dict[tuple[int, str], int]:
    """(brand id, formula name) → OIDs that use it, alone or as a candidate."""
    found: dict[tuple[int, str], int] = {}
    query = select(Oid.brand_id, IndexFormula.name, Oid.candidates).outerjoin(Oid.formula)
    for brand_id, name, names in db.session.execute(query):
        for one in {*(names or ()), *([name] if name else ())}:
            found[brand_id, one] = found.get((brand_id, one), 0) + 1
    return found


def state_maps(brand_key: str = "") -> list[PartRow]:
    """All state maps by brand and name. One SQL statement."""
    users = select(func.count(Oid.id)).where(Oid.state_map_id == StateMap.id).correlate(StateMap).scalar_subquery()
    query = select(StateMap, Brand, users).join(Brand, Brand.id == StateMap.brand_id)
    if brand_key:
        query = query.where(Brand.key == brand_key)
    rows = db.session.execute(query.order_by(Brand.key, StateMap.name)).all()
    return [
        PartRow(row.id, owner.name, f"{owner.key}.{row.name}", "", row.edited, count_, len(row.states))
        for row, owner, count_ in rows
    ]


def formula(formula_id: int) -> tuple[IndexFormula, Brand] | None:
    """The formula and its brand, or None."""
    query = select(IndexFormula, Brand).join(Brand, Brand.id == IndexFormula.brand_id)
    row = db.session.execute(query.where(IndexFormula.id == formula_id)).first()
    return (row[0], row[1]) if row else None


def state_map(map_id: int) -> tuple[StateMap, Brand] | None:
    """The state map and its brand, or None."""
    query = select(StateMap, Brand).join(Brand, Brand.id == StateMap.brand_id)
    row = db.session.execute(query.where(StateMap.id == map_id)).first()
    return (row[0], row[1]) if row else None


def using_formula(row: IndexFormula) -> list[Oid]:
    """The OIDs of its brand that use a formula."""
    found = _of_brand(row.brand_id)
    return [oid for oid in found if oid.formula_id == row.id or row.name in oid.candidates]


def using_states(row: StateMap) -> list[Oid]:
    """The OIDs that use a state map."""
    return [oid for oid in _of_brand(row.brand_id) if oid.state_map_id == row.id]


def _of_brand(brand_id: int) -> list[Oid]:
    query = select(Oid).join(Oid.brand).options(contains_eager(Oid.brand)).where(Oid.brand_id == brand_id)
    return list(db.session.scalars(query.order_by(Oid.name, Oid.variant)))
