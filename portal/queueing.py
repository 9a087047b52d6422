"""The seam to Redis and RQ: task names, queues, and the scripts that keep one composite at a time per OLT.

SQL is the truth, Redis carries hints; losing all of it loses seconds. docs/serialisation.md explains each script.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from flask import current_app
from redis import Redis
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.exceptions import RedisError
from redis.retry import Retry
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

__all__ = ["RedisError"]

RUN_COMPOSITE = "jobs.tasks.run_composite"
RUN_PROBE = "jobs.tasks.run_probe"
REAP = "scheduler.reaper.reap"
RECORD_POLLER_STATS = "scheduler.upkeep.record_poller_stats"
CLEAN_UP = "scheduler.upkeep.clean_up"
TASKS = frozenset({RUN_COMPOSITE, RUN_PROBE, REAP, RECORD_POLLER_STATS, CLEAN_UP})

MAINTENANCE_QUEUE = "maintenance"
PROBE_QUEUE = "probes"
POLLER_QUEUE = "olt"  # what pollers register on, so that `rq info` need not walk a queue per OLT for each

READY = "facho:ready"
BELL = "facho:bell"
LEASE_PREFIX = "lock:snmp:host:"
WAITING_PREFIX = "facho:waiting:"
OVERDUE_PREFIX = "facho:overdue:"
OWNER_PREFIX = "facho:owner:"

# Order inside an OLT as one number: manual first, then priority, then the older slot.
_LANE_WEIGHT = 10**15
_PRIORITY_WEIGHT = 10**11
_KEPT_BELLS = 64
_FAILED_JOB_SECONDS = 3600


class ForeignTask(Exception):
    """A job names a function that is not ours; it was not run."""


class TaskJob(Job):
    """An RQ job that is JSON, and runs only functions of TASKS: the serializer alone is no sandbox."""

    @classmethod
    def create(cls, func: Any, *args: Any, **kwargs: Any) -> "TaskJob":
        kwargs["serializer"] = JSONSerializer
        return cast(TaskJob, super().create(func, *args, **kwargs))

    @classmethod
    def fetch(cls, id: str, *args: Any, **kwargs: Any) -> "TaskJob":
        kwargs["serializer"] = JSONSerializer
        return cast(TaskJob, super().fetch(id, *args, **kwargs))

    @property
    def func(self) -> Any:
        """The function to run. Checked before anything is imported."""
        if self.func_name not in TASKS:
            raise ForeignTask(f"task {self.func_name!r} is not one of ours")
        return super().func


class TaskQueue(Queue):
    """An RQ queue of TaskJobs."""

    job_class = TaskJob

    def __init__(self, name: str = "default", connection: Redis | None = None, **kwargs: Any) -> None:
        kwargs["serializer"] = JSONSerializer
        kwargs["job_class"] = TaskJob
        super().__init__(name, connection=connection, **kwargs)


@dataclass(frozen=True)
class Ticket:
    """What the queue must know of a PENDING execution to put it in its place."""

    execution_id: int
    attempt: int  # number of the attempt to come, from 1
    olt_id: int
    priority: int
    scheduled_for: datetime
    overdue_at: datetime | None  # from then on it goes first in its OLT
    manual: bool = False
    time_limit: float = 600.0  # seconds

    @property
    def job_id(self) -> str:
        return f"execution-{self.execution_id}-{self.attempt}"

    @property
    def queue_name(self) -> str:
        if self.manual:
            return f"olt-{self.olt_id}-high"
        return f"olt-{self.olt_id}-retry" if self.attempt > 1 else f"olt-{self.olt_id}"

    @property
    def order(self) -> float:
        lane = 0 if self.manual else _LANE_WEIGHT
        return lane + (100 - self.priority) * _PRIORITY_WEIGHT + int(self.scheduled_for.timestamp())

    @property
    def urgency(self) -> float:
        """Between OLTs: the larger delay first, then priority."""
        return self.scheduled_for.timestamp() + (100 - self.priority) / 1000


class OltQueue(TaskQueue):
    """The queue of one OLT and lane. Pushing also marks the OLT ready, in the same MULTI."""

    def __init__(self, ticket: Ticket, connection: Redis) -> None:
        super().__init__(ticket.queue_name, connection=connection)
        self.ticket = ticket

    def push_job_id(self, job_id: str, pipeline: Pipeline | None = None, at_front: bool = False) -> None:
        if pipeline is None:
            raise RuntimeError("a composite is pushed inside a pipeline only")
        ticket = self.ticket
        super().push_job_id(job_id, pipeline=pipeline, at_front=at_front)
        pipeline.zadd(f"{WAITING_PREFIX}{ticket.olt_id}", {job_id: ticket.order})
        if ticket.overdue_at is not None and not ticket.manual:
            pipeline.zadd(f"{OVERDUE_PREFIX}{ticket.olt_id}", {job_id: ticket.overdue_at.timestamp()})
        pipeline.zadd(READY, {str(ticket.olt_id): ticket.urgency}, lt=True)
        pipeline.rpush(BELL, 1)
        pipeline.ltrim(BELL, -_KEPT_BELLS, -1)


def connect(url: str) -> Redis:
    """A connection without redis-py's own retries: a repeated push or pop would not be the same push or pop."""
    return Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),
        retry_on_timeout=False,
        socket_timeout=15,
        socket_connect_timeout=2,
        health_check_interval=15,
    )


def connection() -> Redis:
    """The app's connection (one pool per process; redis-py opens a new one after a fork)."""
    extensions = current_app.extensions
    if "facho-redis" not in extensions:
        extensions["facho-redis"] = connect(current_app.config["REDIS_URL"])
    redis: Redis = extensions["facho-redis"]
    return redis


def push(tickets: Iterable[Ticket]) -> int:
    """Queue the tickets; call it after the commit. Returns how many. RedisError: the reaper will push them later."""
    redis = connection()
    count = 0
    with redis.pipeline(transaction=True) as pipe:
        for ticket in tickets:
            OltQueue(ticket, redis).enqueue_call(
                RUN_COMPOSITE,
                args=(ticket.execution_id,),
                timeout=int(ticket.time_limit) + 30,
                result_ttl=0,
                failure_ttl=_FAILED_JOB_SECONDS,
                description=f"execution {ticket.execution_id}",
                job_id=ticket.job_id,
                pipeline=pipe,
            )
            count += 1
        if count:
            pipe.execute()
    return count


def unknown(tickets: list[Ticket]) -> list[Ticket]:
    """Those of the tickets that Redis does not hold (any more)."""
    if not tickets:
        return []
    with connection().pipeline(transaction=False) as pipe:
        for ticket in tickets:
            pipe.zscore(f"{WAITING_PREFIX}{ticket.olt_id}", ticket.job_id)
        scores = pipe.execute()
    return [ticket for ticket, score in zip(tickets, scores, strict=True) if score is None]


def lease_tokens(olt_ids: list[int]) -> dict[int, int]:
    """olt id → fencing token, of those OLTs that are held now."""
    if not olt_ids:
        return {}
    with connection().pipeline(transaction=False) as pipe:
        for olt_id in olt_ids:
            pipe.hget(f"{LEASE_PREFIX}{olt_id}", "token")
        tokens = pipe.execute()
    return {olt_id: int(token) for olt_id, token in zip(olt_ids, tokens, strict=True) if token is not None}


# Between OLTs, from the score inside the OLT: the older slot first (seconds), then the higher priority (thousandths).
URGENCY_LUA = """
local function urgency(score)
  score = tonumber(score)
  return score % 100000000000 + math.floor((score % 1000000000000000) / 100000000000) / 1000
end
"""

_MARK_READY = (
    URGENCY_LUA
    + """
local added = 0
for _, olt in ipairs(ARGV) do
  if redis.call('EXISTS', 'lock:snmp:host:' .. olt) == 0 then
    local first = redis.call('ZRANGE', 'facho:waiting:' .. olt, 0, 0, 'WITHSCORES')
    if #first > 0 and not redis.call('ZSCORE', 'facho:ready', olt) then
      redis.call('ZADD', 'facho:ready', urgency(first[2]), olt)
      redis.call('RPUSH', 'facho:bell', 1)
      added = added + 1
    end
  end
end
return added
"""
)


def mark_ready(olt_ids: list[int]) -> int:
    """Kick: OLTs with waiting jobs and no lease go back among the ready ones. Returns how many were not there."""
    if not olt_ids:
        return 0
    return int(connection().eval(_MARK_READY, 0, *olt_ids))


def ask_to_stop(olt_ids: list[int]) -> None:
    """Mark the leases of these OLTs: their holders stop before their next PDU."""
    redis = connection()
    for olt_id in olt_ids:
        redis.eval(
            "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'abort', 1) end",
            1,
            f"{LEASE_PREFIX}{olt_id}",
        )


def enqueue_task(task: str, *ids: int, queue: str = MAINTENANCE_QUEUE, timeout: int = 60) -> None:
    """Queue one of TASKS that is not a composite. RedisError when Redis is away."""
    TaskQueue(queue, connection=connection()).enqueue_call(
        task,
        args=ids,
        timeout=timeout,
        result_ttl=0,
        failure_ttl=_FAILED_JOB_SECONDS,
        description=f"{task} {' '.join(map(str, ids))}".strip(),
    )
