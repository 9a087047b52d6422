"""Whom an engineer at the terminal means: a stored OLT by name, or an address that may be one of ours."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, joinedload

from portal.domain import addresses
from portal.domain.composite import SnmpTarget
from portal.domain.fields import FieldError
from portal.domain.messages import N_
from portal.extensions import transaction
from portal.services import pairing
from portal.services.dispatch import work
from portal.services.errors import Invalid, NotFound
from portal.tables import Credential, Olt


@dataclass(frozen=True)
class Aim:
    """What is asked, secrets in clear. `olt_id`: the OLT whose lease must be held meanwhile, None for a stranger."""

    target: SnmpTarget
    olt_id: int | None = None
    olt: str = ""
    brand: str = ""
    model: str = ""


def split_host(text: str) -> tuple[str, int | None]:
    """HOST, HOST:PORT or [IPv6]:PORT → address in its normal form, and the port if one was given. Invalid otherwise."""
    host, port = text.strip(), ""
    if host.startswith("["):
        host, _, rest = host[1:].partition("]")
        port = rest.removeprefix(":")
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    if port and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise Invalid({"": N_("%(port)s is no UDP port: 1 to 65535", port=port)})
    try:
        return addresses.normalise(host), int(port) if port else None
    except FieldError as error:
        raise Invalid({"": error.message}) from None


def of_olt(session: Session, name: str) -> Aim:
    """The stored OLT of that name, with its credential and its settings. NotFound."""
    olt = session.scalar(_olts().where(Olt.name == name))
    if olt is None:
        raise NotFound(N_("there is no OLT %(name)s", name=name))
    return _aim(olt, work.target_of(olt, olt.credential))


def of_ours(session: Session, address: str, port: int) -> Aim | None:
    """The OLT of ours at that address and port, or None."""
    olt = session.scalar(_olts().where(Olt.address == address, Olt.port == port))
    return _aim(olt, work.target_of(olt, olt.credential)) if olt else None


def with_credential(name: str, address: str, port: int, now: datetime) -> SnmpTarget:
    """An address with the credential of that name: one transaction, which says so in the audit log. NotFound.

    Who has a command line here has the keys too, so it may be sent anywhere.
    """
    with transaction() as session:
        found = session.scalar(select(Credential).where(Credential.name == name))
        if found is None:
            raise NotFound(N_("there is no credential %(name)s", name=name))
        leave = pairing.decide(session, found, found.networks, address, port, by_admin=True)
        pairing.record_grant(session, found, address, port, leave, "cli", now)
        return work.target(found, address, port, 2.0, 1, approved=leave.is_approval)


def _olts() -> Select[tuple[Olt]]:
    parts = (joinedload(part) for part in (Olt.credential, Olt.brand, Olt.model))
    return select(Olt).options(*parts).where(Olt.deleted_at.is_(None))


def _aim(olt: Olt, target: SnmpTarget) -> Aim:
    return Aim(target, olt.id, olt.name, olt.brand.key, olt.model.key if olt.model else "")
