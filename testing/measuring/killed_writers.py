"""Writers in processes of their own, killed in the middle of their commits; `bench.killed_writers` says how and why."""

import os
import random
import select as polling
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path

from flask import Flask
from sqlalchemy import event, func, select
from sqlalchemy.exc import OperationalError

from portal.domain.composite import CompositeResult, CompositeWork
from portal.domain.statuses import ACTIVE, ExecutionStatus
from portal.extensions import db
from portal.services.dispatch import executions, run_requests
from portal.services.errors import Conflict
from portal.tables import Execution
from scheduler.tick import tick
from testing.measuring import commit_audit, committing

INTERVAL = 1  # seconds between two slots of a master
AT_COMMIT = 0.003  # seconds after the word
ANYWHERE = 0.15
LEASE = timedelta(seconds=15)
TRIES = 4  # to write a result, as in jobs.tasks


@dataclass(frozen=True)
class Plan:
    """What to run. `url`: a database that is there already."""

    kills: int
    pollers: int
    postgres: bool = False
    seed: int = 24
    seconds: float = 900.0  # no more kills after so long
    url: str = ""


@dataclass
class Writer:
    """A child, and the end of the pipe on which it says that it is about to commit."""

    name: str
    body: Callable[[str], None]
    child: BaseProcess
    hears: int

    def kill(self, dice: random.Random) -> bool:
        """SIGKILL; True when it fell on a commit."""
        at_commit = dice.random() < 0.5 and self._next_commit()
        time.sleep(dice.uniform(0, AT_COMMIT if at_commit else ANYWHERE))
        self.child.kill()
        self.child.join()
        os.close(self.hears)
        return at_commit

    def _next_commit(self) -> bool:
        """Wait for the word; False when none comes within a second."""
        while polling.select([self.hears], [], [], 0)[0]:
            os.read(self.hears, 65536)
        return bool(polling.select([self.hears], [], [], 1.0)[0])


def _say_so(pipe: int) -> None:
    """Before each COMMIT a word goes into the pipe; a full pipe is no reason to wait."""
    os.set_blocking(pipe, False)

    def tell(_connection: object) -> None:
        try:
            os.write(pipe, b"c")
        except BlockingIOError:
            pass

    event.listen(db.engine, "commit", tell)


def _for_ever(pipe: int, refused: Path, once: Callable[[], None]) -> None:
    """What the database refuses is noted and done again, as the product does."""
    _say_so(pipe)
    while True:
        try:
            once()
        except OperationalError as error:
            with refused.open("a") as notes:
                notes.write(f"{str(error.orig).splitlines()[0]}\n")
            db.session.rollback()


def _poll(olt_id: int, name: str) -> None:
    """The oldest composite of one OLT, from PENDING to its end, as jobs.tasks does it."""
    pending = select(Execution.id).where(Execution.olt_id == olt_id, Execution.status == ExecutionStatus.PENDING)
    found = db.session.scalars(pending.order_by(Execution.id).limit(1)).first()
    db.session.rollback()
    if found is None:
        time.sleep(0.005)
        return
    now, token = datetime.now(UTC), time.time_ns() // 1000
    composed = executions.start(found, token, name, now, now + LEASE)
    if composed is not None:
        _finish(composed, committing.outcome(composed, token % 1_000_000))


def _finish(composed: CompositeWork, result: CompositeResult) -> None:
    for _ in range(TRIES - 1):
        try:
            executions.finish(composed.execution_id, composed.token, result, datetime.now(UTC))
            return
        except OperationalError:
            db.session.rollback()
    executions.finish(composed.execution_id, composed.token, result, datetime.now(UTC))


def _schedule(_name: str) -> None:
    tick("bench", datetime.now(UTC), redis_trouble="none here")
    time.sleep(0.02)


def _click(masters: list[int], name: str) -> None:
    """Somebody asks for a run, and at times takes it back."""
    found, _ = run_requests.run_now(random.choice(masters), name, datetime.now(UTC))
    if random.random() < 0.3:
        try:
            run_requests.cancel(found, name, datetime.now(UTC))
        except Conflict:
            db.session.rollback()
    time.sleep(0.02)


@dataclass
class Crowd:
    """The writers, by place; whoever is killed is replaced under a new name."""

    app: Flask
    refused: Path  # a line for each refusal of the database
    writers: list[Writer]
    numbers: Iterator[int]

    def add(self, body: Callable[[str], None]) -> None:
        name = f"writer-{next(self.numbers)}"
        hears, says = os.pipe()
        child = committing.forked(self.app, partial(_for_ever, says, self.refused, partial(body, name)))
        os.close(says)
        self.writers.append(Writer(name, body, child, hears))

    def kill_one(self, dice: random.Random) -> bool:
        writer = self.writers.pop(dice.randrange(len(self.writers)))
        at_commit = writer.kill(dice)
        self.give_up()
        self.add(writer.body)
        return at_commit

    def give_up(self) -> None:
        """What runs under the name of somebody who is dead is lost. A server may still commit what it was told to:

        then it is found here at the next death.
        """
        alive = {writer.name for writer in self.writers}
        running = select(Execution.id, Execution.token, Execution.worker)
        rows = db.session.execute(running.where(Execution.status == ExecutionStatus.RUNNING)).all()
        db.session.rollback()
        lost = [(row.id, row.token or 0) for row in rows if row.worker not in alive]
        if lost:
            executions.lost(lost, "killed", datetime.now(UTC))

    def end(self) -> None:
        """All of them, at once."""
        for writer in self.writers:
            writer.child.kill()
        for writer in self.writers:
            writer.child.join()
            os.close(writer.hears)
        self.writers.clear()
        self.give_up()


def _decided() -> datetime:
    """The last slot that counts; every slot up to it is decided."""
    until = datetime.now(UTC).replace(microsecond=0)
    while db.session.scalar(commit_audit.behind(until)):
        _schedule("end")
    return until


@contextmanager
def _crowd(app: Flask, masters: dict[int, int], refused: Path) -> Iterator[Crowd]:
    crowd = Crowd(app, refused, [], count(1))
    try:
        for olt_id in masters:
            crowd.add(partial(_poll, olt_id))
        crowd.add(_schedule)
        crowd.add(partial(_click, list(masters.values())))
        yield crowd
    finally:
        crowd.end()


def _lines(path: Path) -> dict[str, int]:
    return dict(Counter(path.read_text().splitlines())) if path.exists() else {}


def run(plan: Plan, place: Path) -> dict[str, object]:
    """Kill, then audit; the figures. `place` is a folder for the database and notes."""
    dice = random.Random(plan.seed)
    began = time.monotonic()
    with committing.product(postgres=plan.postgres, url=plan.url, where=place) as app:
        first = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
        masters = committing.fill(plan.pollers, interval=INTERVAL, first=first)
        with _crowd(app, masters, place / "refused") as crowd:
            hits = [crowd.kill_one(dice) for _ in range(plan.kills) if time.monotonic() - began < plan.seconds]
        until = _decided()
        found = commit_audit.audit(dict.fromkeys(masters.values(), first), INTERVAL, until)
        ended = select(func.count()).select_from(Execution).where(Execution.status.not_in(ACTIVE))
        done = db.session.scalar(ended)
    return {
        "database": "postgresql" if plan.postgres or plan.url.startswith("postgresql") else "sqlite",
        "kills": len(hits), "at_commit": sum(hits), "pollers": plan.pollers, "ended": done,
        "refused": _lines(place / "refused"),
        "seconds": round(time.monotonic() - began), **found,
        "goal_met": len(hits) == plan.kills and not any(found.values()),
    }  # fmt: skip
