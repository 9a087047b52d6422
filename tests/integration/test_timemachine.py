"""Days of trouble on the virtual clock, every gap explained truly; and its queues, which do as the scripts in Redis."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from redis import Redis

from jobs import claim as claims
from portal import queueing
from portal.domain import schedule
from portal.domain.explain import explain
from portal.domain.statuses import TERMINAL, ExecutionStatus, LossCause, OltState, SkipReason
from portal.domain.tickets import Ticket
from scheduler.timemachine.book import Book
from scheduler.timemachine.durations import Fortune
from scheduler.timemachine.events import Havoc, scenario
from scheduler.timemachine.machine import Machine
from scheduler.timemachine.queues import Queues
from scheduler.timemachine.recall import Recall
from scheduler.timemachine.witness import Witness
from scheduler.timemachine.world import ALL_SITES
from testing.cast import DAY, TEN
from testing.virtual import cron_in, many_olts

GAPS = 1000

pytestmark = pytest.mark.timeout(240)


def lived(seed: int, length: timedelta, havoc: Havoc, **more: Any) -> Machine:
    """A world with its trouble, lived for so long."""
    next_cron = cron_in("America/Santiago")
    world = many_olts(TEN, seed, next_cron, **more)
    events = scenario(world, TEN, TEN + length, seed, havoc)
    machine = Machine(world, TEN, next_cron=next_cron, fortune=Fortune(seed, drift=0.4), history=events, keep_all=True)
    machine.run(TEN + length)
    return machine


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "pollers"), [(1, 12), (2, 2), (3, 5)])
def test_in_a_day_of_trouble_every_slot_is_in_one_state_and_the_trackers_are_true(seed: int, pollers: int) -> None:
    machine = lived(seed, DAY, Havoc(edits=120, restarts=12), pollers=pollers)
    assert machine.wrong_slots() == []
    assert machine.audit() == []
    assert machine.state.figures.composites > 12_000
    statuses = {run.status for runs in machine.history().runs.values() for run in runs}
    assert statuses >= {ExecutionStatus.SUCCESS, ExecutionStatus.FAILED}
    reasons = {*machine.state.figures.skipped}
    assert reasons >= {SkipReason.SCHEDULER_DOWN, SkipReason.OLT_UNREACHABLE, SkipReason.OLT_BUSY}


def test_explain_answers_a_thousand_random_gaps_with_the_true_cause() -> None:
    machine, chance = lived(7, DAY / 3, Havoc(300, 90, 150, 150, 12), olts=30, pollers=3), Random(7)
    book = machine.history()
    witness, recall = Witness(machine.state, book), Recall(machine.state, book)
    nodes = {name[0]: run.node for name, runs in book.runs.items() for run in runs}
    nodes |= {skip.node.node_id: skip.node for skip in book.skips}
    wrong: list[Any] = []
    kinds: Counter[LossCause | None] = Counter()
    for ident, slot in chance.sample(gaps(book), GAPS):
        answer, truth = explain(recall.facts(nodes[ident], slot)), witness.causes(ident, slot)
        kinds[answer.cause] += 1
        if answer.slot != slot or answer.cause not in truth:
            wrong.append((ident, slot, answer, truth))
    assert wrong == []
    assert len(kinds) >= 8 and kinds[LossCause.UNKNOWN] == 0


def gaps(book: Book) -> list[tuple[int, datetime]]:
    """Every slot that was skipped, or whose execution ended without success."""
    failed = [
        name for name, runs in book.runs.items()
        if any(run.status in TERMINAL and run.status is not ExecutionStatus.SUCCESS for run in runs)
    ]  # fmt: skip
    return sorted({*failed, *(name for name, skips in book.skipped.items() if skips)})


def test_every_gap_has_a_true_cause_and_slots_skipped_for_none_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_cause() -> list[tuple[int, datetime]]:
        machine = lived(5, DAY / 12, Havoc(300, 90, 150, 150, 24), olts=20, pollers=3)
        book = machine.history()
        witness = Witness(machine.state, book)
        return [name for name in gaps(book) if not witness.causes(*name)]

    assert without_cause() == []
    truly = schedule.blocked

    def lying(state: OltState, until: datetime | None, now: datetime) -> SkipReason | None:
        return truly(state, until, now) or (SkipReason.OLT_PAUSED if now.minute % 10 == 7 else None)

    monkeypatch.setattr(schedule, "blocked", lying)
    assert len(without_cause()) > 20


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
