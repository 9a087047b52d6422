"""The reaper: every 5 s it repairs what killed, frozen or disconnected processes left behind."""

import logging
from datetime import UTC, datetime

from portal import queueing
from portal.services import executions, reaping

log = logging.getLogger(__name__)


def reap() -> None:
    """Entry function of the periodic job. Needs Redis: without it nobody can tell a dead lease from a live one."""
    now = datetime.now(UTC)
    lost = _lost(now)
    pushed = _push_forgotten(now)
    queueing.ask_to_stop(reaping.running_on_disabled())
    kicked = queueing.mark_ready(reaping.waiting_olts())
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
    tickets = queueing.unknown(reaping.to_queue(now))
    queueing.push(tickets)
    reaping.mark_queued(tickets, now)
    return len(tickets)
