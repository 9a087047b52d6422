"""What serials say of the ONUs of one OLT: who was replaced, who moved. Works in the caller's transaction."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.orm import Session

from portal.domain import roster, searching
from portal.domain.statuses import OltState, OnuEventKind, Presence
from portal.services.bulk_rows import change_rows
from portal.services.collecting.onus import NOWHERE, Place, Row, Source, add, as_columns, batches, load, record
from portal.services.collecting.unproven import take_back
from portal.tables import Olt, Onu, OnuEvent, OnuHistory

LOOKED_AT_FOR = timedelta(days=1)  # so long after an ONU was lost another OLT may turn out to list it


def identify(
    session: Session, source: Source, onus: dict[int, Row], serials: Mapping[str, str], *, complete: bool
) -> int:
    """The rows of a serial or MAC column: index → serial. `onus` is brought up to date; unknown indexes are ignored.

    Returns how many ONUs moved: the value of their serial is what it was, and yet stands elsewhere.
    """
    at = roster.by_index(onus.values())
    strange = {serial for index, serial in serials.items() if index in at and at[index].serial != serial}
    if not strange:
        return 0
    places = {row.index: row.place for row in onus.values() if row.index is not None}
    found = roster.identities(at, _elsewhere(session, source.olt_id, onus, strange), serials, complete=complete)
    left = {onu_id for onu_id, _ in found.replaced} | {move.id for move in found.moved if move.id in onus}
    take_back(session, source.olt_id, onus, {onu_id for onu_id in left if onus[onu_id].index is not None})
    replaced = [(onu_id, OnuEventKind.REPLACED, onus[onu_id].serial or "", other) for onu_id, other in found.replaced]
    _name(session, onus, found.named)
    _lose_places(session, source, onus, [onu_id for onu_id, *_ in replaced])
    _move(session, source, onus, found.moved, places)
    if found.created:
        wanted = {index: (places.get(index, NOWHERE), serial) for index, serial in found.created}
        add(session, source, onus, wanted)
    duplicates = [
        (onu_id, OnuEventKind.DUPLICATE, onus[onu_id].index or "", index) for onu_id, _, index in found.duplicates
    ]
    record(session, source, [*replaced, *duplicates])
    return len(found.moved)


def follow(session: Session, source: Source, onus: dict[int, Row]) -> None:
    """At the end of a composite: ONUs that this OLT has lost, and another one lists by now, have *moved* there.

    The row that the other OLT's runs know goes on, with the past of ours; no run of the other OLT notices anything.
    Who was lost within the last day is looked at each time: on PostgreSQL both may have been written at once.
    """
    lost = _lost(session, source, onus)
    heirs = _listed_elsewhere(session, source.olt_id, lost)
    if not heirs:
        return
    pairs = [(lost[serial].id, heir) for serial, heir in heirs.items()]
    places = _described(session, [onu_id for pair in pairs for onu_id in pair])
    _execute(session, _NO_LEAVING, [{"giver": old, "run": source.execution_id} for old, _ in pairs])
    _hand_on(session, pairs)
    for old, _ in pairs:
        onus.pop(old, None)
    record(session, source, [(heir, OnuEventKind.MOVED, places[old], places[heir]) for old, heir in pairs])


def _lost(session: Session, source: Source, onus: Mapping[int, Row]) -> dict[str, Any]:
    """Serial → row (id, serial, first_seen) of who is missing since a day at most, and stands nowhere on this OLT."""
    if all(row.present or row.serial is None for row in onus.values()):
        return {}
    here = {row.serial for row in onus.values() if row.present}
    query = select(Onu.id, Onu.serial, Onu.first_seen).where(
        Onu.olt_id == source.olt_id, Onu.presence == Presence.DISABLED, Onu.serial.is_not(None),
        Onu.presence_since >= source.at - LOOKED_AT_FOR,
    )  # fmt: skip
    return {row.serial: row for row in session.execute(query) if row.serial not in here}


def _listed_elsewhere(session: Session, olt_id: int, lost: Mapping[str, Any]) -> dict[str, int]:
    """Serial → id of the ONU that another OLT began to list under it while ours was known; of several the latest.

    What is stored of an OLT that is deleted, disabled or silent says nothing of today. Locked: none may go now.
    """
    found: dict[str, int] = {}
    for part in batches(sorted(lost)):
        query = (
            select(Onu.serial, Onu.id, Onu.presence_since)
            .join(Olt, Olt.id == Onu.olt_id)
            .where(
                Onu.serial.in_(part), Onu.olt_id != olt_id, Onu.presence == Presence.ENABLED,
                Onu.index_key.is_not(None), Olt.deleted_at.is_(None), Olt.enabled.is_(True),
                Olt.state != OltState.UNREACHABLE,
            )
            .order_by(Onu.presence_since, Onu.id)
            .with_for_update(of=Onu, key_share=True)
        )  # fmt: skip
        found |= {row.serial: row.id for row in session.execute(query)
                  if row.presence_since > lost[row.serial].first_seen}  # fmt: skip
    return found


def _elsewhere(session: Session, olt_id: int, onus: Mapping[int, Row], serials: set[str]) -> dict[str, roster.Known]:
    """By serial: ONUs of this OLT that lost their place, and those that are missing from another OLT.

    One that another OLT still lists is left alone: both have it configured, and their states say where it is lit.
    """
    found: dict[str, roster.Known] = {}
    for part in batches(sorted(serials)):
        query = select(Onu.id, Onu.serial).where(
            Onu.serial.in_(part), Onu.olt_id != olt_id, Onu.presence == Presence.DISABLED
        )  # fmt: skip
        found |= {row[1]: roster.Known(row[0], None, row[1], False) for row in session.execute(query)}
    return found | {onu.serial: onu for onu in onus.values() if onu.index is None and onu.serial in serials}


def _name(session: Session, onus: Mapping[int, Row], named: list[tuple[int, str]]) -> None:
    rows = [(onu_id, serial, searching.of_onu(onus[onu_id].description, serial)) for onu_id, serial in named]
    change_rows(session, Onu, ("id", "serial", "search"), rows, ("id",))
    for onu_id, serial in named:
        onus[onu_id].serial = serial


def _lose_places(session: Session, source: Source, onus: Mapping[int, Row], ids: list[int]) -> None:
    """Another ONU stands there now. What was read of the old one stays with it."""
    for part in batches(ids):
        session.execute(
            update(Onu).where(Onu.id.in_(part), Onu.olt_id == source.olt_id).values(
                index_key=None, presence=Presence.DISABLED, presence_since=source.at, last_state_change=source.at
            )
        )  # fmt: skip
    for onu_id in ids:
        onus[onu_id].index, onus[onu_id].present = None, False


def _move(
    session: Session, source: Source, onus: dict[int, Row], moves: list[roster.Move], places: Mapping[str, Place]
) -> None:
    """Each mover takes its new place, with its past; two of them may have changed places."""
    if not moves:
        return
    ids = [move.id for move in moves]
    found_by = {row.index: row.found_by for row in onus.values() if row.index is not None}  # of the new places
    before = _described(session, ids)
    for part in batches(ids):  # first out, then in: an index belongs to one ONU at any moment
        session.execute(update(Onu).where(Onu.id.in_(part)).values(index_key=None))
    _absorb(session, onus, [(move.absorbed, move.id) for move in moves if move.absorbed is not None])
    session.execute(update(Onu), [
        {"id": move.id, "olt_id": source.olt_id, "index_key": move.index, "presence": Presence.ENABLED,
         "presence_since": source.at, "last_seen": source.at, "misses": 0, "last_state_change": source.at,
         "found_by": found_by.get(move.index), "decoded": places[move.index] != NOWHERE,
         **as_columns(places[move.index])}
        for move in moves
    ])  # fmt: skip
    after = _described(session, ids)
    record(session, source, [(onu_id, OnuEventKind.MOVED, before[onu_id], after[onu_id]) for onu_id in ids])
    fresh = load(session, source.olt_id)
    onus.update({onu_id: fresh[onu_id] for onu_id in ids})


def _absorb(session: Session, onus: dict[int, Row], pairs: list[tuple[int, int]]) -> None:
    """Rows that stood at a place before its serial was read. Nobody knows of whom their readings are: they go."""
    _execute(session, _GONE, [{"giver": absorbed} for absorbed, _ in pairs])
    for absorbed, _ in pairs:
        onus.pop(absorbed, None)


def _hand_on(session: Session, pairs: list[tuple[int, int]]) -> None:
    """(giver, heir): history and events of one row become another's, and the row goes.

    Its latest readings go with it: what was read elsewhere says nothing of the heir's place.
    """
    for statement in (*_PAST, _OLDER, _GONE):
        _execute(session, statement, [{"giver": giver, "heir": heir} for giver, heir in pairs])


def _execute(session: Session, statement: Any, rows: list[dict[str, Any]]) -> None:
    """One statement for each row; past the ORM, which would take the list for rows of the table."""
    if rows:
        session.flush()
        session.connection().execute(statement, rows)


def _readings_handed_on(table: Any) -> list[Any]:
    """Two statements with the parameters giver and heir. Where both have one of the same key the giver's stays."""
    staying = table.alias("staying")
    same = [column == staying.c[column.name] for column in table.primary_key.columns if column.name != "onu_id"]
    there = select(1).select_from(staying).where(staying.c.onu_id == bindparam("giver"), *same).exists()
    return [
        delete(table).where(table.c.onu_id == bindparam("heir"), there),
        update(table).where(table.c.onu_id == bindparam("giver")).values(onu_id=bindparam("heir")),
    ]


_ONUS: Any = Onu.__table__
_EVENTS: Any = OnuEvent.__table__
_PAST = [
    *_readings_handed_on(OnuHistory.__table__),
    update(_EVENTS).where(_EVENTS.c.onu_id == bindparam("giver")).values(onu_id=bindparam("heir")),
]
_GIVER = _ONUS.alias("giver_row")
_GIVERS_FIRST = select(_GIVER.c.first_seen).where(_GIVER.c.id == bindparam("giver")).scalar_subquery()
_OLDER = (
    update(_ONUS)
    .where(_ONUS.c.id == bindparam("heir"), _ONUS.c.first_seen > _GIVERS_FIRST)
    .values(first_seen=_GIVERS_FIRST)
)
_GONE = delete(_ONUS).where(_ONUS.c.id == bindparam("giver"))
# That it went away, which this run has just written, is no event of an ONU that only moved.
_NO_LEAVING = delete(_EVENTS).where(
    _EVENTS.c.onu_id == bindparam("giver"),
    _EVENTS.c.execution_id == bindparam("run"),
    _EVENTS.c.kind == OnuEventKind.PRESENCE,
)


def _described(session: Session, ids: Iterable[int]) -> dict[int, str]:
    """id → where it is, for an event: "OLT-LIMA 0/1/2:3", or with the raw index where the place is unknown."""
    found: dict[int, str] = {}
    for part in batches(list(ids)):
        query = (
            select(Onu.id, Olt.name, Onu.index_key, Onu.frame, Onu.slot, Onu.port, Onu.onu_number)
            .join(Olt, Olt.id == Onu.olt_id)
            .where(Onu.id.in_(part))
        )
        for onu_id, olt, index, *place in session.execute(query):
            known = place[1] is not None
            text = f"{place[0] or 0}/{place[1]}/{place[2]}:{place[3]}" if known else f"[{index or '?'}]"
            found[onu_id] = f"{olt} {text}"
    return found
