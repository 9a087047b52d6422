"""Which formula numbers the interfaces of one OLT: decided by its own interface names, stored with the evidence.

Two C320 of one firmware use different families (quirk 20), so a model decides nothing here: names do.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from portal.domain.formulas import IndexFormula as Formula
from portal.domain.formulas import Interface, Position
from portal.domain.proof import Choice, choose, read_interfaces
from portal.tables import Brand, IndexFormula, Oid, Olt, OltIndexFamily, PonPort

GENERIC = "generic"
_STRING = "string"

Spaces = dict[str, tuple[Formula, ...]]


def build(row: IndexFormula) -> Formula:
    """The working formula of a catalogue row. ValueError when an operator's edit broke it."""
    return Formula.from_dict({**row.definition, "name": row.name, "kind": row.kind})


def space_of(row: Oid, formula: Formula | None) -> str:
    """The key under which a row's family is decided; "" when its formula needs no proof by names."""
    if row.candidates:
        return ",".join(row.candidates)
    if formula is not None and (formula.learns or (row.by_name and not formula.reads_names)):
        return formula.name
    return ""


def spaces(session: Session, brand_id: int) -> Spaces:
    """What must be decided for OLTs of a brand: space → its candidates, in the catalogue's order of preference."""
    formulas = {row.name: build(row) for row in _formulas(session, brand_id)}
    query = (
        select(Oid.candidates, Oid.by_name, IndexFormula.name).outerjoin(Oid.formula).where(Oid.brand_id == brand_id)
    )
    found: Spaces = {}
    for candidates, by_name, name in session.execute(query.order_by(Oid.id)):
        row = Oid(candidates=candidates, by_name=by_name)
        space = space_of(row, formulas.get(name))
        tried = tuple(formulas[item] for item in space.split(",") if item in formulas)
        if space and tried:
            found[space] = tried
    return found


def readers(session: Session, brand_id: int) -> list[Formula]:
    """Formulas that read names: the brand's own, then those of all makers."""
    query = (
        select(IndexFormula)
        .join(Brand, Brand.id == IndexFormula.brand_id)
        .where(IndexFormula.kind == _STRING, or_(Brand.id == brand_id, Brand.key == GENERIC))
        .order_by(Brand.key == GENERIC, IndexFormula.id)
    )
    return [build(row) for row in session.scalars(query)]


def named(session: Session, olt: Olt) -> dict[str, Interface]:
    """ifIndex → interface of the stored table, with the position that its name says."""
    rows = session.execute(select(PonPort.index_key, PonPort.name).where(PonPort.olt_id == olt.id).order_by(PonPort.id))
    return read_interfaces(((index, name) for index, name in rows), readers(session, olt.brand_id))


def learned_positions(session: Session, olt: Olt) -> dict[str, Position]:
    """ifIndex → position, by formulas that the OLT's names completed, of the interfaces that these speak of."""
    kinds = {row.name: row.kind for row in _formulas(session, olt.brand_id)}
    learned = [
        Formula.from_dict({**family.definition, "name": family.formula, "kind": kinds[family.formula]})
        for family in of(session, olt.id)
        if family.definition is not None and family.formula in kinds
    ]
    told = {
        index: next((formula.decode(index) for formula in learned if formula.claims(interface)), None)
        for index, interface in (named(session, olt) if learned else {}).items()
    }
    return {index: position for index, position in told.items() if position is not None}


def decide(session: Session, olt: Olt, now: datetime) -> None:
    """Choose anew in every space of the brand where names or formulas changed since. Belongs after a stored TABLE."""
    wanted = spaces(session, olt.brand_id)
    stored = {family.space: family for family in of(session, olt.id)}
    for space in stored.keys() - wanted.keys():
        session.delete(stored[space])
    if not wanted:
        return
    interfaces = named(session, olt)
    digest = _digest(interfaces, wanted)
    for space, formulas in wanted.items():
        family = stored.get(space)
        if family is not None and family.digest == digest:
            continue
        if family is None:
            family = OltIndexFamily(olt_id=olt.id, space=space)
            session.add(family)
        _fill(family, choose(formulas, interfaces), formulas, len(interfaces), digest, now)


def _fill(
    family: OltIndexFamily, choice: Choice, formulas: Sequence[Formula], names: int, digest: str, now: datetime
) -> None:  # fmt: skip
    chosen = choice.formula
    tried = [
        {"formula": verdict.formula, "agree": verdict.agree, "contradict": verdict.contradict, "first": verdict.first}
        for verdict in choice.verdicts
    ]
    learned = chosen is not None and any(formula.learns for formula in formulas if formula.name == chosen.name)
    family.formula = chosen.name if chosen is not None else ""
    family.definition = json.loads(json.dumps(dict(chosen.definition))) if chosen is not None and learned else None
    family.evidence = {"names": names, "tried": tried}
    family.digest, family.decided_at = digest, now


def _digest(interfaces: Mapping[str, Interface], wanted: Spaces) -> str:
    formulas = [[f.name, f.kind, f.definition] for tried in wanted.values() for f in tried]
    text = json.dumps([sorted((i.index, i.name) for i in interfaces.values()), formulas], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def of(session: Session, olt_id: int) -> list[OltIndexFamily]:
    """The decisions of one OLT, for pages and for decoding."""
    query = select(OltIndexFamily).where(OltIndexFamily.olt_id == olt_id).order_by(OltIndexFamily.space)
    return list(session.scalars(query))


def formula_for(session: Session, olt: Olt, oid_row: Oid) -> Formula | None:
    """The formula that holds for one row on this OLT; None where only names, or nothing, give positions."""
    return formulas_for(session, olt, [oid_row])[oid_row.id]


def formulas_for(session: Session, olt: Olt, rows: Iterable[Oid]) -> dict[int, Formula | None]:
    """Oid.id → formula. A formula that the OLT's names contradict is not used; one they never tested is."""
    rows = list(rows)
    own = {row.id: build(row.formula) if row.formula is not None else None for row in rows}
    wanted = {row.id: space_of(row, own[row.id]) for row in rows}
    if not any(wanted.values()):
        return own
    families = {family.space: family for family in of(session, olt.id)}
    brand = {row.name: row for row in _formulas(session, olt.brand_id)} if any(row.candidates for row in rows) else {}
    return {row.id: _held(row, own[row.id], families.get(wanted[row.id]), brand) for row in rows}


def _held(
    row: Oid, own: Formula | None, family: OltIndexFamily | None, brand: Mapping[str, IndexFormula]
) -> Formula | None:  # fmt: skip
    if family is None:  # no interface table was read yet, or the row needs none
        return None if row.candidates or (own is not None and own.learns) else own
    if family.definition is not None and own is not None:
        return Formula.from_dict({**family.definition, "name": own.name, "kind": own.kind})
    if row.candidates:
        return build(brand[family.formula]) if family.formula in brand else None
    return None if _contradicted(family.evidence) or (own is not None and own.learns) else own


def _contradicted(evidence: Mapping[str, Any]) -> bool:
    return any(tried["contradict"] for tried in evidence["tried"])


def _formulas(session: Session, brand_id: int) -> Sequence[IndexFormula]:
    query = select(IndexFormula).where(IndexFormula.brand_id == brand_id).order_by(IndexFormula.id)
    return session.scalars(query).all()
