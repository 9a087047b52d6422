"""The claim scripts against a real Redis: one composite at a time per OLT, whatever happens in between."""

import itertools
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from redis import Redis
from rq.suspension import resume, suspend
from sqlalchemy.orm import Session

from jobs import claim as claims
from jobs import tasks
from jobs.claim import Aborted, Lease, LeaseLost, Stopped
from portal import queueing
from portal.domain import tempo
from portal.domain.composite import CompositeWork, SnmpTarget
from portal.domain.tempo import NORMAL
from portal.queueing import Ticket
from portal.services.dispatch import executions
from testing.cast import TEN
from testing.redis_server import redis_server


def ticket(execution: int, olt: int, *, priority: int = 40, at: datetime = TEN, **more: object) -> Ticket:
    return Ticket(execution, 1, olt, priority, at, more.pop("overdue_at", at + timedelta(days=365)), **more)  # type: ignore[arg-type]


def claim(
    redis: Redis, owner: str, ttl: float = 15.0, quarantine: float = 0.0, site: str | None = None
) -> claims.Claim | None:
    return claims.claim(redis, owner, ttl, quarantine, site)


def held(redis: Redis, olt: int = 1, ttl: float = 15.0) -> claims.Claim:
    """Alice's claim of the only work of an OLT."""
    queueing.push([ticket(1, olt)])
    return claim(redis, "alice", ttl)  # type: ignore[return-value]


def claimed_execution(mine: claims.Claim) -> int:
    return int(mine.job_id.split("-")[1])


def test_two_composites_of_one_olt_are_never_claimed_together(redis: Redis) -> None:
    queueing.push([ticket(1, olt=7), ticket(2, olt=7)])
    first = claim(redis, "alice")
    assert claim(redis, "bob") is None
    assert claims.release(redis, first)
    assert claimed_execution(claim(redis, "bob")) == 2


def test_discovery_runs_before_get_and_a_manual_run_before_both(redis: Redis) -> None:
    queueing.push([ticket(1, 7, priority=40), ticket(2, 7, priority=90), ticket(3, 7, priority=40, manual=True)])
    order = []
    while (mine := claim(redis, "alice")) is not None:
        order.append(claimed_execution(mine))
        claims.release(redis, mine)
    assert order == [3, 2, 1]


def test_what_has_waited_a_whole_interval_goes_before_a_higher_priority(redis: Redis) -> None:
    now = datetime.now(UTC)
    starving = ticket(1, 7, priority=10, at=now - timedelta(hours=1), overdue_at=now - timedelta(seconds=1))
    queueing.push([ticket(2, 7, priority=90, at=now), starving])
    assert claimed_execution(claim(redis, "alice")) == 1


LATER = TEN + timedelta(seconds=30)
SECOND_GOES_FIRST = {
    "the olt that is later": (ticket(1, olt=1, at=LATER), ticket(2, olt=2, at=TEN)),
    "of equally late olts the one of higher priority": (ticket(1, olt=1, priority=40), ticket(2, olt=2, priority=90)),
    "between sites the one that is later too": (ticket(1, 7, site="lima", at=LATER), ticket(2, 8, site="cusco")),
}


@pytest.mark.parametrize("pushed", SECOND_GOES_FIRST.values(), ids=SECOND_GOES_FIRST)
def test_who_gets_the_free_poller(redis: Redis, pushed: tuple[Ticket, ...]) -> None:
    queueing.push(pushed)
    assert claimed_execution(claim(redis, "alice")) == 2


def test_a_claim_whose_reply_was_lost_is_given_again(redis: Redis) -> None:
    queueing.push([ticket(1, olt=1), ticket(2, olt=2)])
    assert claim(redis, "alice") == claim(redis, "alice")


def test_tokens_rise_even_after_redis_lost_everything(redis: Redis) -> None:
    before = held(redis)
    redis.flushall()
    assert held(redis).token > before.token


def test_nothing_is_claimed_right_after_redis_lost_everything(redis: Redis) -> None:
    queueing.push([ticket(1, olt=1)])
    with pytest.raises(claims.Quarantined):
        claim(redis, "alice", quarantine=60)
    assert claim(redis, "alice", quarantine=0) is not None


def test_after_redis_clock_was_set_back_the_quarantine_begins_anew_and_does_not_last_the_hour(redis: Redis) -> None:
    queueing.push([ticket(1, olt=1)])
    an_hour_ahead = int((time.time() + 3600) * 1_000_000)
    redis.set("facho:epoch", an_hour_ahead)
    with pytest.raises(claims.Quarantined):
        claim(redis, "alice", quarantine=0.01)
    assert int(redis.get("facho:epoch") or 0) < an_hour_ahead
    assert claim(redis, "alice", quarantine=0) is not None


def test_a_lease_that_redis_clock_would_keep_for_an_hour_is_cut_by_the_kick(redis: Redis) -> None:
    mine = held(redis, ttl=3600)
    queueing.mark_ready([(1, "")], lease_seconds=40)
    assert redis.pttl("lock:snmp:host:1") <= 40_000
    assert not Lease(redis, mine, ttl=15).is_gone()


def test_tokens_rise_also_under_a_clock_that_was_set_back(redis: Redis) -> None:
    redis.set("facho:token", 9_000_000_000_000_000)  # in the year 2255
    tokens = [held(redis).token, claims.hold(redis, 2, "a connection test", 15, 0).token]  # type: ignore[union-attr]
    assert tokens == [9_000_000_000_000_001, 9_000_000_000_000_002]


def test_a_pushed_twice_execution_is_claimed_once(redis: Redis) -> None:
    queueing.push([ticket(1, olt=1)])
    claims.release(redis, held(redis))
    assert claim(redis, "alice") is None
    assert redis.smembers("rq:queues") == set()


def test_a_release_by_an_old_token_does_not_free_the_new_holder(redis: Redis) -> None:
    queueing.push([ticket(2, olt=1)])
    old = held(redis)
    redis.delete("lock:snmp:host:1")  # as when it ran out
    queueing.mark_ready([(1, "")])
    new = claim(redis, "bob")
    assert not claims.release(redis, old)
    assert queueing.lease_tokens([1]) == {1: new.token}


def test_a_checkpoint_renews_the_lease(redis: Redis) -> None:
    Lease(redis, held(redis, ttl=5), ttl=60).checkpoint()
    assert redis.pttl("lock:snmp:host:1") > 50_000


def test_a_checkpoint_without_the_lease_stops_the_holder_and_never_revives_it(redis: Redis) -> None:
    mine = held(redis)
    redis.flushall()
    with pytest.raises(LeaseLost):
        Lease(redis, mine, ttl=15).checkpoint()
    assert queueing.lease_tokens([1]) == {}


def test_a_holder_that_is_asked_to_stop_stops_at_its_next_checkpoint(redis: Redis) -> None:
    mine = held(redis)
    queueing.ask_to_stop([1, 2])
    with pytest.raises(Aborted):
        Lease(redis, mine, ttl=15).checkpoint()
    assert queueing.lease_tokens([2]) == {}


def test_while_redis_is_away_a_lease_counts_only_as_long_as_it_was_proven() -> None:
    with redis_server() as server:
        connection = queueing.connect(server.url)
        mine = claims.hold(connection, 1, "alice", 15, 0)
        server.kill()
        lease = Lease(connection, mine, ttl=15, monotonic=lambda: mine.asked_at + 10.0)
        lease.cover(4.0)
        lease.checkpoint()
        lease.cover(6.0)
        with pytest.raises(LeaseLost):
            lease.checkpoint()


def test_redis_knows_what_waits_and_the_rest_is_unknown(redis: Redis) -> None:
    queueing.push([ticket(1, olt=1)])
    assert queueing.unknown([ticket(1, olt=1), ticket(2, olt=1)]) == [ticket(2, olt=1)]


def test_waiting_work_shows_as_real_rq_queues(redis: Redis) -> None:
    queueing.push([ticket(1, olt=12), ticket(2, olt=12, manual=True)])
    assert redis.smembers("rq:queues") == {b"rq:queue:olt-12", b"rq:queue:olt-12-high"}


def test_a_job_that_names_a_foreign_function_is_refused_before_import(redis: Redis) -> None:
    job = queueing.TaskQueue("olt-1", connection=redis).enqueue_call("os.system", args=("true",))
    with pytest.raises(queueing.ForeignTask):
        job.perform()


def test_pollers_of_a_site_serve_its_olts_only_and_pollers_without_one_serve_all(redis: Redis) -> None:
    queueing.push([ticket(1, 7, site="lima"), ticket(2, 8, site="cusco"), ticket(3, 9)])
    assert claimed_execution(claim(redis, "alice", site="cusco")) == 2
    assert claim(redis, "bob", site="cusco") is None
    assert claimed_execution(claim(redis, "carol", site="")) == 3
    assert claim(redis, "dora", site="") is None
    assert claimed_execution(claim(redis, "erin")) == 1


def test_an_olt_that_moves_to_another_site_is_served_from_there(redis: Redis) -> None:
    queueing.push([ticket(1, 7, site="lima")])
    queueing.mark_ready([(7, "cusco")])
    assert claim(redis, "alice", site="lima") is None
    assert claimed_execution(claim(redis, "bob", site="cusco")) == 1


def test_a_release_puts_the_olt_back_among_those_of_its_site(redis: Redis) -> None:
    queueing.push([ticket(1, 7, site="lima"), ticket(2, 7, site="lima")])
    assert claims.release(redis, claim(redis, "alice"))
    assert claim(redis, "bob", site="cusco") is None
    assert claimed_execution(claim(redis, "carol", site="lima")) == 2


def test_nothing_is_claimed_while_rq_is_suspended(redis: Redis) -> None:
    queueing.push([ticket(1, 7)])
    suspend(redis)
    assert claim(redis, "alice") is None
    resume(redis)
    assert claimed_execution(claim(redis, "alice")) == 1


def test_a_stop_request_by_an_old_token_stops_nobody(redis: Redis) -> None:
    mine = held(redis, olt=7)
    assert not queueing.ask_to_stop_token(7, mine.token - 1)
    Lease(redis, mine, ttl=15).checkpoint()
    assert queueing.ask_to_stop_token(7, mine.token)
    with pytest.raises(Aborted):
        Lease(redis, mine, ttl=15).checkpoint()


def test_a_poller_that_was_told_to_stop_has_its_grace_and_then_ends(redis: Redis, stop_sign: claims.StopSign) -> None:
    mine = held(redis, olt=7)
    now = [mine.asked_at]
    lease = Lease(redis, mine, ttl=15, grace=30, monotonic=lambda: now[0])
    lease.checkpoint()
    stop_sign.shown_at = now[0]
    now[0] += 29
    lease.checkpoint()
    now[0] += 2
    with pytest.raises(Stopped):
        lease.checkpoint()


def test_what_a_person_ended_is_ended_though_its_poller_was_told_to_stop_too(
    redis: Redis, stop_sign: claims.StopSign
) -> None:
    mine = held(redis, olt=7)
    lease = Lease(redis, mine, ttl=15, monotonic=lambda: mine.asked_at)
    stop_sign.shown_at = mine.asked_at
    with pytest.raises(Stopped):
        lease.checkpoint()
    queueing.ask_to_stop_token(7, mine.token)
    with pytest.raises(Aborted):
        lease.checkpoint()


@pytest.fixture
def stop_sign(monkeypatch: pytest.MonkeyPatch) -> claims.StopSign:
    sign = claims.StopSign()
    monkeypatch.setattr(claims, "stop_sign", sign)
    return sign


def test_only_redis_own_word_says_that_a_lease_is_gone(redis: Redis) -> None:
    mine = held(redis, olt=7)
    lease = Lease(redis, mine, ttl=15)
    assert not lease.is_gone()
    redis.delete("lock:snmp:host:7")
    assert lease.is_gone()
    assert not Lease(queueing.connect("unix:///nowhere"), mine, ttl=15).is_gone()


def test_an_olt_is_not_held_either_while_redis_has_just_begun_empty(redis: Redis) -> None:
    assert claims.hold(redis, 7, "a connection test", 15, 60) is None
    redis.set("facho:epoch", 1)  # long ago
    assert claims.hold(redis, 7, "a connection test", 15, 0) is not None


def test_the_lease_is_proven_from_the_claim_on_and_not_from_its_first_use(redis: Redis) -> None:
    mine = held(redis, olt=7)
    frozen_for_an_hour = Lease(queueing.connect("unix:///nowhere"), mine, 15, monotonic=lambda: mine.asked_at + 3600)
    with pytest.raises(LeaseLost):
        frozen_for_an_hour.checkpoint()


def test_a_renewal_whose_answer_waited_longer_than_the_lease_is_asked_for_again(redis: Redis) -> None:
    """A process that was frozen between Redis' answer and its own reading of it: the OLT may be another's by then."""
    mine = claims.hold(redis, 1, "alice", 15, 0)
    readings = iter([mine.asked_at + 1, mine.asked_at + 20])  # before the first renewal is sent; once it is read

    def frozen_in_between() -> float:
        now = next(readings, mine.asked_at + 20)
        if now == mine.asked_at + 20 and redis.hget("lock:snmp:host:1", "owner") == b"alice":
            redis.delete("lock:snmp:host:1")
            assert claims.hold(redis, 1, "bob", 15, 0) is not None
        return now

    with pytest.raises(LeaseLost, match="no longer ours"):
        Lease(redis, mine, ttl=15, monotonic=frozen_in_between).checkpoint()


def test_a_machine_too_slow_to_renew_in_time_gives_up(redis: Redis) -> None:
    mine = claims.hold(redis, 1, "alice", 15, 0)
    clock = itertools.count(mine.asked_at, 20)
    with pytest.raises(LeaseLost, match="longer than the lease"):
        Lease(redis, mine, ttl=15, monotonic=lambda: next(clock)).checkpoint()


def test_a_lease_outlasts_the_longest_request_under_it(redis: Redis) -> None:
    """SNMPv3 with 12 s: the library may send three datagrams of its own before anyone looks at the lease again."""
    lease = Lease(redis, claims.hold(redis, 1, "alice", 15, 0), ttl=15)
    lease.cover(36.0)
    lease.checkpoint()
    assert redis.pttl("lock:snmp:host:1") > 36_000
    queueing.mark_ready([(1, "")])
    assert redis.pttl("lock:snmp:host:1") > 36_000, "the reaper takes it for no mistake of the clock"


def test_an_olt_that_changed_site_is_not_ready_at_the_old_one_any_more(redis: Redis) -> None:
    queueing.push([ticket(1, olt=1, site="lima")])
    queueing.push([ticket(2, olt=1, site="cusco")])
    assert claim(redis, "at lima", site="lima") is None
    assert claim(redis, "at cusco", site="cusco") is not None


def test_a_database_that_kept_the_holder_waiting_past_its_lease_costs_the_olt_no_datagram(
    session: Session, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = claims.hold(redis, 1, "alice", 15, 0)
    assert mine is not None

    def slow(*_args: object) -> None:
        redis.delete("lock:snmp:host:1")
        assert claims.hold(redis, 1, "bob", 15, 0) is not None

    monkeypatch.setattr(executions, "heartbeat", slow)
    monkeypatch.setattr(tempo, "at", lambda _factor: replace(NORMAL, sql_sign=0.0))
    work = CompositeWork(1, mine.token, 1, SnmpTarget("192.0.2.1", 161, "2c"), ())
    with pytest.raises(LeaseLost):
        tasks.checkpoint_of(work, Lease(redis, mine, 15))()


def test_a_composite_that_may_not_start_any_more_is_left_to_its_poller(
    session: Session, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the lease still, and what is pushed under its own lease counts as being run: nobody would claim it."""
    mine = claims.hold(redis, 1, "alice", 15, 0)
    assert mine is not None
    monkeypatch.setattr(claims, "stop_sign", claims.StopSign())
    claims.stop_sign.show()
    pushed: list[object] = []
    monkeypatch.setattr(executions, "push", pushed.append)
    with pytest.raises(SystemExit) as ended:
        tasks._started(1, mine, Lease(redis, mine, 15))
    assert (ended.value.code, pushed) == (os.EX_TEMPFAIL, [])
