"""A word to stop reaches everyone, whenever it comes: pool, poller and horse."""

import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace

import fakeredis
import pytest
from flask import Flask
from rq.exceptions import StopRequested
from rq.worker import WorkerStatus
from sqlalchemy.orm import Session

from jobs import pool, worker
from jobs.claim import Claim
from jobs.pool import PollerPool
from jobs.worker import PollerWorker
from portal import queueing

NOBODY = 2**22 + 1  # above the largest process id of Linux
CLAIM = Claim(olt_id=7, job_id="execution-1", token=9, owner="p-1")


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (*pool.STOPPING, worker.STOP_HORSE)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def poller(app: Flask, session: Session, monkeypatch: pytest.MonkeyPatch) -> PollerWorker:
    """A poller in its own process' app context."""
    monkeypatch.setattr(PollerWorker, "app", app, raising=False)
    redis = fakeredis.FakeRedis()
    return PollerWorker([queueing.TaskQueue(queueing.POLLER_QUEUE, connection=redis)], name="p-1", connection=redis)


def test_a_pool_told_to_stop_while_it_starts_a_poller_tells_that_poller_too(
    app: Flask, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    class Process:
        """Its start is when the signal comes."""

        pid = NOBODY

        def __init__(self, **_options: object) -> None:
            self.sentinel = 0

        def start(self) -> None:
            signal.raise_signal(signal.SIGTERM)  # to this thread: a pool has no other, a run of tests in parallel has

    monkeypatch.setattr(pool, "_FORK", SimpleNamespace(Process=Process))
    pollers = PollerPool(app, fakeredis.FakeRedis(), 1)
    monkeypatch.setattr(pollers, "stop_worker", lambda data, *_: told.append(data.pid))
    pollers._install_signal_handlers()
    pollers.start_worker()
    assert told == [NOBODY] and pollers.status == pollers.Status.STOPPED


def test_a_child_hears_its_own_signals_again() -> None:
    with pool._signals_waiting():
        assert set(pool.STOPPING) <= signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert not set(pool.STOPPING) & signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_pool_told_to_stop_starts_no_further_poller(
    app: Flask, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal came while the first of several was being started: nobody would tell the others."""
    started: list[str] = []
    process = SimpleNamespace(pid=NOBODY, sentinel=0, start=lambda: started.append("one"))
    monkeypatch.setattr(pool, "_FORK", SimpleNamespace(Process=lambda **_options: process))
    pollers = PollerPool(app, fakeredis.FakeRedis(), 4)
    pollers._install_signal_handlers()
    pollers.status = pollers.Status.STARTED
    pollers.start_worker()
    pollers.status = pollers.Status.STOPPED
    pollers.start_worker()
    assert started == ["one"]


def test_an_idle_poller_stops_even_when_somebody_swallows_the_exception(poller: PollerWorker) -> None:
    poller.set_state(WorkerStatus.IDLE)
    with pytest.raises(StopRequested):
        poller.request_stop(signal.SIGTERM, None)
    assert poller.dequeue_job_and_maintain_ttl(1) is None


def test_a_horse_that_is_being_forked_when_the_word_comes_is_told_too(
    poller: PollerWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []

    def fork(_job: object, _queue: object) -> None:
        poller.request_stop(signal.SIGTERM, None)
        poller._horse_pid = NOBODY

    monkeypatch.setattr(poller, "fork_work_horse", fork)
    monkeypatch.setattr(poller, "_await_horse", lambda _mine: 0)
    monkeypatch.setattr(poller, "_give_back", lambda _mine: None)
    monkeypatch.setattr(os, "kill", lambda pid, number: told.append((pid, number)))
    poller.claimed = CLAIM
    poller.execute_job(None, None)  # type: ignore[arg-type]
    assert told == [(NOBODY, worker.STOP_HORSE)]
    assert poller.get_state() == WorkerStatus.IDLE


def test_a_poller_gives_its_olt_back_before_it_may_stop(poller: PollerWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[str] = []
    monkeypatch.setattr(poller, "fork_work_horse", lambda *_: None)
    monkeypatch.setattr(poller, "_await_horse", lambda _mine: 9)
    monkeypatch.setattr(poller, "_report", lambda *_: None)
    monkeypatch.setattr(poller, "_give_back", lambda _mine: states.append(poller.get_state()))
    monkeypatch.setattr(worker, "push_unstarted", lambda *_: states.append(poller.get_state()))
    poller.claimed = CLAIM
    poller.execute_job(None, None)  # type: ignore[arg-type]
    assert states == [WorkerStatus.BUSY, WorkerStatus.BUSY]


def test_a_poller_whose_horses_cannot_start_waits_longer_each_time_until_one_ends_well(
    poller: PollerWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(worker.time, "sleep", waits.append)
    for _ in range(8):
        poller._recover(could_not_start=True)
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    poller._recover(could_not_start=False)
    poller._recover(could_not_start=True)
    assert waits[8:] == [0.5]


def test_a_poller_whose_horse_was_killed_amid_its_work_goes_on_at_once(
    poller: PollerWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The horse had started, so horses can: nothing is pushed a second time, and no other OLT has to wait."""
    done: list[str] = []
    monkeypatch.setattr(poller, "fork_work_horse", lambda *_: None)
    monkeypatch.setattr(poller, "_await_horse", lambda _mine: 9)
    monkeypatch.setattr(worker, "report_lost", lambda *_: True)
    monkeypatch.setattr(poller, "_give_back", lambda _mine: None)
    monkeypatch.setattr(worker, "push_unstarted", lambda *_: done.append("pushed"))
    monkeypatch.setattr(worker.time, "sleep", lambda _seconds: done.append("slept"))
    poller.claimed = CLAIM
    poller.execute_job(None, None)  # type: ignore[arg-type]
    assert done == []
