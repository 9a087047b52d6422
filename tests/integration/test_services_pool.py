"""Rows of pools and pollers on both databases: who may start, what people want of a pool, what is counted."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.services.dispatch import pool
from portal.services.errors import Conflict, Invalid, NotFound
from portal.tables import Poller
from testing.cast import ACTOR


def opened(now: datetime, pid: int = 1, *, lives: bool = True) -> int:
    made = pool.open_pool("vm", "lima", pid, 2, now, lambda _pid: lives)
    for number in (1, 2):
        pool.register(made, number, f"worker-{number}", number, now)
    return made


def test_a_pool_that_lives_is_not_opened_twice_and_a_dead_one_is_taken_over(session: Session, now: datetime) -> None:
    first = opened(now)
    with pytest.raises(Conflict, match="flask pollers scale"):
        opened(now, pid=2)
    assert opened(now, pid=2, lives=False) == first
    assert opened(now + timedelta(minutes=1), pid=3) == first


def test_a_pool_hears_of_its_new_size_and_of_whom_to_replace(session: Session, now: datetime) -> None:
    made = opened(now)
    pool.scale("vm/lima", 5, ACTOR, now)
    second = session.scalars(select(Poller).where(Poller.poller_id == 2)).one()
    pool.request_restart(second.id, ACTOR, now)
    orders = pool.attend(made, ["worker-1", "worker-2"], now)
    assert orders is not None and (orders.size, orders.restart) == (5, frozenset({"worker-2"}))
    pool.register(made, 2, "worker-2b", 3, now)
    again = pool.attend(made, ["worker-1", "worker-2b"], now)
    assert again is not None and not again.restart


def test_pools_of_two_hosts_number_their_pollers_each_on_its_own(session: Session, now: datetime) -> None:
    first = opened(now)
    second = pool.open_pool("vm2", "lima", 7, 2, now, lambda _pid: True)
    for worker in ("other-1", "other-1b"):
        pool.register(second, 1, worker, 7, now)
    rows = session.scalars(select(Poller))
    assert {(row.pool_id, row.poller_id): (row.host, row.worker) for row in rows} == {
        (first, 1): ("vm", "worker-1"), (first, 2): ("vm", "worker-2"), (second, 1): ("vm2", "other-1b"),
    }  # fmt: skip


def test_a_size_that_cannot_be_or_a_pool_that_is_not_there_is_refused(session: Session, now: datetime) -> None:
    opened(now)
    for size in (0, 201):
        with pytest.raises(Invalid):
            pool.scale("vm/lima", size, ACTOR, now)
    with pytest.raises(NotFound, match="vm/lima"):
        pool.scale("elsewhere", 3, ACTOR, now)
    with pytest.raises(NotFound):
        pool.request_restart(10**6, ACTOR, now)


def test_a_pool_that_has_ended_leaves_no_poller_and_counts_no_more(session: Session, now: datetime) -> None:
    made = opened(now)
    assert pool.record_stats(now).total_pollers == 2
    pool.close_pool(made)
    assert pool.attend(made, [], now) is None
    assert pool.record_stats(now).total_pollers == 0
