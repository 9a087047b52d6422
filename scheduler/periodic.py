"""The periodic jobs as data, and their reconciliation into rq-scheduler: a lost or bent schedule comes back."""

import time
from dataclasses import dataclass
from datetime import timedelta

from rq_scheduler import Scheduler

from portal import clock, queueing
from portal.domain import tempo
from portal.domain.tempo import NORMAL, Tempo


@dataclass(frozen=True)
class PeriodicJob:
    """One periodic job and the queue that it goes to. `pace`: its field in Tempo. Seconds."""

    task: str
    pace: str
    timeout: int = 60
    queue: str = queueing.MAINTENANCE_QUEUE

    @property
    def id(self) -> str:
        return "periodic-" + self.task.rpartition(".")[2].replace("_", "-")

    def interval(self, paces: Tempo = NORMAL) -> int:
        """rq-scheduler counts in whole seconds."""
        return tempo.whole(getattr(paces, self.pace))


JOBS = (
    PeriodicJob(queueing.REAP, "reap"),
    PeriodicJob(queueing.REVIVE, "revive", timeout=30, queue=queueing.PROBE_QUEUE),
    PeriodicJob(queueing.RECORD_POLLER_STATS, "poller_stats"),
    PeriodicJob(queueing.WRITE_DECISION_LOG, "decision_log"),
    PeriodicJob(queueing.COORDINATE, "coordinate"),
    PeriodicJob(queueing.CLOSE_HOURS, "close_hours", timeout=300, queue=queueing.UPKEEP_QUEUE),
    PeriodicJob(queueing.LEARN, "learn", timeout=120, queue=queueing.UPKEEP_QUEUE),
    PeriodicJob(queueing.RECKON, "reckon", timeout=300, queue=queueing.UPKEEP_QUEUE),
    PeriodicJob(queueing.CLEAN_UP, "clean_up", timeout=600, queue=queueing.UPKEEP_QUEUE),
    PeriodicJob(queueing.SEND_ALERTS, "send_alerts", timeout=120, queue=queueing.ALERT_QUEUE),
)


def reconcile(scheduler: Scheduler, paces: Tempo = NORMAL) -> int:
    """Make rq-scheduler hold exactly JOBS; returns how many were put right.

    A job may be missing (killed between two commands, Redis emptied), set far ahead (the clock was wrong), or go to
    another queue than it should (left by an earlier release).
    """
    known = {key.decode(): score for key, score in
             scheduler.connection.zrange(scheduler.scheduled_jobs_key, 0, -1, withscores=True)}  # fmt: skip
    for stranger in known.keys() - {job.id for job in JOBS}:
        scheduler.connection.zrem(scheduler.scheduled_jobs_key, stranger)
    return sum(_mend(scheduler, job, known.get(job.id), paces) for job in JOBS)


def _mend(scheduler: Scheduler, job: PeriodicJob, score: float | None, paces: Tempo) -> bool:
    interval = job.interval(paces)
    latest = time.time() + interval + 1
    queue = scheduler.connection.hget(f"rq:job:{job.id}", "origin")
    if queue == job.queue.encode() and score is not None and score <= latest:
        return False
    scheduler.schedule(
        clock.now() + timedelta(seconds=min(interval, paces.first_run)),
        job.task,
        interval=interval,
        id=job.id,
        timeout=job.timeout,
        description=job.task,
        result_ttl=interval * 10,
        queue_name=job.queue,
    )
    return True
