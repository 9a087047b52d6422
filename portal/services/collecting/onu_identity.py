"""What serials say of the ONUs of one OLT: who was replaced, who moved. Works in the caller's transaction."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from portal.domain import roster, searching
from portal.domain.statuses import OnuEventKind, Presence
from portal.models import Olt, Onu, OnuData, OnuEvent, OnuHistory
from portal.services.bulk_rows import change_rows
from portal.services.collecting.onus import NOWHERE, Place, Row, Source, add, as_columns, batches, load, record


def identify(
    session: Session, source: Source, onus: dict[int, Row], serials: Mapping[str, str], *, complete: bool
) -> None:
    """The rows of a serial or MAC column: index → serial. `onus` is brought up to date; unknown indexes are ignored."""
    at = roster.by_index(onus.values())
    strange = {serial for index, serial in serials.items() if index in at and at[index].serial != serial}
    if not strange:
        return
    places = {row.index: row.place for row in onus.values() if row.index is not None}
    found = roster.identities(at, _elsewhere(session, source.olt_id, onus, strange), serials, complete=complete)
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
            update(Onu).where(Onu.id.in_(part)).values(
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
    before = _described(session, ids)
    for part in batches(ids):  # first out, then in: an index belongs to one ONU at any moment
        session.execute(update(Onu).where(Onu.id.in_(part)).values(index_key=None))
    _absorb(session, onus, [(move.absorbed, move.id) for move in moves if move.absorbed is not None])
    session.execute(update(Onu), [
        {"id": move.id, "olt_id": source.olt_id, "index_key": move.index, "presence": Presence.ENABLED,
         "presence_since": source.at, "last_seen": source.at, "misses": 0, "last_state_change": source.at,
         "decoded": places[move.index] != NOWHERE, **as_columns(places[move.index])}
        for move in moves
    ])  # fmt: skip
    after = _described(session, ids)
    record(session, source, [(onu_id, OnuEventKind.MOVED, before[onu_id], after[onu_id]) for onu_id in ids])
    fresh = load(session, source.olt_id)
    onus.update({onu_id: fresh[onu_id] for onu_id in ids})


def _absorb(session: Session, onus: dict[int, Row], pairs: list[tuple[int, int]]) -> None:
    """Rows that stood at a place before its serial was read: they were the mover all along."""
    for absorbed, mover in pairs:
        session.execute(update(OnuEvent).where(OnuEvent.onu_id == absorbed).values(onu_id=mover))
        _hand_on(session, OnuData, absorbed, mover)
        _hand_on(session, OnuHistory, absorbed, mover)
        session.execute(delete(Onu).where(Onu.id == absorbed))
        onus.pop(absorbed, None)


def _hand_on(session: Session, model: Any, absorbed: int, mover: int) -> None:
    """Readings of the absorbed row are newer than the mover's own of the same key."""
    keys = [column for column in model.__table__.primary_key.columns if column.name != "onu_id"]
    newer = select(*keys).where(model.onu_id == absorbed).subquery()
    same = [column == newer.c[column.name] for column in keys]
    session.execute(delete(model).where(model.onu_id == mover, select(1).select_from(newer).where(*same).exists()))
    session.execute(update(model).where(model.onu_id == absorbed).values(onu_id=mover))


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
