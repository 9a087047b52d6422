"""The queues in memory give the same jobs in the same order as the scripts in Redis, whatever is done to them."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from redis import Redis

from jobs import claim as claims
from portal import queueing
from portal.domain.tickets import Ticket
from scheduler.timemachine.queues import Queues
from scheduler.timemachine.world import ALL_SITES

NOW = datetime.now(UTC).replace(microsecond=0)
STEPS = 250
SITES = {1: "", 2: "", 3: "lima", 4: "lima", 5: "cusco"}


class Both:
    """One history in Redis and in memory; what is claimed must be equal."""

    def __init__(self, redis: Redis, chance: Random) -> None:
        self.redis, self.chance, self.queues = redis, chance, Queues()
        self.held: list[claims.Claim] = []
        self.waiting: dict[str, Ticket] = {}
        self.count = 0

    def push(self) -> None:
        """A job of a random OLT: often overdue or of equal place, now and then asked for by a person."""
        self.count += 1
        olt = self.chance.choice(list(SITES))
        slot = NOW - timedelta(seconds=self.chance.randrange(0, 4000, 400))
        overdue = NOW + timedelta(seconds=self.chance.choice((-3000, -300, -299, 5000, 90_000)))
        one = Ticket(self.count, 1, olt, self.chance.choice((10, 40, 90)), slot, overdue,
                     self.chance.random() < 0.1, SITES[olt])  # fmt: skip
        self.waiting[one.job_id] = one
        queueing.push([one])
        self.queues.push(one)

    def claim(self) -> None:
        """By a poller of every site or of one."""
        site = self.chance.choice((None, None, "", "lima"))
        mine = claims.claim(self.redis, f"owner-{self.count}-{len(self.held)}-{self.chance.random()}", 600, 0, site)
        own = self.queues.claim(int(datetime.now(UTC).timestamp()), ALL_SITES if site is None else site)
        assert (mine.job_id if mine else None) == (own.job_id if own else None)
        if mine is not None:
            self.held.append(mine)
            del self.waiting[mine.job_id]

    def release(self) -> None:
        if self.held:
            mine = self.held.pop(self.chance.randrange(len(self.held)))
            claims.release(self.redis, mine)
            self.queues.release(mine.olt_id)

    def withdraw(self) -> None:
        if self.waiting:
            one = self.waiting.pop(self.chance.choice(sorted(self.waiting)))
            queueing.withdraw({one.job_id: one.olt_id})
            assert self.queues.withdraw(one)


@pytest.mark.parametrize("seed", range(6))
def test_memory_and_redis_claim_the_same_jobs_in_the_same_order(redis: Redis, seed: int) -> None:
    chance = Random(seed)
    both = Both(redis, chance)
    for _ in range(STEPS):
        chance.choice((both.push, both.push, both.claim, both.claim, both.release, both.withdraw))()
    assert both.queues.waiting == len(both.waiting)
