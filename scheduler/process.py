"""The scheduler process: an rq-scheduler hardened against what docs/serialisation.md lists, and the leader's tick."""

import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from redis import Redis
from redis.exceptions import RedisError
from rq.job import Job
from rq_scheduler import Scheduler
from sqlalchemy.exc import OperationalError

from portal import queueing
from portal.extensions import db
from scheduler import periodic
from scheduler.tick import tick

log = logging.getLogger(__name__)

LEADER_KEY = "facho:leader"
LEADER_SECONDS = 5
RECONCILE_SECONDS = 60

_LEAD = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return holder and 1 or 2
"""

_RESIGN = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class LeaderScheduler(Scheduler):
    """rq_scheduler.Scheduler with an owned leader lease, JSON jobs, no pile-up, and no schedule lost to a kill."""

    job_class = queueing.TaskJob
    queue_class = queueing.TaskQueue

    def __init__(self, connection: Redis, beat: Callable[[str, datetime], Any]) -> None:
        name = f"scheduler-{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        super().__init__(queue_name=queueing.MAINTENANCE_QUEUE, interval=1, connection=connection, name=name)
        self.leading = False
        self._beat = beat
        self._stop = False
        self._reconciled_at = -RECONCILE_SECONDS * 1.0

    def acquire_lock(self) -> bool:
        """Take or renew the leader lease. Only its owner renews it: a frozen leader that wakes up finds it taken."""
        answer = self.connection.eval(_LEAD, 1, LEADER_KEY, self.name, LEADER_SECONDS * 1000)
        self._lead(answer > 0)
        if answer == 2:
            self._reconciled_at = -RECONCILE_SECONDS * 1.0
        return self.leading

    def remove_lock(self) -> None:
        """Give the lease up, if it is ours."""
        self.connection.eval(_RESIGN, 1, LEADER_KEY, self.name)

    def _lead(self, leading: bool) -> None:
        if leading is not self.leading:
            log.info("event=%s scheduler=%s", "leading" if leading else "standby", self.name)
        self.leading = leading

    def enqueue_job(self, job: Job) -> None:
        """Move a periodic job on and queue it, unless it is still queued. The new time is written first:

        a kill in between loses one run, never the schedule.
        """
        interval = int(job.meta.get("interval", 60))
        self.connection.zadd(self.scheduled_jobs_key, {job.id: int(time.time()) + interval})
        queue = self.get_queue_for_job(job)
        if self.connection.lpos(queue.key, job.id) is None:
            queue.enqueue_job(job)

    def get_jobs_to_queue(self, with_times: bool = False) -> Any:
        """Jobs whose time has come (without utcnow(), which later Pythons deprecate)."""
        return self.get_jobs(int(time.time()), with_times=with_times)

    def run(self, burst: bool = False) -> None:
        """Each second, by the monotonic clock: lead or stand by; the leader ticks. Survives any outage of Redis."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._request_stop)
        due = time.monotonic()
        while not self._stop:
            self.once()
            due = max(due + 1, time.monotonic())
            while not self._stop and (left := due - time.monotonic()) > 0:
                time.sleep(min(left, 0.2))
        self._leave()

    def _request_stop(self, _number: int, _frame: Any) -> None:
        self._stop = True

    def once(self) -> None:
        """One second's work."""
        redis_answers = self._lead_or_stand_by()
        if self.leading:
            self._tick()
        if self.leading and redis_answers:
            self._periodic()

    def _lead_or_stand_by(self) -> bool:
        """True when Redis answered. Without it the last leader goes on: slots are unique rows, a second is harmless."""
        try:
            self.acquire_lock()
            self.connection.hset(self.key, mapping={"birth": time.time()})
            self.connection.expire(self.key, 10)
        except RedisError as error:
            log.warning("event=redis_away error=%s", type(error).__name__)
            return False
        return True

    def _tick(self) -> None:
        try:
            self._beat(self.name, datetime.now(UTC))
        except OperationalError as error:  # the database is away, full or read-only: the next second tries again
            log.error("event=tick_failed error=%s", str(error.orig).strip())
        except Exception as error:  # a fault of ours in one tick must not end the clock
            log.exception("event=tick_failed error=%s", type(error).__name__)

    def _periodic(self) -> None:
        try:
            if time.monotonic() - self._reconciled_at >= RECONCILE_SECONDS:
                mended = periodic.reconcile(self)
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

    def beat(leader: str, now: datetime) -> None:
        try:
            tick(leader, now)
        finally:
            db.session.remove()

    LeaderScheduler(queueing.connection(), beat).run()
