"""The periodic jobs as data, and their reconciliation into rq-scheduler: a lost or bent schedule comes back."""

import time
from dataclasses import dataclass
from datetime import timedelta

from rq_scheduler import Scheduler

from portal import clock, queueing


@dataclass(frozen=True)
class PeriodicJob:
    """One periodic job and the queue that it goes to. Seconds."""

    task: str
    interval: int
    timeout: int = 60
    queue: str = queueing.MAINTENANCE_QUEUE

    @property
    def id(self) -> str:
        return "periodic-" + self.task.rpartition(".")[2].replace("_", "-")


JOBS = (
    PeriodicJob(queueing.REAP, 5),
    PeriodicJob(queueing.REVIVE, 5, timeout=30, queue=queueing.PROBE_QUEUE),
    PeriodicJob(queueing.RECORD_POLLER_STATS, 10),
    PeriodicJob(queueing.WRITE_DECISION_LOG, 3),
    PeriodicJob(queueing.COORDINATE, 5),
    PeriodicJob(queueing.CLOSE_HOURS, 15, timeout=300, queue=queueing.UPKEEP_QUEUE),
    PeriodicJob(queueing.LEARN, 60, timeout=120, queue=queueing.UPKEEP_QUEUE),
    PeriodicJob(queueing.RECKON, 600, timeout=300, queue=queueing.UPKEEP_QUEUE),
    PeriodicJob(queueing.CLEAN_UP, 3600, timeout=600, queue=queueing.UPKEEP_QUEUE),
    PeriodicJob(queueing.SEND_ALERTS, 5, timeout=120, queue=queueing.ALERT_QUEUE),
)


def reconcile(scheduler: Scheduler) -> int:
    """Make rq-scheduler hold exactly JOBS; returns how many were put right.

    A job may be missing (killed between two commands, Redis emptied), set far ahead (the clock was wrong), or go to
    another queue than it should (left by an earlier release).
    """
    known = {key.decode(): score for key, score in
             scheduler.connection.zrange(scheduler.scheduled_jobs_key, 0, -1, withscores=True)}  # fmt: skip
    for stranger in known.keys() - {job.id for job in JOBS}:
        scheduler.connection.zrem(scheduler.scheduled_jobs_key, stranger)
    return sum(_mend(scheduler, job, known.get(job.id)) for job in JOBS)


def _mend(scheduler: Scheduler, job: PeriodicJob, score: float | None) -> bool:
    latest = time.time() + job.interval + 1
    queue = scheduler.connection.hget(f"rq:job:{job.id}", "origin")
    if queue == job.queue.encode() and score is not None and score <= latest:
        return False
    scheduler.schedule(
        clock.now() + timedelta(seconds=min(job.interval, 5)),
        job.task,
        interval=job.interval,
        id=job.id,
        timeout=job.timeout,
        description=job.task,
        result_ttl=job.interval * 10,
        queue_name=job.queue,
    )
    return True
