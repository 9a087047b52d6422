"""The lease around one composite: claim, renew before every PDU, release. docs/serialisation.md says why."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import RedisError

from portal.queueing import LEASE_PREFIX, OWNER_PREFIX, URGENCY_LUA

HOLD_PAUSE = 0.2  # seconds between two tries to hold an OLT

# What the worker claimed before it forked; the horse reads it. An argument of the job would be a secret
# channel round the claim: a job that was pushed twice must not carry a token.
held: ContextVar["Claim | None"] = ContextVar("held", default=None)

_CLAIM = """
local owner, ttl, hold = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The reply to my last claim may have been lost: what I hold, I get again.
local mine = redis.call('HMGET', KEYS[1], 'olt', 'job', 'token')
if mine[1] then
  local lease = redis.call('HMGET', 'lock:snmp:host:' .. mine[1], 'owner', 'token')
  if lease[1] == owner and lease[2] == mine[3] then
    redis.call('PEXPIRE', 'lock:snmp:host:' .. mine[1], ttl)
    return mine
  end
  redis.call('DEL', KEYS[1])
end

-- After a start with lost data earlier holders may still be at work: wait until they must have noticed.
if hold > 0 then
  if redis.call('SETNX', 'facho:epoch', now) == 1 then return {'hold'} end
  if now - redis.call('GET', 'facho:epoch') < hold * 1000 then return {'hold'} end
  local uptime = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
  if uptime and uptime * 1000 < hold then return {'hold'} end
end

local function best(olt)
  local waiting = 'facho:waiting:' .. olt
  local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
  if #first == 0 then return nil end
  if tonumber(first[2]) >= 1000000000000000 then
    local late = redis.call('ZRANGEBYSCORE', 'facho:overdue:' .. olt, '-inf', time[1], 'LIMIT', 0, 1)
    if #late > 0 and redis.call('ZSCORE', waiting, late[1]) then return late[1] end
  end
  return first[1]
end

local function take(olt)
  while true do
    local job = best(olt)
    if not job then return nil end
    redis.call('ZREM', 'facho:waiting:' .. olt, job)
    redis.call('ZREM', 'facho:overdue:' .. olt, job)
    local origin = redis.call('HGET', 'rq:job:' .. job, 'origin')
    if origin then
      local queue = 'rq:queue:' .. origin
      redis.call('LREM', queue, 0, job)
      if redis.call('LLEN', queue) == 0 then redis.call('SREM', 'rq:queues', queue) end
      return job
    end
  end
end

while true do
  local top = redis.call('ZPOPMIN', 'facho:ready')
  if #top == 0 then return {} end
  local olt = top[1]
  local lease = 'lock:snmp:host:' .. olt
  -- A held OLT leaves the set here; its release puts it back.
  if redis.call('EXISTS', lease) == 0 then
    local job = take(olt)
    if job then
      local token = math.max(now, (tonumber(redis.call('GET', 'facho:token')) or 0) + 1)
      token = string.format('%.0f', token)
      redis.call('SET', 'facho:token', token)
      redis.call('HSET', lease, 'owner', owner, 'token', token, 'job', job)
      redis.call('PEXPIRE', lease, ttl)
      redis.call('HSET', KEYS[1], 'olt', olt, 'job', job, 'token', token)
      redis.call('EXPIRE', KEYS[1], 86400)
      return {olt, job, token}
    end
  end
end
"""

_HOLD = """
if redis.call('EXISTS', KEYS[1]) == 1 then return nil end
local time = redis.call('TIME')
local token = math.max(time[1] * 1000000 + time[2], (tonumber(redis.call('GET', 'facho:token')) or 0) + 1)
token = string.format('%.0f', token)
redis.call('SET', 'facho:token', token)
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'token', token)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return token
"""

_RENEW = """
local lease = redis.call('HMGET', KEYS[1], 'token', 'abort')
if lease[1] ~= ARGV[1] then return 0 end
if lease[2] then return -1 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""

_RELEASE = (
    URGENCY_LUA
    + """
if redis.call('HGET', KEYS[2], 'token') == ARGV[1] then redis.call('DEL', KEYS[2]) end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
local first = redis.call('ZRANGE', 'facho:waiting:' .. ARGV[2], 0, 0, 'WITHSCORES')
if #first > 0 then
  redis.call('ZADD', 'facho:ready', urgency(first[2]), ARGV[2])
  redis.call('RPUSH', 'facho:bell', 1)
end
return 1
"""
)


class LeaseLost(BaseException):
    """The OLT may be in other hands: send nothing more. No `except Exception` on the way may swallow it."""


class Aborted(LeaseLost):
    """A person asked that this composite stop."""


class Quarantined(Exception):  # noqa: N818  (a state, not a fault)
    """Redis has just started or lost its data: nothing may be claimed for a moment."""


@dataclass(frozen=True)
class Claim:
    """One OLT, held by one owner. The fencing token rises with every claim of any OLT."""

    olt_id: int
    job_id: str
    token: int
    owner: str


def claim(redis: Redis, owner: str, ttl: float, quarantine: float) -> Claim | None:
    """The best composite that may run now, with its OLT leased to `owner` for `ttl` seconds; None when there is none.

    Repeating the call after a lost reply gives the same claim. Quarantined for `quarantine` seconds after Redis
    started or lost its data.
    """
    answer = redis.eval(_CLAIM, 1, f"{OWNER_PREFIX}{owner}", owner, int(ttl * 1000), int(quarantine * 1000))
    if answer == [b"hold"]:
        raise Quarantined
    if not answer:
        return None
    olt_id, job_id, token = map(_text, answer)
    return Claim(int(olt_id), job_id, int(token), owner)


def hold(redis: Redis, olt_id: int, owner: str, ttl: float) -> Claim | None:
    """Lease an OLT without a job (connection tests); None when it is held."""
    token = redis.eval(_HOLD, 1, f"{LEASE_PREFIX}{olt_id}", owner, int(ttl * 1000))
    return Claim(olt_id, "", int(token), owner) if token is not None else None


def hold_patiently(redis: Redis, olt_id: int, owner: str, ttl: float, patience: float) -> Claim | None:
    """Lease an OLT, waiting up to `patience` seconds for its composite to end; None when it stays held."""
    deadline = time.monotonic() + patience
    while (mine := hold(redis, olt_id, owner, ttl)) is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(HOLD_PAUSE)
    return mine


def release(redis: Redis, mine: Claim) -> bool:
    """Give the OLT back; it becomes ready again if it has more work. False when it was no longer ours."""
    keys = (f"{LEASE_PREFIX}{mine.olt_id}", f"{OWNER_PREFIX}{mine.owner}")
    return bool(redis.eval(_RELEASE, 2, *keys, mine.token, mine.olt_id))


def left_by(redis: Redis, owner: str) -> Claim | None:
    """What a dead owner still holds, if anything."""
    olt_id, job_id, token = (_text(part) for part in redis.hmget(f"{OWNER_PREFIX}{owner}", "olt", "job", "token"))
    return Claim(int(olt_id), job_id, int(token), owner) if olt_id else None


def _text(part: bytes | str | None) -> str:
    return part.decode() if isinstance(part, bytes) else part or ""


class Lease:
    """A claim seen by the one who works under it: `checkpoint()` before every PDU."""

    def __init__(self, redis: Redis, mine: Claim, ttl: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.claim = mine
        self._redis = redis
        self._ttl = ttl
        self._monotonic = monotonic
        self._proven_until = monotonic() + ttl

    def checkpoint(self, need: float = 0.0) -> None:
        """Renew; LeaseLost when it is not ours any more, Aborted when a person asked to stop.

        While Redis is away the lease counts as held only as far as the last renewal proves it, less `need`
        (the seconds that the next request can block).
        """
        asked = self._monotonic()
        try:
            answer = self._redis.eval(
                _RENEW, 1, f"{LEASE_PREFIX}{self.claim.olt_id}", self.claim.token, int(self._ttl * 1000)
            )
        except RedisError as error:
            if self._monotonic() + need < self._proven_until:
                return
            raise LeaseLost(f"Redis does not answer and the lease has run out ({type(error).__name__})") from None
        if answer == -1:
            raise Aborted("stopped on request")
        if answer != 1:
            raise LeaseLost("the lease is no longer ours")
        self._proven_until = asked + self._ttl
