"""The seam to Redis and RQ: task names, queues, and the scripts that keep one composite at a time per OLT.

SQL is the truth, Redis carries hints; losing all of it loses seconds. docs/serialisation.md explains each script.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from flask import current_app
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError
from redis.retry import Retry
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

from portal import clock
from portal.domain import tempo
from portal.domain.tempo import NORMAL
from portal.domain.tickets import Ticket, execution_of, job_id

__all__ = ["RedisError", "Ticket", "execution_of", "job_id"]

RUN_COMPOSITE = "jobs.tasks.run_composite"
RUN_PROBE = "jobs.trying.run_probe"
RUN_TRIAL = "jobs.trying.run_trial"
REVIVE = "jobs.reviving.revive"
REAP = "scheduler.reaper.reap"
RECORD_POLLER_STATS = "scheduler.upkeep.record_poller_stats"
CLEAN_UP = "scheduler.upkeep.clean_up"
COORDINATE = "scheduler.coordinator.loop.coordinate"
CLOSE_HOURS = "scheduler.coordinator.loop.close_hours"
SEND_ALERTS = "scheduler.upkeep.send_alerts"
LEARN = "scheduler.upkeep.learn"
RECKON = "scheduler.upkeep.reckon"
WRITE_DECISION_LOG = "scheduler.upkeep.write_decision_log"
TASKS = frozenset(
    {
        RUN_COMPOSITE,
        RUN_PROBE,
        RUN_TRIAL,
        REVIVE,
        REAP,
        RECORD_POLLER_STATS,
        CLEAN_UP,
        COORDINATE,
        CLOSE_HOURS,
        SEND_ALERTS,
        LEARN,
        RECKON,
        WRITE_DECISION_LOG,
    }
)

MAINTENANCE_QUEUE = "maintenance"
PROBE_QUEUE = "probes"
TRIAL_QUEUE = "trials"  # of their own: one may take 50 s, and unreachable OLTs are asked each 5 s
UPKEEP_QUEUE = "upkeep"  # what may take minutes: nothing of it may delay the reaper or the coordinator
ALERT_QUEUE = "alerts"  # of their own: a mail server that hangs must not delay the reaper
POLLER_QUEUE = "olt"  # what pollers register on, so that `rq info` need not walk a queue per OLT for each

BELL = "facho:bell"  # heard by pollers that serve every OLT; those of a site hear facho:bell:<site>
LEASE_PREFIX = "lock:snmp:host:"
WAITING_PREFIX = "facho:waiting:"
OWNER_PREFIX = "facho:owner:"

LONGEST_LEASE = 40.0  # seconds: a request of SNMPv3 may block for 36 (portal.domain.olt_fields), and 2 to spare
_PUSHED_AT_ONCE = 500  # tickets in one script call: Redis serves nobody else meanwhile
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


class Script:
    """A Lua script, called by its digest. NOSCRIPT means that nothing ran, so sending the text then is no repeat."""

    def __init__(self, *parts: str) -> None:
        self.text = "\n".join(parts)
        self.digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def __call__(self, redis: Redis, keys: tuple[str, ...] = (), arguments: Iterable[Any] = ()) -> Any:
        """Run it; RedisError when Redis is away."""
        values = (*keys, *arguments)
        try:
            return redis.evalsha(self.digest, len(keys), *values)
        except NoScriptError:
            return redis.eval(self.text, len(keys), *values)


def connect(url: str, answer_seconds: float = NORMAL.redis_answer) -> Redis:
    """A connection without redis-py's own retries: a repeated push or pop would not be the same push or pop."""
    return Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),
        retry_on_timeout=False,
        socket_timeout=answer_seconds,
        socket_connect_timeout=2,
        health_check_interval=15,
    )


def connect_as(config: Mapping[str, Any]) -> Redis:
    """A connection as this configuration of an app says."""
    return connect(config["REDIS_URL"], tempo.at(config["TEMPO"]).redis_answer)


def connection() -> Redis:
    """The app's connection (one pool per process; redis-py opens a new one after a fork)."""
    extensions = current_app.extensions
    if "facho-redis" not in extensions:
        extensions["facho-redis"] = connect_as(current_app.config)
    redis: Redis = extensions["facho-redis"]
    return redis


# What the scripts share. `urgency` reads it from the score inside the OLT: the older slot first (seconds), then the
# higher priority (thousandths). `offer` puts an OLT among the ready ones of its site and wakes a poller.
LUA = """
local function urgency(score)
  score = tonumber(score)
  return score % 100000000000 + math.floor((score % 1000000000000000) / 100000000000) / 1000
end
local function site_of(olt)
  return redis.call('HGET', 'facho:site', olt) or ''
end
local function ring(site)
  for _, bell in ipairs({'facho:bell', 'facho:bell:' .. site}) do
    redis.call('RPUSH', bell, 1)
    redis.call('LTRIM', bell, -64, -1)
  end
end
local function offer(olt, score)
  local site = site_of(olt)
  redis.call('SADD', 'facho:sites', site)
  redis.call('ZADD', 'facho:ready:' .. site, 'LT', score, olt)
  ring(site)
end
local function unqueue(olt, job)
  redis.call('ZREM', 'facho:waiting:' .. olt, job)
  redis.call('ZREM', 'facho:overdue:' .. olt, job)
  local origin = redis.call('HGET', 'rq:job:' .. job, 'origin')
  if not origin then return false end
  local queue = 'rq:queue:' .. origin
  redis.call('LREM', queue, 0, job)
  if redis.call('LLEN', queue) == 0 then redis.call('SREM', 'rq:queues', queue) end
  redis.call('DEL', 'rq:job:' .. job)
  return true
end
"""

_PUSH = Script(
    LUA,
    """
local common = cjson.decode(ARGV[1])
for _, row in ipairs(cjson.decode(ARGV[2])) do
  local olt, site, job, execution, queue, order, overdue, urgency =
    string.format('%.0f', row[1]), row[2], row[3], string.format('%.0f', row[4]), row[5], row[6], row[7], row[8]
  -- Being run at this moment: its own end decides what comes next.
  if redis.call('HGET', 'lock:snmp:host:' .. olt, 'job') ~= job then
    unqueue(olt, job)
    local hash = {'data', '["' .. common.task .. '", null, [' .. execution .. '], {}]',
                  'origin', queue, 'description', 'execution ' .. execution}
    for name, value in pairs(common.hash) do
      hash[#hash + 1] = name
      hash[#hash + 1] = value
    end
    redis.call('HSET', 'rq:job:' .. job, unpack(hash))
    redis.call('RPUSH', 'rq:queue:' .. queue, job)
    redis.call('SADD', 'rq:queues', 'rq:queue:' .. queue)
    redis.call('ZADD', 'facho:waiting:' .. olt, order, job)
    if overdue > 0 then redis.call('ZADD', 'facho:overdue:' .. olt, overdue, job) end
    local before = site_of(olt)
    if before ~= site then redis.call('ZREM', 'facho:ready:' .. before, olt) end
    if site == '' then redis.call('HDEL', 'facho:site', olt) else redis.call('HSET', 'facho:site', olt, site) end
    offer(olt, urgency)
  end
end
""",
)

_WITHDRAW = Script(
    LUA,
    """
local gone = 0
for i = 1, #ARGV, 2 do
  local job, olt = ARGV[i], ARGV[i + 1]
  if unqueue(olt, job) then gone = gone + 1 end
  if redis.call('EXISTS', 'facho:waiting:' .. olt) == 0 then
    redis.call('ZREM', 'facho:ready:' .. site_of(olt), olt)
  end
end
return gone
""",
)

_MARK_READY = Script(
    LUA,
    """
local added, longest = 0, tonumber(ARGV[1])
for i = 2, #ARGV, 2 do
  local olt, site, lease = ARGV[i], ARGV[i + 1], 'lock:snmp:host:' .. ARGV[i]
  -- One that would last longer than any was given before Redis' clock was set back; a holder that lives renews it.
  if redis.call('PTTL', lease) > longest then redis.call('PEXPIRE', lease, longest) end
  local before = site_of(olt)
  if before ~= site then redis.call('ZREM', 'facho:ready:' .. before, olt) end
  if site == '' then redis.call('HDEL', 'facho:site', olt) else redis.call('HSET', 'facho:site', olt, site) end
  if redis.call('EXISTS', lease) == 0 then
    local first = redis.call('ZRANGE', 'facho:waiting:' .. olt, 0, 0, 'WITHSCORES')
    if #first > 0 and not redis.call('ZSCORE', 'facho:ready:' .. site, olt) then
      offer(olt, urgency(first[2]))
      added = added + 1
    end
  end
end
return added
""",
)

_ASK_TO_STOP = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[1] ~= '' and redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'abort', 1)
return 1
""")


def _common_hash() -> str:
    """What all jobs of one push have in common, as RQ itself would write it."""
    job = TaskJob.create(
        RUN_COMPOSITE, connection=connection(), result_ttl=0, failure_ttl=_FAILED_JOB_SECONDS, timeout=-1
    )
    job.enqueued_at = clock.now()
    written = job.to_dict()
    own = ("data", "origin", "description")
    kept = {name: str(value) for name, value in written.items() if name not in own and value not in ("", None)}
    return json.dumps({"task": RUN_COMPOSITE, "hash": kept | {"status": "queued"}})


def push(tickets: Iterable[Ticket]) -> int:
    """Queue the tickets; call it after the commit. Returns how many. RedisError: the reaper will push them later.

    Pushing again is harmless: a job that waits already takes its (new) place, one that is being run is left alone.
    """
    rows = [ticket.as_row() for ticket in tickets]
    if rows:
        redis, common = connection(), _common_hash()
        for start in range(0, len(rows), _PUSHED_AT_ONCE):
            _PUSH(redis, (), (common, json.dumps(rows[start : start + _PUSHED_AT_ONCE])))
    return len(rows)


def withdraw(jobs: Mapping[str, int]) -> int:
    """Take jobs (job id → OLT id) out of the queues; returns how many were there. RedisError when Redis is away."""
    if not jobs:
        return 0
    return int(_WITHDRAW(connection(), (), (part for pair in jobs.items() for part in pair)))


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


@dataclass(frozen=True)
class Lease:
    """Who holds an OLT now. `owner`: a worker's name, trial-ID, probe-ID or cli-…; `job`: of a poller only.

    `seconds`: until it runs out, unless its holder renews it. `asked`: it was asked to stop already.
    """

    owner: str
    token: int
    job: str
    seconds: float
    asked: bool


def lease_of(olt_id: int) -> Lease | None:
    """The lease on an OLT, None when nobody holds it. RedisError when Redis is away."""
    with connection().pipeline(transaction=False) as pipe:
        pipe.hmget(f"{LEASE_PREFIX}{olt_id}", "owner", "token", "job", "abort")
        pipe.pttl(f"{LEASE_PREFIX}{olt_id}")
        (owner, token, job, asked), left = pipe.execute()
    if owner is None or token is None:
        return None
    words = [part.decode(errors="replace") if isinstance(part, bytes) else str(part or "") for part in (owner, job)]
    return Lease(words[0], int(token), words[1], max(0.0, left / 1000), asked is not None)


def mark_ready(olts: list[tuple[int, str]], lease_seconds: float = LONGEST_LEASE) -> int:
    """Kick: OLTs (id, site) with waiting jobs and no lease go back among the ready ones of their site.

    A lease that would last longer than `lease_seconds` (of composites) is cut. Returns how many were not there.
    """
    if not olts:
        return 0
    longest = int(max(lease_seconds, LONGEST_LEASE) * 1000)
    return int(_MARK_READY(connection(), (), (longest, *(part for pair in olts for part in pair))))


def ask_to_stop(olt_ids: list[int]) -> None:
    """Mark the leases of these OLTs: their holders stop before their next PDU."""
    for olt_id in olt_ids:
        _ASK_TO_STOP(connection(), (f"{LEASE_PREFIX}{olt_id}",), ("",))


def ask_to_stop_token(olt_id: int, token: int) -> bool:
    """Mark the lease of this OLT if `token` still holds it. True when it does."""
    return bool(_ASK_TO_STOP(connection(), (f"{LEASE_PREFIX}{olt_id}",), (token,)))


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
