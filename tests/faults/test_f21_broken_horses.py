"""F21: work horses that crash, run out of memory, of descriptors, of disk. Pollers live, the OLT is free at once.

By the clock: "at once" is a second.
"""

import ctypes
import faulthandler
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import func, select

from jobs import poller
from jobs.worker import PollerWorker
from portal import queueing
from portal.domain.composite import CompositeResult, CompositeWork
from portal.domain.statuses import TERMINAL, AttemptStatus, ErrorKind, ExecutionStatus, OltState
from portal.extensions import db
from portal.services.dispatch import run_requests
from portal.tables import ExecutionAttempt, ExecutionStep, Olt
from testing.cast import ACTOR
from testing.live import LOG, Live
from testing.measuring import judges
from tests.faults.conftest import Polled

pytestmark = [pytest.mark.integration, pytest.mark.fault, pytest.mark.clock, pytest.mark.timeout(180)]

VICTIM, OTHER = 1, 2  # ids of the two OLTs, and of their masters
STRIKES = 3
LEASE = 30  # seconds; who waits for it to run out is late
FREE_WITHIN = 1.0  # seconds
MEMORY = 128 * 1024 * 1024
SUCCESS, FAILED = ExecutionStatus.SUCCESS, ExecutionStatus.FAILED

Strike = Callable[[Callable[[], None]], AbstractContextManager[Live]]
eaten: list[bytearray] = []


def crash() -> None:
    """As when the C library does it."""
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


def eat_memory() -> None:
    """Until the kernel gives no more; what was eaten stays eaten."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    while True:
        eaten.append(bytearray(256 * 1024))


def open_everything() -> None:
    """No file descriptor is left for a socket."""
    count = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
    while True:
        try:
            os.dup(0)
        except OSError:
            return


def fill_database() -> None:
    """The database file cannot grow by another page: what SQLite says on a full disk."""
    pages = db.session.connection().exec_driver_sql("PRAGMA page_count").scalar_one()
    db.session.connection().exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    db.session.rollback()


def fill_disk() -> None:
    """Nothing can be written to any file any more."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))


@dataclass
class Trap:
    """Strikes the first three horses that read the victim; notes token and process id of each strike."""

    folder: Path
    fault: Callable[[], None]
    real: Callable[..., CompositeResult] = field(default_factory=lambda: poller.run)

    @property
    def notes(self) -> Path:
        return self.folder / "strikes"

    def run(self, work: CompositeWork, *rest: Any) -> CompositeResult:
        """In place of jobs.poller.run, in the horse."""
        if work.olt_id == VICTIM and len(self.strikes()) < STRIKES:
            with self.notes.open("a") as notes:
                notes.write(f"{work.token} {os.getpid()}\n")
            self.fault()
        return self.real(work, *rest)

    def strikes(self) -> list[tuple[int, int]]:
        """Token and process id of each."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [(int(token), int(pid)) for token, pid in map(str.split, lines)]


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], Trap]:
    def make(fault: Callable[[], None]) -> Trap:
        made = Trap(tmp_path, fault)
        monkeypatch.setattr(poller, "run", made.run)
        return made

    return make


def ask(master: int) -> None:
    run_requests.run_now(master, ACTOR, datetime.now(UTC))


def idle(live: Live, olt: int) -> bool:
    return all(execution.status in TERMINAL for execution in live.executions(olt))


def ended(pid: int) -> bool:
    """Whether that process has gone, or is only waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def freed_after(live: Live, trap: Trap, number: int) -> float:
    """Seconds from the end of the n-th horse that was struck until its lease was gone. Asks for a run where none is."""
    if idle(live, VICTIM):
        ask(VICTIM)
    live.stack.wait_until(lambda: len(trap.strikes()) >= number, f"strike {number}")
    token, pid = trap.strikes()[number - 1]
    live.stack.wait_until(lambda: ended(pid), "the end of the horse", LEASE / 2)
    began = time.monotonic()
    live.stack.wait_until(lambda: queueing.lease_tokens([VICTIM]).get(VICTIM) != token, "a free OLT", LEASE)
    return time.monotonic() - began


def struck(live: Live, trap: Trap) -> list[float]:
    """Three strikes, with the other OLT read in between; how long each held its OLT."""
    live.start("pollers")
    live.stack.wait_until(lambda: len(live.workers()) == 2, "two pollers")
    before = sorted(live.workers())
    freed = [freed_after(live, trap, number) for number in range(1, STRIKES + 1)]
    ask(OTHER)
    live.wait_for(SUCCESS, OTHER)
    live.stack.wait_until(lambda: idle(live, VICTIM), "the end of what was struck")
    ask(VICTIM)
    live.wait_for(SUCCESS, VICTIM)
    assert sorted(live.workers()) == before, "a poller was lost"
    assert len(trap.strikes()) == STRIKES
    return freed


def free_at_once(freed: list[float]) -> bool:
    """Twice in three: this machine may have had other things to do."""
    return sorted(freed)[1] < FREE_WITHIN and max(freed) < LEASE / 2


def struck_tries(live: Live) -> list[ExecutionAttempt]:
    return [attempt for attempt in live.attempts() if attempt.status is not AttemptStatus.SUCCESS]


def judge_lost(live: Live, reason: str) -> None:
    """Each strike is a lost try of one execution, and the third ends it."""
    ends = [(one.status, one.error_kind, one.error_message) for one in struck_tries(live)]
    assert len(ends) == STRIKES and all(reason in message for _, _, message in ends), ends
    assert {end[:2] for end in ends} == {(AttemptStatus.INTERRUPTED, ErrorKind.WORKER_LOST)}
    failed = [execution for execution in live.executions(VICTIM) if execution.status is FAILED]
    assert [(execution.error_kind, execution.losses) for execution in failed] == [(ErrorKind.POISON, STRIKES)]


def judge_failed(live: Live, kinds: set[ErrorKind]) -> None:
    """Each strike ends a try for one of these causes, with a word about it."""
    ends = [(one.status, one.error_kind, one.error_message) for one in struck_tries(live)]
    assert len(ends) == STRIKES and all(kind in kinds and message for _, kind, message in ends), ends


@pytest.fixture
def strike(site: Polled, trap: Callable[[Callable[[], None]], Trap]) -> Strike:
    """Two OLTs after one of them was struck: each time it was free at once."""

    @contextmanager
    def striking(fault: Callable[[], None]) -> Iterator[Live]:
        trapped = trap(fault)
        with site(olts=2, microseconds=2_000, lease_seconds=LEASE) as live:
            assert free_at_once(struck(live, trapped))
            yield live

    return striking


def test_f21_a_horse_that_crashes_frees_its_olt_and_the_third_crash_parks_the_composite(strike: Strike) -> None:
    with strike(crash) as live:
        judge_lost(live, "signal 11")


def test_f21_a_horse_without_memory_says_so_and_frees_its_olt(strike: Strike) -> None:
    with strike(eat_memory) as live:
        # Its last words need memory too: where there is none the poller says that it was lost.
        judge_failed(live, {ErrorKind.INTERNAL, ErrorKind.WORKER_LOST})


def test_f21_a_horse_without_descriptors_cannot_open_a_session_and_says_so(strike: Strike) -> None:
    with strike(open_everything) as live:
        judge_failed(live, {ErrorKind.INTERNAL, ErrorKind.UNREACHABLE})


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_f21_what_this_machine_lacks_is_never_laid_to_the_olt(
    site: Polled, trap: Callable[[Callable[[], None]], Trap]
) -> None:
    trapped = trap(open_everything)
    with site(olts=2, microseconds=2_000, lease_seconds=LEASE, auto_pause_after=2) as live:
        live.start("pollers")
        for number in (1, 2):
            freed_after(live, trapped, number)
            live.stack.wait_until(lambda: idle(live, VICTIM), "the end of what was struck")
        olt = db.session.get(Olt, VICTIM)
        assert olt is not None and olt.state is not OltState.UNREACHABLE and olt.consecutive_failures == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_f21_a_database_that_cannot_grow_costs_the_composite_and_nothing_of_it_is_half_written(
    site: Polled, trap: Callable[[Callable[[], None]], Trap]
) -> None:
    trapped = trap(fill_database)
    with site(olts=2, microseconds=2_000, lease_seconds=LEASE) as live:
        live.node(VICTIM, "serial", "huawei.onu_serial", master_id=VICTIM)
        assert free_at_once(struck(live, trapped))
        judge_lost(live, "exit code 75")
        assert unfinished_rows() == 0


def unfinished_rows() -> int:
    """Steps of tries that did not get as far as a commit."""
    db.session.rollback()
    ended_well = ExecutionAttempt.status == AttemptStatus.SUCCESS
    query = select(func.count()).select_from(ExecutionStep).join(ExecutionAttempt).where(~ended_well)
    return db.session.scalar(query) or 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_f21_a_horse_that_can_write_nothing_is_lost_and_told_of_by_its_poller(strike: Strike) -> None:
    with strike(fill_disk) as live:
        judge_lost(live, "exit code 75")


def limit_files(live: Live, octets: int) -> None:
    """Of every process of the product from now on; -1 lifts it."""
    for name in live.stack.processes:
        for pid in (live.stack.processes[name].pid, *live.stack.below(name)):
            try:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (octets, resource.RLIM_INFINITY))
            except ProcessLookupError:
                continue  # a horse that has just ended


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_f21_a_full_disk_stops_no_process_and_all_goes_on_once_there_is_room(site: Polled) -> None:
    with site(olts=2, microseconds=2_000, lease_seconds=LEASE) as live:
        live.start()
        live.due_now()
        live.wait_for(SUCCESS, count=2)
        before = sorted(live.workers())
        redis = Redis.from_url(live.stack.redis.url)
        limit_files(live, 4096)
        token = redis.get("facho:token")
        ask(VICTIM)
        live.stack.wait_until(lambda: redis.get("facho:token") != token, "a claim on a full disk")
        live.stack.wait_until(lambda: not queueing.lease_tokens([VICTIM]), "a free OLT", LEASE / 2)
        assert all(process.poll() is None for process in live.stack.processes.values())
        limit_files(live, -1)
        live.wait_for(SUCCESS, VICTIM, count=2)
        live.due_now()
        live.wait_for(SUCCESS, OTHER, count=2)
        assert sorted(live.workers()) == before
        assert db.session.connection().exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"


def no_fork(flag: Path, real: Callable[..., None], self: PollerWorker, *job: Any) -> None:
    """The kernel has no room for another process, as long as the flag is there."""
    if flag.exists():
        with flag.open("a") as seen:
            seen.write("x")
        raise OSError(11, "Resource temporarily unavailable")
    real(self, *job)


def test_f21_a_poller_that_cannot_fork_gives_the_olt_back_and_the_composite_runs_later(
    site: Polled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "no-fork"
    real = PollerWorker.fork_work_horse
    monkeypatch.setattr(PollerWorker, "fork_work_horse", lambda self, *job: no_fork(flag, real, self, *job))
    with site(olts=2, microseconds=2_000, lease_seconds=LEASE) as live:
        live.start()
        live.stack.wait_until(lambda: len(live.workers()) == 2, "two pollers")
        flag.touch()
        ask(VICTIM)
        live.stack.wait_until(lambda: flag.stat().st_size > 0, "a fork that failed")
        live.stack.wait_until(lambda: not queueing.lease_tokens([VICTIM]), "a free OLT", LEASE / 2)
        flag.unlink()
        live.wait_for(SUCCESS, VICTIM)
        ask(OTHER)
        live.wait_for(SUCCESS, OTHER)
        assert {attempt.status for attempt in live.attempts()} == {AttemptStatus.SUCCESS}


def test_f21_pollers_without_descriptors_go_on_once_they_have_some_and_no_two_composites_meet(
    site: Polled, tmp_path: Path
) -> None:
    with site(olts=1, microseconds=30_000, lease_seconds=LEASE) as live:
        live.node(VICTIM, "again", "huawei.onu_distance", "walk", max_retries=0)
        live.start()
        ask(VICTIM)
        live.wait_for(SUCCESS, VICTIM)
        redis = Redis.from_url(live.stack.redis.url)
        limits = {pid: resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid in live.workers()}
        for pid, (_, hard) in limits.items():
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), hard))
        token = redis.get("facho:token")
        live.due_now()
        live.stack.wait_until(lambda: redis.get("facho:token") != token, "a claim that comes to nothing")
        for pid in set(limits) & set(live.workers()):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits[pid])
        live.wait_for(SUCCESS, VICTIM, count=3)
        assert live.stack.processes["pollers"].poll() is None
    assert judges.overlaps(judges.requests(tmp_path / LOG), complete=17) == 0
