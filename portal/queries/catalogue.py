"""Reads the catalogue for pages: brands with models, the OIDs a brand offers, what an OID of a node means."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import joinedload, selectinload

from portal.domain import units
from portal.extensions import db
from portal.tables import Brand, Credential, Oid, Olt

GENERIC = "generic"


@dataclass(frozen=True)
class CredentialRow:
    """A credential as pages see it: no secrets. `olts` = how many OLTs use it, `deleted` = how many deleted ones do."""

    id: int
    name: str
    version: str
    username: str
    auth_protocol: str
    priv_protocol: str
    networks: str
    olts: int
    deleted: int


@dataclass(frozen=True)
class OidChoice:
    """One thing a brand's OLT can be asked. `safe_interval` in seconds."""

    key: str
    oid: str
    kind: str
    variant: str
    description: str
    unit: str
    safe_interval: int | None
    scalar: bool


def brands() -> list[Brand]:
    """All brands with their models, by name: two SQL statements."""
    return list(db.session.scalars(select(Brand).options(selectinload(Brand.models)).order_by(Brand.name)))


def credentials() -> list[CredentialRow]:
    """All credentials by name with how many OLTs use them: one SQL statement that touches no secret."""
    return [CredentialRow(*row) for row in db.session.execute(_credentials().order_by(Credential.name))]


def credential(credential_id: int) -> CredentialRow | None:
    """One credential without its secrets, or None. One SQL statement."""
    row = db.session.execute(_credentials().where(Credential.id == credential_id)).one_or_none()
    return CredentialRow(*row) if row else None


def _credentials() -> Select[Any]:
    of_it = select(func.count(Olt.id)).where(Olt.credential_id == Credential.id).correlate(Credential)
    used = of_it.where(Olt.deleted_at.is_(None)).scalar_subquery()
    kept = of_it.where(Olt.deleted_at.is_not(None)).scalar_subquery()
    return select(
        Credential.id, Credential.name, Credential.version, Credential.username,
        Credential.auth_protocol, Credential.priv_protocol, Credential.networks, used, kept,
    )  # fmt: skip


def oid_choices(brand_id: int) -> list[OidChoice]:
    """What can be read from this brand's OLTs: its own OIDs first, then the generic ones."""
    query = (
        select(Oid)
        .join(Oid.brand)
        .options(joinedload(Oid.brand))
        .where((Oid.brand_id == brand_id) | (Brand.key == GENERIC))
        .order_by(Brand.key == GENERIC, Oid.name, Oid.variant)
    )
    return [choice_of(oid) for oid in db.session.scalars(query)]


def choice_of(oid: Oid) -> OidChoice:
    """A row of the catalogue as it is offered; its brand is loaded."""
    unit = units.kept_in(oid.metric or oid.name, oid.unit)
    return OidChoice(
        oid.key, oid.oid, oid.kind, oid.variant, oid.description, unit, oid.safe_interval, oid.shape == "scalar"
    )


def meanings(choices: list[OidChoice]) -> dict[str, OidChoice]:
    """Catalogue key or dotted OID → what it is. The first of several variants speaks for the key."""
    known: dict[str, OidChoice] = {}
    for choice in choices:
        known.setdefault(choice.key, choice)
        known.setdefault(choice.oid, choice)
    return known
