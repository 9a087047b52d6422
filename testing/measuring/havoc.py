"""What is done to the running product while it works: kills, freezes, cuts, swallowed replies. No judgement here."""

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import select

from portal.domain.statuses import ExecutionStatus, PollerStatus
from portal.extensions import db
from portal.tables import Execution, Poller, SchedulerState
from testing.stack import Stack, children, send

SPARED_LOSSES = 2  # a third loss parks a composite, which is right but not what is to be shown here
FROZEN_LEASES = 1.2  # a freeze lasts longer than the lease
FROZEN_SECONDS = 20.0  # and at most so long
LEADER_LEASES = 10.0  # seconds: two leases of the scheduler's leader
RECOVERING_SECONDS = 10.0  # after Redis is back: its quarantine, and what was lost is found
SCHEDULERS = ("scheduler", "standby")


@dataclass(frozen=True)
class Fault:
    """One thing that was done. `olt_id`: whose composite it hit. `spare`: another poller was free to go on with it."""

    kind: str
    at: datetime
    olt_id: int | None = None
    spare: bool = False


@dataclass(frozen=True)
class Victim:
    """A poller in the middle of a composite."""

    pid: int
    olt_id: int
    token: int
    spare: bool


@dataclass
class Frozen:
    """Processes under SIGSTOP. With a victim they stay so until its composite is in other hands."""

    pids: list[int]
    since: float
    least: float
    victim: Victim | None = None


@dataclass
class Havoc:
    """Does the faults and remembers them. `ill`: spans in which Redis could not be relied on."""

    running: Stack
    random: random.Random
    lease: float
    outage: float = 0.0  # seconds that Redis is away in an outage
    faults: list[Fault] = field(default_factory=list)
    ill: list[tuple[datetime, datetime]] = field(default_factory=list)
    frozen: list[Frozen] = field(default_factory=list)
    redis_back: list[datetime] = field(default_factory=list)
    takeovers: list[float] = field(default_factory=list)
    octets_cut: int = 0
    _ill_since: datetime | None = None
    _leaderless: tuple[datetime, str] | None = None

    def do(self, kind: str) -> bool:
        """One fault; False when there is nobody to hit at this moment: try again."""
        done: bool = getattr(self, f"_{kind}")()
        return done

    def count(self) -> dict[str, int]:
        """Faults by kind."""
        return dict(Counter(fault.kind for fault in self.faults))

    def _note(self, kind: str, victim: Victim | None = None) -> bool:
        hit = (victim.olt_id, victim.spare) if victim else (None, False)
        self.faults.append(Fault(kind, datetime.now(UTC), *hit))
        return True

    # Pollers

    def _busy(self) -> list[Victim]:
        """Only processes below our own pool: a row may be older than a process id."""
        mine = self.running.below("pollers") - {pid for frozen in self.frozen for pid in frozen.pids}
        query = (
            select(Poller.pid, Execution.olt_id, Execution.token)
            .join(Execution, (Execution.id == Poller.current_execution_id) & (Execution.worker == Poller.worker))
            .where(Execution.status == ExecutionStatus.RUNNING, Execution.losses < SPARED_LOSSES)
        )
        db.session.rollback()
        rows = db.session.execute(query).all()
        spare = self._spare()
        return [Victim(row.pid, row.olt_id, row.token or 0, spare) for row in rows if row.pid in mine]

    def _spare(self) -> bool:
        """Whether a poller is free, and nothing waits for it."""
        free = select(Poller.id).where(Poller.status == PollerStatus.FREE).limit(1)
        waiting = select(Execution.id).where(Execution.status == ExecutionStatus.PENDING).limit(1)
        return db.session.scalar(free) is not None and db.session.scalar(waiting) is None

    def _pick(self) -> Victim | None:
        found = self._busy()
        return self.random.choice(found) if found else None

    def _kill_worker(self) -> bool:
        """kill -9 of a poller in the middle of a composite; its horse dies with it."""
        victim = self._pick()
        return victim is not None and send(victim.pid, signal.SIGKILL) and self._note("kill_worker", victim)

    def _kill_any_worker(self) -> bool:
        """kill -9 of a poller whatever it does: between claim and start, between commit and release, idle."""
        frozen = {pid for one in self.frozen for pid in one.pids}
        workers = sorted(set(children(self.running.processes["pollers"].pid)) - frozen)
        return bool(workers) and send(self.random.choice(workers), signal.SIGKILL) and self._note("kill_any_worker")

    def _kill_horse(self) -> bool:
        """kill -9 of the forked child that reads."""
        victim = self._pick()
        horses = children(victim.pid) if victim else []
        return bool(horses) and send(horses[0], signal.SIGKILL) and self._note("kill_horse", victim)

    def _stop_worker(self) -> bool:
        """SIGTERM of one poller: it may end its composite first, and another takes its place."""
        victim = self._pick()
        return victim is not None and send(victim.pid, signal.SIGTERM) and self._note("stop_worker", victim)

    def _kill_host(self) -> bool:
        """All pollers at once, with their pool: nobody is left to say so. Then the host is back."""
        self.running.kill_tree("pollers")
        self.frozen = [one for one in self.frozen if one.victim is None]
        self.running.start("pollers")
        self._note("kill_host")
        self.ill.append((self.faults[-1].at, datetime.now(UTC) + timedelta(seconds=RECOVERING_SECONDS)))
        return True

    def _freeze(self) -> bool:
        """SIGSTOP of a horse, half the time of its poller too, past the lease."""
        victim = self._pick()
        horses = children(victim.pid) if victim else []
        if victim is None or not horses:
            return False
        pids = [victim.pid, *horses[:1]] if self.random.random() < 0.5 else horses[:1]
        for pid in pids:
            send(pid, signal.SIGSTOP)
        self.frozen.append(Frozen(pids, time.monotonic(), FROZEN_LEASES * self.lease, victim))
        return self._note("freeze", victim)

    # Redis

    @contextmanager
    def _ill_redis(self) -> Iterator[None]:
        began = datetime.now(UTC)
        yield
        self.ill.append((began, datetime.now(UTC) + timedelta(seconds=RECOVERING_SECONDS)))

    def _cut_redis(self) -> bool:
        """kill -9 with the last writes lost, up to 2 s of absence."""
        return self._redis_away("cut_redis", self.random.uniform(0, 2), cut=self.random.randint(60_000, 150_000))

    def _outage(self) -> bool:
        """Redis is away for long; nothing of it is lost."""
        return self._redis_away("outage", self.outage)

    def _redis_away(self, kind: str, seconds: float, cut: int = 0) -> bool:
        with self._ill_redis():
            self._note(kind)
            self.running.redis.kill()
            self.octets_cut += self.running.redis.cut_tail(cut)
            time.sleep(seconds)
            self.running.redis.start()
            self.redis_back.append(datetime.now(UTC))
        return True

    def _flush_redis(self) -> bool:
        with self._ill_redis(), self.running.redis.client() as client:
            client.flushall()
            self._note("flush_redis")
        return True

    def _swallow(self) -> bool:
        """From now on the proxy swallows one reply of twenty."""
        self._ill_since = datetime.now(UTC)
        self.running.proxy.swallow(0.05)
        return self._note("swallow")

    def _pass(self) -> bool:
        self.running.proxy.swallow(0.0)
        if self._ill_since is not None:
            self.ill.append((self._ill_since, datetime.now(UTC) + timedelta(seconds=RECOVERING_SECONDS)))
            self._ill_since = None
        return True

    # Schedulers

    def _leader(self) -> tuple[str, str]:
        """(process, leader's name) of the one that ticked last, by its process id; ("", "") when it is none of ours."""
        db.session.rollback()
        state = db.session.get(SchedulerState, 1)
        name = state.leader if state else ""
        processes = [key for key in SCHEDULERS if f"-{self.running.processes[key].pid}-" in name]
        return (processes[0], name) if processes else ("", "")

    def _kill_leader(self) -> bool:
        """kill -9 of the leading scheduler while a second one stands by; then a new one stands by."""
        process, name = self._leader()
        if not process or self._leaderless is not None:
            return False
        self._note("kill_leader")
        self._leaderless = (self.faults[-1].at, name)
        self.running.stop(process, signal.SIGKILL)
        self.running.start(process, "scheduler", "run")
        return True

    def _freeze_leader(self) -> bool:
        """SIGSTOP of the leading scheduler for two of its leases: there will be two who think they lead."""
        process, _ = self._leader()
        if not process:
            return False
        pid = self.running.processes[process].pid
        send(pid, signal.SIGSTOP)
        self.frozen.append(Frozen([pid], time.monotonic(), LEADER_LEASES))
        return self._note("freeze_leader")

    # In between

    def watch(self) -> None:
        """Wake who has slept long enough; see whether a scheduler has taken over."""
        for frozen in list(self.frozen):
            if self._may_wake(frozen):
                self._wake(frozen)
        if self._leaderless is not None:
            self._see_takeover(*self._leaderless)

    def _see_takeover(self, since: datetime, dead: str) -> None:
        db.session.rollback()
        state = db.session.get(SchedulerState, 1)
        if state is not None and state.leader != dead and state.last_tick_at and state.last_tick_at > since:
            self.takeovers.append((state.last_tick_at - since).total_seconds())
            self._leaderless = None

    def _may_wake(self, frozen: Frozen) -> bool:
        """Best in the middle of the other holder's composite."""
        slept = time.monotonic() - frozen.since
        if slept < frozen.least:
            return False
        return slept > FROZEN_SECONDS or frozen.victim is None or self._in_other_hands(frozen.victim)

    def _in_other_hands(self, victim: Victim) -> bool:
        db.session.rollback()
        query = select(Execution.status, Execution.token).where(Execution.olt_id == victim.olt_id)
        running = db.session.execute(query.where(Execution.status == ExecutionStatus.RUNNING)).first()
        return running is not None and running.token != victim.token

    def _wake(self, frozen: Frozen) -> None:
        for pid in frozen.pids:
            send(pid, signal.SIGCONT)
        self.frozen.remove(frozen)

    def end(self) -> None:
        """Everything is let go on; nothing is swallowed any more."""
        for frozen in list(self.frozen):
            self._wake(frozen)
        self._pass()

    def calm(self, at: datetime, seconds: float = 1.5) -> bool:
        """Whether Redis and the pool could be relied on for so long after `at`."""
        return not any(begin - timedelta(seconds=seconds) < at < end for begin, end in self.ill)
