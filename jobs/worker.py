"""The poller: an RQ worker that claims an OLT with its composite, forks a horse for it, and gives the OLT back."""

import ctypes
import logging
import os
import signal
import time
from typing import Any, ClassVar

from flask import Flask
from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, Worker, worker_registration
from rq.exceptions import NoSuchJobError
from rq.job import Job
from rq.worker import WorkerStatus

from jobs import claim as claims
from jobs.claim import Claim
from portal import queueing
from portal.extensions import db
from portal.services import executions

log = logging.getLogger(__name__)

BELL_SECONDS = 2
QUARANTINE_PAUSE = 0.5
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
    """What our workers have in common: no address, no remote commands, JSON jobs of ours only."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.update(job_class=queueing.TaskJob, queue_class=queueing.TaskQueue)
        super().__init__(*args, **kwargs)
        self.log_job_description = False

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
    """Claims through the script of jobs.claim instead of popping queues. `app` is set by the command that starts it."""

    app: ClassVar[Flask]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.claimed: Claim | None = None

    def run_maintenance_tasks(self) -> None:
        """RQ's registries hold nothing that the reaper needs; walking them would cost a round trip per queue."""

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """Wait for the bell until there is something to claim. Outages of Redis are waited out."""
        self.set_state(WorkerStatus.IDLE)
        self.procline("waiting")  # type: ignore[no-untyped-call]
        pause = 0.5
        while True:
            try:
                self.heartbeat()
                self.announce()
                found = self._claim()
                if found is not None or timeout is None:
                    return found
                self.connection.blpop([queueing.BELL], BELL_SECONDS)
                pause = 0.5
            except claims.Quarantined:
                time.sleep(QUARANTINE_PAUSE)
            except RedisError as error:
                log.warning("event=redis_away poller=%s error=%s", self.name, type(error).__name__)
                time.sleep(pause)
                pause = min(pause * 2, 5.0)

    def _claim(self) -> tuple[Job, Queue] | None:
        config = self.app.config
        mine = claims.claim(self.connection, self.name, config["LEASE_SECONDS"], config["QUARANTINE_SECONDS"])
        if mine is None:
            return None
        try:
            job = queueing.TaskJob.fetch(mine.job_id, connection=self.connection)
        except NoSuchJobError:
            claims.release(self.connection, mine)
            return None
        self.claimed = mine
        return job, queueing.TaskQueue(job.origin, connection=self.connection)

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Fork, wait, and only when the horse is dead give the OLT back: then nobody can still be sending."""
        mine = self.claimed
        close_connections()
        try:
            super().execute_job(job, queue)
        finally:
            if mine is not None:
                self._give_back(mine)
            self.claimed = None

    def _give_back(self, mine: Claim) -> None:
        try:
            claims.release(self.connection, mine)
        except RedisError as error:
            log.warning("event=release_failed olt=%d error=%s", mine.olt_id, type(error).__name__)

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        """Fork; the parent remembers its own pid for the child's check."""
        self._parent = os.getpid()
        super().fork_work_horse(job, queue)

    def main_work_horse(self, job: Job, queue: Queue) -> None:
        """In the child: die with the poller, know the claim, run the task inside the app."""
        die_with_parent(signal.SIGKILL, self._parent)
        claims.held.set(self.claimed)
        with self.app.app_context():
            super().main_work_horse(job, queue)

    def maintain_heartbeats(self, job: Job, execution: Any) -> None:
        """RQ's own heartbeat is for its pages only: an outage of Redis must not end the poller in the middle."""
        try:
            super().maintain_heartbeats(job, execution)
        except RedisError as error:
            log.warning("event=redis_away poller=%s error=%s", self.name, type(error).__name__)

    def handle_work_horse_killed(self, job: Job, retpid: int, ret_val: int, rusage: Any) -> None:
        """The horse was killed: the try is INTERRUPTED and the execution runs again at once."""
        if self.claimed is None:
            return
        signal_number = os.WTERMSIG(ret_val) if ret_val and os.WIFSIGNALED(ret_val) else ret_val
        report_lost(self.app, [(int(job.args[0]), self.claimed.token)], f"work horse ended by signal {signal_number}")


def report_lost(app: Flask, lost: list[tuple[int, int]], message: str) -> None:
    """Tell the database at once; when that fails the reaper will."""
    try:
        with app.app_context():
            executions.push(executions.lost(lost, message, executions.now()))
    except Exception as error:  # the database may be away; the lease runs out and the reaper repairs it
        log.warning("event=report_lost_failed error=%s", type(error).__name__)
    finally:
        with app.app_context():
            close_connections()
