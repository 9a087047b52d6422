"""Connection tests: asked for here, answered by a job; the row is both. One transaction each."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from flask import current_app
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from portal import queueing
from portal.domain import addresses
from portal.domain.composite import SnmpTarget
from portal.domain.fields import FieldError
from portal.domain.messages import N_
from portal.domain.statuses import ErrorKind
from portal.extensions import transaction
from portal.services import audit, pairing
from portal.services.cataloguing import recognition
from portal.services.dispatch.work import target
from portal.services.errors import Invalid, NotFound
from portal.tables import Credential, Olt, OltDevice, Probe, ProbeStatus

PROVER = "poller"  # in whose name
PROOF_HOLDS = timedelta(days=1)
QUEUE_AWAY = N_("the queue (Redis) does not answer: see that it runs, then test again")


@dataclass(frozen=True)
class ProbeWork:
    """What a job needs to test a connection. `olt_id`: the OLT whose lease must be held meanwhile, if it is ours."""

    probe_id: int
    target: SnmpTarget
    olt_id: int | None


def request(
    *, address: str, port: int, credential_id: int, timeout: float, retries: int, actor: str, now: datetime,
    by_admin: bool = False,
) -> int:  # fmt: skip
    """Ask for a connection test; returns its id. The answer appears in the row; when Redis is away it says so at once.

    NotFound without the credential, Invalid for an address outside OLT_NETWORKS or one that the credential may not be
    sent to. `by_admin`: `actor` may send it there all the same.
    """
    try:
        addresses.check_networks(address, current_app.config["OLT_NETWORKS"])
    except FieldError as error:
        raise Invalid({"address": error.message}) from None
    with transaction() as session:
        credential = session.get(Credential, credential_id)
        if credential is None:
            raise NotFound(N_("the credential does not exist any more: choose another"))
        try:
            leave = pairing.decide(session, credential, credential.networks, address, port, by_admin=by_admin)
        except FieldError as error:
            raise Invalid({"address": error.message}) from None
        pairing.record_grant(session, credential, address, port, leave, actor, now)
        # The address may be one that is polled already: the device counts, not the form.
        olt = session.scalar(select(Olt).where(Olt.address == address, Olt.port == port, Olt.deleted_at.is_(None)))
        probe = Probe(
            olt_id=olt.id if olt else None, address=address, port=port, credential_id=credential_id, timeout=timeout,
            retries=retries, requested_by=actor, created_at=now, credential_approved=leave.is_approval,
        )  # fmt: skip
        probe_id = _asked(session, probe, olt, credential, actor, now)
    return _queued(probe_id, now)


def of_olt(olt_id: int, actor: str, now: datetime) -> int:
    """Ask for a test of an OLT as it is stored; returns its id. NotFound."""
    with transaction() as session:
        olt = session.scalar(select(Olt).where(Olt.id == olt_id, Olt.deleted_at.is_(None)))
        if olt is None:
            raise NotFound(N_("the OLT does not exist any more"))
        probe = Probe(
            olt_id=olt.id, address=olt.address, port=olt.port, credential_id=olt.credential_id, timeout=olt.timeout,
            retries=olt.retries, requested_by=actor, created_at=now, credential_approved=olt.credential_approved,
        )  # fmt: skip
        probe_id = _asked(session, probe, olt, olt.credential, actor, now)
    return _queued(probe_id, now)


def _asked(
    session: Session, probe: Probe, olt: Olt | None, credential: Credential, actor: str, now: datetime
) -> int:  # fmt: skip
    """The stored test, and its audit row: which credential was sent where."""
    session.add(probe)
    session.flush()
    where = f"{probe.address}:{probe.port}"
    subject = olt or audit.Subject("probe", where, probe.id)
    changes = {"credential": credential.name, "address": probe.address, "port": probe.port}
    audit.record(session, actor=actor, action="probe.create", subject=subject, changes=changes, now=now)
    return probe.id


def _queued(probe_id: int, now: datetime) -> int:
    """After the commit. A queue that is away fails the test at once: nobody would ever take it."""
    try:
        queueing.enqueue_task(queueing.RUN_PROBE, probe_id, queue=queueing.PROBE_QUEUE)
    except queueing.RedisError:
        fail(probe_id, ErrorKind.INTERNAL, QUEUE_AWAY, now)
    return probe_id


def prove(olt_id: int, now: datetime) -> int | None:
    """A test of an OLT that lacks what its model has: others may have its sysObjectID. Once a day; None without one."""
    with transaction() as session:
        device = session.get(OltDevice, olt_id)
        last = session.scalar(select(func.max(Probe.created_at)).where(Probe.olt_id == olt_id))
        if device is None or (last is not None and now - last < PROOF_HOLDS):
            return None
        if not recognition.is_shared(session, device.object_id):
            return None
    return of_olt(olt_id, PROVER, now)


def start(probe_id: int) -> ProbeWork | None:
    """PENDING → RUNNING; None when it is gone or was started already."""
    with transaction() as session:
        probe = session.get(Probe, probe_id)
        if probe is None or probe.status is not ProbeStatus.PENDING:
            return None
        probe.status = ProbeStatus.RUNNING
        aim = target(
            probe.credential, probe.address, probe.port, probe.timeout, probe.retries,
            approved=probe.credential_approved,
        )  # fmt: skip
        return ProbeWork(probe.id, aim, probe.olt_id)


def succeed(probe_id: int, result: Mapping[str, Any], now: datetime) -> None:
    """Store what the device said."""
    with transaction() as session:
        probe = session.get(Probe, probe_id)
        if probe is not None:
            probe.status, probe.result, probe.finished_at = ProbeStatus.SUCCESS, dict(result), now


def fail(probe_id: int, kind: ErrorKind, message: str, now: datetime) -> None:
    """Store why there is no answer."""
    with transaction() as session:
        probe = session.get(Probe, probe_id)
        if probe is not None:
            probe.status, probe.error_kind = ProbeStatus.FAILED, kind
            probe.error_message, probe.finished_at = message[:500], now
