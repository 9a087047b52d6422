"""The interfaces of an OLT as its table of names lists them. In the caller's transaction."""

from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from portal.domain.composite import ColumnReadings
from portal.domain.positions import position_of
from portal.services.bulk_rows import moment, upsert_rows
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
    listed: dict[str, str] = {}
    columns = ("olt_id", "index_key", "name", *onus.PLACE, "last_seen", "found_by")
    seen, rows = moment(session, source.at), {}
    for reading in column.readings:
        if len(reading.index) > LONGEST_INDEX:
            continue
        place = onus.place_of(position_of(column.spec, reading, {}))
        name = listed[reading.index] = str(reading.value or "")
        rows[reading.index] = (source.olt_id, reading.index, name, *place, seen, source.node_id)
    upsert_rows(session, PonPort, columns, list(rows.values()), columns[:2], columns[2:])
    if column.whole and rows:
        old = (PonPort.olt_id == source.olt_id) & (PonPort.last_seen < source.at)
        strange = PonPort.found_by.is_(None) & (PonPort.last_seen < source.at - FORGOTTEN_AFTER)
        session.execute(delete(PonPort).where(old, (PonPort.found_by == source.node_id) | strange))
    return listed
