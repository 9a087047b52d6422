"""The reaper: every 5 s it repairs what killed, frozen or disconnected processes left behind."""

import logging
from datetime import datetime

from flask import current_app

from portal import clock, queueing
from portal.services.dispatch import executions, reaping

log = logging.getLogger(__name__)


def reap() -> None:
    """Entry function of the periodic job. Needs Redis: without it nobody can tell a dead lease from a live one."""
    now = clock.now()
    lost = _lost(now)
    pushed = _push_forgotten(now)
    for olt_id, token in reaping.to_stop():
        queueing.ask_to_stop_token(olt_id, token)
    kicked = queueing.mark_ready(reaping.active_olts(), float(current_app.config["LEASE_SECONDS"]))
    if lost or pushed or kicked:
        log.info("event=reaped lost=%d pushed=%d kicked=%d", lost, pushed, kicked)


def _lost(now: datetime) -> int:
    """RUNNING without its lease: INTERRUPTED, and PENDING again. Reading leases after rows leaves no gap:

    a row that is RUNNING has had its lease before, so no lease now means that it is gone for good.
    """
    rows = reaping.running()
    tokens = queueing.lease_tokens([olt_id for _, olt_id, _ in rows])
    gone = [(execution_id, token) for execution_id, olt_id, token in rows if tokens.get(olt_id) != token]
    tickets = executions.lost(gone, "the worker was lost: its lease ran out", now) if gone else []
    executions.push(tickets)
    return len(tickets)


def _push_forgotten(now: datetime) -> int:
    """Committed but never queued, `not_before` reached, or forgotten by Redis."""
    looked_at = reaping.to_queue(now)
    forgotten = queueing.unknown(looked_at)
    queueing.push(forgotten)
    # Where there are more than one look takes in, the others get their turn next time.
    reaping.mark_queued(looked_at if len(looked_at) == reaping.LIMIT else forgotten, now)
    return len(forgotten)
