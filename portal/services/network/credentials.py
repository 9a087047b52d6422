"""Verbs on SNMP credentials. Secrets go in, never out; audit rows show only that one changed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from portal.domain import olt_fields
from portal.domain.fields import read_all
from portal.domain.messages import N_, Message
from portal.extensions import transaction
from portal.models import Credential, Olt, Probe
from portal.services import audit
from portal.services.errors import Invalid, NotFound
from portal.services.uniqueness import unique_or_invalid

NAME_TAKEN = N_("another credential has this name")
_UNIQUE = dict.fromkeys(("uq_credentials_name", "credentials.name"), ("name", NAME_TAKEN))
COLUMNS = tuple(olt_fields.CREDENTIAL_FIELDS)


def save(fields: Mapping[str, Any], actor: str, now: datetime, credential_id: int | None = None) -> int:
    """Create, or change the one named by id; returns its id. On a change an empty secret means "as it was"."""
    with unique_or_invalid(_UNIQUE), transaction() as session:
        row = existing(session, credential_id) if credential_id is not None else None
        read, errors = read_all(olt_fields.CREDENTIAL_FIELDS, fields)
        values = merged(row, read)
        errors = {**olt_fields.check_credential(values), **errors} or taken(session, values["name"], credential_id)
        if errors:
            raise Invalid(errors)
        saved, _changes = write(session, row, values, actor, now)
        return saved.id


def delete(credential_id: int, actor: str, now: datetime) -> None:
    """Delete a credential that no OLT uses (a deleted OLT, which may be restored, counts too)."""
    with transaction() as session:
        row = existing(session, credential_id)
        users = session.scalar(select(func.count()).select_from(Olt).where(Olt.credential_id == row.id)) or 0
        if users:
            raise Invalid({"": N_("%(count)d OLTs use it: give them another one first", count=users)})
        for probe in session.scalars(select(Probe).where(Probe.credential_id == row.id)):
            session.delete(probe)
        audit.record(session, actor=actor, action="credential.delete", subject=row, changes=None, now=now)
        session.delete(row)


def existing(session: Session, credential_id: int) -> Credential:
    """The credential, or NotFound."""
    row = session.get(Credential, credential_id)
    if row is None:
        raise NotFound(N_("the credential does not exist any more"))
    return row


def merged(row: Credential | None, read: Mapping[str, Any]) -> dict[str, Any]:
    """All columns: given ones over stored ones over defaults, without what the version does not use."""
    stored = {name: getattr(row, name) for name in COLUMNS} if row else {}
    given = {name: value for name, value in read.items() if not (name in olt_fields.SECRETS and value is None)}
    values = {**olt_fields.CREDENTIAL_DEFAULTS, **stored, **given}
    for kind in ("auth", "priv"):
        if given.get(f"{kind}_protocol") == "" and f"{kind}_password" not in given:
            values[f"{kind}_password"] = None
    return olt_fields.without_unused(values)


def taken(session: Session, name: str, own_id: int | None) -> dict[str, Message]:
    """Error for a name that another credential has."""
    other = session.scalar(select(Credential.id).where(Credential.name == name))
    return {"name": NAME_TAKEN} if other not in (None, own_id) else {}


def write(
    session: Session, row: Credential | None, values: Mapping[str, Any], actor: str, now: datetime
) -> tuple[Credential, dict[str, Any]]:
    """Insert or change in the caller's transaction, with the audit row. Returns it and what changed, masked."""
    before = {name: getattr(row, name) for name in COLUMNS} if row else {}
    changes = audit.masked(audit.difference(before, {name: values[name] for name in COLUMNS}))
    action = "credential.update" if row else "credential.create"
    row = row or Credential()
    if changes:
        for name in COLUMNS:
            setattr(row, name, values[name])
        session.add(row)
        session.flush()
        audit.record(session, actor=actor, action=action, subject=row, changes=changes, now=now)
    return row, changes
