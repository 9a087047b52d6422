"""Verbs on OLTs: create, change, enable, pause, delete, restore. One transaction each."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from flask import current_app
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain import addresses, fields, olt_fields
from portal.domain.fields import FieldError, read_all
from portal.domain.messages import N_, Message
from portal.domain.statuses import ErrorKind, OltState, SkipReason
from portal.extensions import transaction
from portal.services import audit, pairing
from portal.services.cataloguing import catalogue
from portal.services.collecting import devices
from portal.services.dispatch import clock, executions, reachability, waiting
from portal.services.errors import Invalid, NotFound
from portal.services.network import workflows
from portal.services.network.node_rules import Device, NodeRules
from portal.services.network.references import Person, References
from portal.services.network.references import find as find_references
from portal.services.uniqueness import unique_or_invalid
from portal.tables import Execution, Olt, OltDevice, Workflow, WorkflowNode

NAME_TAKEN = N_("another OLT has this name")
ADDRESS_TAKEN = N_("another OLT has this address and port")
UNIQUE = {
    "uq_olts_name": ("name", NAME_TAKEN),
    "uq_olts_address_port": ("address", ADDRESS_TAKEN),
    "olts.address, olts.port": ("address", ADDRESS_TAKEN),
    "olts.name": ("name", NAME_TAKEN),
}
_READERS = {**olt_fields.OLT_SETTINGS, **olt_fields.OLT_REFERENCES, "community": fields.secret(255)}
COLUMNS = tuple(olt_fields.OLT_SETTINGS)
_AT_RESTORE = ("name", "address", "port")
_HOW_TO_REACH = frozenset({"address", "port", "credential", "timeout", "retries"})


def create(given: Mapping[str, Any], actor: str, now: datetime, *, by_admin: bool = False) -> int:
    """A new OLT; returns its id. Invalid names each wrong field.

    A `community` in `given` makes a credential of its own for it. `by_admin`: `actor` may approve that a credential is
    sent outside its networks.
    """
    with unique_or_invalid(UNIQUE), transaction() as session:
        values, references = checked(session, given, None, Person(actor, by_admin, now))
        olt = add(session, values, references, actor, now)
        session.flush()
        audit.record(session, actor=actor, action="olt.create", subject=olt, changes=shown(olt), now=now)
        return olt.id


def add(session: Session, values: Mapping[str, Any], references: References, actor: str, now: datetime) -> Olt:
    """A checked OLT in the caller's session, which flushes it."""
    olt = Olt(created_at=now, **{name: values[name] for name in COLUMNS})
    _refer(session, olt, references, actor, now)
    session.add(olt)
    return olt


def update(olt_id: int, given: Mapping[str, Any], actor: str, now: datetime, *, by_admin: bool = False) -> None:
    """Change an OLT; what `given` leaves out stays. Enabling follows rule 2, disabling ends what waits and runs."""
    with unique_or_invalid(UNIQUE), transaction() as session:
        olt = workflows.existing_olt(session, olt_id)
        values, references = checked(session, given, olt, Person(actor, by_admin, now))
        check_workflow(session, olt, references, now)
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
    _refer(session, olt, references, actor, now)
    changes = audit.difference(before, shown(olt))
    if was_enabled != olt.enabled:
        _switch(session, [olt], olt.enabled, now)
    if olt.state is OltState.UNREACHABLE and _HOW_TO_REACH & changes.keys():
        olt.probe_at = now
    if changes:
        session.flush()
        audit.record(session, actor=actor, action="olt.update", subject=olt, changes=changes, now=now)
    return changes


def set_enabled(olt_id: int, enabled: bool, actor: str, now: datetime) -> None:
    """Enable (its masters next run a full interval from now) or disable: what waits ends, what runs stops."""
    set_enabled_many([olt_id], enabled, actor, now)


def set_enabled_many(olt_ids: Sequence[int], enabled: bool, actor: str, now: datetime) -> int:
    """Enable or disable several at once, all of them or none. Returns how many were not so already.

    NotFound names those that do not exist (any more).
    """
    with transaction() as session:
        changed = [olt for olt in _in_service(session, olt_ids) if olt.enabled is not enabled]
        for olt in changed:
            olt.enabled = enabled
        _switch(session, changed, enabled, now)
        action, changes = "olt.enable" if enabled else "olt.disable", {"enabled": [not enabled, enabled]}
        for olt in changed:
            audit.record(session, actor=actor, action=action, subject=olt, changes=changes, now=now)
        ids = [olt.id for olt in changed]
    if not enabled:
        executions.stop_running(ids)
    return len(ids)


def pause(olt_ids: Sequence[int], reason: str, until: datetime | None, actor: str, now: datetime) -> int:
    """Let nothing scheduled start on these OLTs: what waits is skipped, what runs ends; a manual run stays possible.

    `until` (aware) ends it by itself; None = until somebody resumes it. A machine never ends it sooner. Returns how
    many pauses are new or were changed. Invalid names the wrong field, NotFound the missing OLTs; then none is paused.
    """
    why = _pause_reason(reason, until, now)
    with transaction() as session:
        asked = _in_service(session, olt_ids)
        changed = [olt for olt in asked if _paused(olt) != (OltState.PAUSED, why, until)]
        for olt in changed:
            _pause(session, olt, why, until, actor, now)
        session.flush()
        for olt in changed:
            waiting.end_of_olt(session, olt.id, now, N_("its OLT was paused"), ErrorKind.ABORTED, SkipReason.OLT_PAUSED)
        return len(changed)


def _paused(olt: Olt) -> tuple[OltState, str, datetime | None]:
    return olt.state, olt.paused_reason, olt.paused_until


def _pause_reason(reason: str, until: datetime | None, now: datetime) -> str:
    errors: dict[str, Message] = {}
    why = ""
    try:
        why = fields.one_line(255, required=True)(reason)
    except FieldError as error:
        errors["reason"] = error.message
    if until is not None and (until.tzinfo is None or until <= now):
        errors["until"] = N_("must be a time in the future, with its time zone")
    if errors:
        raise Invalid(errors)
    return why


def _pause(session: Session, olt: Olt, why: str, until: datetime | None, actor: str, now: datetime) -> None:
    changes = audit.difference(
        {"state": olt.state, "reason": olt.paused_reason, "until": olt.paused_until},
        {"state": OltState.PAUSED, "reason": why, "until": until},
    )
    facts = {"actor": actor, "until": until.isoformat() if until else None}
    reachability.change_state(session, olt, OltState.PAUSED, now, why, level="WARNING", details=facts)
    olt.paused_reason, olt.paused_until = why, until
    reachability.forget_silence(olt)
    audit.record(session, actor=actor, action="olt.pause", subject=olt, changes=changes, now=now)


def resume(olt_ids: Sequence[int], actor: str, now: datetime) -> int:
    """End pauses; an unreachable OLT is asked at once whether it is back. Returns how many of them were either.

    Their nodes go on at their grid. NotFound names the missing OLTs; then nothing is changed.
    """
    with transaction() as session:
        stopped = (OltState.PAUSED, OltState.UNREACHABLE)
        held = [olt for olt in _in_service(session, olt_ids) if olt.state in stopped]
        for olt in held:
            audit.record(session, actor=actor, action="olt.resume", subject=olt, changes={"state": olt.state}, now=now)
            if olt.state is OltState.PAUSED:
                reachability.unpause(session, olt, now, N_("resumed"), actor)
            else:
                olt.probe_at = now
        return len(held)


def accept_device(olt_id: int, actor: str, now: datetime) -> None:
    """The other device that answers is the OLT's own from now on; its next runs read it. NotFound when none does.

    Its tables then are compared with what is known: as after any other change, who is not there any more is gone.
    """
    with transaction() as session:
        (olt,) = _in_service(session, [olt_id])
        before = devices.known(session.get(OltDevice, olt_id))
        row = devices.accept(session, olt)
        if row is None:
            raise NotFound(N_("no other device answers at the OLT's address any more"))
        changes = {"device": [before.name, row.name], "sysobjectid": [before.object_id, row.object_id]}
        audit.record(session, actor=actor, action="olt.accept_device", subject=olt, changes=changes, now=now)


def _in_service(session: Session, olt_ids: Sequence[int]) -> list[Olt]:
    """All of these OLTs, locked; NotFound names those that do not exist or were deleted."""
    wanted = set(olt_ids)
    found = reachability.locked(session, list(wanted))
    missing = sorted(wanted - {olt.id for olt in found})
    if len(wanted) == 1 and missing:
        raise NotFound(N_("the OLT does not exist any more"))
    if missing:
        numbers = ", ".join(map(str, missing))
        raise NotFound(N_("nothing was changed: there are no OLTs of the numbers %(numbers)s", numbers=numbers))
    return found


def delete(olt_id: int, reason: str, actor: str, now: datetime) -> None:
    """Take an OLT out of service: its row and history stay, its name and address are free again."""
    try:
        why = fields.one_line(255, required=True)(reason)
    except FieldError as error:
        raise Invalid({"reason": error.message}) from None
    with transaction() as session:
        olt = workflows.existing_olt(session, olt_id)
        olt.enabled, olt.deleted_at, olt.deleted_reason = False, now, why
        _switch(session, [olt], False, now, N_("its OLT was deleted"))
        audit.record(session, actor=actor, action="olt.delete", subject=olt, changes={"reason": why}, now=now)
    executions.stop_running([olt_id])


def restore(
    olt_id: int, actor: str, now: datetime, given: Mapping[str, Any] | None = None, *, by_admin: bool = False
) -> None:  # fmt: skip
    """Bring a deleted OLT back, disabled, as it was or with another name, address or port (`given`).

    Invalid when its name or address was given away meanwhile, or its credential may not be sent to the new address.
    """
    with unique_or_invalid(UNIQUE), transaction() as session:
        olt = session.get(Olt, olt_id)
        if olt is None or olt.deleted_at is None:
            raise NotFound(N_("there is no deleted OLT of this number"))
        read, errors = read_all({name: _READERS[name] for name in _AT_RESTORE}, given or {})
        values = {**shown(olt), **read}
        errors = {**check_address(values), **taken(session, values, olt.id), **errors}
        try:
            leave = pairing.of_olt(session, olt, olt.credential, olt.credential.networks, values, by_admin=by_admin)
        except FieldError as error:
            errors = {"address": error.message} | errors
        if errors:
            raise Invalid(errors)
        changes = audit.difference(shown(olt), {name: values[name] for name in COLUMNS})
        for name in changes:
            setattr(olt, name, values[name])
        pairing.keep(session, olt, leave, actor, now)
        olt.deleted_at, olt.deleted_reason = None, ""
        audit.record(session, actor=actor, action="olt.restore", subject=olt, changes=changes, now=now)


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


def _refer(session: Session, olt: Olt, references: References, actor: str, now: datetime) -> None:
    for name in ("brand", "model", "credential"):
        row = getattr(references, name)
        if getattr(olt, f"{name}_id") != (row.id if row else None):
            setattr(olt, name, row)
    pairing.keep(session, olt, references.leave, actor, now)


def _switch(
    session: Session, olts: Sequence[Olt], enabled: bool, now: datetime, why: str = N_("its OLT was disabled")
) -> None:
    """Clocks, what waits and what is known of OLTs that were just enabled or disabled."""
    if not olts:
        return
    if enabled:
        for olt in olts:
            _forget(olt, now)
    ids = [olt.id for olt in olts]
    clock.settle(session, WorkflowNode.workflow_id.in_(select(Workflow.id).where(Workflow.olt_id.in_(ids))), now)
    if not enabled:
        waiting.end(session, Execution.olt_id.in_(ids), now, why, SkipReason.OLT_DISABLED)


def _forget(olt: Olt, now: datetime) -> None:
    """What was learned of it before it was out of service is no news any more. A person's pause stays."""
    reachability.forget_silence(olt)
    if olt.state is not OltState.PAUSED:
        olt.state, olt.state_since = OltState.UNKNOWN, now


def checked(
    session: Session, given: Mapping[str, Any], olt: Olt | None, person: Person
) -> tuple[dict[str, Any], References]:  # fmt: skip
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
    found = find_references(session, olt, values, errors, person)
    if errors or found is None:
        raise Invalid(errors)
    return values, found


def check_workflow(session: Session, olt: Olt, references: References, now: datetime) -> None:
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
