"""The decision log as files, on both databases: each row one line, over restarts, late commits and full disks."""

import errno
import fcntl
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, text
from sqlalchemy.orm import Session

from portal.domain.statuses import EventType, SkipReason
from portal.extensions import db, transaction
from portal.services import decision_file, decisions
from portal.tables import CoordinatorLog
from scheduler import upkeep
from testing import builders
from testing.cast import LIMA, at

TEN_IN_LIMA = at("15:00")  # 10:00 in Lima
ID = re.compile(r" id=(\d+)\)$")


@pytest.fixture
def path(app: Flask, tmp_path: Path) -> Any:
    with app.app_context():
        yield tmp_path / "logs" / "coordinator" / "main.log"


def decide(count: int = 1, message: str = "discovery: skipped", seconds: float = 0, **fields: Any) -> None:
    with transaction() as session:
        for number in range(count):
            moment = TEN_IN_LIMA + timedelta(seconds=seconds + number)
            decisions.record(session, EventType.SLOT_SKIPPED, message, moment, level="WARNING", **fields)


def follow(path: Path) -> int:
    return decision_file.follow(path, LIMA)


def die(*_args: object) -> None:
    raise KeyboardInterrupt


def ids(path: Path) -> list[int]:
    """The ids of the lines, oldest file first; each line must be whole."""
    files = [*(path.with_name(f"{path.name}.{n}") for n in range(9, 0, -1)), path]
    lines = [line for one in files if one.exists() for line in one.read_text().splitlines()]
    return [int(ID.search(line)[1]) for line in lines]  # type: ignore[index]


def test_a_decision_becomes_a_line_with_its_olt_in_the_portals_zone(path: Path) -> None:
    decide(olt_id=builders.make_olt("OLT-7").id, reason=SkipReason.OLT_BUSY)
    assert follow(path) == 1
    assert path.read_text() == (
        "2026-11-27 10:00:00 [WARNING] coordinator.coordinator_loop: OLT-7: discovery: skipped"
        " (event=SLOT_SKIPPED reason=olt_busy id=1)\n"
    )


def test_what_was_written_is_not_written_again_and_what_is_new_is_added(path: Path) -> None:
    decide(3)
    assert [follow(path), follow(path)] == [3, 0]
    decide(2, seconds=60)
    assert [follow(path), ids(path)] == [2, [1, 2, 3, 4, 5]]


def test_the_periodic_task_writes_where_the_setting_says(app: Flask, path: Path) -> None:
    app.config["COORDINATOR_LOG"] = str(path)
    decide()
    upkeep.write_decision_log()
    assert ids(path) == [1]


def test_more_rows_than_one_batch_are_all_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_file, "BATCH", 10)
    decide(35)
    assert [follow(path), ids(path)] == [35, list(range(1, 36))]


def test_a_long_past_is_written_in_several_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_file, "BATCH", 10)
    monkeypatch.setattr(decision_file, "MOST", 20)
    decide(50)
    assert [follow(path) for _ in range(4)] == [20, 20, 10, 0]


@pytest.mark.parametrize("step", ["_save", "_append"])
def test_a_dying_writer_loses_no_line_and_doubles_none(path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Dead between the lines and the position (their bytes are there), or before both."""
    decide(3)
    follow(path)
    decide(3, seconds=60)
    with monkeypatch.context() as dying, pytest.raises(KeyboardInterrupt):
        dying.setattr(decision_file, step, die)
        follow(path)
    assert len(path.read_text().splitlines()) == (6 if step == "_save" else 3)
    follow(path)
    assert ids(path) == [1, 2, 3, 4, 5, 6]


def test_half_a_line_of_a_dead_writer_is_cut_off(path: Path) -> None:
    decide(2)
    follow(path)
    with path.open("a") as handle:
        handle.write("2026-11-27 10:00:07 [WARN")
    decide(1, seconds=60)
    follow(path)
    assert ids(path) == [1, 2, 3]


def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_file, "BATCH", 10)
    monkeypatch.setattr(decision_file, "LARGEST", 2000)


def test_files_turn_at_their_size_and_five_older_ones_are_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_files(monkeypatch)
    decide(300)
    follow(path)
    names = sorted(one.name for one in path.parent.glob("main.log*") if not one.name.endswith(("lock", "position")))
    assert names == ["main.log", *(f"main.log.{n}" for n in range(1, 6))]
    assert max(path.with_name(name).stat().st_size for name in names) <= 2000
    kept = ids(path)
    assert kept == list(range(301 - len(kept), 301))


@pytest.mark.parametrize("death", range(8))
def test_death_as_files_turn_loses_and_doubles_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, death: int) -> None:
    """Dies at the n-th rename: of a turn, or of a position."""
    small_files(monkeypatch)
    decide(60)
    renames = iter(range(1000))
    rename = Path.replace

    def mortal(self: Path, target: Path) -> Path:
        if next(renames) == death:
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as dying, pytest.raises(KeyboardInterrupt):
        dying.setattr(Path, "replace", mortal)
        follow(path)
    follow(path)
    assert ids(path) == list(range(1, 61))


def test_while_one_writes_the_others_leave_it_alone(path: Path) -> None:
    decide()
    path.parent.mkdir(parents=True)
    with path.with_name("main.log.lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert [follow(path), path.exists()] == [0, False]
    assert follow(path) == 1


def test_a_full_disk_is_said_and_nothing_is_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    decide(2)
    follow(path)
    decide(2, seconds=60)

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        assert follow(path) == 0
    assert "event=decision_log_not_written" in caplog.text and "No space left on device" in caplog.text
    assert [follow(path), ids(path)] == [2, [1, 2, 3, 4]]


def test_a_place_that_cannot_be_written_is_said_and_nothing_lost(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    decide(2)
    path.parent.parent.parent.mkdir(exist_ok=True)
    path.parent.parent.write_text("a file where the folder should be")
    assert follow(path) == 0
    assert "event=decision_log_not_written" in caplog.text
    path.parent.parent.unlink()
    assert [follow(path), ids(path)] == [2, [1, 2]]


def test_a_file_that_somebody_emptied_goes_on_with_what_is_new(path: Path) -> None:
    decide(3)
    follow(path)
    path.write_text("")
    decide(1, seconds=60)
    follow(path)
    assert ids(path) == [4]


@pytest.mark.parametrize("left", ["nothing", "older"])
def test_ids_that_begin_anew_lose_no_line(path: Path, left: str) -> None:
    """All rows deleted (SQLite counts from 1 again), or a backup restored: ids that were lines mean other rows."""
    decide(5)
    follow(path)
    keep_only(0 if left == "nothing" else 2)
    follow(path)
    decide(2, "new", seconds=600)
    assert follow(path) == 2
    assert path.read_text().count("new (event=") == 2
    assert len(path.read_text().splitlines()) == 7
    assert follow(path) == 0


def test_ids_that_began_anew_and_went_past_the_old_ones_lose_no_line(path: Path) -> None:
    decide(5)
    follow(path)
    keep_only(2)
    decide(9, "new", seconds=600)
    assert follow(path) == 9
    assert len(path.read_text().splitlines()) == 14


def keep_only(rows: int) -> None:
    """A restored backup that has so many: ids go on behind them (SQLite does that by itself)."""
    with transaction() as session:
        session.execute(delete(CoordinatorLog).where(CoordinatorLog.id > rows))
        if db.engine.dialect.name == "postgresql":
            following = text("SELECT setval(pg_get_serial_sequence('coordinator_logs', 'id'), :n, false)")
            session.execute(following, {"n": rows + 1})


# -- rows that are committed later than those that come after them (PostgreSQL)


POSTGRESQL = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer at a time


@pytest.fixture
def other(path: Path) -> Any:
    """Another process' transaction that has an id and is not committed yet."""
    with Session(db.engine) as session:
        decisions.record(session, EventType.SYSTEM, "late", TEN_IN_LIMA)
        session.flush()
        yield session


@POSTGRESQL
def test_a_row_that_is_committed_late_is_written_late(path: Path, other: Session) -> None:
    decide(2)
    assert [follow(path), ids(path)] == [2, [2, 3]]
    assert follow(path) == 0
    other.commit()
    assert [follow(path), ids(path)] == [1, [2, 3, 1]]
    assert follow(path) == 0


@POSTGRESQL
def test_a_row_that_never_comes_is_waited_for_no_longer_than_its_transaction(path: Path, other: Session) -> None:
    decide(2)
    follow(path)
    follow(path)
    assert [gap.first for gap in decision_file._load(path).gaps] == [1]
    other.rollback()
    follow(path)
    assert [decision_file._load(path).gaps, ids(path)] == [(), [2, 3]]


@POSTGRESQL
def test_several_late_rows_are_written_once_each(path: Path, other: Session) -> None:
    with Session(db.engine) as third:
        decisions.record(third, EventType.SYSTEM, "later", TEN_IN_LIMA)
        third.flush()
        decide(1)
        follow(path)
        other.commit()
        follow(path)
        third.commit()
    follow(path)
    assert ids(path) == [3, 1, 2]


@POSTGRESQL
def test_a_dying_writer_remembers_what_it_awaits(path: Path, other: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    decide(2)
    follow(path)
    other.commit()
    with monkeypatch.context() as dying, pytest.raises(KeyboardInterrupt):
        dying.setattr(decision_file, "_save", die)
        follow(path)
    follow(path)
    assert ids(path) == [2, 3, 1]
