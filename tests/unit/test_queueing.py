"""Tickets and what a push writes, on fakeredis: names of queues, order, readiness, and nothing but ids in a job."""

from datetime import UTC, datetime, timedelta

import fakeredis
import pytest
from redis import Redis
from rq import Queue

from jobs import claim as claims
from portal import queueing
from portal.queueing import Ticket
from testing.cast import TEN


def ticket(execution: int, *, attempt: int = 1, priority: int = 40, at: datetime = TEN, manual: bool = False) -> Ticket:
    return Ticket(execution, attempt, 12, priority, at, at + timedelta(minutes=5), manual)


@pytest.fixture
def redis(monkeypatch: pytest.MonkeyPatch) -> Redis:
    server = fakeredis.FakeStrictRedis()
    monkeypatch.setattr(queueing, "connection", lambda: server)
    return server


def test_a_ticket_goes_to_the_queue_of_its_lane() -> None:
    names = [one.queue_name for one in (ticket(1), ticket(1, attempt=2), ticket(1, manual=True))]
    assert names == ["olt-12", "olt-12-retry", "olt-12-high"]


def test_inside_an_olt_manual_goes_before_priority_and_priority_before_age() -> None:
    manual = ticket(1, priority=1, at=TEN + timedelta(hours=1), manual=True)
    discovery = ticket(2, priority=90, at=TEN + timedelta(minutes=1))
    old_get, new_get = ticket(3, at=TEN), ticket(4, at=TEN + timedelta(seconds=1))
    assert sorted([new_get, old_get, discovery, manual], key=lambda t: t.order) == [manual, discovery, old_get, new_get]


def test_between_olts_the_older_slot_goes_first_and_then_the_priority() -> None:
    late, early = ticket(1, priority=90, at=TEN + timedelta(seconds=1)), ticket(2, priority=10)
    urgent = ticket(3, priority=90)
    assert sorted([late, early, urgent], key=lambda t: t.urgency) == [urgent, early, late]


def test_an_order_is_exact_in_a_double_for_centuries() -> None:
    far = ticket(1, priority=1, at=datetime(2900, 1, 1, tzinfo=UTC))
    assert float(int(far.order)) == far.order and far.order < 2**53


def test_a_push_leaves_a_json_job_that_holds_one_id(redis: Redis) -> None:
    queueing.push([ticket(7)])
    job = queueing.TaskJob.fetch("execution-7-1", connection=redis)
    assert (job.func_name, list(job.args), job.kwargs) == (queueing.RUN_COMPOSITE, [7], {})
    assert job.description == "execution 7"
    assert Queue("olt-12", connection=redis).job_ids == ["execution-7-1"]


def test_a_push_marks_the_olt_ready_and_rings_the_bell_which_does_not_grow_without_end(redis: Redis) -> None:
    queueing.push([ticket(7)])
    assert redis.zrange("facho:ready:", 0, -1) == [b"12"]
    assert redis.llen(queueing.BELL) == 1
    queueing.push([ticket(number) for number in range(200)])
    assert redis.llen(queueing.BELL) == 64


def claimed(redis: Redis) -> claims.Claim:
    mine = claims.claim(redis, "alice", 15, 0)
    assert mine is not None and mine.job_id == "execution-7-1"
    return mine


def test_what_was_pushed_is_claimed_with_a_lease(redis: Redis) -> None:
    queueing.push([ticket(7)])
    mine = claimed(redis)
    assert queueing.lease_tokens([12, 13]) == {12: mine.token}


def test_pushing_again_leaves_one_job_and_pushing_nothing_writes_nothing(redis: Redis) -> None:
    assert (queueing.push([]), redis.keys()) == (0, [])
    for _ in range(2):
        queueing.push([ticket(7)])
    assert Queue("olt-12", connection=redis).job_ids == ["execution-7-1"]


def test_a_job_that_is_pushed_to_the_front_leaves_its_old_queue(redis: Redis) -> None:
    queueing.push([ticket(7), ticket(8, priority=90)])
    queueing.push([ticket(7, manual=True)])
    assert Queue("olt-12", connection=redis).job_ids == ["execution-8-1"]
    assert Queue("olt-12-high", connection=redis).job_ids == ["execution-7-1"]
    claimed(redis)


def test_a_job_that_is_being_run_is_not_queued_a_second_time(redis: Redis) -> None:
    queueing.push([ticket(7)])
    claimed(redis)
    queueing.push([ticket(7)])
    assert Queue("olt-12", connection=redis).job_ids == []


def test_what_is_withdrawn_is_claimed_by_nobody_and_leaves_no_trace(redis: Redis) -> None:
    queueing.push([ticket(7), ticket(8)])
    assert queueing.withdraw({"execution-7-1": 12, "execution-8-1": 12, "execution-9-1": 12}) == 2
    assert claims.claim(redis, "alice", 15, 0) is None
    assert not redis.keys("rq:*") and not redis.zrange("facho:ready:", 0, -1)


def test_a_job_id_names_its_execution() -> None:
    assert queueing.execution_of(queueing.job_id(4711, 3)) == 4711
