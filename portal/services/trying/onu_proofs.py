"""How the stored readings of an ONU came to be: OID, index, raw value, decoding; and where its index says it is. Reads.

What the catalogue makes of the raw value today stands beside what is stored: it may have been edited since.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from portal.domain import proof, typed_values
from portal.domain.composite import ReadingSpec
from portal.domain.fields import FieldError
from portal.domain.proof import Interface, Proof
from portal.domain.readings import Reading, decode
from portal.services.cataloguing import index_families
from portal.services.errors import NotFound
from portal.services.trying import onu_columns
from portal.services.trying.onu_columns import OnuColumn
from portal.tables import Olt, Onu, OnuData, PonPort


@dataclass(frozen=True)
class ReadingProof:
    """One stored reading. `column` None: no node of the workflow reads it any more, `oid` is then "".

    `now`: what the raw value is by the present catalogue; None where it cannot be decoded again.
    """

    data: OnuData
    column: OnuColumn | None
    oid: str
    now: Reading | None

    @property
    def stored(self) -> float | str | None:
        """The value that pages show."""
        return self.data.text if self.data.number is None else self.data.number

    @property
    def changed(self) -> bool:
        """True when the catalogue now makes something else of the raw value than what is stored."""
        return self.now is not None and self.now.value != self.stored


@dataclass(frozen=True)
class Proofs:
    """`places`: from the ONU's index to its position, once for each formula that a column of it uses."""

    onu: Onu
    readings: tuple[ReadingProof, ...]
    places: tuple[Proof, ...]


def of_onu(session: Session, onu_id: int) -> Proofs:
    """The proofs. NotFound when the ONU or its OLT is gone. Eight SQL statements at most."""
    whole_olt = joinedload(Onu.olt).options(joinedload(Olt.brand), joinedload(Olt.model))
    onu = session.scalar(select(Onu).options(whole_olt).where(Onu.id == onu_id))
    if onu is None or onu.olt.deleted_at is not None:
        raise NotFound(str(onu_id))
    rows = list(session.scalars(select(OnuData).where(OnuData.onu_id == onu_id).order_by(OnuData.metric)))
    columns = onu_columns.of_onu(session, onu, onu.olt, {row.metric for row in rows})
    by_metric = {column.spec.metric: column for column in reversed(columns)}
    readings = tuple(_reading(onu, row, by_metric.get(row.metric)) for row in rows)
    return Proofs(onu, readings, tuple(_places(session, onu, [column.spec for column in columns])))


def _reading(onu: Onu, data: OnuData, column: OnuColumn | None) -> ReadingProof:
    if column is None or onu.index_key is None:
        return ReadingProof(data, column, "", None)
    return ReadingProof(data, column, onu_columns.index_of(column, onu.index_key), _decoded(column.spec, data.raw))


def _decoded(spec: ReadingSpec, raw: str) -> Reading | None:
    if not raw:
        return None
    try:
        return decode(spec.value, "", typed_values.raw_value(raw, spec.value.type))
    except FieldError:  # cut, where it was very long
        return None


def _places(session: Session, onu: Onu, specs: Sequence[ReadingSpec]) -> Iterable[Proof]:
    if onu.index_key is None:
        return
    distinct = {(spec.formula.name if spec.formula else "", spec.by_name): spec for spec in reversed(specs)}
    interfaces = _interfaces(session, onu, specs)
    for spec in reversed(distinct.values()):
        formula = None if spec.formula is None or spec.formula.reads_names else spec.formula
        if formula is None and len(distinct) > 1:
            continue
        by_ifindex = spec.by_name and bool(interfaces)
        yield proof.prove(f"{spec.oid}.{onu.index_key}", spec.oid, formula, interfaces, by_ifindex)


def _interfaces(session: Session, onu: Onu, specs: Sequence[ReadingSpec]) -> Mapping[str, Interface]:
    """The rows of the interface table that can speak of this ONU or of its port."""
    index = onu.index_key or ""
    wanted = {index, index.partition(".")[0]}
    for spec in specs:
        place = spec.formula.decode(index) if spec.formula is not None else None
        if spec.formula is not None and place is not None:
            wanted |= _port_index(spec, place)
    query = select(PonPort.index_key, PonPort.name).where(PonPort.olt_id == onu.olt_id, PonPort.index_key.in_(wanted))
    rows = [(key, name) for key, name in session.execute(query)]
    return proof.read_interfaces(rows, index_families.readers(session, onu.olt.brand_id)) if rows else {}


def _port_index(spec: ReadingSpec, place: proof.Position) -> set[str]:
    try:
        return {spec.formula.encode(replace(place, onu=None))} if spec.formula is not None else set()
    except ValueError:
        return set()
