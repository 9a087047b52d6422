"""What the product has learned of one OLT: sizes of messages, and how its indexes are to be read. Reads only."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import or_, select

from portal.domain.table_sizes import SizeOutcome, table_of
from portal.extensions import db
from portal.tables import Brand, Oid, Olt, OltIndexFamily, TableSize

SHOWN_EVIDENCE = 6


@dataclass(frozen=True)
class Observation:
    """What became of a message that asked for so many values."""

    size: int
    outcome: SizeOutcome
    at: datetime


@dataclass(frozen=True)
class SizeRow:
    """One table of the OLT. `names`: catalogue names of its columns. `seen`: the last observations, newest first."""

    root: str
    names: tuple[str, ...]
    operation: str
    size: int
    too_big: int | None
    retry_after: datetime | None
    seen: tuple[Observation, ...]


@dataclass(frozen=True)
class FamilyRow:
    """How one space of indexes is decoded. `formula` "": by the interfaces' names only. `agree` of `names` do."""

    space: str
    formula: str
    names: int
    agree: int
    decided_at: datetime


def sizes(olt: Olt) -> list[SizeRow]:
    """Message sizes that were learned, table by table. Two SQL statements."""
    found = db.session.scalars(
        select(TableSize).where(TableSize.olt_id == olt.id).order_by(TableSize.root, TableSize.operation)
    ).all()
    names = _names(olt, {row.root for row in found}) if found else {}
    return [
        SizeRow(row.root, names.get(row.root, ()), row.operation, row.size, row.too_big, row.retry_larger_after,
                tuple(_observation(one) for one in reversed(row.evidence[-SHOWN_EVIDENCE:])))
        for row in found
    ]  # fmt: skip


def _observation(one: list[Any]) -> Observation:
    return Observation(int(one[0]), SizeOutcome(one[1]), datetime.fromisoformat(one[2]))


def _names(olt: Olt, roots: set[str]) -> dict[str, tuple[str, ...]]:
    """Table → names of the catalogue's columns in it, those of the OLT's brand and the generic ones."""
    query = select(Oid.name, Oid.oid).join(Brand).order_by(Oid.id)  # as the catalogue has them: what matters first
    found: dict[str, dict[str, None]] = {}
    for name, oid in db.session.execute(query.where(or_(Oid.brand_id == olt.brand_id, Brand.key == "generic"))):
        table = table_of(oid)
        for root in (table, table_of(table)):  # an OID may name an instance below its column
            if root in roots:
                found.setdefault(root, {})[name] = None
    return {root: tuple(names) for root, names in found.items()}


def families(olt_id: int) -> list[FamilyRow]:
    """Index families that the OLT's own interface names chose."""
    query = select(OltIndexFamily).where(OltIndexFamily.olt_id == olt_id).order_by(OltIndexFamily.space)
    return [
        FamilyRow(row.space, row.formula, int(row.evidence.get("names", 0)), _agree(row), row.decided_at)
        for row in db.session.scalars(query)
    ]


def _agree(row: OltIndexFamily) -> int:
    tried = row.evidence.get("tried", [])
    return next((int(one.get("agree", 0)) for one in tried if one.get("formula") == row.formula), 0)
