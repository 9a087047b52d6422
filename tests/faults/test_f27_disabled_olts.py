"""F27: an OLT disabled while its work is queued, while it runs, and enabled again. The agent's log is the judge.

By the clock: an OLT is left alone from one second on.
"""

import time
from pathlib import Path

import pytest

from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from portal.services.dispatch import run_requests
from portal.services.network import olts
from portal.tables import Olt
from testing.cast import ACTOR
from testing.live import LOG, Live
from testing.measuring import judges
from tests.faults.conftest import Polled

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.clock, pytest.mark.timeout(180)]

INTERRUPTED, SUCCESS = ExecutionStatus.INTERRUPTED, ExecutionStatus.SUCCESS
GRACE = 1.0  # seconds: one request may be in flight, and the test's own clock is not the agent's


def first_olt(live: Live) -> int:
    db.session.rollback()
    return db.session.query(Olt.id).order_by(Olt.id).first()[0]  # type: ignore[index]


def asked_after(log: Path, moment: float) -> list[float]:
    return [seconds for seconds, _olt, _source in judges.requests(log) if seconds > moment]


def test_f27_an_olt_disabled_while_its_work_is_queued_is_never_asked(site: Polled, tmp_path: Path) -> None:
    with site() as live:
        run_requests.run_now(1, ACTOR, live.now)
        olts.set_enabled(first_olt(live), False, ACTOR, live.now)
        live.start()
        live.wait_for(INTERRUPTED)
        live.stack.wait_until(lambda: len(live.workers()) == 2, "idle pollers")
    assert asked_after(tmp_path / LOG, 0) == []


def test_f27_an_olt_disabled_while_it_is_read_is_left_alone_and_loses_nothing_once_enabled(
    site: Polled, tmp_path: Path
) -> None:
    with site(microseconds=150_000) as live:
        live.start()
        run_requests.run_now(1, ACTOR, live.now)
        live.horse()
        olt = first_olt(live)
        olts.set_enabled(olt, False, ACTOR, live.now)
        disabled_at = time.time()
        live.wait_for(INTERRUPTED)
        live.let_pass(2 * GRACE)
        enabled_at = time.time()
        olts.set_enabled(olt, True, ACTOR, live.now)
        run_requests.run_now(1, ACTOR, live.now.replace(year=live.now.year + 1))
        live.wait_for(SUCCESS)
    stray = [seconds for seconds in asked_after(tmp_path / LOG, disabled_at + GRACE) if seconds < enabled_at]
    assert stray == []


def test_f27_a_run_that_is_cancelled_is_left_alone_and_its_olt_is_free_at_once(site: Polled, tmp_path: Path) -> None:
    with site(microseconds=150_000) as live:
        live.start()
        execution_id, _ = run_requests.run_now(1, ACTOR, live.now)
        live.horse()
        assert run_requests.cancel(execution_id, ACTOR, live.now) is ExecutionStatus.RUNNING
        cancelled_at = time.time()
        live.wait_for(INTERRUPTED)
        again_at = time.time()
        run_requests.run_now(1, ACTOR, live.now.replace(year=live.now.year + 1))
        live.wait_for(SUCCESS)
    stray = [seconds for seconds in asked_after(tmp_path / LOG, cancelled_at + GRACE) if seconds < again_at]
    assert stray == []
