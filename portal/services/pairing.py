"""May this secret be sent to this address and port? The one place that decides, for all that pairs them or tries to.

A credential may be sent to the networks that an administrator gave it, and to each address that one of them approved.
What is decided here is kept with the OLT or the connection test, and holds for the numeric address when a datagram is
sent (`portal.domain.composite.SnmpTarget.secret_networks`).
"""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain import addresses
from portal.domain.fields import FieldError
from portal.domain.messages import N_
from portal.services import audit
from portal.tables import Credential, Olt


class Leave(Enum):
    """Why a credential may be sent to an address and port."""

    WITHIN = "within"  # they lie in its networks; of a name that is found out when it is looked up
    APPROVED = "approved"  # outside of them: an OLT has both already, or whoever asks has typed the secret
    GRANTED = "granted"  # outside of them: approved now, by an administrator

    @property
    def is_approval(self) -> bool:
        """True when it may be sent there also outside its networks."""
        return self is not Leave.WITHIN


def decide(
    session: Session, credential: Credential | None, networks: str, address: str, port: int, *, by_admin: bool
) -> Leave:  # fmt: skip
    """Why that credential may be sent there. FieldError where it may not.

    `credential` None: one that is about to be made; `networks`: those that it has, or will have.
    """
    known = addresses.listed(networks)
    if addresses.is_within(address, known) if addresses.is_numeric(address) else known:
        return Leave.WITHIN
    if credential is not None and _is_approved(session, credential, address, port):
        return Leave.APPROVED
    if by_admin:
        return Leave.GRANTED
    raise FieldError(
        N_("%(address)s is outside the networks that this credential may be sent to (%(networks)s): an administrator"
           " can add it to them or make this change, or the OLT gets a community of its own",
           address=address, networks=networks or N_("none"))
    )  # fmt: skip


def of_olt(
    session: Session, olt: Olt | None, credential: Credential | None, networks: str, values: Mapping[str, Any], *,
    by_admin: bool,
) -> Leave | None:  # fmt: skip
    """The same of an OLT as `values` will make it; None where it has both already."""
    if olt is not None and (olt.credential, olt.address, olt.port) == (credential, values["address"], values["port"]):
        return None
    return decide(session, credential, networks, values["address"], values["port"], by_admin=by_admin)


def keep(session: Session, olt: Olt, leave: Leave | None, actor: str, now: datetime) -> None:
    """What was decided of an OLT, kept with it."""
    if leave is not None:
        olt.credential_approved = leave.is_approval
        record_grant(session, olt.credential, olt.address, olt.port, leave, actor, now)


def _is_approved(session: Session, credential: Credential, address: str, port: int) -> bool:
    """Also by an OLT that was deleted: it may be restored."""
    same = select(Olt.id).where(
        Olt.credential_id == credential.id, Olt.address == address, Olt.port == port, Olt.credential_approved
    )
    return session.scalar(same.limit(1)) is not None


def record_grant(
    session: Session, credential: Credential, address: str, port: int, leave: Leave, actor: str, now: datetime
) -> None:  # fmt: skip
    """The audit row of an administrator's approval; none where nothing was approved now."""
    if leave is Leave.GRANTED:
        changes = {"address": address, "port": port, "networks": credential.networks}
        audit.record(session, actor=actor, action="credential.approve", subject=credential, changes=changes, now=now)
