"""Reads connection tests for pages."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select

from portal.extensions import db
from portal.queries.mismatches import Mismatch, of_olt
from portal.tables import Brand, Credential, Olt, OltModel, Probe, ProbeStatus

STALLED_AFTER = timedelta(seconds=60)


@dataclass(frozen=True)
class ProbeView:
    """A connection test as the page shows it: names instead of ids, no secret. `device` = (brand key, model key).

    `fits`: model key → name, where more than one is left and nothing tells them apart. `mismatch`: the OLT was entered
    as something else.
    """

    probe: Probe
    credential: str
    olt_name: str
    device: tuple[str, str]
    brand: str
    model: str
    fits: dict[str, str]
    mismatch: Mismatch | None

    @property
    def finished(self) -> bool:
        """True when there is an answer, good or bad."""
        return self.probe.status in (ProbeStatus.SUCCESS, ProbeStatus.FAILED)

    def stalled(self, now: datetime) -> bool:
        """True when nobody takes the request: no worker of the maintenance queue is running."""
        return not self.finished and now - self.probe.created_at > STALLED_AFTER


def get(probe_id: int) -> ProbeView | None:
    """The probe with the names a page needs, or None."""
    row = db.session.execute(
        select(Probe, Credential.name, Olt.name)
        .join(Credential, Probe.credential_id == Credential.id)
        .outerjoin(Olt, Probe.olt_id == Olt.id)
        .where(Probe.id == probe_id)
    ).first()
    if row is None:
        return None
    probe, credential, olt_name = row
    result = probe.result or {}
    device = (str(result.get("brand") or ""), str(result.get("model") or ""))
    fits = {} if device[1] else _fitting(device[0], result.get("fits") or ())
    mismatch = of_olt(probe.olt_id) if probe.olt_id is not None and result else None
    return ProbeView(probe, credential, olt_name or "", device, *_names(*device), fits, mismatch)


def _fitting(brand: str, keys: Collection[str]) -> dict[str, str]:
    if len(keys) < 2:
        return {}
    query = select(OltModel.key, OltModel.name).join(Brand).where(Brand.key == brand).order_by(OltModel.id)
    return {key: name for key, name in db.session.execute(query) if f"{brand}.{key}" in keys}


def _names(brand_key: str, model_key: str) -> tuple[str, str]:
    """Names of the proposed brand and model; "" where none is proposed or the catalogue lacks it."""
    if not brand_key:
        return "", ""
    row = db.session.execute(
        select(Brand.name, OltModel.name)
        .outerjoin(OltModel, (OltModel.brand_id == Brand.id) & (OltModel.key == model_key))
        .where(Brand.key == brand_key)
    ).first()
    return (row[0], row[1] or "") if row else ("", "")
