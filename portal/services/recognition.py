"""Which brand and model a device is, from what its system group says. Reads only."""

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from portal.domain.catalogue_data import ModelData
from portal.models import OltModel


def recognise(session: Session, object_id: str, descr: str) -> dict[str, str | None]:
    """{"brand": key, "model": key} of the catalogue's model that fits best; None where nothing fits.

    It proposes; a person decides (several families share one sysObjectID, and sysDescr may be a site name).
    """
    best, best_fit = None, 0
    for model in session.scalars(select(OltModel).options(joinedload(OltModel.brand))):
        known = model.match or {}
        data = ModelData(model.key, model.name, tuple(known.get("sysobjectid", ())), known.get("sysdescr", ""))
        fit = data.fit(object_id, descr)
        if fit > best_fit:
            best, best_fit = model, fit
    session.rollback()
    return {"brand": best.brand.key if best else None, "model": best.key if best else None}
