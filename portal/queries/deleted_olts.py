"""OLTs that were deleted: why, when, by whom; and whether another one has their name or address now. Reads only."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import func, or_, select

from portal.extensions import db
from portal.queries import keyset
from portal.queries.matching import contains
from portal.tables import AuditLog, Brand, Olt, OltModel


@dataclass(frozen=True)
class Row:
    """An OLT out of service. `by`: who deleted it, "" when the audit log no longer knows.

    `name_taken` and `address_taken`: the OLT in service that has its name, or its address and port; "" = nobody.
    """

    id: int
    name: str
    address: str
    port: int
    site: str
    deleted_at: datetime
    reason: str
    brand: str
    model: str
    by: str = ""
    name_taken: bool = False
    address_taken: str = ""


def page(q: str = "", cursor: str = "", size: int = keyset.PAGE_SIZE) -> keyset.Page[Row]:
    """Deleted OLTs, the last deleted first. Three SQL statements."""
    columns = (
        Olt.id, Olt.name, Olt.address, Olt.port, Olt.site, Olt.deleted_at, Olt.deleted_reason, Brand.name,
        func.coalesce(OltModel.name, ""),
    )  # fmt: skip
    query = select(*columns).join(Olt.brand).outerjoin(Olt.model).where(Olt.deleted_at.is_not(None))
    if q:
        texts = (Olt.name, Olt.address, Olt.site, Olt.deleted_reason)
        query = query.where(or_(*(contains(column, q) for column in texts)))
    found = keyset.fetch(query, keyset.Order((Olt.deleted_at, Olt.id), descending=True), cursor, size)
    made = found.map(lambda row: Row(*row))
    by, holders = _deleted_by([row.id for row in made.rows]), _holders(made.rows)
    return made.map(
        lambda row: replace(
            row, by=by.get(row.id, ""), name_taken=(row.name, "") in holders,
            address_taken=holders.get((row.address, str(row.port)), ""),
        )
    )  # fmt: skip


def everything(q: str = "") -> list[Row]:
    """All deleted OLTs that match, the last deleted first."""
    found, cursor = list[Row](), ""
    while True:
        here = page(q, cursor, 500)
        found += here.rows
        if not (cursor := here.next):
            return found


def get(olt_id: int) -> Olt | None:
    """The OLT if it was deleted."""
    return db.session.scalar(select(Olt).where(Olt.id == olt_id, Olt.deleted_at.is_not(None)))


def count() -> int:
    """How many OLTs were deleted. One SQL statement."""
    return db.session.scalar(select(func.count()).select_from(Olt).where(Olt.deleted_at.is_not(None))) or 0


def _deleted_by(olt_ids: list[int]) -> dict[int, str]:
    query = (
        select(AuditLog.subject_id, AuditLog.actor)
        .where(AuditLog.subject_type == "olt", AuditLog.subject_id.in_(olt_ids), AuditLog.action == "olt.delete")
        .order_by(AuditLog.id)
    )
    return {olt_id: actor for olt_id, actor in db.session.execute(query) if olt_id is not None}


def _holders(rows: Iterable[Row]) -> dict[tuple[str, str], str]:
    """(name, "") and (address, port) of OLTs in service → the name of the OLT."""
    names, addresses = [row.name for row in rows], [row.address for row in rows]
    query = select(Olt.name, Olt.address, Olt.port).where(
        Olt.deleted_at.is_(None), or_(Olt.name.in_(names), Olt.address.in_(addresses))
    )  # fmt: skip
    found: dict[tuple[str, str], str] = {}
    for name, address, port in db.session.execute(query):
        found |= {(name, ""): name, (address, str(port)): name}
    return found
