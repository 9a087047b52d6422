"""The interfaces of an OLT as its table of names lists them. In the caller's transaction."""

from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from portal.domain.composite import ColumnReadings
from portal.domain.formulas import Position
from portal.domain.positions import position_of
from portal.services.bulk_rows import change_rows, moment, upsert_rows
from portal.services.collecting import onus
from portal.services.collecting.onus import Source
from portal.tables import PonPort

FORGOTTEN_AFTER = timedelta(days=7)  # of interfaces that no node answers for
LONGEST_INDEX = 60  # of the column for indexes


def names(session: Session, olt_id: int) -> dict[str, str]:
    """Index → name of the interfaces that are stored."""
    query = select(PonPort.index_key, PonPort.name).where(PonPort.olt_id == olt_id)
    return {row.index_key: row.name for row in session.execute(query)}


def store(session: Session, source: Source, column: ColumnReadings) -> dict[str, str]:
    """The interfaces that a table walk listed: index → name. A whole one is the truth: what it once listed and lists

    no more goes, since the names of cards that were pulled out would speak against those of the new ones.
    """
    listed = {one.index: str(one.value or "") for one in column.readings if len(one.index) <= LONGEST_INDEX}
    seen = moment(session, source.at)
    rows = [(source.olt_id, index, name, seen, source.node_id) for index, name in listed.items()]
    columns = ("olt_id", "index_key", "name", "last_seen", "found_by")
    upsert_rows(session, PonPort, columns, rows, columns[:2], columns[2:])
    if column.whole and rows:
        old = (PonPort.olt_id == source.olt_id) & (PonPort.last_seen < source.at)
        strange = PonPort.found_by.is_(None) & (PonPort.last_seen < source.at - FORGOTTEN_AFTER)
        session.execute(delete(PonPort).where(old, (PonPort.found_by == source.node_id) | strange))
    return listed


def place(session: Session, olt_id: int, column: ColumnReadings, learned: Mapping[str, Position]) -> None:
    """Where the interfaces of `column` sit: what it says itself, else what was `learned` of their index."""
    query = select(PonPort.index_key, PonPort.id, *(getattr(PonPort, name) for name in onus.PLACE))
    stored = {row[0]: row[1:] for row in session.execute(query.where(PonPort.olt_id == olt_id))}
    moved = []
    for reading in column.readings:
        if reading.index in stored:
            own = position_of(column.spec, reading, {})
            found = onus.place_of(own if own is not None else learned.get(reading.index))
            ident, *before = stored[reading.index]
            if tuple(before) != found:
                moved.append((*found, ident))
    change_rows(session, PonPort, (*onus.PLACE, "id"), moved, ("id",))
