"""F18: one OLT answers a hundred times slower, one has 250 urgent jobs queued. The others do not wait for them.

Waiting in seconds is judged on the simulated clock and by `bench.noisy`; with real processes the order of starts is.
"""

from datetime import UTC, datetime, timedelta

import pytest
from redis import Redis
from sqlalchemy import select

from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from portal.services.dispatch import run_requests
from portal.tables import Execution, ExecutionAttempt
from testing.cast import ACTOR
from testing.live import Live
from testing.measuring import urgent
from testing.measuring.quantiles import quantile
from testing.oltsim_c import oltsim
from tests.faults.conftest import Polled
from tests.faults.simulated import Node, Started, World

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.timeout(180)]

SLOW, NOISY = 1, 2  # ids of the two OLTs in the simulation
URGENT = 250
OTHERS = 38
POLLERS = 6
USUAL_SECONDS = 0.2  # of a composite
LIVE_OTHERS = 6


def quiet_ones(world: World) -> list[Started]:
    return [one for one in world.started if one.run.node.olt not in (SLOW, NOISY)]


def neighbourhood(redis: Redis, *, slow: float, urgent: int) -> World:
    """A minute of 38 OLTs that are read every 15 s, beside the two."""
    world = World(redis, POLLERS)
    urgent_ones = [Node(1000 + number, NOISY, 90, 3600, USUAL_SECONDS, 3600) for number in range(urgent)]
    world.add([
        Node(1, SLOW, 40, 60, slow),
        *(Node(olt, olt, 40, 15, USUAL_SECONDS, first=olt % 15) for olt in range(10, 10 + OTHERS)),
    ])  # fmt: skip
    world.go_on(2)
    world.ask_for(urgent_ones)
    world.go_on(62)
    return world


def test_f18_by_the_clock_the_others_p95_wait_stays_under_half_a_second(redis: Redis) -> None:
    world = neighbourhood(redis, slow=100 * USUAL_SECONDS, urgent=URGENT)
    waits = [one.waited for one in quiet_ones(world)]
    assert len(waits) >= 4 * OTHERS
    assert quantile(waits, 0.95) < 0.5


def test_f18_by_the_clock_both_together_cost_the_others_no_more_than_two_pollers_fewer_would(redis: Redis) -> None:
    disturbed = [one.waited for one in quiet_ones(neighbourhood(redis, slow=100 * USUAL_SECONDS, urgent=URGENT))]
    redis.flushall()
    world = World(redis, POLLERS - 2)
    world.add(Node(olt, olt, 40, 15, USUAL_SECONDS, first=olt % 15) for olt in range(10, 10 + OTHERS))
    world.go_on(62)
    assert max(disturbed) <= max(one.waited for one in world.started) + 2 * USUAL_SECONDS


def test_f18_the_noisy_olt_never_has_more_than_one_poller_and_goes_on_without_a_pause(redis: Redis) -> None:
    world = neighbourhood(redis, slow=100 * USUAL_SECONDS, urgent=URGENT)
    noise = [one.at for one in world.started if one.run.node.olt == NOISY]
    assert world.met == 0
    assert len(noise) == URGENT, "250 composites of 0.2 s fit into the minute, one after the other"


@pytest.mark.clock
def test_f18_real_pollers_start_every_other_olt_while_the_two_are_busy(site: Polled) -> None:
    """By the clock: the slow OLT is slow by it, and a machine that is slower still would let it start more often."""
    others = range(1, LIVE_OTHERS + 1)
    with (
        oltsim("--delay-us", "500000", onus=32) as slow,
        oltsim("--delay-us", "300000", onus=32) as loud,
        site(olts=LIVE_OTHERS, microseconds=5_000, pollers=4, lease_seconds=15) as live,
    ):
        for name, port in (("OLT-SLOW", slow), ("OLT-LOUD", loud)):
            urgent.give_nodes(live.olt(name, port, timeout=3, retries=0), URGENT)
        slow_one, loud_one = LIVE_OTHERS + 1, LIVE_OTHERS + 2
        an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
        urgent.queue_manual(slow_one, an_hour_ago)  # later than all others, by the rule they may go first
        urgent.queue_manual(loud_one, an_hour_ago)
        live.start("pollers")
        live.wait_for(ExecutionStatus.SUCCESS, loud_one, count=2)
        before = len(started(live))
        for master in others:
            run_requests.run_now(master, ACTOR, datetime.now(UTC))
        live.stack.wait_until(lambda: set(others) <= set(started(live)), "every other OLT's start", 100)
        order = started(live)[before:]
        last = max(order.index(olt) for olt in others)
        assert order[:last].count(loud_one) <= LIVE_OTHERS, "the noisy OLT had more than its own poller"
        assert order[:last].count(slow_one) <= 3
        for olt in others:
            live.wait_for(ExecutionStatus.SUCCESS, olt)
        waiting = select(Execution.id).where(Execution.status == ExecutionStatus.PENDING)
        assert len(list(db.session.scalars(waiting.where(Execution.olt_id == loud_one)))) > URGENT / 2


def started(live: Live) -> list[int]:
    """OLT of each start so far, in order."""
    db.session.rollback()
    query = select(Execution.olt_id).join(ExecutionAttempt).order_by(ExecutionAttempt.started_at, ExecutionAttempt.id)
    return list(db.session.scalars(query))
