"""ONUs that an OLT lists under an index that they are not known by: another table, another form, new numbers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from portal.domain.composite import ColumnReadings
from portal.domain.formulas import Position
from portal.domain.positions import position_of
from portal.domain.readings import Reading
from portal.domain.roster import Indexes, by_index, same_onus
from portal.services.collecting import onus
from portal.services.collecting.onus import Row, Source

Known = Callable[[Session], dict[int, Row]]
Names = Callable[[Session, Iterable[ColumnReadings]], Mapping[str, Position]]


@dataclass
class Aliases:
    """Of one composite: index → the one its ONU is known by. `known` and `names` read the ONUs and the interfaces."""

    known: Known
    names: Names
    own: dict[str, str] = field(default_factory=dict)

    def recognise(
        self, session: Session, listing: Iterable[tuple[Source, list[ColumnReadings]]], told: list[ColumnReadings]
    ) -> None:
        """`listing`: discoveries with their columns; `told`: columns of serials, which alone renumber nobody."""
        serials = {index: serial for column in told for index, serial in serials_of(column).items()}
        discoveries = list(listing)
        for source, columns in discoveries:
            found = self._other_indexes(session, columns, serials, source)
            if found.renumbered:
                onus.renumber(session, source, self.known(session), found.renumbered)
            self.own |= found.aliases
        if not discoveries:
            self.own |= self._other_indexes(session, told, {}, None).aliases

    def _other_indexes(
        self, session: Session, columns: list[ColumnReadings], serials: Mapping[str, str], source: Source | None
    ) -> Indexes:
        known = self.known(session) if columns else {}
        at = by_index(known.values())
        if all(reading.index in at for column in columns for reading in column.readings):
            return Indexes()
        named = self.names(session, columns)
        rows = [{r.index: onus.numbered(position_of(one.spec, r, named)) for r in one.readings} for one in columns]
        places = {row.index: row.place for row in known.values() if row.index and row.place[3] is not None}
        mine = onus.answered_for(session, source, known) if source is not None else set()
        return same_onus(rows, at, places, serials, mine, complete=all(column.whole for column in columns))

    def serials_of(self, column: ColumnReadings) -> dict[str, str]:
        """Index that the ONU is known by → serial."""
        return {self.own.get(index, index): serial for index, serial in serials_of(column).items()}

    def ids(self, known: Mapping[int, Row]) -> dict[str, int]:
        """Each index, also under which it is not known → id of the ONU."""
        ids = {row.index: row.id for row in known.values() if row.index is not None}
        return ids | {index: ids[own] for index, own in self.own.items() if own in ids}

    def listed(self, known: Mapping[int, Row], columns: Iterable[ColumnReadings]) -> set[int]:
        """Ids of the ONUs that these columns list under an index that they are not known by."""
        own = {self.own[r.index] for column in columns for r in column.readings if r.index in self.own}
        return {row.id for row in known.values() if row.index in own} if own else set()


def serials_of(column: ColumnReadings) -> dict[str, str]:
    """Index → serial, or MAC address without colons."""
    return {r.index: r.value.replace(":", "") for r in column.readings if isinstance(r.value, str)}


def read_at_place(
    column: ColumnReadings, by_index: Mapping[str, int], by_place: Mapping[Any, Row]
) -> dict[int, Reading]:
    """Rows of a column that is keyed otherwise than the table of ONUs, such as by PON port and number."""
    formula, found = column.spec.formula, {}
    for reading in column.readings:
        position = formula.decode(reading.index) if formula and reading.index not in by_index else None
        if position is not None and position.onu is not None:
            row = by_place.get((position.slot, position.port, position.onu))
            if row is not None:
                found[row.id] = reading
    return found
