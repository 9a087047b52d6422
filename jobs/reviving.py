"""Asks unreachable OLTs whether they are back, one datagram each; also ends the pauses whose time is over."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import replace

from flask import current_app

from jobs import claim as claims
from jobs.claim import Claim
from jobs.drivers import open_session
from jobs.identifying import SYSTEM
from jobs.snmp.discovery import Greeting
from jobs.snmp.errors import SnmpError
from jobs.snmp.peers import resolved
from jobs.snmp.session import SnmpSession
from portal import clock, queueing
from portal.domain.composite import SnmpTarget
from portal.domain.statuses import ErrorKind
from portal.services.dispatch import reachability
from portal.services.dispatch.reachability import Suspect

log = logging.getLogger(__name__)

AT_ONCE = 64  # OLTs asked in one round
LONGEST_WAIT = 3.0  # seconds for an answer
ROUND_SECONDS = 4.0  # people's connection tests wait in the same queue
LEASE_SECONDS = 10.0  # more than any answer is waited for
REFUSED_WAIT = 2.0  # seconds for each of the messages of a question that takes the credential
_MESSAGES = 4  # of SNMPv3, at most: the greeting, whose engine it is, what its clock says, the question
_ONE_AT_A_TIME = threading.Lock()  # sessions of SNMPv3

_SILENCE = frozenset({ErrorKind.TIMEOUT, ErrorKind.UNREACHABLE})

Hold = Callable[[int], Claim | None]
Release = Callable[[Claim], object]


def revive() -> None:
    """Entry function of the periodic job (each 5 s)."""
    over = reachability.end_pauses(clock.now())
    suspects = reachability.suspects(clock.now(), AT_ONCE)
    answers = _ask_all(suspects)
    back = reachability.record_probes(answers, clock.now())
    if over or back:
        log.info("event=revived pauses_over=%d asked=%d back=%d", over, len(answers), back)


def _ask_all(suspects: Sequence[Suspect]) -> dict[int, bool]:
    """OLT id → whether it answered; without those that could not be asked now. Takes no longer than ROUND_SECONDS.

    One that is not done by then (a name server that does not answer) counts as silent, or it would be first again.
    """
    if not suspects:
        return {}
    redis, owner = queueing.connection(), f"revive-{os.getpid()}"

    quarantine = float(current_app.config["QUARANTINE_SECONDS"])

    def hold(olt_id: int) -> Claim | None:
        return claims.hold(redis, olt_id, owner, LEASE_SECONDS, quarantine)

    pool = ThreadPoolExecutor(max_workers=len(suspects))
    asked = {pool.submit(ask, suspect, hold, lambda mine: claims.release(redis, mine)): suspect.olt_id
             for suspect in suspects}  # fmt: skip
    done, late = wait(asked, timeout=ROUND_SECONDS)
    pool.shutdown(wait=False, cancel_futures=True)
    outcomes = {asked[future]: _outcome(future) for future in done} | {asked[future]: False for future in late}
    return {olt_id: answered for olt_id, answered in outcomes.items() if answered is not None}


def _outcome(future: Future[bool | None]) -> bool | None:
    """A fault of ours with one OLT must not cost the others their answer."""
    try:
        return future.result()
    except Exception as error:
        log.exception("event=probe_failed error=%s", type(error).__name__)
        return False


def ask(suspect: Suspect, hold: Hold, release: Release) -> bool | None:
    """Send one datagram under the OLT's lease: True when anything comes back. One that refuses its credential is asked

    whether it takes it, which takes some more. None when it could not be asked now: it is held (somebody is talking to
    it already), or Redis is away and nobody can say.
    """
    longest = REFUSED_WAIT if suspect.refused else LONGEST_WAIT
    target = replace(suspect.target, timeout=min(suspect.target.timeout, longest), retries=0)
    need = target.timeout * (_MESSAGES if suspect.refused else 1)
    try:
        with _question(target, suspect.refused) as answers:  # resolves the name, which may take long: before the lease
            mine = hold(suspect.olt_id)
            if mine is None:
                return None
            try:
                return answers() if _still_held(mine, need) else None
            finally:
                _give_back(mine, release)
    except (SnmpError, OSError):
        return False
    except queueing.RedisError as error:
        log.warning("event=redis_away olt=%d error=%s", suspect.olt_id, type(error).__name__)
        return None


def _still_held(mine: Claim, need: float) -> bool:
    """Whether an answer that takes `need` seconds surely comes within the lease: we may have been frozen meanwhile."""
    return time.monotonic() + need < mine.asked_at + LEASE_SECONDS


@contextmanager
def _question(target: SnmpTarget, refused: bool) -> Iterator[Callable[[], bool]]:
    """What sends one datagram and tells whether anything came back: sysUpTime, or SNMPv3's own first message."""
    if target.version == "3":
        with closing(Greeting(resolved(target)[0], target.port)) as greeting:
            yield lambda: greeting.send(target.timeout) and not (refused and _refuses(target))
    else:
        with closing(open_session(target)) as session:
            yield lambda: _says_anything(session, refused)


def _refuses(target: SnmpTarget) -> bool:
    with _ONE_AT_A_TIME, closing(open_session(target)) as session:
        return not _says_anything(session, refused=True)


def _says_anything(session: SnmpSession, refused: bool) -> bool:
    try:
        session.get([SYSTEM["uptime"]])
    except SnmpError as error:
        return error.kind not in _SILENCE and not (refused and error.kind is ErrorKind.AUTH)
    return True


def _give_back(mine: Claim, release: Release) -> None:
    try:
        release(mine)
    except queueing.RedisError as error:  # it runs out by itself
        log.warning("event=release_failed olt=%d error=%s", mine.olt_id, type(error).__name__)
