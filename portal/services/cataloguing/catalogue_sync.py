"""Reconciles the catalogue's tables with the shipped documents by natural key, inside a transaction of the caller."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.catalogue_data import BrandData, OidData
from portal.tables import Brand, IndexFormula, Oid, Olt, OltModel, StateMap, TemplateNode, WorkflowNode

Row = TypeVar("Row", OltModel, IndexFormula, StateMap, Oid)
Wanted = dict[tuple[str, ...], dict[str, Any]]

OUTCOMES = ("created", "updated", "unchanged", "kept", "deleted")


class Reconciler:
    """One sync. `counts` says what became of the rows."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.counts: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        nodes = (session.scalars(select(table.oid).distinct()).all() for table in (WorkflowNode, TemplateNode))
        self._used_oids = {text for texts in nodes for text in texts}
        self._used_models = set(session.scalars(select(Olt.model_id).where(Olt.model_id.is_not(None)).distinct()))

    def run(self, documents: list[BrandData]) -> None:
        """Create, update and delete until the tables agree with `documents`. Brands are never deleted."""
        stored = {brand.key: brand for brand in self.session.scalars(select(Brand))}
        for document in documents:
            brand = stored.pop(document.key, None) or self._add(Brand(key=document.key))
            self._assign(brand, {"name": document.name})
            self.session.flush()
            self._brand(brand, document)
        for brand in stored.values():
            self._brand(brand, BrandData(key=brand.key, name=brand.name))

    def _brand(self, brand: Brand, document: BrandData) -> None:
        models: Wanted = {(m.key,): {"name": m.name, "match": m.match(), "bulk": m.bulk} for m in document.models}
        for model in self._table(OltModel, brand, models, ("key",)):
            self._delete(model, keep=model.id in self._used_models)
        formulas: Wanted = {(f.name,): {"kind": f.kind, "definition": dict(f.definition)} for f in document.formulas}
        maps: Wanted = {(m.name,): {"states": m.as_json()} for m in document.state_maps}
        stale: list[IndexFormula | StateMap] = [*self._table(IndexFormula, brand, formulas, ("name",))]
        stale += self._table(StateMap, brand, maps, ("name",))
        self.session.flush()
        self._oids(brand, document.oids)
        self.session.flush()
        self._delete_unreferenced(stale)

    def _oids(self, brand: Brand, documents: Iterable[OidData]) -> None:
        formulas = self._ids(IndexFormula, brand)
        maps = self._ids(StateMap, brand)
        wanted: Wanted = {(d.name, d.variant): oid_columns(d, formulas, maps) for d in documents}
        for row in self._table(Oid, brand, wanted, ("name", "variant")):
            self._delete(row, keep=row.edited or f"{brand.key}.{row.name}" in self._used_oids)

    def _ids(self, table: type[IndexFormula] | type[StateMap], brand: Brand) -> dict[str, int]:
        rows = self.session.execute(select(table.name, table.id).where(table.brand_id == brand.id))
        return {name: ident for name, ident in rows}

    def _table(self, table: type[Row], brand: Brand, wanted: Wanted, key: tuple[str, ...]) -> list[Row]:
        """Create and update the rows of one brand; returns those that no document has."""
        rows = self.session.scalars(select(table).where(table.brand_id == brand.id).order_by(table.id)).all()
        stored = {tuple(getattr(row, name) for name in key): row for row in rows}
        for natural, columns in wanted.items():
            row = stored.pop(natural, None)
            if row is None:
                row = self._add(table(brand_id=brand.id, **dict(zip(key, natural, strict=True))))
            self._assign(row, columns)
        return list(stored.values())

    def _add(self, row: Any) -> Any:
        self.session.add(row)
        return row

    def _assign(self, row: Any, columns: Mapping[str, Any]) -> None:
        if row.id is None:
            self.counts["created"] += 1
        elif getattr(row, "edited", False):
            self.counts["kept"] += 1
            return
        else:
            differs = any(getattr(row, name) != value for name, value in columns.items())
            self.counts["updated" if differs else "unchanged"] += 1
        for name, value in columns.items():
            if row.id is None or getattr(row, name) != value:
                setattr(row, name, value)

    def _delete(self, row: Any, *, keep: bool) -> None:
        self.counts["kept" if keep else "deleted"] += 1
        if not keep:
            self.session.delete(row)

    def _delete_unreferenced(self, rows: Iterable[IndexFormula | StateMap]) -> None:
        for row in rows:
            column = Oid.formula_id if isinstance(row, IndexFormula) else Oid.state_map_id
            used = self.session.scalar(select(Oid.id).where(column == row.id).limit(1))
            self._delete(row, keep=row.edited or used is not None)


def oid_columns(data: OidData, formulas: Mapping[str, int], maps: Mapping[str, int]) -> dict[str, Any]:
    """What the table of OIDs stores of a row; ids by name of the brand's formulas and state maps."""
    return {
        "models": list(data.models),
        "oid": data.oid,
        "kind": data.kind.value,
        "shape": data.shape.value,
        "value_type": data.type.value,
        "scale": data.scale,
        "offset": data.offset,
        "signed_bits": data.signed_bits,
        "sentinels": list(data.sentinels),
        "minimum": data.minimum,
        "maximum": data.maximum,
        "unit": data.unit,
        "index_suffix": data.index_suffix,
        "safe_interval": data.safe_interval,
        "description": data.description,
        "source": data.source,
        "confidence": data.confidence.value,
        "metric": data.metric,
        "by_name": data.by_name,
        "candidates": list(data.candidates),
        "dead_band": data.dead_band,
        "access": data.access.value,
        "zero_unsupported": data.zero_unsupported,
        "state_map_id": maps.get(data.states),
        "formula_id": formulas.get(data.formula),
    }
