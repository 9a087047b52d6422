"""Schedulers as real processes: one leads, the other takes over, and a leader that was frozen does no harm.

By the clock: a leader is replaced within its lease, and ticks come though Redis does not answer.
"""

import signal
import time

import pytest
from sqlalchemy import select

from portal.domain import tempo
from portal.extensions import db
from portal.tables import Execution, SchedulerState
from testing.live import Live
from testing.stack import TEMPO

pytestmark = [pytest.mark.integration, pytest.mark.clock, pytest.mark.timeout(150)]

PACES = tempo.at(TEMPO)
SLACK = 1.5  # seconds for a loaded machine to start, log and be looked at


def leader(live: Live) -> str:
    """Name of who ticked last."""
    db.session.rollback()
    db.session.expire_all()
    state = db.session.get(SchedulerState, 1)
    return state.leader if state is not None else ""


def last_tick(live: Live) -> float:
    db.session.rollback()
    db.session.expire_all()
    state = db.session.get(SchedulerState, 1)
    return state.last_tick_at.timestamp() if state is not None and state.last_tick_at is not None else 0.0


@pytest.mark.fault
def test_a_frozen_leader_is_replaced_within_its_lease_and_stands_by_when_it_wakes(live: Live) -> None:
    live.node(live.olt("OLT-LIMA", 9), "discovery", "huawei.onu_state", "discovery")
    first = live.stack.start("first", "scheduler", "run")
    live.stack.wait_until(lambda: leader(live), "a leader")
    live.stack.start("second", "scheduler", "run")
    before = leader(live)
    live.due_now()
    live.stack.wait_until(lambda: live.executions(), "a slot taken")

    first.send_signal(signal.SIGSTOP)
    frozen_at = time.monotonic()
    live.stack.wait_until(lambda: leader(live) != before, "a take-over")
    assert time.monotonic() - frozen_at <= PACES.leader_lease + PACES.tick + SLACK
    after = leader(live)

    live.stack.wait_until(lambda: time.monotonic() - frozen_at > 2 * PACES.leader_lease, "two leases gone by")
    first.send_signal(signal.SIGCONT)
    live.stack.wait_until(lambda: "event=standby" in live.stack.log("first"), "the frozen one to stand by")
    # It was frozen in the middle of its tick: it ends that one, and does no other.
    live.stack.wait_until(lambda: leader(live) == after, "the pulse of the one that leads", 2 * PACES.tick + SLACK)
    slots = [(row.node_id, row.scheduled_for) for row in db.session.scalars(select(Execution))]
    assert len(slots) == len(set(slots)) == 1


@pytest.mark.fault
def test_the_clock_goes_on_while_redis_is_frozen_and_while_it_is_away(live: Live) -> None:
    live.node(live.olt("OLT-LIMA", 9), "discovery", "huawei.onu_state", "discovery")
    live.stack.start("scheduler")
    live.stack.wait_until(lambda: leader(live), "a leader")
    live.stack.redis.freeze()
    live.due_now()
    live.stack.wait_until(lambda: live.executions(), "a slot taken", 2 * PACES.clock_waits + SLACK)
    frozen = last_tick(live)
    live.stack.wait_until(lambda: last_tick(live) - frozen > 4 * PACES.tick, "ticks", 6 * PACES.clock_waits + SLACK)
    live.stack.redis.thaw()
    live.stack.redis.kill()
    away = last_tick(live)
    live.stack.wait_until(lambda: last_tick(live) - away > 3 * PACES.tick, "ticks", 5 * PACES.tick + SLACK)
    assert live.stack.processes["scheduler"].poll() is None
