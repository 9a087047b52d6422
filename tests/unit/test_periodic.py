"""The periodic jobs in rq-scheduler, on fakeredis: each in its queue, a lost or bent schedule comes back."""

import time

import fakeredis
import pytest
from redis import Redis

from portal import queueing
from scheduler import periodic
from scheduler.process import LeaderScheduler


@pytest.fixture
def scheduler() -> LeaderScheduler:
    return LeaderScheduler(fakeredis.FakeStrictRedis(), lambda *_: None)


def queued(redis: Redis, queue: str) -> list[str]:
    return sorted(job.decode() for job in redis.lrange(f"rq:queue:{queue}", 0, -1))


def all_come(scheduler: LeaderScheduler) -> None:
    """Every periodic job's time has come."""
    for job in periodic.JOBS:
        scheduler.connection.zadd(scheduler.scheduled_jobs_key, {job.id: int(time.time()) - 1})
    for job in scheduler.get_jobs_to_queue():
        scheduler.enqueue_job(job)


def test_each_job_goes_to_its_own_queue(scheduler: LeaderScheduler) -> None:
    assert periodic.reconcile(scheduler) == len(periodic.JOBS)
    all_come(scheduler)
    assert queued(scheduler.connection, queueing.PROBE_QUEUE) == ["periodic-revive"]
    assert queued(scheduler.connection, queueing.ALERT_QUEUE) == ["periodic-send-alerts"]
    for queue in {job.queue for job in periodic.JOBS}:
        assert queued(scheduler.connection, queue) == sorted(job.id for job in periodic.JOBS if job.queue == queue)


def test_a_job_that_still_waits_is_not_queued_twice(scheduler: LeaderScheduler) -> None:
    periodic.reconcile(scheduler)
    all_come(scheduler)
    all_come(scheduler)
    assert queued(scheduler.connection, queueing.PROBE_QUEUE) == ["periodic-revive"]


def test_what_is_in_order_is_left_alone(scheduler: LeaderScheduler) -> None:
    periodic.reconcile(scheduler)
    assert periodic.reconcile(scheduler) == 0


def test_a_lost_schedule_a_lost_job_and_a_time_far_ahead_are_put_right(scheduler: LeaderScheduler) -> None:
    periodic.reconcile(scheduler)
    redis, key = scheduler.connection, scheduler.scheduled_jobs_key
    first, second, third = (job.id for job in periodic.JOBS[:3])
    redis.zrem(key, first)
    redis.delete(f"rq:job:{second}")
    redis.zadd(key, {third: time.time() + 3600})
    assert periodic.reconcile(scheduler) == 3
    assert all(redis.zscore(key, job.id) <= time.time() + 6 for job in periodic.JOBS)


def test_a_job_that_goes_to_the_wrong_queue_is_moved(scheduler: LeaderScheduler) -> None:
    periodic.reconcile(scheduler)
    scheduler.connection.hset("rq:job:periodic-revive", "origin", queueing.MAINTENANCE_QUEUE)
    assert periodic.reconcile(scheduler) == 1
    all_come(scheduler)
    assert queued(scheduler.connection, queueing.PROBE_QUEUE) == ["periodic-revive"]


def test_a_schedule_that_is_not_ours_is_removed(scheduler: LeaderScheduler) -> None:
    scheduler.connection.zadd(scheduler.scheduled_jobs_key, {"periodic-of-an-earlier-release": time.time()})
    periodic.reconcile(scheduler)
    kept = {key.decode() for key in scheduler.connection.zrange(scheduler.scheduled_jobs_key, 0, -1)}
    assert kept == {job.id for job in periodic.JOBS}
