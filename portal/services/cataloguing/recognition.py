"""What the catalogue knows for recognising a device, read once per probe. Reads only."""

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from portal.domain.catalogue_data import ModelData
from portal.domain.recognising import Families, Knowledge, KnownModel, shortlist
from portal.services.cataloguing import index_families
from portal.tables import Brand, OltModel


def knowledge(session: Session) -> Knowledge:
    """All models with their matches, and per brand the index families that interface names choose."""
    models = _models(session)
    families = {}
    for brand in session.scalars(select(Brand)):
        spaces = index_families.spaces(session, brand.id)
        families[brand.key] = Families(tuple(spaces.values()), tuple(index_families.readers(session, brand.id)))
    session.rollback()
    return Knowledge(models, families)


def recognise(session: Session, object_id: str, descr: str) -> dict[str, str | None]:
    """{"brand": key, "model": key} by the system group alone; None where it does not single one out.

    It proposes; a person decides (several families share one sysObjectID, and sysDescr may be a site name).
    """
    found = shortlist(_models(session), object_id, descr)
    if found.unknown:
        return {"brand": None, "model": None}
    return {"brand": found.brand, "model": found.decided.model.key if found.decided else None}


def is_shared(session: Session, object_id: str) -> bool:
    """Whether several models have this sysObjectID, so that only what answers below it tells them apart."""
    found = shortlist(_models(session), object_id, "")
    return not found.unknown and len(found.models) > 1 and found.wants_proof


def _models(session: Session) -> tuple[KnownModel, ...]:
    query = select(OltModel).options(joinedload(OltModel.brand)).order_by(OltModel.id)
    return tuple(
        KnownModel(model.brand.key, ModelData.stored(model.key, model.name, model.match))
        for model in session.scalars(query)
    )
