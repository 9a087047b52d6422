"""Latest readings and their history: what changed is written, in bulk. Works in the caller's transaction."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from portal.domain import series
from portal.domain.composite import IDENTITIES
from portal.domain.readings import NOT_LISTED, Reading
from portal.services.bulk_rows import fetch_rows, moment, replace_rows, upsert_rows
from portal.services.upsert import BATCH
from portal.tables import OltRead, OnuData, OnuHistory

_DATA = ("onu_id", "metric", "number", "text", "raw", "reason", "kept", "collected_at", "execution_id")
_HISTORY = ("onu_id", "metric", "collected_at", *series.VALUES)
_Stored = tuple[float | str | None, str, float | None]  # value, reason, kept
_SELECT = "SELECT metric, onu_id, number, text, reason, kept FROM onu_data WHERE metric IN ({}) AND "
SPREAD = 4  # ids of an OLT's ONUs within so many times their number: then a range of ids is read, else each by its id


@dataclass(frozen=True)
class Column:
    """The readings of one metric by ONU id. `complete`: of all ONUs in `present` that have any."""

    metric: str
    rows: Mapping[int, Reading]
    complete: bool
    dead_band: float | None = None  # None: no history
    present: Sequence[int] = ()  # of these, what a complete table does not list has no reading any more
    tables: frozenset[int | None] | None = None  # discoveries whose ONUs it is about; None: all of the OLT

    def beside(self, other: "Column | None") -> "Column":
        """Both as one, where two columns hold the same metric of different ONUs: GPON's and EPON's."""
        if other is None:
            return self
        both = None if self.tables is None or other.tables is None else self.tables | other.tables
        return replace(
            self, rows={**other.rows, **self.rows}, complete=self.complete and other.complete,
            present=list(dict.fromkeys([*other.present, *self.present])), tables=both,
        )  # fmt: skip

    @property
    def read_as(self) -> list[str]:
        """Names under which it stands that it was read of all these ONUs (OltRead)."""
        if self.tables is None:
            return [self.metric]
        return [f"{self.metric}@{node_id}" for node_id in sorted(filter(None, self.tables))]


class Stored(NamedTuple):
    """What came of columns: rows `written`; values that say something `new` (the first of their kind too), and of

    which a whole table says no longer anything (`vanished`). A row may be written only because a reason differs, or
    because it alone tells when it was read.
    """

    written: int
    new: int
    vanished: int


@dataclass
class _Writing:
    """Rows for the tables; how many of them say something new, and how many values vanished."""

    at: Any
    execution_id: int
    new: list[tuple[Any, ...]] = field(default_factory=list)
    changed: list[tuple[Any, ...]] = field(default_factory=list)
    history: list[tuple[Any, ...]] = field(default_factory=list)
    unlisted: dict[str, list[int]] = field(default_factory=dict)  # serials that a whole column lists no longer
    differing: int = 0
    vanished: int = 0

    def take(self, column: Column, stored: Mapping[int, _Stored]) -> None:
        """What changed of one column."""
        always = not column.complete
        for onu_id, reading in column.rows.items():
            before = stored.get(onu_id)
            if before is None:
                self.differing += 1
                self._write(self.new, column, onu_id, reading, None)
            elif always or reading.value != before[0] or reading.reason != before[1]:
                self.differing += reading.value != before[0]
                self._write(self.changed, column, onu_id, reading, before)
        if column.complete:
            for onu_id in column.present:
                before = stored.get(onu_id)
                if before is None or onu_id in column.rows or before[1] == NOT_LISTED:
                    continue
                if column.metric in IDENTITIES:
                    self.unlisted.setdefault(column.metric, []).append(onu_id)
                    continue
                self.vanished += before[0] is not None
                self._write(self.changed, column, onu_id, Reading("", None, "", NOT_LISTED), before)

    def _write(
        self, rows: list[tuple[Any, ...]], column: Column, onu_id: int, reading: Reading, before: _Stored | None
    ) -> None:
        """A row; and a point of history where a number left its dead band."""
        _, value, raw, reason, _ = reading
        kept = before[2] if before is not None else None
        number, text = (None, value) if isinstance(value, str) else (value, None)
        if column.dead_band is not None and beyond(number, kept, column.dead_band, first=before is None):
            kept = number
            self.history.append((onu_id, column.metric, self.at, *series.values_of(number)))
        rows.append((onu_id, column.metric, number, text, raw, reason, kept, self.at, self.execution_id))


def store(
    session: Session, olt_id: int, execution_id: int, onu_ids: Collection[int], columns: Sequence[Column], at: datetime
) -> Stored:
    """Write what changed of these columns; returns how much that was. `at`: when they were read.

    `onu_ids`: all ONUs of the OLT. A reading that says what the stored one says is not written again: that its metric
    was read of all ONUs stands once for the OLT. Of a column that is not complete each reading is written, since only
    itself says when it was.
    """
    stored = _stored(session, onu_ids, [column.metric for column in columns])
    writing = _Writing(moment(session, at), execution_id)
    for column in columns:
        writing.take(column, stored[column.metric])
    # In the order of the key: fewer pages are touched, and no two writers get in each other's way.
    writing.new.sort()
    writing.changed.sort()
    upsert_rows(session, OnuData, _DATA, writing.new, _DATA[:2], _DATA[2:])
    replace_rows(session, OnuData, _DATA, writing.changed, _DATA[:2], _DATA[2:])
    upsert_rows(session, OnuHistory, _HISTORY, writing.history, _HISTORY[:3], ())
    for column in columns:
        if column.metric in writing.unlisted:
            _unlist(session, olt_id, column, writing.unlisted[column.metric])
    whole = [(olt_id, name, writing.at, execution_id) for column in columns if column.complete
             for name in column.read_as]  # fmt: skip
    upsert_rows(
        session, OltRead, ("olt_id", "metric", "read_at", "execution_id"), whole, ("olt_id", "metric"),
        ("read_at", "execution_id"),
    )  # fmt: skip
    return Stored(len(writing.new) + len(writing.changed), writing.differing, writing.vanished)


def _unlist(session: Session, olt_id: int, column: Column, onu_ids: Sequence[int]) -> None:
    """A serial that is not listed stays: the ONU is who it was, and stood there when the column was read before."""
    names = OltRead.metric.in_(column.read_as)
    read = session.scalar(select(func.max(OltRead.read_at)).where(OltRead.olt_id == olt_id, names))
    for start in range(0, len(onu_ids), BATCH):
        mine = (OnuData.metric == column.metric) & OnuData.onu_id.in_(onu_ids[start : start + BATCH])
        session.execute(update(OnuData).where(mine).values(reason=NOT_LISTED))
        if read is not None:
            session.execute(update(OnuData).where(mine, OnuData.collected_at < read).values(collected_at=read))


def _stored(session: Session, onu_ids: Collection[int], metrics: Sequence[str]) -> dict[str, dict[int, _Stored]]:
    """Metric → ONU id → what its row says. ONUs of other OLTs may be among them."""
    found: dict[str, dict[int, _Stored]] = {metric: {} for metric in metrics}
    if not onu_ids:
        return found
    select = _SELECT.format(", ".join("?" * len(metrics)))
    low, high = min(onu_ids), max(onu_ids)
    if high - low <= SPREAD * len(onu_ids):
        rows = fetch_rows(session, f"{select} onu_id BETWEEN ? AND ?", (*metrics, low, high))
    else:
        listed, rows = sorted(onu_ids), []
        for start in range(0, len(listed), BATCH):
            part = listed[start : start + BATCH]
            rows += fetch_rows(session, f"{select} onu_id IN ({', '.join('?' * len(part))})", (*metrics, *part))
    for metric, onu_id, number, text, reason, kept in rows:
        found[metric][onu_id] = (text if number is None else number, reason, kept)
    return found


def beyond(number: float | None, kept: float | None, band: float, *, first: bool) -> bool:
    """Whether a number is so far from the one that the history holds that it is kept too."""
    if number is None or kept is None:
        return (number is None) is not (kept is None) or (first and number is not None)
    return abs(number - kept) >= band
