"""The worker of the maintenance and probe queues: plain RQ, one job at a time, waits out any outage of Redis."""

import logging
import os
import signal
import socket
import time
from typing import Any

from flask import Flask
from redis.exceptions import RedisError
from rq import Queue
from rq.job import Job

from jobs.worker import QuietWorker, close_connections, die_with_parent
from portal import queueing
from portal.domain import tempo

log = logging.getLogger(__name__)


class MaintenanceWorker(QuietWorker):
    """Runs the periodic jobs and the connection tests; a fork for each, so that a crash stays in the child."""

    @property
    def dequeue_timeout(self) -> int:
        """Redis counts this wait in whole seconds."""
        return tempo.whole(self._paces.queue)

    def execute_job(self, job: Job, queue: Queue) -> None:
        close_connections()
        self._parent = os.getpid()
        super().execute_job(job, queue)

    def main_work_horse(self, job: Job, queue: Queue) -> None:
        die_with_parent(signal.SIGKILL, self._parent)
        with self.app.app_context():
            super().main_work_horse(job, queue)


def run(app: Flask, queue_name: str) -> None:
    """Work until SIGTERM. When Redis goes away RQ's worker ends; a new one waits for it."""
    stop = False

    def request_stop(_number: int, _frame: Any) -> None:
        nonlocal stop
        stop = True

    while not stop:
        signal.signal(signal.SIGTERM, request_stop)
        signal.signal(signal.SIGINT, request_stop)
        try:
            stop = _work(app, queue_name) or stop
        except RedisError as error:
            log.warning("event=redis_away queue=%s error=%s", queue_name, type(error).__name__)
            time.sleep(tempo.at(app.config["TEMPO"]).redis_back)


def _work(app: Flask, queue_name: str) -> bool:
    """One life of a worker; True when it was asked to stop."""
    connection = queueing.connect_as(app.config)
    connection.ping()
    name = f"{queue_name}-{socket.gethostname()}-{time.time_ns() // 1_000_000}"
    queue = queueing.TaskQueue(queue_name, connection=connection)
    MaintenanceWorker.app = app
    sign = tempo.whole(tempo.at(app.config["TEMPO"]).job_sign)
    worker = MaintenanceWorker(
        [queue], name=name, connection=connection, worker_ttl=25, job_monitoring_interval=sign
    )  # fmt: skip
    worker.work(logging_level="WARNING")
    return worker._shutdown_requested_date is not None
