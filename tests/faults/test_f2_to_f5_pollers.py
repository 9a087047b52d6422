"""F2 to F5: pollers that are stopped, killed and frozen. The agents' log says whether two ever met at one OLT.

By the clock: how long a poller takes to end and to be replaced, and a horse that wakes while another composite lasts.
"""

import os
import signal
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from jobs import claim, tasks
from portal.domain.statuses import AttemptStatus, ErrorKind, ExecutionStatus
from testing.live import LOG, Live
from testing.measuring import clocks, judges
from tests.faults.conftest import Polled

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.clock, pytest.mark.timeout(180)]

LEASE = 3
STOP_SECONDS = 1
LONGEST_REQUEST = 1.0
PATIENCE = timedelta(seconds=5)  # on a busy machine; what it is on a quiet one, bench/chaos measures
SUCCESS = ExecutionStatus.SUCCESS


def ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def statuses(live: Live) -> list[AttemptStatus]:
    return [attempt.status for attempt in live.attempts()]


def test_f2_pollers_told_to_stop_over_and_over_fail_nothing_and_lose_nothing(site: Polled, tmp_path: Path) -> None:
    with site(olts=6, microseconds=70_000, pollers=3, stop_seconds=STOP_SECONDS) as live:
        live.start()
        first = clocks.spread_first_runs(datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2), 4)
        slowest = max(stopped_poller(live) for _ in range(8))
        for _ in range(2):
            live.stack.stop("pollers", timeout=STOP_SECONDS + LONGEST_REQUEST + 10)
            live.start("pollers")
        until = datetime.now(UTC)
        clocks.stop(until)
        assert clocks.settle(60)
        rows = live.executions()
        slots = [(row.node_id or 0, row.scheduled_for) for row in rows]
        found = judges.account(first, 4, until, slots, clocks.skips())
        assert {row.status for row in rows} == {SUCCESS}
        assert (found.lost, found.doubled, found.off_grid) == (0, 0, 0) and found.ran > 10
        assert slowest < STOP_SECONDS + LONGEST_REQUEST + PATIENCE.total_seconds()
    assert judges.overlaps(judges.requests(tmp_path / LOG), complete=17) == 0


def stopped_poller(live: Live) -> float:
    """SIGTERM of a busy poller; seconds until it has gone."""
    pid = live.busy_poller().pid
    began = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    live.stack.wait_until(lambda: ended(pid), "the end of a poller", 30)
    return time.monotonic() - began


def test_f3_a_killed_horse_is_replaced_at_once_and_the_third_parks_its_composite(site: Polled, tmp_path: Path) -> None:
    with site(microseconds=100_000) as live:
        live.start()
        live.due_now()
        for number in (1, 2, 3):
            live.stack.wait_until(partial(has_tried, live, number), f"try {number}", 10)
            with suppress(ProcessLookupError):
                os.kill(live.horse(), signal.SIGKILL)
        live.wait_for(ExecutionStatus.FAILED)
        (execution,) = live.executions()
        assert execution.error_kind is ErrorKind.POISON and execution.losses == 3
        assert statuses(live) == [AttemptStatus.INTERRUPTED] * 3
        tries = live.attempts()
        waits = [b.started_at - a.finished_at for a, b in pairwise(tries) if a.finished_at]
        assert len(waits) == 2 and max(waits) < PATIENCE
        assert {attempt.error_kind for attempt in tries} == {ErrorKind.WORKER_LOST}


def has_tried(live: Live, number: int) -> bool:
    return len(live.attempts()) == number


def frozen_past_its_lease(live: Live) -> None:
    """A horse stops in the middle and wakes in the middle of the next holder's composite."""
    live.start()
    live.due_now()
    horse = live.horse()
    os.kill(horse, signal.SIGSTOP)
    live.stack.wait_until(lambda: len(live.attempts()) == 2, "another holder", 30)
    os.kill(horse, signal.SIGCONT)
    live.wait_for(SUCCESS)
    live.stack.wait_until(lambda: ended(horse), "the end of the horse that slept")


def test_f4_a_horse_that_wakes_in_another_holders_composite_sends_and_writes_nothing(
    site: Polled, tmp_path: Path
) -> None:
    with site(microseconds=100_000, lease_seconds=LEASE) as live:
        frozen_past_its_lease(live)
        assert statuses(live) == [AttemptStatus.INTERRUPTED, AttemptStatus.SUCCESS]
        assert [execution.attempt for execution in live.executions()] == [2]
    assert judges.overlaps(judges.requests(tmp_path / LOG), complete=17) == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_f5_without_checkpoints_the_same_horse_is_seen_to_go_on(
    site: Polled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim.Lease, "checkpoint", lambda *_args, **_named: None)
    # The sign of life in the database names the token too, and would stop a horse that slept longer than this.
    monkeypatch.setattr(tasks, "_show_alive", lambda *_args: None)
    with site(microseconds=100_000, lease_seconds=LEASE) as live:
        frozen_past_its_lease(live)
        assert statuses(live) == [AttemptStatus.INTERRUPTED, AttemptStatus.SUCCESS], "the database's own guard holds"
    assert judges.overlaps(judges.requests(tmp_path / LOG), complete=17) > 0
