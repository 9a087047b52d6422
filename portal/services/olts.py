"""Verbs on OLTs: create, change, enable, delete, restore. One transaction each."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask import current_app
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain import addresses, fields, olt_fields
from portal.domain.fields import FieldError, read_all
from portal.domain.messages import N_, Message
from portal.extensions import transaction
from portal.models import Brand, Credential, Olt, OltModel
from portal.services import audit, catalogue, clock, executions, workflows
from portal.services.errors import Invalid, NotFound
from portal.services.node_rules import Device, NodeRules
from portal.services.uniqueness import unique_or_invalid

NAME_TAKEN = N_("another OLT has this name")
ADDRESS_TAKEN = N_("another OLT has this address and port")
_UNIQUE = {
    "uq_olts_name": ("name", NAME_TAKEN),
    "uq_olts_address_port": ("address", ADDRESS_TAKEN),
    "olts.address, olts.port": ("address", ADDRESS_TAKEN),
    "olts.name": ("name", NAME_TAKEN),
}
_READERS = {**olt_fields.OLT_SETTINGS, **olt_fields.OLT_REFERENCES, "credential_confirmed": fields.flag}
COLUMNS = tuple(olt_fields.OLT_SETTINGS)


@dataclass(frozen=True)
class References:
    """The rows that an OLT's brand, model and credential name."""

    brand: Brand
    model: OltModel | None
    credential: Credential


def create(given: Mapping[str, Any], actor: str, now: datetime) -> int:
    """A new OLT; returns its id. Invalid names each wrong field."""
    with unique_or_invalid(_UNIQUE), transaction() as session:
        values, references = _checked(session, given, None)
        olt = add(session, values, references, now)
        session.flush()
        audit.record(session, actor=actor, action="olt.create", subject=olt, changes=shown(olt), now=now)
        return olt.id


def add(session: Session, values: Mapping[str, Any], references: References, now: datetime) -> Olt:
    """A checked OLT in the caller's session, which flushes it."""
    olt = Olt(created_at=now, **{name: values[name] for name in COLUMNS})
    _refer(olt, references)
    session.add(olt)
    return olt


def update(olt_id: int, given: Mapping[str, Any], actor: str, now: datetime) -> None:
    """Change an OLT; what `given` leaves out stays. Enabling follows rule 2, disabling ends what waits and runs."""
    with unique_or_invalid(_UNIQUE), transaction() as session:
        olt = workflows.existing_olt(session, olt_id)
        values, references = _checked(session, given, olt)
        _check_workflow(session, olt, references, now)
        changes = change(session, olt, values, references, actor, now)
    if changes.get("enabled") == [True, False]:
        executions.stop_running([olt_id])


def change(
    session: Session, olt: Olt, values: Mapping[str, Any], references: References, actor: str, now: datetime
) -> dict[str, list[Any]]:
    """Write checked values into an OLT in the caller's transaction. Returns field → [old, new]; empty = unchanged."""
    before = shown(olt)
    was_enabled = olt.enabled
    for name in COLUMNS:
        if getattr(olt, name) != values[name]:
            setattr(olt, name, values[name])
    _refer(olt, references)
    changes = audit.difference(before, shown(olt))
    if was_enabled != olt.enabled:
        _switch(session, olt, now)
    if changes:
        session.flush()
        audit.record(session, actor=actor, action="olt.update", subject=olt, changes=changes, now=now)
    return changes


def set_enabled(olt_id: int, enabled: bool, actor: str, now: datetime) -> None:
    """Enable (its masters next run a full interval from now) or disable: what waits ends, what runs stops."""
    with transaction() as session:
        olt = workflows.existing_olt(session, olt_id)
        if olt.enabled == enabled:
            return
        olt.enabled = enabled
        _switch(session, olt, now)
        action = "olt.enable" if enabled else "olt.disable"
        audit.record(session, actor=actor, action=action, subject=olt, changes={"enabled": [not enabled, enabled]},
                     now=now)  # fmt: skip
    if not enabled:
        executions.stop_running([olt_id])


def delete(olt_id: int, reason: str, actor: str, now: datetime) -> None:
    """Take an OLT out of service: its row and history stay, its name and address are free again."""
    try:
        why = fields.one_line(255, required=True)(reason)
    except FieldError as error:
        raise Invalid({"reason": error.message}) from None
    with transaction() as session:
        olt = workflows.existing_olt(session, olt_id)
        olt.enabled, olt.deleted_at, olt.deleted_reason = False, now, why
        _switch(session, olt, now, "its OLT was deleted")
        audit.record(session, actor=actor, action="olt.delete", subject=olt, changes={"reason": why}, now=now)
    executions.stop_running([olt_id])


def restore(olt_id: int, actor: str, now: datetime) -> None:
    """Bring a deleted OLT back, disabled. Invalid when its name or address was given away meanwhile."""
    with unique_or_invalid(_UNIQUE), transaction() as session:
        olt = session.get(Olt, olt_id)
        if olt is None or olt.deleted_at is None:
            raise NotFound(N_("there is no deleted OLT of this number"))
        errors = taken(session, {name: getattr(olt, name) for name in COLUMNS}, olt.id)
        if errors:
            raise Invalid(errors)
        olt.deleted_at, olt.deleted_reason = None, ""
        audit.record(session, actor=actor, action="olt.restore", subject=olt, changes=None, now=now)


def taken(session: Session, values: Mapping[str, Any], own_id: int | None) -> dict[str, Message]:
    """Errors for a name or an address and port that another OLT in service has."""
    others = select(Olt.id).where(Olt.deleted_at.is_(None))
    if own_id is not None:
        others = others.where(Olt.id != own_id)
    errors: dict[str, Message] = {}
    if session.scalar(others.where(Olt.name == values["name"]).limit(1)):
        errors["name"] = NAME_TAKEN
    if session.scalar(others.where(Olt.address == values["address"], Olt.port == values["port"]).limit(1)):
        errors["address"] = ADDRESS_TAKEN
    return errors


def shown(olt: Olt) -> dict[str, Any]:
    """Settings by name, with brand, model and credential as people write them."""
    return {name: getattr(olt, name) for name in COLUMNS} | {
        "brand": olt.brand.key,
        "model": olt.model.key if olt.model else "",
        "credential": olt.credential.name,
    }


def check_address(values: Mapping[str, Any]) -> dict[str, Message]:
    """Error of an address outside OLT_NETWORKS."""
    try:
        addresses.check_networks(values["address"], current_app.config["OLT_NETWORKS"])
    except FieldError as error:
        return {"address": error.message}
    return {}


def _refer(olt: Olt, references: References) -> None:
    for name in ("brand", "model", "credential"):
        row = getattr(references, name)
        if getattr(olt, f"{name}_id") != (row.id if row else None):
            setattr(olt, name, row)


def _switch(session: Session, olt: Olt, now: datetime, why: str = "its OLT was disabled") -> None:
    if olt.workflow is not None:
        workflows.switch_clocks(session, olt.workflow, olt.enabled, now, why)


def _checked(session: Session, given: Mapping[str, Any], olt: Olt | None) -> tuple[dict[str, Any], References]:
    """All values of the OLT as it shall be, and the rows it refers to; Invalid with every error found."""
    read, errors = read_all(_READERS, given)
    values = {**olt_fields.OLT_DEFAULTS, "model": "", **(shown(olt) if olt else {}), **read}
    if olt is not None and "brand" in read and read["brand"] != olt.brand.key and "model" not in read:
        values["model"] = ""
    errors = {**olt_fields.check_olt(values), **errors}
    if "address" in values and "address" not in errors:
        errors |= check_address(values)
        if "name" in values:
            errors |= taken(session, values, olt.id if olt else None)
    if olt is not None:
        errors |= _confirm(olt, values)
    found = _references(session, values, errors)
    if errors or found is None:
        raise Invalid(errors)
    return values, found


def _confirm(olt: Olt, values: Mapping[str, Any]) -> dict[str, Message]:
    """The secret would be sent to the new address: who changes it must say that it belongs there."""
    moved = (olt.address, olt.port) != (values.get("address"), values.get("port"))
    if not moved or values.get("credential_confirmed") or values.get("credential") != olt.credential.name:
        return {}
    return {"credential_confirmed": N_("address or port changes: confirm that the credential may be sent there")}


def _references(session: Session, values: Mapping[str, Any], errors: dict[str, Message]) -> References | None:
    """The rows named; adds an error that lists what there is for each that does not exist."""
    brands = {brand.key: brand for brand in session.scalars(select(Brand).order_by(Brand.key))}
    brand = brands.get(values.get("brand", ""))
    if brand is None and "brand" not in errors:
        errors["brand"] = fields.unknown(values.get("brand", ""), brands)
    models = {model.key: model for model in brand.models} if brand else {}
    model = models.get(values["model"])
    if brand and values["model"] and model is None and "model" not in errors:
        errors["model"] = fields.unknown(values["model"], models)
    name = values.get("credential", "")
    credential = session.scalar(select(Credential).where(Credential.name == name))
    if credential is None and "credential" not in errors:
        errors["credential"] = N_("there is no credential %(name)s: create it first", name=name)
    return References(brand, model, credential) if brand and credential else None


def _check_workflow(session: Session, olt: Olt, references: References, now: datetime) -> None:
    """After a change of brand or model each node must still have its OID."""
    device = Device(references.brand.key, references.model.key if references.model else "")
    if olt.workflow is None or device == workflows.device_of(olt):
        return
    rules = NodeRules(catalogue.load_lookup(session, [device.brand]), now, clock.portal_zone())
    for node in olt.workflow.nodes:
        wrong = rules.check_oid(device, node.oid)
        if wrong:
            field = "brand" if device.brand != olt.brand.key else "model"
            raise Invalid({field: N_("node %(node)s: %(reason)s", node=node.key, reason=wrong)})
