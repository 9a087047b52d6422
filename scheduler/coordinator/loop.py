"""Entry functions of the coordinator: the pass each 5 s, and the close of hours that are over."""

import logging
from datetime import datetime

from portal import clock
from portal.domain import quota
from portal.extensions import db
from portal.services.coordinating import closing, ledger
from portal.services.dispatch import clock_check
from scheduler.coordinator import observe, reconcile

log = logging.getLogger(__name__)

OPENED_AT_ONCE = 200  # OLTs: about a second
CHUNK = 50  # OLTs in one transaction: SQLite's only writer holds up every poller meanwhile


def coordinate() -> None:
    """Entry function of the periodic job: one pass over every OLT."""
    run(clock.now())


def run(now: datetime) -> int:
    """Observe all, decide and reconcile those that changed or whose hour begins; returns how many changes there were.

    Any number of passes may run at once. Hours are opened a part at a pass: the same process has the reaper to run, and
    what ends before its tracker is there makes it (ADR 0020). Clocks that nobody would wind any more are repaired.
    """
    if repaired := clock_check.repair(now):
        log.warning("event=clocks_repaired nodes=%d", repaired)
    session = db.session()
    changed, unopened = observe.differing(session, quota.hour_at(now))
    session.rollback()
    ids = [*changed, *unopened[:OPENED_AT_ONCE]]
    changes = sum(reconcile.reconcile(ids[at : at + CHUNK], now) for at in range(0, len(ids), CHUNK))
    if changes:
        log.info("event=coordinated olts=%d changes=%d", len(ids), changes)
    return changes


def close_hours() -> None:
    """Entry function of the periodic job: judge the promises of hours that are over, and enter what they cost."""
    now = clock.now()
    closing.close_due(now)
    ledger.close_due(now)
