"""The periodic jobs as data, and their reconciliation into rq-scheduler: a lost or bent schedule comes back."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rq_scheduler import Scheduler

from portal import queueing


@dataclass(frozen=True)
class PeriodicJob:
    """One job of the maintenance queue. Seconds."""

    task: str
    interval: int
    timeout: int = 60

    @property
    def id(self) -> str:
        return "periodic-" + self.task.rpartition(".")[2].replace("_", "-")


JOBS = (
    PeriodicJob(queueing.REAP, 5),
    PeriodicJob(queueing.RECORD_POLLER_STATS, 10),
    PeriodicJob(queueing.CLEAN_UP, 3600, timeout=600),
)


def reconcile(scheduler: Scheduler) -> int:
    """Make rq-scheduler hold exactly JOBS; returns how many were put right.

    A job may be missing (killed between two commands, Redis emptied) or set far ahead (the clock was wrong).
    """
    known = {key.decode(): score for key, score in
             scheduler.connection.zrange(scheduler.scheduled_jobs_key, 0, -1, withscores=True)}  # fmt: skip
    for stranger in known.keys() - {job.id for job in JOBS}:
        scheduler.connection.zrem(scheduler.scheduled_jobs_key, stranger)
    return sum(_mend(scheduler, job, known.get(job.id)) for job in JOBS)


def _mend(scheduler: Scheduler, job: PeriodicJob, score: float | None) -> bool:
    latest = time.time() + job.interval + 1
    alive = scheduler.connection.exists(f"rq:job:{job.id}")
    if alive and score is not None and score <= latest:
        return False
    scheduler.schedule(
        datetime.now(UTC) + timedelta(seconds=min(job.interval, 5)),
        job.task,
        interval=job.interval,
        id=job.id,
        timeout=job.timeout,
        description=job.task,
        result_ttl=job.interval * 10,
        queue_name=queueing.MAINTENANCE_QUEUE,
    )
    return True
