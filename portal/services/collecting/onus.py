"""The ONUs of one OLT: who is there and where. Works in the caller's transaction; serials are onu_identity's."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from portal.domain import roster, searching
from portal.domain.formulas import Position
from portal.domain.messages import N_
from portal.domain.statuses import AlertKind, EventType, NodeKind, OnuEventKind, Presence, Severity
from portal.services import decisions
from portal.services.alerting import alerts
from portal.services.bulk_rows import change_rows, fetch_rows
from portal.services.upsert import BATCH
from portal.tables import Olt, OltRead, Onu, OnuEvent, Workflow, WorkflowNode

PRESENCE = "presence:"  # and the node: the row of olt_reads that tells when that discovery last was complete
Place = tuple[int | None, int | None, int | None, int | None]  # frame, slot, port, number
NOWHERE: Place = (None, None, None, None)  # no formula and no name says where the index is
PLACE = ("frame", "slot", "port", "onu_number")
LARGEST_PART = 2**31 - 1  # of the columns for them, and for states
_SELECT = """
SELECT id, index_key, serial, presence, frame, slot, port, onu_number, decoded, found_by, state, online, description,
       model
FROM onus WHERE olt_id = ?
"""


@dataclass(slots=True)
class Row(roster.Known):
    """One ONU as the database has it, short of its times."""

    place: Place = NOWHERE
    decoded: bool = True
    found_by: int | None = None
    state: int | None = None
    online: bool | None = None
    description: str = ""
    model: str = ""


@dataclass(frozen=True)
class Source:
    """Who tells: for events and the decision log."""

    olt_id: int
    execution_id: int
    node_id: int
    at: datetime


def load(session: Session, olt_id: int) -> dict[int, Row]:
    """All ONUs of the OLT by id, those without a place too."""
    there = Presence.ENABLED.value
    return {
        onu_id: Row(onu_id, index, serial, presence == there, (frame, slot, port, number), bool(decoded), found_by,
                    state, None if online is None else bool(online), description, model)
        for onu_id, index, serial, presence, frame, slot, port, number, decoded, found_by, state, online, description,
        model in fetch_rows(session, _SELECT, (olt_id,))
    }  # fmt: skip


def seen_since(session: Session, olt_id: int, since: datetime) -> set[int]:
    """Ids of the present ONUs that a discovery listed at `since` or later."""
    query = select(Onu.id).where(Onu.olt_id == olt_id, Onu.last_seen >= since, Onu.presence == Presence.ENABLED)
    return set(session.scalars(query))


@dataclass(frozen=True)
class Discovered:
    """What came of a discovery: how many ONUs, and the ids of those that are missing and stay for now."""

    counts: dict[str, int]  # onus_seen, onus_new, onus_gone
    back: int
    held: frozenset[int] = frozenset()


def discover(
    session: Session, source: Source, onus: dict[int, Row], places: Mapping[str, Position | None], *,
    complete: bool, placed: bool = True, seen_earlier: Set[int] = frozenset(),
) -> Discovered:  # fmt: skip
    """The rows of a discovery: index → position. `onus` is brought up to date.

    `seen_earlier`: ids of ONUs that earlier parts of the same reading listed.
    `placed` False: the index of this table never says where an ONU is (UFiber's is its serial), other columns do.
    """
    known = roster.by_index(onus.values())
    node = session.get(WorkflowNode, source.node_id)
    earlier = (index for index, onu in known.items() if onu.id in seen_earlier)
    listed = dict.fromkeys([*places, *earlier])  # in the table's order, and so are new ids
    suspected = node is not None and node.suspect_at is not None
    mine = answered_for(session, source, onus)
    found = roster.presence(known, listed, complete=complete, suspected=suspected, mine=mine)
    if complete and node is not None:
        node.suspect_at = source.at if found.held else None
    seen_before = _move_read_at(session, source) if complete else None
    _set_presence(session, source, onus, found.back, Presence.ENABLED, source.at)
    if found.held:
        _hold(session, source, node, found.gone, sum(onus[onu_id].present for onu_id in mine))
    else:
        _set_presence(session, source, onus, found.gone, Presence.DISABLED, seen_before or source.at)
    _put_in_place(session, onus, known, places, placed=placed)
    _adopt(session, source, onus, mine | set(found.back), [known[index].id for index in places if index in known])
    if not complete:
        _touch(session, [known[index].id for index in places if index in known], source.at)
    if found.new:
        new = {index: (place_of(places[index]), None) for index in found.new}
        add(session, source, onus, new, placed=placed)
    held = frozenset(found.gone if found.held else ())
    counts = {"onus_seen": len(places), "onus_new": len(found.new), "onus_gone": len(found.gone) - len(held)}
    return Discovered(counts, len(found.back), held)


def _move_read_at(session: Session, source: Source) -> datetime | None:
    """Notes that all ONUs that this discovery answers for were seen; returns when that was so before."""
    metric = f"{PRESENCE}{source.node_id}"
    stored = session.get(OltRead, (source.olt_id, metric))
    if stored is None:
        stored = OltRead(olt_id=source.olt_id, metric=metric)
        session.add(stored)
        before = None
    else:
        before = stored.read_at
    stored.read_at, stored.execution_id = source.at, source.execution_id
    return before


def _set_presence(
    session: Session, source: Source, onus: Mapping[int, Row], ids: Iterable[int], now_is: Presence, seen: datetime
) -> None:
    """Event and columns. Of one that has gone, `last_seen` is the last discovery that saw it."""
    ids = list(ids)
    gone = now_is is Presence.DISABLED
    for part in batches(ids):
        session.execute(
            update(Onu).where(Onu.id.in_(part), Onu.olt_id == source.olt_id).values(
                presence=now_is, misses=Onu.misses + 1 if gone else 0, last_state_change=source.at,
                presence_since=source.at, last_seen=seen,
            )
        )  # fmt: skip
    was = Presence.ENABLED if gone else Presence.DISABLED
    record(session, source, [(onu_id, OnuEventKind.PRESENCE, was, now_is) for onu_id in ids])
    for onu_id in ids:
        onus[onu_id].present = not gone


def _hold(
    session: Session, source: Source, node: WorkflowNode | None, missing: tuple[int, ...], present: int
) -> None:  # fmt: skip
    for part in batches(list(missing)):
        session.execute(update(Onu).where(Onu.id.in_(part)).values(misses=Onu.misses + 1))
    decisions.record(
        session, EventType.SUSPECT_TABLE,
        N_("%(node)s: the table lost %(missing)d of %(present)d ONUs; held until a second walk agrees",
           node=node.name if node else "?", missing=len(missing), present=present),
        source.at, olt_id=source.olt_id, node_id=source.node_id, execution_id=source.execution_id, level="WARNING",
        details={"missing": len(missing), "present": present},
    )  # fmt: skip
    olt = session.get_one(Olt, source.olt_id)
    subject = N_("%(olt)s: %(missing)d of %(present)d ONUs are missing in its table", olt=olt.name,
                 missing=len(missing), present=present)  # fmt: skip
    body = N_("None of them is marked as gone until a second complete walk agrees.")
    alerts.raise_alert(
        session, AlertKind.SUSPECT_TABLE, subject, body, source.at, severity=Severity.MEDIUM, olt_id=olt.id
    )


def answered_for(session: Session, source: Source, onus: Mapping[int, Row]) -> set[int]:
    """Ids of the ONUs that this discovery found, or that no other enabled discovery of the OLT answers for."""
    others = set(session.scalars(
        select(WorkflowNode.id).join(Workflow).where(
            Workflow.olt_id == source.olt_id, WorkflowNode.kind == NodeKind.DISCOVERY, WorkflowNode.enabled,
            WorkflowNode.id != source.node_id,
        )
    ))  # fmt: skip
    return {onu.id for onu in onus.values() if onu.found_by not in others}


def _adopt(session: Session, source: Source, onus: Mapping[int, Row], mine: set[int], seen: list[int]) -> None:
    adopted = [onu_id for onu_id in seen if onu_id in mine and onus[onu_id].found_by != source.node_id]
    for part in batches(adopted):
        session.execute(update(Onu).where(Onu.id.in_(part)).values(found_by=source.node_id))
    for onu_id in adopted:
        onus[onu_id].found_by = source.node_id


def _put_in_place(
    session: Session, onus: Mapping[int, Row], known: Mapping[str, roster.Known],
    places: Mapping[str, Position | None], *, placed: bool,
) -> None:  # fmt: skip
    """Derived columns follow their formula or name; only those that say something else are written."""
    if not placed:
        return
    changes = []
    for index, position in places.items():
        if index not in known:
            continue
        onu = onus[known[index].id]
        place = place_of(position)
        if onu.place != place:
            onu.place, onu.decoded = place, place != NOWHERE
            changes.append({"id": onu.id, "decoded": onu.decoded, **as_columns(place)})
    if changes:
        session.execute(update(Onu), changes)


def renumber(session: Session, source: Source, onus: Mapping[int, Row], renumbered: Mapping[str, str]) -> None:
    """ONUs that stand where they stood, under another index that this discovery lists: old → new. That is no event."""
    known = roster.by_index(onus.values())
    rows = [(known[old].id, new, source.node_id) for old, new in renumbered.items()]
    change_rows(session, Onu, ("id", "index_key", "found_by"), rows, ("id",))
    for onu_id, new, node_id in rows:
        onus[onu_id].index, onus[onu_id].found_by = new, node_id


def place_of(position: Position | None) -> Place:
    """A position as columns hold it. One with a number that no shelf has comes from an index that is something else."""
    if position is None:
        return NOWHERE
    place = (position.frame, position.slot, position.port, position.onu)
    return NOWHERE if any(part is not None and part > LARGEST_PART for part in place) else place


def numbered(position: Position | None) -> Place | None:
    """The place of an ONU; None of what is none, or stands on no known port."""
    place = place_of(position)
    return place if place[3] is not None else None


def as_columns(place: Place) -> dict[str, int | None]:
    """A place as columns of the table."""
    return dict(zip(PLACE, place, strict=True))


def _touch(session: Session, ids: list[int], at: datetime) -> None:
    """A discovery that was cut short proves only the ONUs that it saw."""
    for part in batches(ids):
        session.execute(update(Onu).where(Onu.id.in_(part)).values(last_seen=at, misses=0))


def add(
    session: Session, source: Source, onus: dict[int, Row], wanted: Mapping[str, tuple[Place, str | None]], *,
    placed: bool = True,
) -> None:  # fmt: skip
    """New ONUs: index → (place, serial). `placed` as in `discover`: only then is a missing place a flaw."""
    rows = [
        {
            "olt_id": source.olt_id, "index_key": index, "found_by": source.node_id, "serial": serial,
            "decoded": place != NOWHERE or not placed, "presence": Presence.ENABLED, "presence_since": source.at,
            "first_seen": source.at, "last_seen": source.at, "misses": 0, "description": "", "model": "",
            "search": searching.of_onu("", serial), "state_label": "", **as_columns(place),
        }
        for index, (place, serial) in wanted.items()
    ]  # fmt: skip
    table: Any = Onu.__table__
    session.execute(insert(table), rows)
    for part in batches(list(wanted)):
        query = select(Onu.id, Onu.index_key).where(Onu.olt_id == source.olt_id, Onu.index_key.in_(part))
        for onu_id, index in session.execute(query):
            place, serial = wanted[index]
            onus[onu_id] = Row(onu_id, index, serial, True, place, place != NOWHERE or not placed, source.node_id)


def record(
    session: Session, source: Source, events: Iterable[tuple[int, OnuEventKind, str, str]]
) -> None:  # fmt: skip
    """Events: (ONU, kind, before, after)."""
    rows = [
        {"onu_id": onu_id, "kind": kind, "before": before[:255], "after": after[:255], "happened_at": source.at,
         "execution_id": source.execution_id}
        for onu_id, kind, before, after in events
    ]  # fmt: skip
    if rows:
        table: Any = OnuEvent.__table__
        session.execute(insert(table), rows)


def batches(values: list[Any]) -> Iterable[list[Any]]:
    """Parts of the list that fit one IN (…)."""
    return (values[start : start + BATCH] for start in range(0, len(values), BATCH))
