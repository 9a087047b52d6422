"""Reads connection tests for pages."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select

from portal.extensions import db
from portal.tables import Brand, Credential, Olt, OltModel, Probe, ProbeStatus

STALLED_AFTER = timedelta(seconds=60)


@dataclass(frozen=True)
class ProbeView:
    """A connection test as the page shows it: names instead of ids, no secret. `device` = (brand key, model key)."""

    probe: Probe
    credential: str
    olt_name: str
    device: tuple[str, str]
    brand: str
    model: str

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
    return ProbeView(probe, credential, olt_name or "", device, *_names(*device))


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
