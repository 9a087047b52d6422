"""F22: after many composites pollers hold no more descriptors, Redis no more keys, and nobody is a zombie.

Growth of memory takes thousands of composites to see: `python -m bench.leaks`.
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from portal import queueing
from portal.domain.statuses import ExecutionStatus
from portal.services.dispatch import run_requests
from testing.cast import ACTOR
from testing.live import Live
from testing.measuring import leaks, no_op
from testing.stack import children
from tests.faults.conftest import Polled

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.timeout(180)]

OLTS = 5
WAVES = 10  # after the first one


def wave(live: Live, number: int) -> None:
    """One composite on each OLT, to its end."""
    for master in range(1, OLTS + 1):
        run_requests.run_now(master, ACTOR, datetime.now(UTC))
    live.wait_for(ExecutionStatus.SUCCESS, count=OLTS * number)


def idle(live: Live) -> bool:
    """No horse, and no OLT that is held."""
    held = queueing.lease_tokens(list(range(1, OLTS + 1)))
    return not held and not any(children(worker) for worker in live.workers())


def counted(live: Live) -> leaks.Count:
    """Without memory: pages come and go."""
    return replace(leaks.count(0, live.stack.processes["pollers"].pid), rss={})


def test_f22_after_fifty_composites_descriptors_and_keys_are_what_they_were(site: Polled) -> None:
    with site(olts=OLTS, pollers=2) as live:
        with no_op.reading_nothing():
            live.start("pollers")
        wave(live, 1)
        live.stack.wait_until(lambda: idle(live), "idle pollers")
        before = counted(live)
        for number in range(WAVES):
            wave(live, number + 2)
        live.stack.wait_until(lambda: counted(live) == before, "descriptors, zombies and keys as they were")
        assert before.zombies == 0
