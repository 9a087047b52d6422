"""Readings of ports, cards and of what an OLT has one of, with their history. In the caller's transaction."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain import series
from portal.domain.composite import ColumnReadings, ReadingSpec
from portal.domain.readings import NOT_LISTED, Reading
from portal.models.part import INDEX_LENGTH, READ_AS
from portal.services.bulk_rows import moment, upsert_rows
from portal.services.collecting.latest import beyond
from portal.services.collecting.onus import Source
from portal.tables import OltData, OltHistory, OltRead

_DATA = (
    "olt_id", "metric", "index_key", "shape", "number", "text", "unit", "raw", "reason", "kept", "collected_at",
    "execution_id",
)  # fmt: skip
_HISTORY = ("olt_id", "metric", "index_key", "collected_at", *series.VALUES)


class Stored(NamedTuple):
    """What came of columns: values read, and those that say something new."""

    read: int
    new: int


def store(session: Session, source: Source, shape: str, columns: Iterable[ColumnReadings]) -> Stored:
    """Write what changed of these columns. What a whole column lists no longer has no reading any more."""
    columns = list(columns)
    if not columns:
        return Stored(0, 0)
    before = _stored(session, source.olt_id, [column.spec.metric for column in columns])
    at, read, new = moment(session, source.at), 0, 0
    data: dict[tuple[str, str], tuple[Any, ...]] = {}
    history: list[tuple[Any, ...]] = []
    for column in columns:
        known = before.get(column.spec.metric, {})
        listed = {one.index: one for one in column.readings if len(one.index) <= INDEX_LENGTH}
        read += len(listed)
        missing = known.keys() - listed.keys() if column.whole else ()
        listed |= {
            index: Reading(index, None, "", NOT_LISTED) for index in missing if known[index].reason != NOT_LISTED
        }
        for index, reading in listed.items():
            old = known.get(index)
            if old is not None and column.whole and (_value(old), old.reason) == (reading.value, reading.reason):
                continue
            new += old is None or _value(old) != reading.value
            kept = _kept(column.spec, reading, old)
            if column.spec.dead_band is not None and (old is None or kept != old.kept) and not isinstance(kept, str):
                history.append((source.olt_id, column.spec.metric, index, at, *series.values_of(kept)))
            data[column.spec.metric, index] = _row(source, shape, column.spec, reading, kept, at)
    upsert_rows(session, OltData, _DATA, [data[key] for key in sorted(data)], _DATA[:3], _DATA[3:])
    upsert_rows(session, OltHistory, _HISTORY, sorted(history, key=lambda row: row[:3]), _HISTORY[:4], ())
    whole = [(source.olt_id, READ_AS + column.spec.metric, at, source.execution_id)
             for column in columns if column.whole]  # fmt: skip
    names = ("olt_id", "metric", "read_at", "execution_id")
    upsert_rows(session, OltRead, names, whole, names[:2], names[2:])
    return Stored(read, new)


def _stored(session: Session, olt_id: int, metrics: list[str]) -> dict[str, dict[str, Any]]:
    """Metric → index → its row."""
    columns = (OltData.metric, OltData.index_key, OltData.number, OltData.text, OltData.reason, OltData.kept)
    found: dict[str, dict[str, Any]] = {}
    for row in session.execute(select(*columns).where(OltData.olt_id == olt_id, OltData.metric.in_(metrics))):
        found.setdefault(row.metric, {})[row.index_key] = row
    return found


def _value(row: Any) -> float | str | None:
    value: float | str | None = row.text if row.number is None else row.number
    return value


def _kept(spec: ReadingSpec, reading: Reading, old: Any) -> float | None:
    """The number that the history holds from now on: this one where it left the dead band."""
    number = None if isinstance(reading.value, str) else reading.value
    kept = old.kept if old is not None else None
    moved = spec.dead_band is not None and beyond(number, kept, spec.dead_band, first=old is None)
    return number if moved else kept


def _row(
    source: Source, shape: str, spec: ReadingSpec, reading: Reading, kept: float | None, at: str
) -> tuple[Any, ...]:
    number, text = (None, reading.value) if isinstance(reading.value, str) else (reading.value, None)
    return (source.olt_id, spec.metric, reading.index, shape, number, text, spec.value.unit, reading.raw,
            reading.reason, kept, at, source.execution_id)  # fmt: skip


def by_shape(columns: Iterable[ColumnReadings], default: str) -> Mapping[str, list[ColumnReadings]]:
    """Columns of parts by what a row of them is; `default` for an OID that the catalogue does not know."""
    found: dict[str, list[ColumnReadings]] = {}
    for column in columns:
        found.setdefault("scalar" if column.spec.scalar else column.spec.shape or default, []).append(column)
    return found
