"""Before each PDU of a composite: the sign of life in the database, then the lease. Before the first: the stop sign."""

import os
from dataclasses import replace

import pytest
from redis import Redis
from sqlalchemy.orm import Session

from jobs import claim as claims
from jobs import tasks
from jobs.claim import Lease, LeaseLost
from portal.domain import tempo
from portal.domain.composite import CompositeWork, SnmpTarget
from portal.domain.tempo import NORMAL
from portal.services.dispatch import executions


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
