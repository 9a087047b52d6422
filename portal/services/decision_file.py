"""The decision log as files: one writer at a time copies coordinator_logs into main.log. It changes no row.

Guaranteed, over kill -9 and power loss too: each committed row becomes one line, once. The position file says up to
which byte of main.log and which id the work is done; what stands behind that byte was interrupted, and is cut off and
written again. Lines of transactions that committed late follow later than their ids say. Not guaranteed: rows that
retention deleted before a writer saw them, and files that somebody else changes.
"""

import fcntl
import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Row, func, or_, select, text

from portal.domain.log_lines import line
from portal.extensions import db
from portal.models.types import off_its_index
from portal.tables import CoordinatorLog, Olt

log = logging.getLogger(__name__)

LARGEST = 10 * 1024 * 1024  # bytes of one file
BACKUPS = 5  # main.log.1 (newest) to main.log.5
BATCH = 2000  # rows read and written at once
MOST = 40_000  # rows in one run: the maintenance worker has other work too
FIRST = 300_000  # rows that a writer without a position begins with: no more fit into the files
_RANGES = 200  # gaps looked at in one statement

# Whoever holds an id that is missing began before the gap was seen. Visible commits come before the end shown here.
_OLDEST = text(
    "SELECT clock_timestamp(), min(xact_start) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


@dataclass(frozen=True)
class Gap:
    """Ids `first` to `last` that were missing among the rows when the database's clock said `seen` (seconds)."""

    first: int
    last: int
    seen: float


@dataclass(frozen=True)
class Position:
    """How far the work is: rows up to `id` are lines (except those in `gaps`), in the first `size` bytes of main.log.

    `at`: timestamp of the row `id`; `newest`: of the newest row of all. Seconds since 1970.
    """

    id: int = 0
    size: int = 0
    at: float = 0.0
    newest: float = 0.0
    gaps: tuple[Gap, ...] = field(default=())


def follow(path: Path, zone: ZoneInfo) -> int:
    """Write what is new; returns how many lines. 0 also when another process writes, or the disk refuses.

    A disk that is full or may not be written is said in the program's log; the next run takes up the work.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path) as alone:
            return _write_all(path, zone) if alone else 0
    except OSError as error:
        log.error(
            "event=decision_log_not_written path=%s error=%s; nothing is lost, it is tried again", path, error.strerror
        )
        return 0
    finally:
        db.session.rollback()


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """True for the one process that may write. The kernel lets go of the lock of a process that dies."""
    with path.with_name(path.name + ".lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _write_all(path: Path, zone: ZoneInfo) -> int:
    stored = _load(path)
    position, written = _renumbered(stored), 0
    while written < MOST:
        rows, ahead = _read(position)
        if rows or ahead != stored:
            ahead = _append(path, position, ahead, "".join(_line(row, zone) for row in rows))
        position, stored, written = ahead, ahead, written + len(rows)
        if len(rows) < BATCH:
            break
    return written


# -- what is new


def _read(position: Position) -> tuple[list[Row[Any]], Position]:
    """The next rows, late ones first, and the position behind them."""
    postgres = db.session.get_bind().dialect.name == "postgresql"
    _seen, oldest = _clock() if postgres else (0.0, None)
    late = _late(position.gaps)
    new = list(db.session.execute(_rows(CoordinatorLog.id > position.id).limit(BATCH)))
    found = {row.id for row in late}
    waiting = [gap for gap in position.gaps if oldest is not None and oldest <= gap.seen]
    gaps = [part for gap in waiting for part in _without(gap, found)]
    # The clock is read again: a gap is as old as the moment at which it was certainly there.
    gaps += _holes(position.id, [row.id for row in new], _clock()[0]) if postgres and new else []
    rows = [*late, *new]
    last = new[-1] if new else None
    return rows, replace(
        position,
        id=last.id if last else position.id,
        at=last.timestamp.timestamp() if last else position.at,
        newest=max([position.newest, *(row.timestamp.timestamp() for row in rows)]),
        gaps=tuple(gaps),
    )


def _clock() -> tuple[float, float | None]:
    """The database's clock, and since when its oldest other transaction goes on (None: there is none)."""
    now, oldest = db.session.execute(_OLDEST).one()
    return now.timestamp(), oldest.timestamp() if oldest else None


def _late(gaps: Sequence[Gap]) -> list[Row[Any]]:
    """Rows that have come into the gaps."""
    found: list[Row[Any]] = []
    for start in range(0, len(gaps), _RANGES):
        ranges = (CoordinatorLog.id.between(gap.first, gap.last) for gap in gaps[start : start + _RANGES])
        found += db.session.execute(_rows(or_(*ranges)))
    return found


def _rows(which: ColumnElement[bool]) -> Any:
    columns = (
        CoordinatorLog.id, CoordinatorLog.timestamp, CoordinatorLog.level, CoordinatorLog.event_type,
        CoordinatorLog.reason, CoordinatorLog.message, Olt.name.label("olt"),
    )  # fmt: skip
    return select(*columns).outerjoin(Olt, Olt.id == CoordinatorLog.olt_id).where(which).order_by(CoordinatorLog.id)


def _without(gap: Gap, found: set[int]) -> Iterator[Gap]:
    """What is left of a gap into which rows have come."""
    first = gap.first
    for number in sorted(one for one in found if gap.first <= one <= gap.last):
        if number > first:
            yield replace(gap, first=first, last=number - 1)
        first = number + 1
    if first <= gap.last:
        yield replace(gap, first=first)


def _holes(last: int, ids: Sequence[int], seen: float) -> list[Gap]:
    """The gaps between `last` and these ids, which go up."""
    before = [last, *ids[:-1]]
    return [Gap(low + 1, high - 1, seen) for low, high in zip(before, ids, strict=True) if high - low > 1]


def _renumbered(position: Position) -> Position:
    """The position, put right where the numbering began anew: SQLite gives ids of deleted rows again, and a backup

    that was restored gives those again that came after it. What is not newer than the newest line counts as written.
    """
    highest = db.session.scalar(select(func.max(CoordinatorLog.id))) or 0
    same = _stamp(position.id) in (None, position.at)
    if position.id == 0 or (same and highest >= position.id):
        return position if position.newest else replace(position, id=max(0, highest - FIRST))
    newest = datetime.fromtimestamp(position.newest, UTC)
    ident = off_its_index(CoordinatorLog.id)
    first = db.session.scalar(select(func.min(ident)).where(CoordinatorLog.timestamp > newest))
    begin = first - 1 if first else highest
    log.warning("event=decision_log_renumbered from=%d to=%d", position.id, begin)
    return replace(position, id=begin, at=_stamp(begin) or 0.0, gaps=())


def _stamp(number: int) -> float | None:
    """When the row of this id was written, in seconds; None where there is no such row."""
    moment = db.session.scalar(select(CoordinatorLog.timestamp).where(CoordinatorLog.id == number))
    return moment.timestamp() if moment else None


def _line(row: Row[Any], zone: ZoneInfo) -> str:
    reason = f" reason={row.reason.value}" if row.reason else ""
    told = f"{row.olt}: {row.message}" if row.olt and row.olt not in row.message else row.message
    return line(row.timestamp.astimezone(zone), row.level, told, f"event={row.event_type.value}{reason} id={row.id}")


# -- the files


def _load(path: Path) -> Position:
    """The position; where there is none, behind what main.log holds."""
    try:
        stored = json.loads(_place(path).read_text())
        return Position(**stored | {"gaps": tuple(Gap(**gap) for gap in stored["gaps"])})
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, KeyError):
        log.warning("event=decision_log_position_unreadable path=%s", _place(path))
    return Position(size=path.stat().st_size if path.exists() else 0)


def _place(path: Path) -> Path:
    return path.with_name(path.name + ".position")


def _append(path: Path, position: Position, ahead: Position, text: str) -> Position:
    """Write `text` behind `position`, then make `ahead` the position; returns it with the size that main.log has."""
    data = text.encode()
    if data and position.size and position.size + len(data) > LARGEST:
        _rotate(path)
        position = replace(position, size=0)
        _save(path, position)
    with path.open("r+b" if path.exists() else "w+b") as handle:
        # Shorter: somebody emptied it, or it was rotated at this moment. Longer: the last write was interrupted.
        size = min(position.size, os.fstat(handle.fileno()).st_size)
        handle.truncate(size)
        handle.seek(size)
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    ahead = replace(ahead, size=size + len(data))
    _save(path, ahead)
    return ahead


def _save(path: Path, position: Position) -> None:
    place = _place(path)
    fresh = place.with_name(place.name + ".new")
    with fresh.open("w") as handle:
        handle.write(json.dumps(asdict(position)))
        handle.flush()
        os.fsync(handle.fileno())
    fresh.replace(place)
    _sync(path.parent)


def _rotate(path: Path) -> None:
    """main.log becomes main.log.1, and so on. Interrupted, it goes on where it was: only what is in the way moves."""
    names = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, BACKUPS + 1))]
    free = next((number for number, name in enumerate(names) if number and not name.exists()), BACKUPS)
    for number in range(free, 0, -1):
        if names[number - 1].exists():
            names[number - 1].replace(names[number])
    _sync(path.parent)


def _sync(folder: Path) -> None:
    """Renames reach the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
