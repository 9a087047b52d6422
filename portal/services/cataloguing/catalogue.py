"""The catalogue's writer (sync with the shipped files) and its look-up: which row an OID of a node means."""

from collections.abc import Iterable, Set
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from sqlalchemy import or_, select
from sqlalchemy.orm import Session, contains_eager, joinedload

from portal.domain import fields, node_fields, units
from portal.domain.catalogue_data import BrandData, CatalogueError, Shape, parse
from portal.domain.composite import ReadingSpec
from portal.domain.formulas import IndexFormula as Formula
from portal.domain.messages import N_, Message
from portal.domain.readings import StateLabel, ValueSpec, ValueType
from portal.extensions import transaction
from portal.services import audit
from portal.services.cataloguing import index_families
from portal.services.cataloguing.catalogue_sync import Reconciler
from portal.tables import Brand, Oid, Olt, StateMap

GENERIC = "generic"
SHIPPED = Path(__file__).resolve().parents[2] / "catalogue"


def load_shipped(folder: Path = SHIPPED) -> list[BrandData]:
    """The brands of the *.yaml files in `folder`, by file name. CatalogueError names file, row and mistake."""
    return [_parsed(path, path.stat().st_mtime_ns) for path in sorted(folder.glob("*.yaml"))]


@lru_cache(maxsize=64)  # parsing all files takes more than a second
def _parsed(path: Path, changed: int) -> BrandData:
    return load_file(path)


def load_file(path: Path) -> BrandData:
    """The brand of one shipped file. CatalogueError as above."""
    try:
        document = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path.name}: cannot be read as YAML: {error}") from None
    return parse(document, path.name)


def sync(documents: Iterable[BrandData], now: datetime, actor: str = "cli") -> dict[str, int]:
    """Make the catalogue's tables say what `documents` say; rows that an operator edited stay as they are.

    A row that no document has any more is deleted, unless it was edited or something refers to it. Returns how many
    rows were created, updated, unchanged, kept (edited or in use) and deleted.
    """
    with transaction() as session:
        reconciler = Reconciler(session)
        reconciler.run(list(documents))
        counts = dict(reconciler.counts)
        if counts["created"] or counts["updated"] or counts["deleted"]:
            subject = audit.Subject(type="catalogue", name="shipped files")
            audit.record(session, actor=actor, action="catalogue.sync", subject=subject, changes=counts, now=now)
    return counts


class Lookup:
    """Catalogue rows by name and by OID. Give it the rows of every brand that is asked for, and of the generic one."""

    def __init__(self, rows: Iterable[Oid]) -> None:
        self._named: dict[tuple[str, str], list[Oid]] = {}
        self._dotted: dict[tuple[str, str], list[Oid]] = {}
        for row in rows:
            self._named.setdefault((row.brand.key, row.name), []).append(row)
            self._dotted.setdefault((row.brand.key, row.oid), []).append(row)

    def find(self, brand: str, model: str, text: str) -> Oid | None:
        """The row that `text` (brand.name or dotted) means on an OLT: its model's, else its brand's, else generic."""
        if node_fields.is_dotted(text):
            return self._find_dotted(brand, model, text)
        prefix, _, name = text.partition(".")
        for key in (brand, GENERIC) if prefix == brand else (GENERIC,) if prefix == GENERIC else ():
            found = _chosen(self._named.get((key, name), []), model)
            if found is not None:
                return found
        return None

    def _find_dotted(self, brand: str, model: str, text: str) -> Oid | None:
        for key in (brand, GENERIC):
            rows = self._dotted.get((key, text), [])
            if rows:
                return _chosen(rows, model) or rows[0]
        return None

    def explain(self, brand: str, model: str, text: str) -> Message:
        """Why `find` found nothing for a catalogue key, and what to do."""
        prefix, _, name = text.partition(".")
        if prefix not in (brand, GENERIC):
            return N_("%(oid)s is not for this OLT, whose brand is %(brand)s", oid=text, brand=brand)
        models = sorted({item for row in self._named.get((prefix, name), []) for item in row.models})
        if models and not model:
            return N_("%(oid)s depends on the model: set the OLT's model to one of %(models)s", oid=text,
                      models=", ".join(models))  # fmt: skip
        if models:
            return N_("%(oid)s is not known for model %(model)s, only for %(models)s", oid=text, model=model,
                      models=", ".join(models))  # fmt: skip
        return self.unknown_key(text)

    def unknown_key(self, text: str) -> Message:
        """Message for a key that the catalogue does not have, with the nearest one that it has."""
        known = {f"{brand}.{name}" for brand, name in self._named}
        meant = fields.nearest(text, known)
        if meant:
            return N_("%(oid)s is not in the catalogue, did you mean %(meant)s?", oid=text, meant=meant)
        return N_("%(oid)s is not in the catalogue: see the page Catalogue, or give a dotted OID", oid=text)

    def safe_interval(self, text: str) -> int | None:
        """The strictest safe interval (s) of the rows that a key may mean; for templates, which have no model."""
        prefix, _, name = text.partition(".")
        rows = self._named.get((prefix, name)) or self._named.get((GENERIC, name)) or []
        return max((row.safe_interval for row in rows if row.safe_interval), default=None)

    def has_key(self, text: str) -> bool:
        """True when some model of the brand named in `text` has it."""
        prefix, _, name = text.partition(".")
        return (prefix, name) in self._named or (GENERIC, name) in self._named


def _chosen(rows: list[Oid], model: str) -> Oid | None:
    mine = [row for row in rows if model and model in row.models]
    whole_brand = [row for row in rows if not row.models]
    if mine or whole_brand:
        return (mine or whole_brand)[0]
    # Without a model on the OLT a family's row is taken only when there is no other to confuse it with.
    return rows[0] if len(rows) == 1 and not model else None


def load_lookup(session: Session, brands: Iterable[str] | None = None) -> Lookup:
    """A Lookup of `brands` (keys) and generic, or of everything."""
    query = select(Oid).join(Oid.brand).options(contains_eager(Oid.brand)).order_by(Oid.id)
    if brands is not None:
        query = query.where(Brand.key.in_([*brands, GENERIC]))
    return Lookup(session.scalars(query).all())


def find_all(session: Session, olt: Olt, oid_texts: Set[str]) -> dict[str, Oid | None]:
    """The rows that keys or dotted OIDs mean on this OLT: model → brand → generic; None where there is none.

    One SQL statement for all of them.
    """
    dotted = {text for text in oid_texts if node_fields.is_dotted(text)}
    names = {text.partition(".")[2] for text in oid_texts - dotted}
    brands = Brand.key.in_([olt.brand.key, GENERIC])
    query = (
        select(Oid)
        .join(Oid.brand)
        .options(contains_eager(Oid.brand), joinedload(Oid.state_map), joinedload(Oid.formula))
        .where(or_(Oid.oid.in_(dotted), Oid.name.in_(names)), brands)
        .order_by(Oid.id)
    )
    lookup = Lookup(session.scalars(query).all())
    model = olt.model.key if olt.model else ""
    return {text: lookup.find(olt.brand.key, model, text) for text in oid_texts}


def reading_spec(
    oid_row: Oid | None, oid_text: str, metric: str, formula: Formula | None | Literal["own"] = "own"
) -> ReadingSpec:
    """How to read and decode one column. Without a row `oid_text` is dotted and its values are kept as text.

    `formula`: what services.index_families found to hold on the OLT in question; "own" is the row's, untested.
    """
    if oid_row is None:
        scalar = oid_text.endswith(".0")
        return ReadingSpec(metric=metric, oid=oid_text, value=ValueSpec(type=ValueType.TEXT), scalar=scalar)
    kept_as = oid_row.metric or metric
    return ReadingSpec(
        metric=kept_as,
        oid=oid_row.oid,
        value=_value_spec(oid_row, kept_as),
        formula=_formula(oid_row) if formula == "own" else formula,
        index_suffix=oid_row.index_suffix,
        scalar=oid_row.shape == Shape.SCALAR,
        by_name=oid_row.by_name,
        dead_band=oid_row.dead_band,
        access=oid_row.access,
        zero_unsupported=oid_row.zero_unsupported,
        shape=oid_row.shape,
    )


def _value_spec(row: Oid, kept_as: str) -> ValueSpec:
    return ValueSpec(
        type=ValueType(row.value_type),
        scale=row.scale,
        offset=row.offset,
        signed_bits=row.signed_bits,
        sentinels=tuple(row.sentinels),
        minimum=row.minimum,
        maximum=row.maximum,
        **units.in_units(kept_as, row.unit),
        states=_states(row.state_map),
    )


def _states(row: StateMap | None) -> dict[int, StateLabel]:
    if row is None:
        return {}
    return {int(code): StateLabel(label=item["label"], online=item.get("online")) for code, item in row.states.items()}


def _formula(row: Oid) -> Formula | None:
    return index_families.build(row.formula) if row.formula is not None else None
