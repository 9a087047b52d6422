"""What the names in an OLT's settings stand for: brand, model, and a credential that may be sent to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain import fields
from portal.domain.fields import FieldError
from portal.domain.messages import N_, Message
from portal.services import pairing
from portal.services.network import credentials
from portal.services.pairing import Leave
from portal.tables import Brand, Credential, Olt, OltModel


@dataclass(frozen=True)
class References:
    """The rows that an OLT's brand, model and credential name, and why the credential may be sent to it."""

    brand: Brand
    model: OltModel | None
    credential: Credential
    leave: Leave | None  # None: neither the credential nor where it is sent has changed


@dataclass(frozen=True)
class Person:
    """Who changes something, and when."""

    actor: str
    by_admin: bool
    now: datetime


def find(
    session: Session, olt: Olt | None, values: dict[str, Any], errors: dict[str, Message], person: Person
) -> References | None:  # fmt: skip
    """The rows named; adds an error that lists what there is for each that does not exist."""
    brands = {brand.key: brand for brand in session.scalars(select(Brand).order_by(Brand.key))}
    brand = brands.get(values.get("brand", ""))
    if brand is None and "brand" not in errors:
        errors["brand"] = fields.unknown(values.get("brand", ""), brands)
    models = {model.key: model for model in brand.models} if brand else {}
    model = models.get(values["model"])
    if brand and values["model"] and model is None and "model" not in errors:
        errors["model"] = fields.unknown(values["model"], models)
    if errors.keys() - {"credential"}:  # without a right address nothing can be said of the credential
        _credential(session, values, errors)
        return None
    credential, leave = _paired(session, olt, values, errors, person)
    return References(brand, model, credential, leave) if brand and credential else None


def _credential(session: Session, values: Mapping[str, Any], errors: dict[str, Message]) -> Credential | None:
    """The credential named, unless the OLT shall have one of its own."""
    if values.get("community"):
        errors.pop("credential", None)
        return None
    credential = session.scalar(select(Credential).where(Credential.name == (name := values.get("credential", ""))))
    if credential is None and "credential" not in errors:
        errors["credential"] = N_("there is no credential %(name)s: create it first", name=name)
    return credential


def _paired(
    session: Session, olt: Olt | None, values: dict[str, Any], errors: dict[str, Message], person: Person
) -> tuple[Credential | None, Leave | None]:  # fmt: skip
    """The OLT's credential as it shall be, and why it may be sent there."""
    credential = _credential(session, values, errors)
    if errors:
        return None, None
    if credential is None:
        made = credentials.of_olt(session, values["name"], values["community"], person.actor, person.now)
        values["credential"] = made.name
        return made, Leave.APPROVED
    try:
        return credential, pairing.of_olt(
            session, olt, credential, credential.networks, values, by_admin=person.by_admin
        )  # fmt: skip
    except FieldError as error:
        errors["address"] = error.message
        return None, None
