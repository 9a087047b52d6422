"""One tick: what is due becomes PENDING executions, then tickets in the queues. Harmless when doubled or lost."""

import logging
import time
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from flask import current_app
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from portal import queueing
from portal.domain.fields import FieldError
from portal.domain.slots import DueMaster, Plan
from portal.extensions import db
from portal.queueing import Ticket
from portal.services.dispatch import clock, slots
from scheduler import due, planner

log = logging.getLogger(__name__)

EMPTY = Plan((), (), {})


def next_cron(line: str, moment: datetime) -> datetime:
    """First time of the cron line strictly after `moment`, read in the portal's zone; aware UTC.

    A line that never fires or cannot be read is refused on entry. If one is there all the same it is due in a year,
    and does not stop the clock of all others.
    """
    zone = ZoneInfo(current_app.config["TIMEZONE"])
    try:
        return next(iter(clock.cron_times(line, moment, zone)))
    except (StopIteration, FieldError):
        log.error("event=cron_never_fires line=%r", line)
        return moment + timedelta(days=365)


def tick(leader: str, now: datetime, *, redis_trouble: str = "") -> Plan:
    """Decide everything due at `now`, and queue what may start. Redis may be away: the reaper makes up for the push.

    With `redis_trouble` Redis is known to be away or full: it is not even asked, and the scheduler's row says so.
    """
    began = time.monotonic()
    try:
        plan = _turn(now, push=not redis_trouble)
    except Exception as error:
        words = f"{type(error).__name__}: {getattr(error, 'orig', None) or error}"
        with suppress(SQLAlchemyError):  # the first error is the one to be raised
            slots.record_tick(leader, now, _milliseconds(began), None, words)
        raise
    slots.record_tick(leader, now, _milliseconds(began), plan, redis_trouble)
    return plan


def _milliseconds(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _turn(now: datetime, *, push: bool) -> Plan:
    session = db.session()
    anything_due, anything_ripe = due.anything_due(session, now), slots.anything_ripe(session, now)
    session.rollback()
    plan, tickets = _take(now, queued=push) if anything_due else (EMPTY, [])
    if push:
        _push(tickets)
        # After the slots were taken: what they superseded must not be tried again.
        _push(slots.queue_ripe(now) if anything_ripe else [])
    return plan


def _take(now: datetime, *, queued: bool) -> tuple[Plan, list[Ticket]]:
    from_end = current_app.config["NEXTCHECK_MODE"] == "from_end"

    def decide(masters: list[DueMaster]) -> Plan:
        return planner.plan(masters, now, cache(next_cron), from_end=from_end)

    try:
        return slots.take(lambda session: due.select_due(session, now), decide, now, queued=queued)
    except IntegrityError as error:  # another process was faster; the next second sees what it did
        log.warning("event=tick_doubled error=%s", type(error.orig).__name__)
        return EMPTY, []


def _push(tickets: list[Ticket]) -> None:
    try:
        queueing.push(tickets)
    except queueing.RedisError as error:
        log.warning("event=push_failed tickets=%d error=%s", len(tickets), type(error).__name__)
