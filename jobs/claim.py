"""The lease around one composite: claim, renew before every PDU, release. docs/serialisation.md says why."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from redis import Redis
from redis.exceptions import RedisError

from portal.queueing import LEASE_PREFIX, LUA, OWNER_PREFIX, Script

HOLD_PAUSE = 0.2  # seconds between two tries to hold an OLT
SPARE_SECONDS = 2.0  # what a lease outlasts the longest request by: time to renew it and to send
RENEWALS = 3  # at one checkpoint; each was too slow to say anything of the time it ended at

# What the worker claimed before it forked; the horse reads it. An argument of the job would be a secret
# channel round the claim: a job that was pushed twice must not carry a token.
held: ContextVar["Claim | None"] = ContextVar("held", default=None)


class StopSign:
    """Shown by a signal, so one for the process: this poller is to end. Read at each checkpoint."""

    def __init__(self) -> None:
        self.shown_at: float | None = None

    def show(self) -> None:
        """Safe in a signal handler."""
        if self.shown_at is None:
            self.shown_at = time.monotonic()


stop_sign = StopSign()

# After a start with lost data earlier holders may still be at work: wait until they must have noticed.
_QUARANTINE = """
local function quarantined(hold, now)
  if hold <= 0 then return false end
  local epoch = tonumber(redis.call('GET', 'facho:epoch'))
  if not epoch or now < epoch then  -- all is gone, or the clock was set back: leases that have run out lasted longer
    redis.call('SET', 'facho:epoch', now)
    return true
  end
  if now - epoch < hold * 1000 then return true end
  local uptime = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
  return uptime and uptime * 1000 < hold
end
"""

_CLAIM = Script(
    LUA,
    _QUARANTINE,
    """
local owner, ttl, hold, wanted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function show(job)
  if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('HSET', KEYS[2], 'state', 'busy', 'current_job', job) end
end

-- The reply to my last claim may have been lost: what I hold, I get again.
local mine = redis.call('HMGET', KEYS[1], 'olt', 'job', 'token')
if mine[1] then
  local lease = redis.call('HMGET', 'lock:snmp:host:' .. mine[1], 'owner', 'token')
  if lease[1] == owner and lease[2] == mine[3] then
    redis.call('PEXPIRE', 'lock:snmp:host:' .. mine[1], ttl)
    show(mine[2])
    return mine
  end
  redis.call('DEL', KEYS[1])
end

-- `rq suspend` holds for pollers too.
if redis.call('EXISTS', 'rq:suspended') == 1 then return {} end

if quarantined(hold, now) then return {'hold'} end

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

-- What has lost its hash (evicted, half restored) is dropped: the reaper pushes it again.
local function take(olt)
  while true do
    local job = best(olt)
    if not job or unqueue(olt, job) then return job end
  end
end

-- The ready OLT that is most urgent, among those of one site or of all. Equal ones go by name, as inside a site:
-- SMEMBERS has no order.
local function before(one, other)
  local mine, its = tonumber(one[2]), tonumber(other[2])
  return mine < its or (mine == its and one[1] < other[1])
end
local function pop()
  local sites = wanted == '*' and redis.call('SMEMBERS', 'facho:sites') or {string.sub(wanted, 2)}
  local from, top = nil, nil
  for _, site in ipairs(sites) do
    local first = redis.call('ZRANGE', 'facho:ready:' .. site, 0, 0, 'WITHSCORES')
    if #first > 0 and (not top or before(first, top)) then from, top = site, first end
  end
  if not top then return nil end
  redis.call('ZREM', 'facho:ready:' .. from, top[1])
  return top[1]
end

while true do
  local olt = pop()
  if not olt then return {} end
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
      show(job)
      return {olt, job, token}
    end
  end
end
""",
)

_HOLD = Script(
    _QUARANTINE,
    """
if redis.call('EXISTS', KEYS[1]) == 1 then return nil end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if quarantined(tonumber(ARGV[3]), now) then return nil end
local token = math.max(now, (tonumber(redis.call('GET', 'facho:token')) or 0) + 1)
token = string.format('%.0f', token)
redis.call('SET', 'facho:token', token)
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'token', token)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return token
""",
)

_RENEW = Script("""
local lease = redis.call('HMGET', KEYS[1], 'token', 'abort')
if lease[1] ~= ARGV[1] then return 0 end
if lease[2] then return -1 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
""")

_RELEASE = Script(
    LUA,
    """
if redis.call('HGET', KEYS[2], 'token') == ARGV[1] then
  redis.call('DEL', KEYS[2])
  if redis.call('EXISTS', KEYS[3]) == 1 then
    redis.call('HSET', KEYS[3], 'state', 'idle')
    redis.call('HDEL', KEYS[3], 'current_job')
  end
end
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
local first = redis.call('ZRANGE', 'facho:waiting:' .. ARGV[2], 0, 0, 'WITHSCORES')
if #first > 0 then offer(ARGV[2], urgency(first[2])) end
return 1
""",
)


class LeaseLost(BaseException):
    """The OLT may be in other hands: send nothing more. No `except Exception` on the way may swallow it."""


class Aborted(LeaseLost):
    """A person asked that this composite stop."""


class Stopped(LeaseLost):
    """This poller was told to stop and the composite has had its time: it goes on elsewhere."""


class Quarantined(Exception):  # noqa: N818  (a state, not a fault)
    """Redis has just started or lost its data: nothing may be claimed for a moment."""


@dataclass(frozen=True)
class Claim:
    """One OLT, held by one owner. The fencing token rises with every claim of any OLT.

    `asked_at`: reading of time.monotonic() before the claim was sent; the lease is proven from then on, not from the
    moment at which somebody begins to use it.
    """

    olt_id: int
    job_id: str
    token: int
    owner: str
    asked_at: float = field(default_factory=time.monotonic, compare=False)


def claim(redis: Redis, owner: str, ttl: float, quarantine: float, site: str | None = None) -> Claim | None:
    """The best composite that may run now, with its OLT leased to `owner` for `ttl` seconds; None when there is none.

    `site`: None = of any OLT, "" = of OLTs without a site, else of that site. Repeating the call after a lost reply
    gives the same claim. Quarantined for `quarantine` seconds after Redis started or lost its data.
    """
    wanted, asked_at = "*" if site is None else f":{site}", time.monotonic()
    answer = _CLAIM(
        redis, (f"{OWNER_PREFIX}{owner}", _worker_key(owner)),
        (owner, int(ttl * 1000), int(quarantine * 1000), wanted),
    )  # fmt: skip
    if answer == [b"hold"]:
        raise Quarantined
    if not answer:
        return None
    olt_id, job_id, token = map(_text, answer)
    return Claim(int(olt_id), job_id, int(token), owner, asked_at)


def _worker_key(owner: str) -> str:
    """RQ's hash of the worker: `rq info` shows its state and job from there."""
    return f"rq:worker:{owner}"


def hold(redis: Redis, olt_id: int, owner: str, ttl: float, quarantine: float) -> Claim | None:
    """Lease an OLT without a job (connection tests, probes); None when it is held, or nothing may be held for now."""
    asked_at = time.monotonic()
    token = _HOLD(redis, (f"{LEASE_PREFIX}{olt_id}",), (owner, int(ttl * 1000), int(quarantine * 1000)))
    return Claim(olt_id, "", int(token), owner, asked_at) if token is not None else None


def hold_patiently(
    redis: Redis, olt_id: int, owner: str, ttl: float, quarantine: float, patience: float
) -> Claim | None:
    """Lease an OLT, waiting up to `patience` seconds for its composite to end; None when it stays held."""
    deadline = time.monotonic() + patience
    while (mine := hold(redis, olt_id, owner, ttl, quarantine)) is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(HOLD_PAUSE)
    return mine


def release(redis: Redis, mine: Claim) -> bool:
    """Give the OLT back; it becomes ready again if it has more work. False when it was no longer ours."""
    keys = (f"{LEASE_PREFIX}{mine.olt_id}", f"{OWNER_PREFIX}{mine.owner}", _worker_key(mine.owner))
    return bool(_RELEASE(redis, keys, (mine.token, mine.olt_id)))


def left_by(redis: Redis, owner: str) -> Claim | None:
    """What a dead owner still holds, if anything."""
    olt_id, job_id, token = (_text(part) for part in redis.hmget(f"{OWNER_PREFIX}{owner}", "olt", "job", "token"))
    return Claim(int(olt_id), job_id, int(token), owner) if olt_id else None


def _text(part: bytes | str | None) -> str:
    return part.decode() if isinstance(part, bytes) else part or ""


class Lease:
    """A claim seen by the one who works under it: `checkpoint()` before every PDU. Times in seconds.

    `grace`: how long the composite may go on after the poller was told to stop.
    """

    def __init__(
        self, redis: Redis, mine: Claim, ttl: float, grace: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.claim = mine
        self.ttl = ttl
        self._redis = redis
        self._grace = grace
        self._need = 0.0
        self._monotonic = monotonic
        self._proven_until = mine.asked_at + ttl

    def cover(self, request_seconds: float) -> None:
        """Renew for so long, from the next checkpoint on, that a request which blocks for so long ends within it."""
        self._need = request_seconds
        self.ttl = max(self.ttl, request_seconds + SPARE_SECONDS)

    def checkpoint(self) -> None:
        """Renew; LeaseLost when it is not ours any more, Aborted when a person asked to stop, else Stopped with the

        poller: what is stopped runs again elsewhere, and what a person ended does not.

        Returns only while the next request surely ends within the lease: a process that was frozen while Redis'
        answer lay in its socket asks again. While Redis is away the lease is held as far as the last renewal proves it.
        """
        for _ in range(RENEWALS):
            asked = self._monotonic()
            stopping = stop_sign.shown_at is not None and asked >= stop_sign.shown_at + self._grace
            try:
                self._renew(asked)
            except RedisError as error:
                if stopping:
                    raise Stopped("the poller was stopped") from None
                if self._holds():
                    return
                text = f"Redis does not answer and the lease has run out ({type(error).__name__})"
                raise LeaseLost(text) from None
            if stopping:
                raise Stopped("the poller was stopped")
            if self._holds():
                return
        raise LeaseLost(f"each of {RENEWALS} renewals took longer than the lease")

    def _renew(self, asked: float) -> None:
        keys = (f"{LEASE_PREFIX}{self.claim.olt_id}",)
        answer = _RENEW(self._redis, keys, (self.claim.token, int(self.ttl * 1000)))
        if answer == -1:
            raise Aborted("stopped on request")
        if answer != 1:
            raise LeaseLost("the lease is no longer ours")
        self._proven_until = asked + self.ttl

    def _holds(self) -> bool:
        return self._monotonic() + self._need < self._proven_until

    def is_gone(self) -> bool:
        """True when Redis says that the lease is not ours; False also when Redis does not answer. Renews nothing."""
        try:
            token = self._redis.hget(f"{LEASE_PREFIX}{self.claim.olt_id}", "token")
        except RedisError:
            return False
        return _text(token) != str(self.claim.token)
