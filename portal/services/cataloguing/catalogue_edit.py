"""Edits of the catalogue's OIDs by people: changed, added, deleted, set back to what is shipped. One transaction each.

An edited row has `edited` set, which `flask catalog sync` respects. A row that no shipped file has is one's own; it is
always `edited`. Formulas and state maps are edited in catalogue_parts, with the same steps.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain import catalogue_fields
from portal.domain.catalogue_data import Access, BrandData, CatalogueError, Confidence, OidData, Shape, parse
from portal.domain.catalogue_fields import OID_READERS, entry_of, entry_of_data
from portal.domain.fields import read_all
from portal.domain.messages import N_
from portal.domain.readings import ValueType
from portal.domain.statuses import NodeKind
from portal.extensions import transaction
from portal.services import audit
from portal.services.cataloguing import catalogue_shipped
from portal.services.cataloguing.catalogue_sync import oid_columns
from portal.services.errors import Invalid, NotFound
from portal.services.uniqueness import unique_or_invalid
from portal.tables import Brand, IndexFormula, Oid, OltModel, StateMap, TemplateNode, WorkflowNode

Row = TypeVar("Row", IndexFormula, StateMap, Oid)
NAME_TAKEN = N_("another row of this brand has this name")
UNIQUE = dict.fromkeys(
    ("uq_oids_brand_id_name_variant", "oids.brand_id", "uq_index_formulas_brand_id_name", "index_formulas.brand_id",
     "uq_state_maps_brand_id_name", "state_maps.brand_id"),
    ("name", NAME_TAKEN),
)  # fmt: skip
GONE = N_("the row does not exist any more")
NOT_SHIPPED = N_("no shipped file has this row: it is your own")
SHIPPED_ROW = N_("this row is shipped and would come back: set it back instead")


def around(session: Session, brand: Brand) -> dict[str, Any]:
    """The brand as a document without OIDs: all that a row may refer to."""
    models = session.execute(select(OltModel.key, OltModel.name).where(OltModel.brand_id == brand.id))
    formulas = session.scalars(select(IndexFormula).where(IndexFormula.brand_id == brand.id).order_by(IndexFormula.id))
    maps = session.scalars(select(StateMap).where(StateMap.brand_id == brand.id).order_by(StateMap.id))
    return {
        "brand": {"key": brand.key, "name": brand.name},
        "models": [{"key": key, "name": name} for key, name in models],
        "formulas": [{**row.definition, "name": row.name, "kind": row.kind} for row in formulas],
        "state_maps": [{"name": row.name, "states": row.states} for row in maps],
        "oids": [],
    }


def check_oid(
    session: Session, brand: Brand, given: Mapping[str, object], oid_id: int | None
) -> tuple[OidData, BrandData]:
    """The row that the fields of a form mean, and the brand that it lies in. Invalid says what is wrong, by field."""
    values, errors = read_all(OID_READERS, given)
    if errors:
        raise Invalid(errors)
    if refusal := catalogue_fields.wrong_unit(values):
        raise Invalid({"unit": refusal})
    document = around(session, brand)
    document["oids"] = [entry_of(values)]
    try:
        parsed = parse(document, "")
    except CatalogueError as error:
        field, message = catalogue_fields.misplaced(str(error), "")
        raise Invalid({field: message}) from None
    (data,) = parsed.oids
    _check_others(session, brand, data, oid_id)
    return data, parsed


def _check_others(session: Session, brand: Brand, data: OidData, oid_id: int | None) -> None:
    """One name means one row on one model."""
    query = select(Oid.models).where(Oid.brand_id == brand.id, Oid.name == data.name, Oid.id != (oid_id or 0))
    for models in session.scalars(query):
        if set(models) & set(data.models) or (not models and not data.models):
            raise Invalid({"models": N_("%(name)s is there already for one of these models", name=data.name)})


def data_of(row: Oid) -> OidData:
    """A stored row as data."""
    return OidData(
        name=row.name, oid=row.oid, shape=Shape(row.shape), type=ValueType(row.value_type), kind=NodeKind(row.kind),
        models=tuple(row.models), scale=row.scale, offset=row.offset, signed_bits=row.signed_bits,
        sentinels=tuple(row.sentinels), minimum=row.minimum, maximum=row.maximum, unit=row.unit,
        states=row.state_map.name if row.state_map else "", formula=row.formula.name if row.formula else "",
        candidates=tuple(row.candidates), by_name=row.by_name, dead_band=row.dead_band, access=Access(row.access),
        metric=row.metric, zero_unsupported=row.zero_unsupported, index_suffix=row.index_suffix,
        safe_interval=row.safe_interval, source=row.source, confidence=Confidence(row.confidence),
        description=row.description,
    )  # fmt: skip


def is_shipped(row: Oid) -> bool:
    """True when a shipped file has the row. What nobody edited or added came from there."""
    return not row.edited or catalogue_shipped.oid(row.brand.key, row.name, row.variant) is not None


def differences(row: Oid) -> dict[str, tuple[Any, Any]] | None:
    """field → (here, shipped) of what differs; None for a row of one's own."""
    theirs = catalogue_shipped.oid(row.brand.key, row.name, row.variant)
    if theirs is None:
        return None
    here, there = entry_of_data(data_of(row)), entry_of_data(theirs)
    return {key: (here.get(key), there.get(key)) for key in here | there if here.get(key) != there.get(key)}


def save_oid(oid_id: int, given: Mapping[str, object], actor: str, now: datetime) -> None:
    """Change a row. NotFound, Invalid. The name and models of a shipped row stay: they are how a sync knows it."""
    with unique_or_invalid(UNIQUE), transaction() as session:
        row = existing(session, Oid, oid_id)
        brand = row.brand
        if catalogue_shipped.oid(brand.key, row.name, row.variant) is not None:
            given = {**given, "name": row.name, "models": row.variant}
        data, _brand = check_oid(session, brand, given, oid_id)
        columns = {"name": data.name, "variant": data.variant, **_columns(session, brand, data)}
        write(session, row, row.key, columns, actor, now)


def add_oid(brand_id: int, given: Mapping[str, object], actor: str, now: datetime) -> int:
    """Add a row of one's own; returns its id. NotFound without the brand, Invalid."""
    with unique_or_invalid(UNIQUE), transaction() as session:
        brand = existing_brand(session, brand_id)
        data, _brand = check_oid(session, brand, given, None)
        row = Oid(brand_id=brand.id, name=data.name, variant=data.variant, edited=True)
        for name, value in _columns(session, brand, data).items():
            setattr(row, name, value)
        return added(session, row, f"{brand.key}.{data.name}", actor, now)


def reset_oid(oid_id: int, actor: str, now: datetime) -> None:
    """Back to what is shipped. NotFound; Invalid for a row of one's own."""
    with transaction() as session:
        row = existing(session, Oid, oid_id)
        data = catalogue_shipped.oid(row.brand.key, row.name, row.variant)
        if data is None:
            raise Invalid({"": NOT_SHIPPED})
        set_back(session, row, row.key, _columns(session, row.brand, data), actor, now)


def delete_oid(oid_id: int, actor: str, now: datetime) -> None:
    """Delete a row of one's own. NotFound; Invalid when it is shipped or a node reads it."""
    with transaction() as session:
        row = existing(session, Oid, oid_id)
        if catalogue_shipped.oid(row.brand.key, row.name, row.variant) is not None:
            raise Invalid({"": SHIPPED_ROW})
        if nodes := nodes_reading(session, row.key):
            raise Invalid({"": N_("%(count)d nodes read it: give them another OID first", count=nodes)})
        delete(session, row, row.key, actor, now)


def nodes_reading(session: Session, key: str) -> int:
    """How many nodes of workflows and templates name this key, alone or among others."""
    found = 0
    for table in (WorkflowNode, TemplateNode):
        texts = session.scalars(select(table.oid).where(table.oid.contains(key, autoescape=True)))
        found += sum(key in text.split(",") for text in texts)
    return found


def _columns(session: Session, brand: Brand, data: OidData) -> dict[str, Any]:
    return oid_columns(data, _ids(session, IndexFormula, brand), _ids(session, StateMap, brand))


def _ids(session: Session, table: type[IndexFormula] | type[StateMap], brand: Brand) -> dict[str, int]:
    rows = session.execute(select(table.name, table.id).where(table.brand_id == brand.id))
    return {name: ident for name, ident in rows}


# What every kind of row goes through; catalogue_parts uses it too.


def existing(session: Session, table: type[Row], ident: int) -> Row:
    """The row, or NotFound."""
    row = session.get(table, ident)
    if row is None:
        raise NotFound(GONE)
    return row


def existing_brand(session: Session, brand_id: int) -> Brand:
    """The brand, or NotFound."""
    brand = session.get(Brand, brand_id)
    if brand is None:
        raise NotFound(GONE)
    return brand


def write(session: Session, row: Row, key: str, columns: Mapping[str, Any], actor: str, now: datetime) -> None:
    """Store an edit: only what differs, marked as edited, with its audit row. An edit that changes nothing is none."""
    changes = _assign(row, columns)
    if changes:
        row.edited = True
        _record(session, "edit", row, key, changes, actor, now)


def set_back(session: Session, row: Row, key: str, columns: Mapping[str, Any], actor: str, now: datetime) -> None:
    """Store what is shipped; a sync looks after the row again."""
    changes = _assign(row, columns)
    row.edited = False
    _record(session, "reset", row, key, changes, actor, now)


def added(session: Session, row: Row, key: str, actor: str, now: datetime) -> int:
    """Store a row of one's own; its id."""
    session.add(row)
    session.flush()
    _record(session, "add", row, key, {}, actor, now)
    return row.id


def delete(session: Session, row: Row, key: str, actor: str, now: datetime) -> None:
    """Delete a row of one's own."""
    _record(session, "delete", row, key, {}, actor, now)
    session.delete(row)


def _assign(row: Row, columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    before = {name: getattr(row, name) for name in columns}
    changes = audit.difference(before, columns)
    for name in changes:
        setattr(row, name, columns[name])
    return changes


def _record(
    session: Session, verb: str, row: Row, key: str, changes: Mapping[str, Any], actor: str, now: datetime
) -> None:
    kind = type(row).__name__.lower()
    subject = audit.Subject(type=kind, name=key, id=row.id)
    audit.record(session, actor=actor, action=f"catalogue.{verb}", subject=subject, changes=changes, now=now)
