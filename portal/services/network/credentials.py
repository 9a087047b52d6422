"""Verbs on SNMP credentials. Secrets go in, never out; audit rows show only that one changed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from portal.domain import olt_fields
from portal.domain.fields import read_all
from portal.domain.messages import N_, Message
from portal.domain.statuses import OltState
from portal.extensions import KeyringError, transaction
from portal.services import audit
from portal.services.errors import Invalid, NotFound
from portal.services.uniqueness import unique_or_invalid
from portal.tables import Credential, Olt, Probe

NAME_TAKEN = N_("another credential has this name")
_UNIQUE = dict.fromkeys(("uq_credentials_name", "credentials.name"), ("name", NAME_TAKEN))
LOST = N_("is stored, but none of FERNET_KEYS opens it: enter it again, or restore the key")
COLUMNS = tuple(olt_fields.CREDENTIAL_FIELDS)
LONGEST_NAME = 80
MOST_NAMED = 10  # OLTs in one message


def save(fields: Mapping[str, Any], actor: str, now: datetime, credential_id: int | None = None) -> int:
    """Create, or change the one named by id; returns its id. On a change an empty secret means "as it was"."""
    with unique_or_invalid(_UNIQUE), transaction() as session:
        row = existing(session, credential_id) if credential_id is not None else None
        read, errors = read_all(olt_fields.CREDENTIAL_FIELDS, fields)
        values = merged(row, read)
        errors = {**check(row, values), **errors} or taken(session, values["name"], credential_id)
        if errors:
            raise Invalid(errors)
        saved, _changes = write(session, row, values, actor, now)
        return saved.id


def delete(credential_id: int, actor: str, now: datetime) -> None:
    """Delete a credential that no OLT uses (a deleted OLT, which may be restored, counts too)."""
    with transaction() as session:
        row = existing(session, credential_id)
        _check_unused(session, row)
        for probe in session.scalars(select(Probe).where(Probe.credential_id == row.id)):
            session.delete(probe)
        audit.record(session, actor=actor, action="credential.delete", subject=row, changes=None, now=now)
        session.delete(row)


def _check_unused(session: Session, row: Credential) -> None:
    users = session.execute(
        select(Olt.name, Olt.deleted_at).where(Olt.credential_id == row.id).order_by(Olt.name)
    ).all()
    alive = [name for name, deleted_at in users if deleted_at is None]
    if alive:
        raise Invalid({"": N_("%(count)d OLTs use it: give them another one first", count=len(alive))})
    if users:
        raise Invalid({"": N_(
            "is kept for deleted OLTs, which may be restored: %(names)s",
            names=", ".join(name for name, _deleted_at in users[:MOST_NAMED]) + ("…" if users[MOST_NAMED:] else ""),
        )})  # fmt: skip


def of_olt(session: Session, olt_name: str, community: str, actor: str, now: datetime) -> Credential:
    """A v2c credential that is one OLT's own, under its name or, where that is taken, with a number behind it."""
    name, number = olt_name, 1
    while taken(session, name, None):
        number += 1
        suffix = f" {number}"
        name = olt_name[: LONGEST_NAME - len(suffix)] + suffix
    return write(session, None, merged(None, {"name": name, "community": community}), actor, now)[0]


def existing(session: Session, credential_id: int) -> Credential:
    """The credential, or NotFound."""
    row = session.get(Credential, credential_id)
    if row is None:
        raise NotFound(N_("the credential does not exist any more"))
    return row


def merged(row: Credential | None, read: Mapping[str, Any]) -> dict[str, Any]:
    """All columns: given ones over stored ones over defaults, without what the version does not use."""
    stored = _stored(row)
    given = {name: value for name, value in read.items() if not (name in olt_fields.SECRETS and value is None)}
    values = {**olt_fields.CREDENTIAL_DEFAULTS, **stored, **given}
    for kind in ("auth", "priv"):
        if given.get(f"{kind}_protocol") == "" and f"{kind}_password" not in given:
            values[f"{kind}_password"] = None
    return olt_fields.without_unused(values)


def _stored(row: Credential | None) -> dict[str, Any]:
    """What is stored, by column; a secret that fits no key of ours is as good as none."""
    lost = _lost(row)
    return {name: None if name in lost else getattr(row, name) for name in COLUMNS} if row else {}


def _lost(row: Credential | None) -> set[str]:
    """The stored secrets that none of the keys opens."""
    return {name for name in olt_fields.SECRETS if row is not None and not _opens(row, name)}


def _opens(row: Credential, secret: str) -> bool:
    try:
        getattr(row, secret)
    except KeyringError:
        return False
    return True


def check(row: Credential | None, values: Mapping[str, Any]) -> dict[str, Message]:
    """Errors of a whole credential; a secret that is missing only because its key is says so."""
    errors, lost = olt_fields.check_credential(values), _lost(row)
    return {name: LOST if name in lost and not values[name] else message for name, message in errors.items()}


def taken(session: Session, name: str, own_id: int | None) -> dict[str, Message]:
    """Error for a name that another credential has."""
    other = session.scalar(select(Credential.id).where(Credential.name == name))
    return {"name": NAME_TAKEN} if other not in (None, own_id) else {}


def write(
    session: Session, row: Credential | None, values: Mapping[str, Any], actor: str, now: datetime
) -> tuple[Credential, dict[str, Any]]:
    """Insert or change in the caller's transaction, with the audit row. Returns it and what changed, masked."""
    before = _stored(row)
    changes = audit.masked(audit.difference(before, {name: values[name] for name in COLUMNS}))
    action = "credential.update" if row else "credential.create"
    row = row or Credential()
    if changes:
        for name in COLUMNS:
            setattr(row, name, values[name])
        session.add(row)
        session.flush()
        of_it = (Olt.credential_id == row.id) & (Olt.state == OltState.UNREACHABLE)
        session.execute(update(Olt).where(of_it).values(probe_at=now))  # it may be what they were waiting for
        audit.record(session, actor=actor, action=action, subject=row, changes=changes, now=now)
    return row, changes
