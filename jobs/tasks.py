"""What RQ calls: ids in, nothing out. Start in the database, read under the lease, finish in the database."""

import logging
import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import NoReturn, TypeVar

from flask import current_app
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from jobs import poller
from jobs.claim import Aborted, Claim, Lease, LeaseLost, Stopped, held
from jobs.drivers import open_session
from portal import clock, queueing
from portal.domain import tempo
from portal.domain.composite import CompositeResult, CompositeWork, StepResult, telling
from portal.domain.statuses import ErrorKind, ExecutionStatus
from portal.extensions import db
from portal.services.collecting.readings import Books
from portal.services.dispatch import executions
from portal.services.dispatch.executions import StaleToken
from portal.services.trying import probes

log = logging.getLogger(__name__)

T = TypeVar("T")

FINISH_PAUSES = (0.2, 1.0, 3.0)  # seconds between tries to write a result
_DATABASE_AWAY = (OperationalError, InterfaceError)


def run_composite(execution_id: int) -> None:
    """One try of one execution, under the claim that the worker holds. Without a claim it does nothing."""
    mine = held.get()
    if mine is None:
        log.error("event=no_claim execution=%d", execution_id)
        return
    config = current_app.config
    lease = Lease(queueing.connection(), mine, float(config["LEASE_SECONDS"]), grace=float(config["STOP_SECONDS"]))
    work = _started(execution_id, mine, lease)
    if work is None:
        return
    try:
        _read_and_finish(work, lease)
    except _DATABASE_AWAY as error:  # whoever can reach the database will say that this try was lost
        _end_badly(execution_id, error)
    except StaleToken as error:
        log.warning("event=stale execution=%d reason=%s", execution_id, error)
    except Stopped as error:
        _hand_over(work, error)
    except LeaseLost as error:
        _give_up(work, error)
    except Exception as error:
        log.exception("event=internal_error execution=%d", execution_id)
        _fail(work, f"{type(error).__name__}: {error}")


def _end_badly(execution_id: int, error: DBAPIError) -> NoReturn:
    """The horse ends with a code that tells its poller; one line in the log, since there may be many."""
    log.error("event=database_away execution=%d error=%s", execution_id, str(error.orig).strip())
    raise SystemExit(os.EX_TEMPFAIL)


def _started(execution_id: int, mine: Claim, lease: Lease) -> CompositeWork | None:
    """The work, once the database says RUNNING. The database may have kept us waiting: the lease is asked last."""
    try:
        lease.checkpoint()
        now = clock.now()
        expires = now + timedelta(seconds=lease.ttl)
        work = executions.start(execution_id, mine.token, mine.owner, now, expires, lease.checkpoint)
    except Stopped as error:  # the lease is ours still, so our poller has to queue it again, once it is given back
        log.info("event=not_started execution=%d reason=%s", execution_id, error)
        raise SystemExit(os.EX_TEMPFAIL) from None
    except LeaseLost as error:
        log.warning("event=not_started execution=%d reason=%s", execution_id, error)
        executions.push(executions.never_started(execution_id))
        return None
    except _DATABASE_AWAY as error:  # it is PENDING still
        _end_badly(execution_id, error)
    except Exception as error:
        log.exception("event=internal_error execution=%d", execution_id)
        executions.fail_unstarted(execution_id, f"{type(error).__name__}: {error}", clock.now())
        return None
    if work is None:
        log.info("event=not_started execution=%d", execution_id)
    return work


def _read_and_finish(work: CompositeWork, lease: Lease) -> None:
    began = time.monotonic()
    lease.cover(work.target.longest_request)
    check = checkpoint_of(work, lease)
    keeper = _Keeper(work, check, lease.ttl)
    result = poller.run(work, open_session, check, clock.now, time.monotonic, keeper.keep)
    status = keeper.finish(result)
    log.info(
        "event=composite execution=%d olt=%d status=%s steps=%d rows=%d pdus=%d seconds=%.3f",
        work.execution_id, work.olt_id, status, len(result.steps), sum(step.rows for step in result.steps),
        sum(step.pdus for step in result.steps), time.monotonic() - began,
    )  # fmt: skip
    ask_what_it_is(work.olt_id, result)


def ask_what_it_is(olt_id: int, result: CompositeResult) -> None:
    """An OLT that lacks a column of its model may be another of the same sysObjectID: a connection test tells."""
    if not any(step.error_kind is ErrorKind.NO_SUCH_OBJECT for step in result.steps):
        return
    try:
        probes.prove(olt_id, clock.now())
    except Exception:  # the composite has ended well, whatever becomes of this
        log.warning("event=no_proof olt=%d", olt_id, exc_info=True)


class _Keeper:
    """Writes what was read. The OLT has paid for it, so a database that is away for a moment is waited for."""

    def __init__(self, work: CompositeWork, check: Callable[[], None], ttl: float) -> None:
        self.work, self.check, self.ttl = work, check, ttl
        self.books = Books(work.olt_id, work.execution_id, telling(work.steps))

    def keep(self, step: StepResult) -> None:
        """One step, while the OLT is still ours: its lease is renewed before each further try."""

        def write() -> None:
            expires = clock.now() + timedelta(seconds=self.ttl)
            executions.keep_step(self.work.execution_id, self.work.token, self.books, step, clock.now(), expires)

        if step.columns:
            self._patiently(write, self.check)

    def finish(self, result: CompositeResult) -> ExecutionStatus:
        """The last step and the end. No lease is needed: nothing more is sent, and the token decides.

        A commit whose reply was lost meets its own success: StaleToken.
        """

        def write() -> ExecutionStatus:
            return executions.finish(self.work.execution_id, self.work.token, result, clock.now(), self.books)

        return self._patiently(write, lambda: None)

    def _patiently(self, write: Callable[[], T], before_retry: Callable[[], None]) -> T:
        for pause in FINISH_PAUSES:
            try:
                return write()
            except _DATABASE_AWAY as error:
                log.warning("event=write_delayed execution=%d error=%s", self.work.execution_id, error.orig)
                db.session.remove()
                self.books = self.books.afresh()
                time.sleep(pause)
                before_retry()
        return write()


def checkpoint_of(work: CompositeWork, lease: Lease) -> Callable[[], None]:
    """Before every PDU: renew in Redis; every few seconds also show in the database that the holder lives.

    The database comes first: it may keep us waiting for longer than the lease that a renewal has just proven.
    """
    shown, pace = time.monotonic(), tempo.at(current_app.config["TEMPO"]).sql_sign

    def check() -> None:
        nonlocal shown
        if time.monotonic() - shown >= pace:
            shown = time.monotonic()
            _show_alive(work, lease.ttl)
        lease.checkpoint()

    return check


def _show_alive(work: CompositeWork, ttl: float) -> None:
    """For the pages only: a database that is busy or away for a moment must not cost the composite."""
    try:
        executions.heartbeat(work.execution_id, work.token, clock.now() + timedelta(seconds=ttl))
    except _DATABASE_AWAY as error:
        db.session.remove()
        log.warning("event=heartbeat_failed execution=%d error=%s", work.execution_id, error.orig)


def _give_up(work: CompositeWork, error: LeaseLost) -> None:
    log.warning("event=lease_lost execution=%d reason=%s", work.execution_id, error)
    try:
        aborted = isinstance(error, Aborted)
        tickets = executions.give_up_lease(work.execution_id, work.token, str(error), clock.now(), aborted=aborted)
    except StaleToken:
        return  # the reaper was faster
    executions.push(tickets)


def _hand_over(work: CompositeWork, error: Stopped) -> None:
    log.info("event=handed_over execution=%d reason=%s", work.execution_id, error)
    try:
        tickets = executions.hand_over(work.execution_id, work.token, str(error), clock.now())
    except StaleToken:
        return  # it was lost or cancelled meanwhile
    executions.push(tickets)


def _fail(work: CompositeWork, message: str) -> None:
    try:
        executions.fail_internal(work.execution_id, work.token, message, clock.now())
    except StaleToken as stale:
        log.warning("event=stale execution=%d reason=%s", work.execution_id, stale)
