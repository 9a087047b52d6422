"""OLTs that answer as another device than they were entered as. Reads only."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, func, select

from portal import clock
from portal.domain.catalogue_data import ModelData
from portal.domain.recognising import KnownModel, answers_as
from portal.extensions import db
from portal.queries.remembered import remembered
from portal.tables import Brand, Olt, OltDevice, OltModel, Probe, ProbeStatus


@dataclass(frozen=True)
class Mismatch:
    """One OLT: what it was entered as and what it answers as, in words; `device` = (brand key, model key) of that."""

    olt_id: int
    olt_name: str
    entered: str
    answers: str
    device: tuple[str, str]


@dataclass(frozen=True)
class _Catalogue:
    models: tuple[KnownModel, ...]
    names: dict[tuple[str, str], str]  # by brand and model, and by brand and ""


def of_all() -> list[Mismatch]:
    """Of the OLTs in service, by name. One SQL statement, and one a minute for the models where there is a doubt."""
    return _found(Olt.enabled)


def of_olt(olt_id: int) -> Mismatch | None:
    """Of one OLT."""
    return next(iter(_found(Olt.id == olt_id)), None)


def _found(condition: Any) -> list[Mismatch]:
    """The device says who it is at the begin of each composite; the last connection test may know more of it."""
    same = (Probe.olt_id == Olt.id, Probe.address == Olt.address, Probe.port == Olt.port)
    last = select(func.max(Probe.id)).where(*same, Probe.status == ProbeStatus.SUCCESS).correlate(Olt).scalar_subquery()
    test = Probe.__table__.alias("last_test")
    query = (
        select(Olt.id, Olt.name, Brand.key, Brand.name, OltModel.key, OltModel.name, OltDevice.object_id, test.c.result)
        .join(Brand, Brand.id == Olt.brand_id)
        .outerjoin(OltModel, OltModel.id == Olt.model_id)
        .outerjoin(OltDevice, OltDevice.olt_id == Olt.id)
        .outerjoin(test, and_(test.c.olt_id == Olt.id, test.c.id == last))
        .where(Olt.deleted_at.is_(None), condition)
        .order_by(Olt.name)
    )
    told: dict[tuple[Any, ...], tuple[str, str] | None] = {}
    found = []
    for olt_id, name, brand, brand_name, model, model_name, object_id, result in db.session.execute(query):
        seen = str((result or {}).get("sysobjectid") or "")
        fits = tuple((result or {}).get("fits") or ()) if object_id in (None, "", seen) else ()
        asked = (object_id or seen, brand, model or "", fits)
        if asked not in told:
            sure = not asked[0] or f"{brand}.{model}" in fits
            told[asked] = None if sure else answers_as(_catalogue().models, *asked)
        device = told[asked]
        if device is not None:
            answers = _catalogue().names[device]
            found.append(Mismatch(olt_id, name, f"{brand_name} {model_name or ''}".strip(), answers, device))
    return found


def _catalogue() -> _Catalogue:
    return remembered("models of the catalogue", clock.now(), _read_catalogue)


def _read_catalogue() -> _Catalogue:
    query = select(Brand.key, Brand.name, OltModel.key, OltModel.name, OltModel.match).join(OltModel)
    models: list[KnownModel] = []
    names: dict[tuple[str, str], str] = {}
    for brand, brand_name, key, name, match in db.session.execute(query.order_by(OltModel.id)):
        models.append(KnownModel(brand, ModelData.stored(key, name, match)))
        names |= {(brand, ""): brand_name, (brand, key): f"{brand_name} {name}"}
    return _Catalogue(tuple(models), names)
