"""What the steps of a composite mean for the tables: interfaces, ONUs, latest readings. In the caller's transaction."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from portal.domain import searching
from portal.domain.catalogue_data import Shape
from portal.domain.composite import ColumnReadings, ReadingSpec, StepResult
from portal.domain.formulas import Position
from portal.domain.positions import position_of
from portal.domain.readings import NO_SUCH_INSTANCE, UNSUPPORTED, Reading, ValueType, constant_zero, is_sparse
from portal.domain.statuses import NodeKind, OnuEventKind
from portal.extensions import after_commit
from portal.services.bulk_rows import change_rows, moment
from portal.services.cataloguing import index_families
from portal.services.collecting import devices, latest, onus, parts, ports, table_sizes
from portal.services.collecting.onu_identity import follow, identify
from portal.services.collecting.onu_indexes import Aliases, read_at_place
from portal.services.collecting.onus import Row, Source
from portal.services.collecting.unproven import take_back_nameless
from portal.tables import Olt, Onu

log = logging.getLogger(__name__)

MODEL_LENGTH = 80  # of the column; cut before comparing, else a longer one would count as changed at each run
LABEL_LENGTH = 40
LONGEST_INDEX = 120  # of the column for indexes
_TEXTS = {"onu_description": "description", "onu_model": "model"}
_PLACES = {"onu_slot": 1, "onu_pon": 2, "onu_id": 3}  # columns that say where an ONU is, for indexes that do not


class Books:
    """One composite's entries, step by step; what the database holds of its OLT's ONUs is read once.

    Rows of a table are booked to the ONU that stood at their index when they were read. `telling`: nodes of the steps
    that read serials; what is read of ONUs before them waits for them. Where they find another ONU than was known
    there, what came before is booked to nobody: it may be of either.

    `counts`: onus_seen, onus_new, onus_gone, ports, values (read), changed (written). `entered`: ids of the nodes whose
    steps are written. `sparse`: node id → metric → [ONUs with a value, ONUs expected], of columns that were read to
    their end and hold few values. `step_counts`: node id → (values read, of which say something new): readings of ONUs,
    names of interfaces, and for a discovery the presence of each ONU; what is seen for the first time is new, a value
    that a whole table holds no longer is read and new once. After a rollback what it remembers is wrong: go on with
    `afresh()`.
    """

    def __init__(self, olt_id: int, execution_id: int, telling: Collection[int] = ()) -> None:
        self.olt_id, self.execution_id = olt_id, execution_id
        self.entered: set[int] = set()
        self._telling = frozenset(telling)
        self._waiting: dict[int, tuple[StepResult, NodeKind | None]] = {}  # by node
        self._given: dict[int, tuple[StepResult, NodeKind | None]] = {}  # all that was ever waiting
        self._booked: set[int] = set()  # entered, or in the transaction that is under way
        self.sparse: dict[int, dict[str, list[int]]] = {}
        self.step_counts: dict[int, tuple[int, int]] = {}
        self._read = self._new = 0  # of the step that is being entered
        self._kept: dict[str, int] = {}
        self.counts = {"onus_seen": 0, "onus_new": 0, "onus_gone": 0, "ports": 0, "values": 0, "changed": 0}
        self._onus: dict[int, Row] | None = None
        self._loaded: frozenset[int] = frozenset()  # ONUs that were known before this composite
        self._named: dict[str, Position] | None = None
        self._doubtful: set[int] = set()  # ONUs that what was read before their serial may not be of
        self._left: set[str | None] = set()  # indexes whose ONU stood elsewhere when the serials were read
        self._aliases = Aliases(self._known, self._names)
        self._held: set[int] = set()  # ONUs that the table lost, and that stay until a second walk agrees

    def afresh(self) -> "Books":
        """The same entries with nothing remembered of the database."""
        other = Books(self.olt_id, self.execution_id, self._telling)
        other.entered = set(self.entered)
        other._booked = set(self.entered)
        other._waiting = {node_id: one for node_id, one in self._given.items() if node_id not in self.entered}
        other._given = dict(self._given)
        other.sparse = {node_id: found for node_id, found in self.sparse.items() if node_id in self.entered}
        other.step_counts = {node_id: found for node_id, found in self.step_counts.items() if node_id in self.entered}
        other.counts |= self._kept
        other._kept = dict(self._kept)
        return other

    def enter(self, session: Session, step: StepResult, kind: NodeKind | None, now: datetime) -> None:
        """Write all that `step` read, or keep it until the serials are there.

        `kind` of its node; None when the node was deleted meanwhile.
        """
        if kind is NodeKind.TABLE:
            self._book(session, [(step, kind)], now)
            return
        self._waiting[step.node_id] = self._given[step.node_id] = (step, kind)
        if not self._telling - self._booked - self._waiting.keys():
            steps, self._waiting = list(self._waiting.values()), {}
            self._book(session, steps, now)

    def _book(self, session: Session, steps: list[tuple[StepResult, NodeKind | None]], now: datetime) -> None:
        self._recognise_indexes(session, steps, now)
        moved = {step.node_id: self._identify(session, self._source(step, now), step.columns) for step, _kind in steps}
        for step, kind in steps:
            self._read, self._new = 0, moved[step.node_id]
            self._enter(session, self._source(step, now), step, kind)
            self.step_counts[step.node_id] = (self._read, self._new)
        counts, booked = dict(self.counts), {step.node_id for step, _kind in steps}
        self._booked |= booked

        def committed() -> None:
            self.entered |= booked
            self._kept = counts

        after_commit(session, committed)

    def _source(self, step: StepResult, now: datetime) -> Source:
        return Source(self.olt_id, self.execution_id, step.node_id, step.finished_at or now)

    def _recognise_indexes(
        self, session: Session, steps: list[tuple[StepResult, NodeKind | None]], now: datetime
    ) -> None:
        """Before anything is booked, as `_identify`: the ONU at an index is to be the right one."""
        given = [(step, kind, [column for column in step.columns if not column.spec.of_part]) for step, kind in steps]
        told = [column for *_, columns in given for column in columns if column.spec.tells_identity]
        listing = [(self._source(step, now), columns) for step, kind, columns in given if kind is NodeKind.DISCOVERY]
        self._aliases.recognise(session, listing, told)

    def _identify(self, session: Session, source: Source, columns: Iterable[ColumnReadings]) -> int:
        """Who stands where, before anything is booked there. Returns how many moved."""
        moved = 0
        for column in columns:
            if not column.spec.tells_identity:
                continue
            known = self._known(session)
            before = {row.index: row.serial for row in known.values() if row.index is not None}
            stood = {row.id: row.index for row in known.values()}
            serials = self._aliases.serials_of(column)
            nameless = {onu_id for onu_id in self._loaded if onu_id in known and known[onu_id].serial is None}
            moved += identify(session, source, known, serials, complete=column.whole)
            named = {onu_id for onu_id in nameless if onu_id in known and known[onu_id].serial is not None}
            self._doubtful |= take_back_nameless(session, self.olt_id, known, named)
            other = {index for index, serial in serials.items() if before.get(index) not in (None, serial)}
            self._doubtful |= {row.id for row in known.values()
                               if row.index in other or stood.get(row.id, row.index) != row.index}  # fmt: skip
            if column.whole:
                self._left |= before.keys() - {row.index for row in known.values()} - serials.keys()
        return moved

    def _enter(self, session: Session, source: Source, step: StepResult, kind: NodeKind | None) -> None:
        table_sizes.store(session, self.olt_id, step.sizes, source.at)
        table = kind is NodeKind.TABLE
        of_parts = [_supported(column) for column in step.columns if table or column.spec.of_part]
        self._parts(session, source, of_parts)
        if table:
            return
        columns = [_fitting(_supported(column)) for column in step.columns if not column.spec.of_part]
        if not columns:
            return
        known = self._known(session)
        if not devices.settled(session, self.olt_id, step, kind, known):
            columns = [replace(column, complete=False) for column in columns]
        if kind is NodeKind.DISCOVERY:
            self._discover(session, source, columns, known, step.continues)
        for column in columns:
            if column.spec.tells_identity:
                devices.remember(session, self.olt_id, column)
        self._new += self._identify(session, source, columns)
        entries = self._values(session, source, columns, known)
        if any(column.spec.tells_identity for column in columns):
            self._doubtful = set()
        if kind is not NodeKind.DISCOVERY and (found := _sparse(entries, known)):
            self.sparse[step.node_id] = found

    def close(self, session: Session, node_id: int, now: datetime) -> None:
        """Belongs after the last step: what only the whole composite tells. `node_id`: of its master."""
        if self._onus is not None:
            follow(session, Source(self.olt_id, self.execution_id, node_id, now), self._onus)

    def _known(self, session: Session) -> dict[int, Row]:
        if self._onus is None:
            self._onus = onus.load(session, self.olt_id)
            self._loaded = frozenset(self._onus)
        return self._onus

    def _parts(self, session: Session, source: Source, columns: Iterable[ColumnReadings]) -> None:
        """Names of interfaces, and what is read of them, of cards and of the OLT itself."""
        for shape, of_shape in parts.by_shape(columns, Shape.PORT.value).items():
            named = [column for column in of_shape if shape == Shape.PORT.value and column.spec.names_ports]
            if named:
                self._ports(session, source, named)
            stored = parts.store(session, source, shape, [column for column in of_shape if column not in named])
            self.counts["values"] += stored.read
            self.counts["changed"] += stored.new
            self._read += stored.read
            self._new += stored.new

    def _ports(self, session: Session, source: Source, columns: Sequence[ColumnReadings]) -> None:
        self._named = None
        before = ports.names(session, source.olt_id)
        for column in columns:
            names = ports.store(session, source, column)
            self.counts["ports"] += len(names)
            self._read += len(names)
            self._new += sum(before.get(index) != name for index, name in names.items())
            before |= names
        olt = session.get_one(Olt, self.olt_id)
        index_families.decide(session, olt, source.at)
        learned = index_families.learned_positions(session, olt)  # these names may just have told what it lacked
        for column in columns:
            ports.place(session, source.olt_id, column, learned)

    def _names(self, session: Session, columns: Iterable[ColumnReadings]) -> Mapping[str, Position]:
        if self._named is None and any(column.spec.by_name for column in columns):
            olt = session.get_one(Olt, self.olt_id)
            found = index_families.named(session, olt)
            self._named = {index: item.position for index, item in found.items() if item.position is not None}
        return self._named or {}

    def _discover(
        self, session: Session, source: Source, columns: list[ColumnReadings], known: dict[int, Row],
        continues: datetime | None,
    ) -> None:  # fmt: skip
        """The rows of all its columns are the ONUs that exist.

        Where it `continues` a reading that was cut, the ONUs seen since that began were part of it.
        """
        named = self._names(session, columns)
        places: dict[str, Position | None] = {}
        for column in columns:
            for reading in column.readings:
                if reading.index in self._left or reading.index in self._aliases.own:
                    continue
                if places.get(reading.index) is None:
                    places[reading.index] = position_of(column.spec, reading, named)
        placed = any(column.spec.formula is not None or column.spec.by_name for column in columns)
        complete = all(column.complete for column in columns)
        earlier = onus.seen_since(session, self.olt_id, continues) if continues is not None else set()
        aliased = self._aliases.listed(known, columns)
        found = onus.discover(
            session, source, known, places, complete=complete, placed=placed, seen_earlier=earlier | aliased
        )
        found.counts["onus_seen"] += len(aliased)
        self._held |= found.held
        for name, count in found.counts.items():
            self.counts[name] += count
        self._read += found.counts["onus_seen"] + found.counts["onus_gone"]
        self._new += found.counts["onus_new"] + found.counts["onus_gone"] + found.back

    def _values(
        self, session: Session, source: Source, columns: list[ColumnReadings], known: dict[int, Row]
    ) -> list[latest.Column]:
        ids = self._aliases.ids(known)
        by_place: dict[Any, Row] | None = None
        present = {row.id: row.found_by for row in known.values() if row.present}
        mixed = len(set(present.values())) > 1
        telling = [at for at, column in enumerate(columns) if column.spec.tells_identity]
        entries: dict[str, latest.Column] = {}
        for at, column in enumerate(columns):
            doubtful = self._doubtful if not telling or at < telling[0] else frozenset()
            rows = {ids[r.index]: r for r in column.readings if r.index in ids}
            if len(rows) < len(column.readings) and column.spec.formula is not None:
                by_place = by_place or {row.place[1:]: row for row in known.values() if row.present and row.decoded}
                rows |= read_at_place(column, ids, by_place)
            tables = _tables_of(rows, known) if mixed else None
            if tables is not None:
                rows = {onu_id: r for onu_id, r in rows.items() if known[onu_id].found_by in tables}
            rows = {onu_id: r for onu_id, r in rows.items() if onu_id not in doubtful} if doubtful else rows
            self.counts["values"] += len(rows)
            self._read += len(rows)
            spec, spared = column.spec, doubtful | self._held
            there = [onu_id for onu_id, found_by in present.items()
                     if onu_id not in spared and (tables is None or found_by in tables)]  # fmt: skip
            entry = latest.Column(spec.metric, rows, column.whole, spec.dead_band, there, tables)
            entries[spec.metric] = entry.beside(entries.get(spec.metric))
            _note(session, source, spec, rows, known)
        stored = latest.store(session, self.olt_id, self.execution_id, known.keys(), list(entries.values()), source.at)
        self.counts["changed"] += stored.written
        self._read += stored.vanished
        self._new += stored.new + stored.vanished
        return list(entries.values())


def _tables_of(rows: Mapping[int, Reading], known: Mapping[int, Row]) -> frozenset[int | None]:
    """Which of an OLT's tables of ONUs a column belongs to (GPON and EPON have one each): the discoveries that found

    the ONUs it says something of. "No such instance" says nothing: a GET asks for the ONUs of all tables.
    """
    return frozenset(known[onu_id].found_by for onu_id, r in rows.items() if r.reason != NO_SUCH_INSTANCE)


def _sparse(entries: Iterable[latest.Column], known: Mapping[int, Row]) -> dict[str, list[int]]:
    """Columns that hold a value of few of the ONUs. One that is offline has no light, nor much else."""
    found = {}
    for entry in entries:
        lit = [onu_id for onu_id in entry.present if known[onu_id].online is not False]
        with_value = sum(onu_id in entry.rows and entry.rows[onu_id].value is not None for onu_id in lit)
        if entry.complete and is_sparse(with_value, len(lit)):
            found[entry.metric] = [with_value, len(lit)]
    return found


def _supported(column: ColumnReadings) -> ColumnReadings:
    """A column that is 0 everywhere where that means "not supported" holds no value (quirk 45)."""
    if not column.spec.zero_unsupported or not constant_zero(column.readings):
        return column
    readings = tuple(reading._replace(value=None, reason=UNSUPPORTED) for reading in column.readings)
    return ColumnReadings(column.spec, readings, column.complete)


def _fitting(column: ColumnReadings) -> ColumnReadings:
    """Without rows whose index is longer than any that we know of an ONU: garbage, which must not cost the others."""
    if all(len(reading.index) <= LONGEST_INDEX for reading in column.readings):
        return column
    kept = tuple(reading for reading in column.readings if len(reading.index) <= LONGEST_INDEX)
    log.warning("event=index_too_long metric=%s rows=%d", column.spec.metric, len(column.readings) - len(kept))
    return replace(column, readings=kept)


def _note(
    session: Session, source: Source, spec: ReadingSpec, rows: Mapping[int, Reading], known: Mapping[int, Row]
) -> None:
    """Columns of the ONUs themselves that these readings change, with the events of state."""
    if spec.metric not in _TEXTS and spec.metric not in _PLACES and spec.value.type is not ValueType.STATE:
        return
    changes, events = [], []
    for onu_id, reading in rows.items():
        onu = known[onu_id]
        changed = _changed(spec, reading, onu)
        if not changed:
            continue
        if "online" in changed:
            changed["last_state_change"] = moment(session, source.at)
            if onu.online is not None:
                events.append((onu_id, OnuEventKind.STATE, _lit(onu.online), _lit(changed["online"])))
        changes.append({"id": onu_id, **changed})
        _remember(onu, changed)
    for columns, same_columns in _grouped(changes).items():
        change_rows(session, Onu, columns, [tuple(row[name] for name in columns) for row in same_columns], ("id",))
    onus.record(session, source, events)


def _changed(spec: ReadingSpec, reading: Reading, onu: Row) -> dict[str, Any]:
    """Columns that this reading changes. "No value" never erases what is known."""
    value = reading.value
    if value is None:
        return {}
    if spec.metric == "onu_state" and spec.value.type is ValueType.STATE:
        code = _column_number(int(reading.raw)) if reading.raw.lstrip("-").isdigit() else None
        if (onu.state, onu.online) == (code, reading.online):
            return {}
        changed: dict[str, Any] = {"state": code, "state_label": str(value)[:LABEL_LENGTH]}
        return changed | ({"online": reading.online} if onu.online is not reading.online else {})
    if spec.metric in _TEXTS:
        column = _TEXTS[spec.metric]
        text = str(value)[:MODEL_LENGTH] if column == "model" else str(value)
        if getattr(onu, column) == text:
            return {}
        found = {"search": searching.of_onu(text, onu.serial)} if column == "description" else {}
        return {column: text, **found}
    return _placed(spec, value, onu)


def _placed(spec: ReadingSpec, value: float | str, onu: Row) -> dict[str, Any]:
    part = _PLACES.get(spec.metric)
    if part is None or isinstance(value, str) or spec.formula is not None:  # then the index itself says it
        return {}
    if _column_number(int(value)) is None:
        return {}
    frame, slot, port, number = onu.place
    place = [frame or 0, slot or 0, port, number]
    place[part] = int(value)
    found = (place[0], place[1], place[2], place[3])
    return {} if found == onu.place else onus.as_columns(found)


def _column_number(number: int) -> int | None:
    """None for what does not fit the column: 4294967295 is how some devices write -1."""
    return number if abs(number) <= onus.LARGEST_PART else None


def _remember(onu: Row, changed: Mapping[str, Any]) -> None:
    for name in ("state", "online", "description", "model"):
        if name in changed:
            setattr(onu, name, changed[name])
    if "slot" in changed:
        onu.place = (changed["frame"], changed["slot"], changed["port"], changed["onu_number"])


def _grouped(changes: list[dict[str, Any]]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """Rows that change the same columns, by those."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for change in changes:
        groups.setdefault(tuple(sorted(change)), []).append(change)
    return groups


def _lit(online: bool | None) -> str:
    return {True: "online", False: "offline"}.get(online, "") if online is not None else ""
