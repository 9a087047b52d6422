"""One tick: what is due becomes PENDING executions, then tickets in the queues. Harmless when doubled or lost."""

import logging
import time
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from flask import current_app

from portal import queueing
from portal.domain.slots import DueMaster, Plan
from portal.extensions import db
from portal.services import clock, slots
from scheduler import due, planner

log = logging.getLogger(__name__)

EMPTY = Plan((), (), {})


def next_cron(line: str, moment: datetime) -> datetime:
    """First time of the cron line strictly after `moment`, read in the portal's zone; aware UTC.

    A line that never fires is refused on entry; if the calendar brings one all the same, it is due in a year.
    """
    zone = ZoneInfo(current_app.config["TIMEZONE"])
    return clock.next_cron(line, moment, zone) or moment + timedelta(days=365)


def tick(leader: str, now: datetime) -> Plan:
    """Decide everything due at `now`. Redis may be away: the reaper pushes later what could not be pushed."""
    began = time.monotonic()
    from_end = current_app.config["NEXTCHECK_MODE"] == "from_end"
    idle = not due.anything_due(db.session(), now)
    db.session.rollback()

    def decide(masters: list[DueMaster]) -> Plan:
        return planner.plan(masters, now, next_cron, from_end=from_end)

    plan, tickets = (EMPTY, []) if idle else slots.take(lambda session: due.select_due(session, now), decide, now)
    try:
        queueing.push(tickets)
    except queueing.RedisError as error:
        log.warning("event=push_failed tickets=%d error=%s", len(tickets), type(error).__name__)
    slots.record_tick(leader, now, round((time.monotonic() - began) * 1000), plan)
    return plan
