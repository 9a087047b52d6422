"""One tick: what is due becomes PENDING executions, then tickets in the queues. Harmless when doubled or lost."""

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from flask import current_app
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from portal import queueing
from portal.cron import following
from portal.domain.slots import DueMaster, Plan
from portal.extensions import db
from portal.queueing import Ticket
from portal.services.dispatch import slots
from portal.services.uniqueness import was_faster
from scheduler import due, planner

log = logging.getLogger(__name__)

EMPTY = Plan((), (), {})
DOUBLED = 3  # ticks in a row at which somebody was faster: that is no accident any more
TAKING_APART = 5.0  # seconds of one tick in which faulty masters are looked for


@dataclass
class _Streak:
    """Ticks in a row at which somebody was faster."""

    length: int = 0


_doubled = _Streak()


def tick(leader: str, now: datetime, *, redis_trouble: str = "") -> Plan:
    """Decide everything due at `now`, and queue what may start. Redis may be away: the reaper makes up for the push.

    With `redis_trouble` Redis is known to be away or full: it is not even asked, and the scheduler's row says so. It
    says too which masters could not be planned: they leave the others alone.
    """
    began = time.monotonic()
    try:
        plan, fault = _turn(now, push=not redis_trouble)
    except Exception as error:
        with suppress(SQLAlchemyError):  # the first error is the one to be raised
            slots.record_tick(leader, now, _milliseconds(began), None, _words(error))
        raise
    slots.record_tick(leader, now, _milliseconds(began), plan, fault or redis_trouble)
    return plan


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {getattr(error, 'orig', None) or error}"


def _milliseconds(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _turn(now: datetime, *, push: bool) -> tuple[Plan, str]:
    session = db.session()
    anything_due, anything_ripe = due.anything_due(session, now), slots.anything_ripe(session, now)
    session.rollback()
    plan, tickets, fault = _take_all(now, queued=push) if anything_due else (EMPTY, [], "")
    if push:
        _push(tickets)
        # After the slots were taken: what they superseded must not be tried again.
        _push(slots.queue_ripe(now) if anything_ripe else [])
    return plan, fault


def _take_all(now: datetime, *, queued: bool) -> tuple[Plan, list[Ticket], str]:
    """In one transaction; where that fails, in as many as it takes to leave out only the masters that make it fail.

    The third is what those are, in words.
    """
    try:
        plan, tickets = _take(now, queued=queued)
    except OperationalError:  # the database is away, full or read-only: smaller steps do not help
        raise
    except Exception as error:
        if isinstance(error, IntegrityError) and was_faster(error):
            _doubled.length += 1
            log.warning("event=tick_doubled error=%s in_a_row=%d", type(error.orig).__name__, _doubled.length)
            if _doubled.length < DOUBLED:  # another process was faster; the next second sees what it did
                return EMPTY, [], ""
        log.exception("event=tick_failed; each master by itself")
        return _take_apart(now, error, queued=queued)
    _doubled.length = 0
    return plan, tickets, ""


def _take_apart(now: datetime, error: Exception, *, queued: bool) -> tuple[Plan, list[Ticket], str]:
    """By halves, until the faulty ones are alone. What came last goes first: what fails stays due, and is the oldest.

    Ends after TAKING_APART seconds; the rest has its turn with the next tick. When nothing can be taken `error` is
    raised.
    """
    session = db.session()
    nodes = {master.node_id: master.node_name for master in due.select_due(session, now, lock=False)}
    session.rollback()
    until = time.monotonic() + TAKING_APART
    waiting, faults, taken = [list(nodes)], list[str](), list[tuple[Plan, list[Ticket]]]()
    while waiting and time.monotonic() < until:
        some = waiting.pop()
        try:
            taken.append(_take(now, queued=queued, only=some))
        except OperationalError:
            raise
        except Exception as fault:
            if half := len(some) // 2:
                waiting += [some[:half], some[half:]]
            elif some:
                faults.append(f"{nodes[some[0]]} (node {some[0]}) cannot be planned: {_words(fault)}")
                log.error("event=master_not_planned node=%d error=%s", some[0], _words(fault))  # noqa: TRY400
    if not taken:
        raise error
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return (
        _joined([plan for plan, _ in taken]),
        [one for _, tickets in taken for one in tickets],
        (faults[0] + more if faults else _words(error)),
    )


def _joined(plans: list[Plan]) -> Plan:
    clocks = {node: moment for plan in plans for node, moment in plan.next_runs.items()}
    return Plan(tuple(new for plan in plans for new in plan.new),
                tuple(one for plan in plans for one in plan.skipped), clocks)  # fmt: skip


def _take(now: datetime, *, queued: bool, only: list[int] | None = None) -> tuple[Plan, list[Ticket]]:
    from_end = current_app.config["NEXTCHECK_MODE"] == "from_end"

    def decide(masters: list[DueMaster]) -> Plan:
        return planner.plan(masters, now, cache(following), from_end=from_end)

    return slots.take(lambda session: due.select_due(session, now, only=only), decide, now, queued=queued)


def _push(tickets: list[Ticket]) -> None:
    try:
        queueing.push(tickets)
    except queueing.RedisError as error:
        log.warning("event=push_failed tickets=%d error=%s", len(tickets), type(error).__name__)
