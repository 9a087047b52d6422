"""The pool of pollers on one host: numbered workers, restarted when they die, whose OLT is freed at once."""

import logging
import multiprocessing
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from flask import Flask
from redis import Redis
from redis.exceptions import RedisError
from rq.worker_pool import WorkerData, WorkerPool

from jobs import claim as claims
from jobs import drivers
from jobs.worker import PollerWorker, close_connections, die_with_parent, push_unstarted, report_lost
from portal import clock, queueing
from portal.domain import tempo
from portal.services.dispatch import pool as rows
from portal.services.dispatch import rehearsal

log = logging.getLogger(__name__)

STOPPING = (signal.SIGTERM, signal.SIGINT)
_FORK = multiprocessing.get_context("fork")


class PollerPool(WorkerPool):
    """RQ's WorkerPool with stable numbers, fresh names, a size that people may change while it runs, and release of a

    dead child's lease by its token. A name is used once: RQ refuses the name of a killed worker for minutes.
    """

    def __init__(self, app: Flask, connection: Redis, size: int, site: str | None = None) -> None:
        PollerWorker.app = app
        super().__init__([queueing.POLLER_QUEUE], connection, num_workers=size, worker_class=PollerWorker)
        self.app = app
        self._paces = tempo.at(app.config["TEMPO"])
        self.site = site
        self.host = socket.gethostname()
        self._slug = re.sub(r"[^\w.-]+", "_", rows.pool_name(self.host, site))
        self._pool_id = 0
        self._numbers: dict[str, int] = {}
        self._ending: set[str] = set()
        self._attended_at = 0.0

    def start_worker(
        self, count: int | None = None, burst: bool = True, _sleep: float = 0, logging_level: str = "INFO"
    ) -> None:  # noqa: E501
        """Start a worker under the lowest free number."""
        number = next(n for n in range(1, rows.LARGEST_POOL * 2) if n not in self._numbers.values())
        name = f"poller-{self._slug}-{number}-{time.time_ns() // 1_000_000}"
        close_connections()
        process = _FORK.Process(target=_run_worker, args=(self.app, name, os.getpid(), self.site), name=name)
        with _signals_waiting():
            if self.status == self.Status.STOPPED:  # the signal came while others were being started
                return
            process.start()
            assert process.pid is not None  # noqa: S101  (a started process has one)
            self.worker_dict[name] = WorkerData(name=name, pid=process.pid, process=process)
            self._numbers[name] = number
        self._in_database(rows.register, self._pool_id, number, name, process.pid, clock.now())

    def reap_workers(self) -> None:
        """Wait a moment for a child to end; every one that did is handled at once."""
        children: list[BaseProcess] = [data.process for data in self.worker_dict.values()]
        if children:
            wait([child.sentinel for child in children], timeout=self._paces.attend / 2)
        for data in list(self.worker_dict.values()):
            if not data.process.is_alive():
                self.handle_dead_worker(data)
        self._attend()

    def handle_dead_worker(self, worker_data: WorkerData) -> None:
        """Its try is INTERRUPTED, its OLT free, within a second of its death."""
        super().handle_dead_worker(worker_data)
        worker_data.process.join()
        self._ending.discard(worker_data.name)
        number = self._numbers.pop(worker_data.name, 0)
        self._free(worker_data.name)
        if number > self.num_workers:
            self._in_database(rows.unregister, self._pool_id, number)

    def _free(self, name: str) -> None:
        """What the dead worker ran is lost; what it had claimed and not started yet goes back into the queue."""
        running = self._in_database(rows.running_of, name) or []
        if running:
            report_lost(self.app, running, "the poller process was killed")
        try:
            left = claims.left_by(self.connection, name)
            if left is None:
                return
            claims.release(self.connection, left)
            push_unstarted(self.app, left)
        except RedisError as error:
            log.warning("event=release_failed poller=%s error=%s", name, type(error).__name__)

    def _attend(self) -> None:
        """Show that the pool lives, and do what people want of it."""
        if time.monotonic() - self._attended_at < self._paces.attend:
            return
        self._attended_at = time.monotonic()
        orders = self._in_database(rows.attend, self._pool_id, list(self.worker_dict), clock.now())
        if orders is None or self.status == self.Status.STOPPED:
            return
        if orders.size != self.num_workers:
            log.info("event=pool_scaled before=%d after=%d", self.num_workers, orders.size)
            self.num_workers = orders.size
        surplus = {name for name, number in self._numbers.items() if number > self.num_workers}
        for name in (orders.restart | surplus) - self._ending:
            if name in self.worker_dict:
                self._ending.add(name)
                self.stop_worker(self.worker_dict[name], signal.SIGTERM)

    def check_workers(self, respawn: bool = True) -> None:
        """As many as wanted, under the numbers 1 to N; one that is still ending keeps its number till its end."""
        self.reap_workers()
        if respawn and self.status != self.Status.STOPPED:
            staying = sum(number <= self.num_workers for number in self._numbers.values())
            for _ in range(self.num_workers - staying):
                self.start_worker(burst=self._burst)

    def _in_database(self, verb: Any, *args: Any) -> Any:
        """Do it if the database answers: a page's row is not worth a poller."""
        try:
            with self.app.app_context():
                return verb(*args)
        except Exception as error:
            log.warning("event=pool_row_failed verb=%s error=%s", verb.__name__, type(error).__name__)
            return None
        finally:
            with self.app.app_context():
                close_connections()

    def start(self, burst: bool = False, logging_level: str = "INFO") -> None:
        """Run until SIGTERM or SIGINT; then let each poller end its composite (warm shutdown).

        Conflict when this pool is running already.
        """
        with self.app.app_context():
            self._pool_id = rows.open_pool(self.host, self.site, os.getpid(), self.num_workers, clock.now(), _lives)
            close_connections()
            drivers.prepare()
        self._in_database(rehearsal.rehearse)
        self.status = self.Status.STARTED
        self._burst = burst
        self.start_workers(burst=burst, logging_level=logging_level)
        self._install_signal_handlers()  # type: ignore[no-untyped-call]
        while self.status != self.Status.STOPPED:
            self.check_workers(respawn=True)
        while not self.all_workers_have_stopped():
            log.info("event=waiting pollers=%d", len(self.worker_dict))
        self._in_database(rows.close_pool, self._pool_id)


@contextmanager
def _signals_waiting() -> Iterator[None]:
    """What asks the pool to stop waits meanwhile: a child that the pool does not know yet would never hear of it, and

    one that has still the pool's handlers would take the word for the pool's own. Holds in a process of one thread,
    which a pool is.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_worker(app: Flask, name: str, parent: int, site: str | None) -> None:
    """The child: wait until Redis answers, then work until told to stop. A crash is the pool's to see."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    die_with_parent(signal.SIGTERM, parent)
    with app.app_context():
        connection = queueing.connect_as(app.config)
        _await_redis(connection, tempo.at(app.config["TEMPO"]).redis_back)
        queue = queueing.TaskQueue(queueing.POLLER_QUEUE, connection=connection)
        worker = PollerWorker([queue], name=name, connection=connection, worker_ttl=60, site=site)
        worker.work(with_scheduler=False, logging_level="WARNING")  # RQ logs each job three times


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _await_redis(connection: Redis, pause: float) -> None:
    while True:
        try:
            connection.ping()
            return
        except RedisError as error:
            log.warning("event=redis_away error=%s", type(error).__name__)
            time.sleep(pause)
