"""Who holds an OLT when no execution does: a trial, a connection test, or a command at a terminal. Reads only."""

import logging
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from portal import queueing
from portal.extensions import db
from portal.tables import Probe, Trial

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Holder:
    """`kind`: trial, probe, cli or poller. `what`: the node or OID that is read; `by`: who asked for it.

    `seconds`: until the lease runs out unless it is renewed; `asked`: it was asked to stop already.
    """

    kind: str
    token: int
    seconds: float
    asked: bool
    what: str = ""
    by: str = ""
    since: datetime | None = None
    ident: int | None = None


def of(olt_id: int) -> Holder | None:
    """Who holds the OLT by its lease, None when nobody does or Redis cannot say. At most one SQL statement."""
    try:
        lease = queueing.lease_of(olt_id)
    except queueing.RedisError as error:
        log.debug("event=lease_unknown olt=%d error=%s", olt_id, type(error).__name__)
        return None
    if lease is None:
        return None
    kind, _, ident = lease.owner.partition("-")
    facts = (lease.token, lease.seconds, lease.asked)
    if kind == "trial" and ident.isdecimal():
        return _trial(int(ident), *facts)
    if kind == "probe" and ident.isdecimal():
        return _probe(int(ident), *facts)
    return Holder("cli" if kind == "cli" else "poller", *facts)


def _trial(trial_id: int, token: int, seconds: float, asked: bool) -> Holder:
    query = select(Trial.node_name, Trial.oid, Trial.requested_by, Trial.started_at).where(Trial.id == trial_id)
    name, oid, by, since = db.session.execute(query).one_or_none() or ("", "", "", None)
    return Holder("trial", token, seconds, asked, name or oid, by, since, trial_id)


def _probe(probe_id: int, token: int, seconds: float, asked: bool) -> Holder:
    query = select(Probe.requested_by, Probe.created_at).where(Probe.id == probe_id)
    by, since = db.session.execute(query).one_or_none() or ("", None)
    return Holder("probe", token, seconds, asked, "", by, since, probe_id)
