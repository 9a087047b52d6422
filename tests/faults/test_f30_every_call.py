"""F30: a fault at every Redis and SQL call of the path claim, run, commit, release, one by one, in three ways.

For each call: it fails; it is done but its reply is lost; the process is killed in its place. Then the pool and the
reaper do what they do, and the end must be that of a run without a fault.
"""

import gc
import mmap
import multiprocessing
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from redis.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisAway
from sqlalchemy import event, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from jobs import tasks
from jobs.pool import PollerPool
from jobs.snmp.fake import FakeSession
from jobs.worker import PollerWorker, close_connections
from portal import queueing
from portal.domain.statuses import AttemptStatus, ExecutionStatus, StepStatus
from portal.extensions import db
from portal.services.dispatch import rehearsal, run_requests
from portal.tables import Execution, ExecutionAttempt, ExecutionStep, Onu, OnuData
from scheduler.reaper import reap
from testing.builders import make_chained, make_node, make_olt
from testing.cast import ACTOR, TEMPO
from testing.redis_server import RedisServer

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.timeout(600)]

FAIL, LOSE_REPLY, KILL = "fail", "lose reply", "kill"
RECOVERIES = 6
PARTS = 4  # of the calls: each is a case of its own, so that no worker of a parallel run is left with all of them
STATE, POWER = "1.3.6.1.4.1.2011.6.128.1.1.2.46.1.15", "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4"
KEYS = ("4194304000.1", "4194304000.2", "4194304256.7")
ROWS = {f"{STATE}.{key}": 1 for key in KEYS} | {f"{POWER}.{key}": -2100 - n for n, key in enumerate(KEYS)}


class Counter:
    """Calls made so far, across forks; at number `at` the fault happens, once."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 16)
        self.at, self.how = 0, FAIL

    def arm(self, at: int, how: str) -> None:
        self._shared[:] = bytes(16)
        self.at, self.how = at, how

    @property
    def calls(self) -> int:
        return int(struct.unpack("qq", self._shared[:])[0])

    def is_it_now(self) -> bool:
        """Counts one call."""
        calls, spare = struct.unpack("qq", self._shared[:])
        self._shared[:] = struct.pack("qq", calls + 1, spare)
        return bool(calls + 1 == self.at)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Saboteur:
    """Sits on every way to Redis and to the database, in the process that installs it and in its forks."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter

    def install(self, app: Flask) -> None:
        self._on_redis()
        with app.app_context():
            event.listen(db.engine, "before_cursor_execute", self._before_statement)
            event.listen(db.engine, "after_cursor_execute", self._after_statement)
            self._on_commit(db.engine.dialect)

    def _on_redis(self) -> None:
        send = AbstractConnection.send_packed_command
        read = AbstractConnection.read_response
        counter = self.counter

        def sending(connection: Any, command: Any, *rest: Any, **named: Any) -> Any:
            connection.doomed = False
            if counter.is_it_now():
                if counter.how == KILL:
                    die()
                if counter.how == FAIL:
                    connection.disconnect()
                    raise RedisAway("injected")
                connection.doomed = True
            return send(connection, command, *rest, **named)

        def reading(connection: Any, *args: Any, **named: Any) -> Any:
            answer = read(connection, *args, **named)
            if getattr(connection, "doomed", False):
                connection.doomed = False
                connection.disconnect()
                raise RedisAway("injected: the reply is lost")
            return answer

        AbstractConnection.send_packed_command = sending  # type: ignore[method-assign]
        AbstractConnection.read_response = reading  # type: ignore[method-assign]

    def _before_statement(self, connection: Any, *_: Any) -> None:
        connection.info["doomed"] = False
        if self.counter.is_it_now():
            if self.counter.how == KILL:
                die()
            if self.counter.how == FAIL:
                raise OperationalError("injected", None, Exception("injected"))
            connection.info["doomed"] = True

    def _after_statement(self, connection: Any, *_: Any) -> None:
        if connection.info.pop("doomed", False):
            raise OperationalError("injected", None, Exception("the reply is lost"))

    def _on_commit(self, dialect: Any) -> None:
        commit = dialect.do_commit
        counter = self.counter

        def committing(connection: Any) -> None:
            now = counter.is_it_now()
            if now and counter.how == KILL:
                die()
            if now and counter.how == FAIL:
                dialect.do_rollback(connection)
                raise OperationalError("injected", None, Exception("injected"))
            commit(connection)
            if now:
                raise OperationalError("injected", None, Exception("the commit's reply is lost"))

        dialect.do_commit = committing


@dataclass
class Stage:
    """An OLT with one composite to run, and processes to run it."""

    app: Flask
    session: Session
    node_id: int
    counter: Counter
    runs: int = 0

    def ask(self) -> int:
        """A new execution, committed and pushed."""
        self.runs += 1
        self.session.rollback()
        now = datetime.now(UTC)
        execution_id, created = run_requests.run_now(self.node_id, ACTOR, now)
        assert created
        return execution_id

    def work(self, *, sabotaged: bool) -> str:
        """One poller in a process of its own works off what there is; its name."""
        name = f"poller-test-{self.runs}-{datetime.now(UTC).timestamp()}"
        close_connections()
        queueing.connection().connection_pool.disconnect()
        fork = multiprocessing.get_context("fork")
        process = fork.Process(target=self._poller, args=(name, sabotaged))
        process.start()
        process.join(60)
        assert process.exitcode is not None, "the poller hangs"
        return name

    def _poller(self, name: str, sabotaged: bool) -> None:
        gc.freeze()  # looking for garbage in what was inherited would copy it
        PollerWorker.app = self.app
        tasks.open_session = lambda _target: FakeSession(ROWS, columns=(STATE, POWER))  # type: ignore[assignment]
        tasks.FINISH_PAUSES = (0.01, 0.01, 0.01)
        if sabotaged:
            Saboteur(self.counter).install(self.app)
        with self.app.app_context():
            connection = queueing.connect(self.app.config["REDIS_URL"])
            queue = queueing.TaskQueue(queueing.POLLER_QUEUE, connection=connection)
            PollerWorker([queue], name=name, connection=connection).work(burst=True, logging_level="CRITICAL")
            close_connections()

    def recover(self, dead: str) -> None:
        """What the pool does for a dead poller, what time does to leases, and the reaper."""
        PollerPool(self.app, queueing.connect(self.app.config["REDIS_URL"]), 1)._free(dead)
        redis = queueing.connection()
        for lease in redis.scan_iter(f"{queueing.LEASE_PREFIX}*"):
            redis.delete(lease)
        self.session.rollback()
        self.session.execute(update(Execution).values(queued_at=datetime.now(UTC) - timedelta(minutes=1)))
        self.session.commit()
        reap()
        self.session.rollback()

    def end_of(self, execution_id: int) -> dict[str, object]:
        """What the world looks like: everything but times, tokens and how many tries it took."""
        self.session.rollback()
        execution = self.session.get_one(Execution, execution_id, populate_existing=True)
        succeeded = select(ExecutionAttempt.id).where(
            ExecutionAttempt.execution_id == execution_id, ExecutionAttempt.status == AttemptStatus.SUCCESS
        )
        good = self.session.scalars(succeeded).all()
        steps = select(ExecutionStep.attempt_id, ExecutionStep.status).join(ExecutionAttempt)
        open_ones = select(ExecutionAttempt.id).where(ExecutionAttempt.status == AttemptStatus.RUNNING)
        values = select(Onu.index_key, OnuData.metric, OnuData.number).join(OnuData, OnuData.onu_id == Onu.id)
        return {
            "status": execution.status,
            "successes": len(good),
            "steps": [row.status for row in self.session.execute(steps.where(ExecutionStep.attempt_id.in_(good)))],
            "steps elsewhere": self.session.execute(
                steps.where(ExecutionAttempt.execution_id == execution_id, ExecutionStep.attempt_id.not_in(good))
            ).all(),
            "open attempts": self.session.scalars(open_ones).all(),
            "values": sorted(tuple(row) for row in self.session.execute(values)),
            "queued": sorted(queueing.connection().keys("facho:waiting:*") + queueing.connection().keys("rq:job:*")),
            "leases": queueing.connection().keys(f"{queueing.LEASE_PREFIX}*"),
        }

    def ended(self, execution_id: int) -> bool:
        self.session.rollback()
        status = self.session.scalar(select(Execution.status).where(Execution.id == execution_id))
        self.session.rollback()  # a connection that is in use when the next poller is forked is closed by nobody
        return status not in (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)

    def run_with(self, at: int, how: str) -> dict[str, object]:
        execution_id = self.ask()
        self.counter.arm(at, how)
        dead = self.work(sabotaged=True)
        self.recover(dead)
        for _ in range(RECOVERIES):
            if self.ended(execution_id):
                break
            self.recover(self.work(sabotaged=False))
        end = self.end_of(execution_id)
        self.session.rollback()
        return end


@pytest.fixture
def stage(app: Flask, session: Session, server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    app.config["REDIS_URL"] = server.url
    app.config["QUARANTINE_SECONDS"] = 0
    app.config["TEMPO"] = TEMPO  # what waits for Redis or for a database waits less
    app.extensions.pop("facho-redis", None)
    queueing.connection().flushall()
    master = make_node(make_olt(max_repetitions=2))
    node_id = master.id
    make_chained(master, key="rx", name="rx", oid="huawei.onu_rx_power")
    rehearsal.rehearse()  # as a pool does: its forks inherit what they would compile each time
    yield Stage(app, session, node_id, Counter())
    session.close()
    with suppress(Exception):
        queueing.connection().flushall()


def share(part: int, calls: int) -> range:
    """The calls that are broken in this part: every fourth."""
    return range(part, calls + 1, PARTS)


@pytest.mark.parametrize("calls", [1, 26, 67, 100])
def test_f30_the_parts_together_are_all_calls(calls: int) -> None:
    broken = [at for part in range(1, PARTS + 1) for at in share(part, calls)]
    assert sorted(broken) == list(range(1, calls + 1))


@pytest.mark.parametrize("part", range(1, PARTS + 1))
@pytest.mark.parametrize("how", [FAIL, LOSE_REPLY, KILL])
def test_f30_whichever_call_breaks_the_end_is_that_of_a_run_without_a_fault(stage: Stage, how: str, part: int) -> None:
    good = stage.run_with(0, how)
    assert good["status"] is ExecutionStatus.SUCCESS and good["steps"] == [StepStatus.SUCCESS] * 2
    assert len(good["values"]) == 2 * len(KEYS) and not good["leases"] and not good["queued"]  # type: ignore[arg-type]
    calls = stage.counter.calls
    assert calls > 25
    different = {}
    for at in share(part, calls):
        end = stage.run_with(at, how)
        if end != good:
            different[at] = {name: value for name, value in end.items() if value != good[name]}
    assert different == {}
