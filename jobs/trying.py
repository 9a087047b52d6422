"""Reads a node or an OID because somebody wants to see it: the job behind the button, and the lease for all by hand."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from flask import current_app

from jobs import claim as claims
from jobs import poller
from jobs.claim import Lease, LeaseLost
from jobs.drivers import open_session
from portal import queueing
from portal.domain.composite import SnmpTarget
from portal.domain.statuses import ErrorKind
from portal.services import trials

log = logging.getLogger(__name__)

PATIENCE = 20.0  # seconds for the composite that reads the OLT to end


class Busy(Exception):  # noqa: N818  (a state, not a fault)
    """The OLT is held by somebody else, or nothing may be held for the moment."""


def _now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def holding(olt_id: int, owner: str, target: SnmpTarget) -> Iterator[Callable[[], None]]:
    """Hold an OLT of ours as a composite does; gives the checkpoint to call before every PDU. Busy when it is held.

    The checkpoint raises LeaseLost. RedisError when Redis is away at the start; at the end the lease runs out anyhow.
    """
    redis, ttl = queueing.connection(), float(current_app.config["LEASE_SECONDS"])
    quarantine = float(current_app.config["QUARANTINE_SECONDS"])
    mine = claims.hold_patiently(redis, olt_id, owner, ttl, quarantine, PATIENCE + quarantine)
    if mine is None:
        raise Busy
    lease = Lease(redis, mine, ttl)
    try:
        yield lambda: lease.checkpoint(need=target.longest_request)
    finally:
        try:
            claims.release(redis, mine)
        except queueing.RedisError as error:
            log.warning("event=release_failed olt=%d error=%s", olt_id, type(error).__name__)


def run_trial(trial_id: int) -> None:
    """One trial, called by RQ. Whatever happens, the row says it."""
    try:
        _try(trial_id)
    except Busy:
        trials.fail(trial_id, ErrorKind.DEVICE, trials.BUSY, _now())
    except LeaseLost as error:
        log.warning("event=trial_stopped trial=%d reason=%s", trial_id, error)
        trials.fail(trial_id, ErrorKind.LEASE_LOST, trials.LOST, _now())
    except queueing.RedisError:
        trials.fail(trial_id, ErrorKind.INTERNAL, trials.LEASE_AWAY, _now())
    except Exception:
        log.exception("event=internal_error trial=%d", trial_id)
        trials.fail(trial_id, ErrorKind.INTERNAL, trials.FAULT, _now())


def _try(trial_id: int) -> None:
    mine = trials.start(trial_id, _now())
    if mine is None:
        return
    with holding(mine.work.olt_id, f"trial-{trial_id}", mine.work.target) as checkpoint:
        began = time.monotonic()
        result = poller.run(mine.work, open_session, checkpoint, _now, time.monotonic)
        took = time.monotonic() - began
    trials.finish(mine, result.steps[0], took, _now())
