"""Asks an OLT because somebody wants to see it: the jobs behind the buttons, and the lease for all by hand.

A connection test says who a device is; a trial shows what a node or an OID reads.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from flask import current_app

from jobs import claim as claims
from jobs import poller, probing
from jobs.claim import Lease, LeaseLost
from jobs.drivers import open_session
from jobs.snmp.patient import PatientSession
from portal import clock, queueing
from portal.domain.composite import SnmpTarget
from portal.domain.statuses import ErrorKind
from portal.extensions import db
from portal.services.cataloguing import recognition
from portal.services.trying import probes, trials

log = logging.getLogger(__name__)

PATIENCE = 20.0  # seconds for the composite that reads the OLT to end
PROBE_PATIENCE = 8.0  # of a connection test, in whose queue the probes of unreachable OLTs wait too


class Busy(Exception):  # noqa: N818  (a state, not a fault)
    """The OLT is held by somebody else, or nothing may be held for the moment."""


@contextmanager
def holding(olt_id: int, owner: str, target: SnmpTarget, patience: float | None = None) -> Iterator[Callable[[], None]]:
    """Hold an OLT of ours as a composite does; gives the checkpoint to call before every PDU. Busy when it is held.

    The checkpoint raises LeaseLost. RedisError when Redis is away at the start; at the end the lease runs out anyhow.
    """
    redis, ttl = queueing.connection(), float(current_app.config["LEASE_SECONDS"])
    quarantine = float(current_app.config["QUARANTINE_SECONDS"])
    wait = (PATIENCE if patience is None else patience) + quarantine
    mine = claims.hold_patiently(redis, olt_id, owner, ttl, quarantine, wait)
    if mine is None:
        raise Busy
    lease = Lease(redis, mine, ttl)
    lease.cover(target.longest_request)
    try:
        yield lease.checkpoint
    finally:
        try:
            claims.release(redis, mine)
        except queueing.RedisError as error:
            log.warning("event=release_failed olt=%d error=%s", olt_id, type(error).__name__)


def run_trial(trial_id: int) -> None:
    """One trial, called by RQ. Whatever happens, the row says it."""
    with _said(f"trial={trial_id}", lambda kind, text: trials.fail(trial_id, kind, text, clock.now())):
        _try(trial_id)


def run_probe(probe_id: int) -> None:
    """One connection test, called by RQ. Whatever happens, the row says it.

    An OLT of ours is asked under its lease, so that two never read it at once.
    """
    with _said(f"probe={probe_id}", lambda kind, text: probes.fail(probe_id, kind, text, clock.now())):
        _probe(probe_id)


@contextmanager
def _said(what: str, fail: Callable[[ErrorKind, str], object]) -> Iterator[None]:
    """What went wrong, in words that the person who waits for the answer can use."""
    try:
        yield
    except probing.ProbeFailed as failed:
        fail(failed.kind, str(failed))
    except Busy:
        fail(ErrorKind.DEVICE, trials.BUSY)
    except LeaseLost as error:
        log.warning("event=stopped %s reason=%s", what, error)
        fail(ErrorKind.LEASE_LOST, trials.LOST)
    except queueing.RedisError:
        fail(ErrorKind.INTERNAL, trials.LEASE_AWAY)
    except Exception:
        log.exception("event=internal_error %s", what)
        fail(ErrorKind.INTERNAL, trials.FAULT)


def _probe(probe_id: int) -> None:
    work = probes.start(probe_id)
    if work is None:
        return
    knowledge = recognition.knowledge(db.session())
    db.session.rollback()  # no transaction stays open while the device is asked
    with _free_or_held(work, f"probe-{probe_id}") as checkpoint:
        patient = partial(PatientSession, open_session, checkpoint=checkpoint)  # each repeat looks at the lease too
        result = probing.ask(work.target, patient, time.monotonic, knowledge, checkpoint)
    probes.succeed(probe_id, result, clock.now())


def _free_or_held(work: probes.ProbeWork, owner: str) -> AbstractContextManager[Callable[[], None]]:
    """A device that is none of our OLTs needs no lease: nobody else asks it."""
    if work.olt_id is None:
        return nullcontext(lambda: None)
    return holding(work.olt_id, owner, work.target, PROBE_PATIENCE)


def _try(trial_id: int) -> None:
    mine = trials.start(trial_id, clock.now())
    if mine is None:
        return
    with holding(mine.work.olt_id, f"trial-{trial_id}", mine.work.target) as checkpoint:
        began = time.monotonic()
        result = poller.run(mine.work, open_session, checkpoint, clock.now, time.monotonic)
        took = time.monotonic() - began
    trials.finish(mine, result.steps[0], took, clock.now())
