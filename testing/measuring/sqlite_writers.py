"""Writers and readers of one SQLite file, in processes; `bench.sqlite_writers` says what its figures mean."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from portal.domain.statuses import Trigger
from portal.extensions import db, transaction
from portal.queries import dashboard, pulse
from portal.queries import executions as executions_read
from portal.services.dispatch import executions, work
from portal.tables import Execution, Olt
from testing.measuring import committing
from testing.measuring.quantiles import quantile

GOAL_COMMIT_MS, GOAL_WAL_MIB = 200.0, 64.0
STOP = "stop"  # file that ends the readers


@dataclass(frozen=True)
class Load:
    """Who does what for how long; a writer ends after `cycles` composites or `seconds`, whichever comes first."""

    writers: int = 16
    readers: int = 20
    seconds: float = 60.0
    cycles: int = 1_000_000
    pause: float = 0.5
    reader_pause: float = 0.25


@dataclass
class Notes:
    """What one process saw. Times in seconds: (waited for the lock, held it, committed)."""

    times: list[tuple[float, float, float]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    done: int = 0

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """The product's, timed."""
        began = time.perf_counter()
        with transaction() as session:
            held = time.perf_counter()
            yield session
            ended = time.perf_counter()
        self.times.append((held - began, ended - held, time.perf_counter() - ended))

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Refusals of the database are counted, not raised."""
        try:
            yield
            self.done += 1
        except OperationalError as error:
            self.errors[str(error.orig)] += 1
            db.session.rollback()

    def write(self, path: Path) -> None:
        path.write_text(json.dumps({"times": self.times, "errors": self.errors, "done": self.done}))


def _composite(notes: Notes, olt_id: int, master: int, number: int) -> None:
    now = datetime.now(UTC)
    with notes.transaction() as session:
        olt = session.get_one(Olt, olt_id)
        execution = Execution(
            node_id=master, node_name="state", olt_id=olt_id, device_key=olt.device_key, trigger=Trigger.SCHEDULE,
            priority=90, scheduled_for=now, queued_at=now,
        )  # fmt: skip
        session.add(execution)
        session.flush()
        ident = execution.id
    session = db.session()
    loaded = session.scalars(work.loaded(ident)).one()
    composed = work.compose(session, loaded, time.time_ns() // 1000, now)
    session.rollback()
    with notes.transaction() as session:
        executions.take(session, ident, composed, f"writer-{olt_id}", now, now + timedelta(seconds=15))
    with notes.transaction() as session:
        executions.write_result(session, ident, composed.token, committing.outcome(composed, number), now)


def _write(load: Load, olt_id: int, master: int, place: Path) -> None:
    notes, until, number = Notes(), time.monotonic() + load.seconds, 0
    time.sleep(load.pause * olt_id / load.writers)
    while number < load.cycles and time.monotonic() < until:
        number += 1
        with notes.counting():
            _composite(notes, olt_id, master, number)
        time.sleep(load.pause)
    notes.write(place / f"writer-{olt_id}.json")


def _read(pause: float, number: int, place: Path) -> None:
    notes = Notes()
    while not (place / STOP).exists():
        with notes.counting():
            now = datetime.now(UTC)
            pulse.read(now)
            executions_read.page(executions_read.Filter())
            dashboard.overview(now)
            db.session.rollback()
        time.sleep(pause)
    notes.write(place / f"reader-{number}.json")


def _wal_mib(place: Path) -> float:
    with suppress(FileNotFoundError):
        return (place / "facho.db-wal").stat().st_size / 1024 / 1024
    return 0.0


def _drive(load: Load, place: Path) -> float:
    """Run them all to their end; the largest size of the WAL in MiB."""
    with committing.product(where=place) as app:
        masters = committing.fill(load.writers)
        readers = [
            committing.forked(app, partial(_read, load.reader_pause, number, place)) for number in range(load.readers)
        ]
        writers = [committing.forked(app, partial(_write, load, olt, master, place)) for olt, master in masters.items()]
        largest = 0.0
        while any(writer.exitcode is None for writer in writers):
            largest = max(largest, _wal_mib(place))
            time.sleep(0.05)
        (place / STOP).touch()
        for child in (*writers, *readers):
            child.join()
        if any(child.exitcode for child in (*writers, *readers)):
            raise RuntimeError("a writer or reader crashed: see its traceback above")
    return largest


def _shares(seconds: list[float]) -> dict[str, float]:
    shares = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    return {name: round(quantile(seconds, share) * 1000, 1) for name, share in shares}


def run(load: Load, place: Path) -> dict[str, object]:
    """The figures; `place` is an empty folder for the database."""
    began = time.monotonic()
    wal = _drive(load, place)
    took = time.monotonic() - began
    wrote = [json.loads(path.read_text()) for path in place.glob("writer-*.json")]
    read = [json.loads(path.read_text()) for path in place.glob("reader-*.json")]
    times = [tuple(one) for notes in wrote for one in notes["times"]]
    errors: Counter[str] = Counter()
    for notes in (*wrote, *read):
        errors.update(notes["errors"])
    commit = _shares([one[2] for one in times])
    return {
        "writers": load.writers, "readers": load.readers, "pause": load.pause, "seconds": round(took),
        "transactions": len(times), "per_second": round(len(times) / took, 1), "pages": sum(n["done"] for n in read),
        "locked": sum(count for text, count in errors.items() if "locked" in text or "busy" in text),
        "errors": dict(errors), "wait_ms": _shares([one[0] for one in times]),
        "held_ms": _shares([one[1] for one in times]), "commit_ms": commit, "wal_mib": round(wal, 1),
        "goal_met": not errors and commit["p99"] < GOAL_COMMIT_MS and wal < GOAL_WAL_MIB,
    }  # fmt: skip
