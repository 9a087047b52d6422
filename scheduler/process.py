"""The scheduler process: an rq-scheduler hardened against what docs/serialisation.md lists, and the leader's tick."""

import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from flask import current_app
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from rq.job import Job, JobStatus
from rq_scheduler import Scheduler
from sqlalchemy.exc import OperationalError

from portal import clock, queueing
from portal.domain import tempo
from portal.domain.tempo import NORMAL, Tempo
from portal.extensions import db
from portal.services.dispatch import set_back
from scheduler import periodic
from scheduler.tick import tick

log = logging.getLogger(__name__)

LEADER_KEY = "facho:leader"
CLOCK_STEP_SECONDS = 2.0

_LEAD = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  -- Longer than any lease: Redis' clock was set back, and a dead leader would lead for as long.
  if redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return holder and 1 or 2
"""

_RESIGN = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class LeaderScheduler(Scheduler):
    """rq_scheduler.Scheduler with an owned leader lease, JSON jobs, no pile-up, and no schedule lost to a kill."""

    job_class = queueing.TaskJob
    queue_class = queueing.TaskQueue

    def __init__(
        self, connection: Redis, beat: Callable[[str, datetime, str], Any],
        wind_back: Callable[[datetime], Any] = lambda _now: None, paces: Tempo = NORMAL,
    ) -> None:  # fmt: skip
        """`beat`: the tick, given the leader's name, the time, and what is wrong with Redis ("" = nothing).

        `wind_back`: brings back the slots that a clock which was set back left far ahead.
        """
        name = f"scheduler-{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        super().__init__(queue_name=queueing.MAINTENANCE_QUEUE, interval=1, connection=connection, name=name)
        self.leading = False
        self._beat = beat
        self._wind_back = wind_back
        self._paces = paces
        self._stop = False
        self._reconciled_at = self._wound_at = -self._paces.reconcile
        self._wall_ahead = time.time() - time.monotonic()

    def acquire_lock(self) -> bool:
        """Take or renew the leader lease. Only its owner renews it: a frozen leader that wakes up finds it taken."""
        answer = self.connection.eval(_LEAD, 1, LEADER_KEY, self.name, int(self._paces.leader_lease * 1000))
        self._lead(answer > 0)
        if answer == 2:  # a new leader, perhaps on another host with another clock
            self._reconciled_at = self._wound_at = -self._paces.reconcile
        return self.leading

    def remove_lock(self) -> None:
        """Give the lease up, if it is ours."""
        self.connection.eval(_RESIGN, 1, LEADER_KEY, self.name)

    def _lead(self, leading: bool) -> None:
        if leading is not self.leading:
            log.info("event=%s scheduler=%s", "leading" if leading else "standby", self.name)
        self.leading = leading

    def enqueue_job(self, job: Job) -> None:
        """Move a periodic job on and queue it, unless it is still queued or being run. The new time is written first:

        a kill in between loses one run, never the schedule.
        """
        interval = int(job.meta.get("interval", 60))
        self.connection.zadd(self.scheduled_jobs_key, {job.id: int(time.time()) + interval})
        queue = self.get_queue_for_job(job)
        if not self._is_running(job) and self.connection.lpos(queue.key, job.id) is None:
            queue.enqueue_job(job)

    def _is_running(self, job: Job) -> bool:
        """Whether a worker has it in hand, as far as was heard of lately: one that was killed leaves it "started"."""
        if job.get_status(refresh=False) is not JobStatus.STARTED or job.last_heartbeat is None:
            return False
        return timedelta() <= clock.now() - job.last_heartbeat < timedelta(seconds=self._paces.job_lost)

    def get_jobs_to_queue(self, with_times: bool = False) -> Any:
        """Jobs whose time has come (without utcnow(), which later Pythons deprecate)."""
        return self.get_jobs(int(time.time()), with_times=with_times)

    def run(self, burst: bool = False) -> None:
        """At each tick, by the monotonic clock: lead or stand by; the leader ticks. Survives any outage of Redis."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._request_stop)
        due = time.monotonic()
        while not self._stop:
            self.once()
            self._note_slowness(time.monotonic() - due)
            due = max(due + self._paces.tick, time.monotonic())
            while not self._stop and (left := due - time.monotonic()) > 0:
                time.sleep(min(left, 0.2))
        self._leave()

    def _note_slowness(self, seconds: float) -> None:
        """Ticks that would have begun meanwhile are not made up for: the next one sees all that is due."""
        skipped = int(seconds / self._paces.tick) - 1
        if self.leading and skipped > 0:
            log.warning("event=tick_slow seconds=%.1f skipped=%d", seconds, skipped)

    def _request_stop(self, _number: int, _frame: Any) -> None:
        self._stop = True

    def once(self) -> None:
        """One tick's work."""
        self._watch_clock()
        trouble = self._lead_or_stand_by()
        if self.leading:
            self._look_ahead()
            self._tick(trouble)
        if self.leading and not trouble:
            self._periodic()

    def _watch_clock(self) -> None:
        """The cadence goes by the monotonic clock, but periodic jobs wait for times: after a step they are set anew."""
        ahead = time.time() - time.monotonic()
        step = ahead - self._wall_ahead
        self._wall_ahead = ahead
        if abs(step) > CLOCK_STEP_SECONDS:
            log.warning("event=clock_stepped seconds=%+.0f", step)
            self._reconciled_at = self._wound_at = -self._paces.reconcile

    def _lead_or_stand_by(self) -> str:
        """What is wrong with Redis: it is away, or full and refuses; "" when nothing is.

        Without it the last leader goes on: slots are unique rows, a second is harmless.
        """
        try:
            self.acquire_lock()
            self.connection.hset(self.key, mapping={"birth": time.time()})
            self.connection.expire(self.key, 10)
        except RedisError as error:
            trouble = f"Redis: {type(error).__name__}: {error}"[:200]
            log.warning("event=redis_trouble error=%r", trouble)
            return trouble
        return ""

    def _look_ahead(self) -> None:
        """Each minute, and at once after a step of the clock. By this clock: it is the one that slots go by.

        Where slots were brought back the next tick looks again: what a commit held just then was left out.
        """
        if time.monotonic() - self._wound_at >= self._paces.reconcile:
            if not self._in_database(lambda: self._wind_back(clock.now())):
                self._wound_at = time.monotonic()

    def _tick(self, redis_trouble: str) -> None:
        self._in_database(lambda: self._beat(self.name, clock.now(), redis_trouble))

    def _in_database(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except OperationalError as error:  # the database is away, full or read-only: the next second tries again
            log.error("event=tick_failed error=%s", str(error.orig).strip())
        except Exception as error:  # a fault of ours in one tick must not end the clock
            log.exception("event=tick_failed error=%s", type(error).__name__)
        return None

    def _periodic(self) -> None:
        try:
            # Redis may have lost the schedule and kept the lease (a restart with the end of its file cut off).
            lost = self.connection.zcard(self.scheduled_jobs_key) < len(periodic.JOBS)
            if lost or time.monotonic() - self._reconciled_at >= self._paces.reconcile:
                mended = periodic.reconcile(self, self._paces)
                self._reconciled_at = time.monotonic()
                log.debug("event=reconciled mended=%d", mended)
            self.enqueue_jobs()
        except RedisError as error:
            log.warning("event=redis_away error=%s", type(error).__name__)

    def _leave(self) -> None:
        try:
            self.remove_lock()
            self.connection.delete(self.key)
        except RedisError as error:
            log.warning("event=redis_away error=%s", type(error).__name__)


def run() -> None:
    """Run until SIGTERM or SIGINT, inside an app context."""

    def beat(leader: str, now: datetime, redis_trouble: str) -> None:
        try:
            tick(leader, now, redis_trouble=redis_trouble)
        finally:
            db.session.remove()

    def wind_back(now: datetime) -> int:
        try:
            return set_back.wind_back(now)
        finally:
            db.session.remove()

    paces = tempo.at(current_app.config["TEMPO"])
    LeaderScheduler(_connect(current_app.config["REDIS_URL"], paces.clock_waits), beat, wind_back, paces).run()


def _connect(url: str, seconds: float) -> Redis:
    """As queueing.connect, but impatient."""
    return Redis.from_url(
        url, retry=Retry(NoBackoff(), 0), retry_on_timeout=False, socket_timeout=seconds,
        socket_connect_timeout=seconds, health_check_interval=15,
    )  # fmt: skip
