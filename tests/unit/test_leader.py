"""The scheduler's loop and its periodic jobs on fakeredis and a clock of its own."""

import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import fakeredis
import pytest
from redis.exceptions import ConnectionError as RedisGone
from rq.job import JobStatus

from portal import queueing
from portal.domain.tempo import NORMAL
from scheduler import periodic, process
from scheduler.process import LEADER_KEY, LeaderScheduler
from testing.cast import NOW

TEN = NOW.timestamp()
REAP_JOB = "periodic-reap"


class Clock:
    """Stands for the module `time` in the scheduler and for the product's present. Sleeping takes no time outside."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.wall_ahead = TEN
        self.at: dict[float, Callable[[], None]] = {}

    def time(self) -> float:
        return self.passed + self.wall_ahead

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds
        for moment in [moment for moment in self.at if moment <= self.passed]:
            self.at.pop(moment)()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time(), UTC)

    def step(self, seconds: float) -> None:
        self.wall_ahead += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(process, "time", made)
    monkeypatch.setattr("scheduler.periodic.time", made)
    monkeypatch.setattr("portal.clock.now", made.now)
    monkeypatch.setattr("scheduler.process.signal.signal", lambda *_: None)
    return made


@pytest.fixture
def redis() -> Iterator[fakeredis.FakeStrictRedis]:
    with fakeredis.FakeStrictRedis() as server:
        yield server


class Beats(list[tuple[float, datetime, bool]]):
    """What the leader's ticks were given: monotonic time, wall time, whether Redis answered."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.takes = 0.0

    def __call__(self, _leader: str, now: datetime, redis_trouble: str) -> None:
        self.append((self.clock.passed, now, not redis_trouble))
        self.clock.passed, self.takes = self.clock.passed + self.takes, 0.0

    @property
    def gaps(self) -> list[float]:
        return [round(later[0] - sooner[0], 3) for sooner, later in zip(self, self[1:], strict=False)]


@pytest.fixture
def beats(clock: Clock) -> Beats:
    return Beats(clock)


@pytest.fixture
def leader(redis: Any, beats: Beats) -> LeaderScheduler:
    return LeaderScheduler(redis, beats)


def run_for(leader: LeaderScheduler, clock: Clock, seconds: float) -> None:
    clock.at[clock.passed + seconds] = lambda: leader._request_stop(15, None)
    leader._stop = False
    leader.run()


def queued(redis: Any, queue: str = queueing.MAINTENANCE_QUEUE) -> list[str]:
    return sorted(job.decode() for job in redis.lrange(f"rq:queue:{queue}", 0, -1))


def test_the_leader_ticks_each_second(redis: Any, leader: LeaderScheduler, clock: Clock, beats: Beats) -> None:
    run_for(leader, clock, 10)
    assert len(beats) >= 10 and set(beats.gaps) == {1.0}
    assert redis.get(LEADER_KEY) is None, "the lease is given up at the end"


@pytest.mark.parametrize("seconds", [-3600, -30, 30, 3600], ids=["-1h", "-30s", "+30s", "+1h"])
def test_a_step_of_the_clock_delays_no_tick_and_brings_no_burst(
    leader: LeaderScheduler, clock: Clock, beats: Beats, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    clock.at[5.5] = lambda: clock.step(seconds)
    run_for(leader, clock, 12)
    assert len(beats) >= 12 and set(beats.gaps) == {1.0}
    assert f"event=clock_stepped seconds={seconds:+}" in caplog.text
    assert queued(leader.connection).count(REAP_JOB) == 1


@pytest.mark.parametrize(
    ("step", "lost"),
    [
        (0, ("rq:scheduler:scheduled_jobs", f"rq:job:{REAP_JOB}", "rq:queue:maintenance")),
        (-3600, ("rq:queue:maintenance",)),
    ],
    ids=["Redis lost the schedule while the leader kept its lease", "the clock was set back"],
)
def test_periodic_jobs_come_back_within_seconds(
    redis: Any, leader: LeaderScheduler, clock: Clock, step: float, lost: tuple[str, ...]
) -> None:
    def lose() -> None:
        clock.step(step)
        redis.delete(*lost)

    clock.at[20.5] = lose
    run_for(leader, clock, 28)
    assert REAP_JOB in queued(redis)


def test_slots_ahead_are_looked_at_each_minute_and_at_once_after_a_step_of_the_clock(
    redis: Any, clock: Clock, beats: Beats
) -> None:
    looks: list[float] = []
    clock.at[20.5] = lambda: clock.step(-3600)
    run_for(LeaderScheduler(redis, beats, lambda _now: looks.append(clock.passed)), clock, 100)
    assert [round(look) for look in looks] == [0, 21, 81]


def test_where_slots_were_brought_back_the_next_tick_looks_for_those_that_a_commit_held(
    redis: Any, clock: Clock, beats: Beats
) -> None:
    looks, found = list[float](), iter((2, 1, 0))

    def wind_back(_now: datetime) -> int:
        looks.append(round(clock.passed))
        return next(found, 0)

    run_for(LeaderScheduler(redis, beats, wind_back), clock, 70)
    assert looks == [0, 1, 2, 62]


def test_a_lease_that_redis_clock_would_keep_for_an_hour_is_cut_to_its_length(leader: LeaderScheduler) -> None:
    leader.connection.set(LEADER_KEY, "a dead one", px=3_600_000)
    leader.once()
    assert leader.connection.pttl(LEADER_KEY) <= NORMAL.leader_lease * 1000


def test_ticks_missed_by_a_slow_one_are_counted_and_not_made_up_for(
    leader: LeaderScheduler, clock: Clock, beats: Beats, caplog: pytest.LogCaptureFixture
) -> None:
    def slow() -> None:
        beats.takes = 5.0

    clock.at[2.5] = slow
    run_for(leader, clock, 12)
    assert sorted(set(beats.gaps)) == [1.0, 5.0] and beats.gaps.count(5.0) == 1
    assert "event=tick_slow seconds=5.0 skipped=4" in caplog.text


def test_only_one_of_two_leads_and_the_other_takes_over_within_the_lease(redis: Any, beats: Beats) -> None:
    first, second = LeaderScheduler(redis, beats), LeaderScheduler(redis, beats)
    first.once()
    second.once()
    assert (first.leading, second.leading, len(beats)) == (True, False, 1)
    redis.delete(LEADER_KEY)  # the first is gone, and its lease with it
    second.once()
    first.once()
    assert (first.leading, second.leading) == (False, True)


def test_a_leader_that_was_frozen_finds_its_lease_taken_and_does_not_tick(redis: Any, clock: Clock) -> None:
    beats, frozen_beats = Beats(clock), Beats(clock)
    frozen, other = LeaderScheduler(redis, frozen_beats), LeaderScheduler(redis, beats)
    frozen.once()
    redis.delete(LEADER_KEY)
    clock.passed += 2 * NORMAL.leader_lease
    other.once()
    frozen.once()
    assert (len(frozen_beats), len(beats), frozen.leading) == (1, 1, False)


def test_a_leader_without_redis_goes_on_and_tells_the_tick(leader: LeaderScheduler, beats: Beats) -> None:
    def gone(*_: object, **__: object) -> None:
        raise RedisGone("gone")

    leader.once()
    leader.connection = type("Gone", (), {"eval": gone, "hset": gone, "expire": gone})()
    leader.once()
    assert [answers for _, _, answers in beats] == [True, False]


def test_a_tick_that_fails_does_not_end_the_clock(redis: Any, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    with caplog.at_level(logging.ERROR):
        run_for(LeaderScheduler(redis, broken), clock, 3)
    assert caplog.text.count("event=tick_failed error=KeyError") == 3


@pytest.fixture
def reap(leader: LeaderScheduler) -> queueing.TaskJob:
    leader.once()
    return queueing.TaskJob.fetch(REAP_JOB, connection=leader.connection)


@pytest.mark.parametrize(
    ("ago", "again"),
    [(3, False), (30, False), (36, True), (-3600, True)],
    ids=["started just now", "still a sign of life", "its worker was killed", "the clock was set back"],
)
def test_a_periodic_job_that_is_being_run_is_not_queued_again(
    redis: Any, clock: Clock, leader: LeaderScheduler, reap: queueing.TaskJob, ago: int, again: bool
) -> None:
    redis.delete("rq:queue:maintenance")
    reap.set_status(JobStatus.STARTED)
    reap.last_heartbeat = clock.now() - timedelta(seconds=ago)
    reap.save()
    leader.enqueue_job(queueing.TaskJob.fetch(REAP_JOB, connection=redis))
    assert (queued(redis) == [REAP_JOB]) is again
    assert redis.zscore("rq:scheduler:scheduled_jobs", REAP_JOB) > clock.time(), "its next time is set in any case"


def test_a_periodic_job_that_waits_is_not_queued_again(leader: LeaderScheduler, reap: queueing.TaskJob) -> None:
    for _ in range(3):
        leader.enqueue_job(reap)
    assert queued(leader.connection).count(REAP_JOB) == 1


@pytest.fixture
def scheduler(redis: Any) -> LeaderScheduler:
    """In the real time, unlike `leader`."""
    return LeaderScheduler(redis, lambda *_: None)


def all_come(scheduler: LeaderScheduler) -> None:
    """Every periodic job's time has come."""
    for job in periodic.JOBS:
        scheduler.connection.zadd(scheduler.scheduled_jobs_key, {job.id: int(time.time()) - 1})
    for job in scheduler.get_jobs_to_queue():
        scheduler.enqueue_job(job)


def test_each_job_goes_to_its_own_queue_and_is_left_alone_there_while_it_waits(scheduler: LeaderScheduler) -> None:
    assert periodic.reconcile(scheduler) == len(periodic.JOBS)
    assert periodic.reconcile(scheduler) == 0
    for _ in range(2):
        all_come(scheduler)
        found = {job.queue: queued(scheduler.connection, job.queue) for job in periodic.JOBS}
        assert found[queueing.PROBE_QUEUE] == ["periodic-revive"]
        assert found[queueing.ALERT_QUEUE] == ["periodic-send-alerts"]
        assert found == {queue: sorted(job.id for job in periodic.JOBS if job.queue == queue) for queue in found}


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
