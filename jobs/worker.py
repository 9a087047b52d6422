"""The poller: an RQ worker that claims an OLT with its composite, forks a horse for it, and gives the OLT back."""

import ctypes
import gc
import logging
import os
import random
import select
import signal
import time
from types import FrameType
from typing import Any, ClassVar

from flask import Flask
from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, Worker, worker_registration
from rq.job import Job
from rq.utils import utcformat
from rq.worker import WorkerStatus

from jobs import claim as claims
from jobs.claim import Claim, Lease
from portal import clock, queueing
from portal.domain import tempo
from portal.domain.tempo import Tempo
from portal.extensions import db
from portal.services.dispatch import executions

log = logging.getLogger(__name__)

GARBAGE_EVERY = 200_000  # new objects in a horse; each look costs as much as decoding thousands of values
STOP_HORSE = signal.SIGUSR1
PR_SET_PDEATHSIG = 1


def die_with_parent(number: signal.Signals, parent: int) -> None:
    """Ask the kernel for signal `number` when the parent ends (Linux). Without it a killed parent leaves an orphan

    that goes on reading the OLT.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), number)


def close_connections() -> None:
    """Leave no database connection to be shared with a forked child."""
    db.session.remove()
    db.engine.dispose()


class QuietWorker(Worker):
    """What our workers have in common: no address, no remote commands, JSON jobs of ours only.

    `app` is set by the command that starts them.
    """

    app: ClassVar[Flask]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.update(job_class=queueing.TaskJob, queue_class=queueing.TaskQueue)
        super().__init__(*args, **kwargs)
        self.log_job_description = False

    @property
    def _paces(self) -> Tempo:
        return tempo.at(self.app.config["TEMPO"])

    @property
    def connection_timeout(self) -> int:
        """RQ's own, at the tempo of the others."""
        return tempo.whole(super().connection_timeout / self.app.config["TEMPO"])

    def _set_ip_address(self, connection: Redis) -> None:
        """Not asked for: redis-py cannot read CLIENT INFO when the socket's path holds a space."""
        self.ip_address = "unknown"

    def register_birth(self) -> None:
        """Also list the queue: `rq info` shows the workers of listed queues only, and ours may never hold a job."""
        super().register_birth()  # type: ignore[no-untyped-call]
        self._list_queues()

    def announce(self) -> None:
        """Be on RQ's list again after Redis lost it."""
        if self.connection.hexists(self.key, "birth"):
            return
        with self.connection.pipeline() as pipeline:
            pipeline.hset(self.key, mapping=self.serialize())
            worker_registration.register(self, pipeline)
            pipeline.expire(self.key, self.worker_ttl + 60)
            pipeline.execute()
        self._list_queues()

    def _list_queues(self) -> None:
        self.connection.sadd(Queue.redis_queues_keys, *(queue.key for queue in self.queues))

    def subscribe(self) -> None:
        """No remote commands: they would need a thread in a process that forks."""

    def unsubscribe(self) -> None:
        """See subscribe."""


class PollerWorker(QuietWorker):
    """Claims through the script of jobs.claim instead of popping queues.

    Of RQ it keeps the queues, the pool, the registration that `rq info` shows, and the fork for each job. It does
    without RQ's registries, results and retries: the truth is in SQL, and they cost 30 round trips a job.
    """

    def __init__(self, *args: Any, site: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.site = site
        self.claimed: Claim | None = None
        self._seen_at = float("-inf")
        self._pause = 0.0

    def run_maintenance_tasks(self) -> None:
        """RQ's registries hold nothing that the reaper needs; walking them would cost a round trip per queue."""

    def check_for_suspension(self, burst: bool) -> None:
        """The claim script looks: no round trip of its own."""

    def register_death(self) -> None:
        """Good manners towards RQ's pages; when Redis is away its entry runs out by itself."""
        try:
            super().register_death()  # type: ignore[no-untyped-call]
        except RedisError as error:
            log.warning("event=redis_away poller=%s error=%s", self.name, type(error).__name__)

    def set_shutdown_requested_date(self) -> None:
        """Not written from a signal handler: Redis may be away, and only RQ's pages would show it."""

    def set_state(self, state: str, pipeline: Any = None) -> None:
        """What the worker itself goes by. The scripts of claim and release write what `rq info` shows."""
        self._state = state

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """A sign of life for RQ's pages, every few seconds in one round trip. An outage of Redis ends no poller."""
        if time.monotonic() - self._seen_at < self._paces.redis_sign:
            return
        self._seen_at = time.monotonic()
        try:
            with self.connection.pipeline(transaction=False) as pipe:
                pipe.hexists(self.key, "birth")
                pipe.hset(self.key, "last_heartbeat", utcformat(clock.now()))
                pipe.expire(self.key, self.worker_ttl + 60)
                known, *_ = pipe.execute()
            if not known:
                self.announce()
        except RedisError as error:
            log.warning("event=redis_away poller=%s error=%s", self.name, type(error).__name__)

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """Wait for the bell until there is something to claim. Outages of Redis are waited out."""
        self.set_state(WorkerStatus.IDLE)
        bell = queueing.BELL if self.site is None else f"{queueing.BELL}:{self.site}"
        pause = self._paces.redis_pause
        while not self._stop_requested:
            self.heartbeat()
            try:
                found = self._claim()
                if found is not None or timeout is None:
                    return found
                self.procline("waiting")  # type: ignore[no-untyped-call]
                self.connection.blpop([bell], self._paces.bell)
                pause = self._paces.redis_pause
            except claims.Quarantined:
                time.sleep(self._paces.quarantine_look)
            except RedisError as error:
                log.warning("event=redis_away poller=%s error=%s", self.name, type(error).__name__)
                time.sleep(pause)
                pause = min(pause * 2, self._paces.longest_redis_pause)
        return None

    def _claim(self) -> tuple[Job, Queue] | None:
        config = self.app.config
        mine = claims.claim(
            self.connection, self.name, config["LEASE_SECONDS"], config["QUARANTINE_SECONDS"], self.site
        )
        if mine is None:
            return None
        self.claimed = mine
        # Made from the claim, not fetched: no text from Redis decides which function a poller runs.
        job = queueing.TaskJob.create(
            queueing.RUN_COMPOSITE, args=(queueing.execution_of(mine.job_id),), id=mine.job_id,
            connection=self.connection,
        )  # fmt: skip
        return job, self.queues[0]

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Fork, wait, and only when the horse is dead give the OLT back: then nobody can still be sending."""
        mine = self.claimed
        assert mine is not None  # noqa: S101  (what is executed was claimed)
        close_connections()
        self.set_state(WorkerStatus.BUSY)
        # Inherited by the horse: from its first instant on the signal is a request and not a death.
        signal.signal(STOP_HORSE, _note_stop)
        told = False
        try:
            self._parent = os.getpid()
            self.fork_work_horse(job, queue)
            if self._stop_requested:  # while it was not known yet, it was not told
                self.handle_warm_shutdown_request()
            ended = self._await_horse(mine)
            if ended:
                told = self._report(mine, ended)
        finally:
            self._give_back(mine)
            self.claimed = None
        could_not_start = push_unstarted(self.app, mine) if ended and not told else False
        self.set_state(WorkerStatus.IDLE)
        self._recover(could_not_start)

    def _recover(self, could_not_start: bool) -> None:
        """A poller whose horses cannot even start (database, disk or descriptors gone) leaves the work to others:

        it waits, longer each time, until one ends well. Else it would claim again at once, being always idle.
        """
        if not could_not_start or self._stop_requested:
            self._pause = 0.0
            return
        self._pause = min(max(self._pause * 2, self._paces.horse_pause), self._paces.longest_horse_pause)
        log.warning("event=horse_cannot_start poller=%s pause=%.1f", self.name, self._pause)
        time.sleep(self._pause)

    def _await_horse(self, mine: Claim) -> int:
        """Wait for the horse's end; its wait status. One that hangs without its lease is killed."""
        lease = Lease(self.connection, mine, 0)
        lost_at: float | None = None
        watch = os.pidfd_open(self.horse_pid)
        try:
            horse = select.poll()
            horse.register(watch, select.POLLIN)
            while not horse.poll(self._paces.horse_watch * 1000):
                self.heartbeat()
                lost_at = (lost_at or time.monotonic()) if lease.is_gone() else None
                if lost_at is not None and time.monotonic() - lost_at >= self._paces.horse_stuck:
                    log.error("event=horse_stuck poller=%s olt=%d job=%s", self.name, mine.olt_id, mine.job_id)
                    self.kill_horse()
        finally:
            os.close(watch)
        _, status, _ = os.wait4(self.horse_pid, 0)
        self._horse_pid = 0
        return status

    def _give_back(self, mine: Claim) -> None:
        try:
            claims.release(self.connection, mine)
        except RedisError as error:
            log.warning("event=release_failed olt=%d error=%s", mine.olt_id, type(error).__name__)

    def main_work_horse(self, job: Job, queue: Queue) -> None:
        """In the child: die with the poller, know the claim, run the task inside the app."""
        die_with_parent(signal.SIGKILL, self._parent)
        self._is_horse = True
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the poller sees to an orderly end
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        random.seed()
        # What the parent made is here to stay; what a horse makes it keeps until it ends, but for errors' cycles.
        gc.freeze()
        gc.set_threshold(GARBAGE_EVERY, 20, 20)
        claims.held.set(self.claimed)
        code = 1
        try:
            with self.app.app_context():
                job.func(*job.args)
            code = 0
        except SystemExit as over:
            code = over.code if isinstance(over.code, int) else 1
        except BaseException:
            log.exception("event=horse_failed job=%s", job.id)
        finally:
            logging.shutdown()
            os._exit(code)

    def _shutdown(self) -> None:
        """Remembered before it is raised: whoever catches exceptions at large may catch RQ's StopRequested too."""
        self._stop_requested = True
        super()._shutdown()  # type: ignore[no-untyped-call]

    def handle_warm_shutdown_request(self) -> None:
        """The composite may end within STOP_SECONDS; then its horse hands it over at the next PDU."""
        if self.horse_pid:
            os.kill(self.horse_pid, STOP_HORSE)

    def _report(self, mine: Claim, status: int) -> bool:
        """The horse did not end by itself: its try is INTERRUPTED and runs again at once. True if there was one."""
        code = os.waitstatus_to_exitcode(status)
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        lost = [(queueing.execution_of(mine.job_id), mine.token)]
        return report_lost(self.app, lost, f"work horse ended by {how}")


def _note_stop(_number: int, _frame: FrameType | None) -> None:
    """In the horse: the composite has STOP_SECONDS left."""
    claims.stop_sign.show()


def push_unstarted(app: Flask, mine: Claim) -> bool:
    """What was claimed by somebody who died before starting it goes back into the queue. Call it after the release.

    True when it was so, or when the database cannot say; the reaper then does it, some seconds later.
    """
    try:
        with app.app_context():
            tickets = executions.never_started(queueing.execution_of(mine.job_id))
            executions.push(tickets)
            return bool(tickets)
    except Exception as error:
        log.warning("event=push_again_failed job=%s error=%s", mine.job_id, type(error).__name__)
        return True
    finally:
        with app.app_context():
            close_connections()


def report_lost(app: Flask, lost: list[tuple[int, int]], message: str) -> bool:
    """Tell the database at once; when that fails the reaper will. True when something was lost, and runs again."""
    try:
        with app.app_context():
            tickets = executions.lost(lost, message, clock.now())
            executions.push(tickets)
            return bool(tickets)
    except Exception as error:  # the database may be away; the lease runs out and the reaper repairs it
        log.warning("event=report_lost_failed error=%s", type(error).__name__)
        return False
    finally:
        with app.app_context():
            close_connections()
