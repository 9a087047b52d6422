"""Reads ONUs for pages: search over all OLTs or one, counts, and one ONU with its latest readings."""

import re
import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, String, and_, case, cast, func, literal, or_, select
from sqlalchemy.orm import aliased, contains_eager

from portal.domain import serials
from portal.domain.statuses import Presence
from portal.extensions import db
from portal.queries import keyset
from portal.queries.freshness import online
from portal.queries.matching import contains_folded
from portal.tables import Olt, OltRead, Onu, OnuData

RX, OLT_RX, DISTANCE = "onu_rx_power", "onu_olt_rx_power", "onu_distance"
WEAK_BELOW_DBM = -25.0  # pages mark readings below in amber; G.984.2 class B+ receivers stop at -27
PRESENCE = "presence:"  # and the discovery that answers for the ONU; portal.services.collecting.onus writes it
FOUND_LIMIT = 1_000  # above, a search is too wide to be sorted and counted while somebody types
SORT_LIMIT = 100_000  # above this, sorting and counting by state would read too much for a page
LARGE = 5_000  # from so many on, a list in order of place is read OLT by OLT, and its counts may be COUNTED_FOR old
COUNTED_FOR = 10.0  # seconds
OLTS_AT_ONCE = 64  # whose ONUs are put in order to find one page of them
MOST_EXPORTED = 10_000
STATES = ("online", "offline", "unread", "weak", "gone")
_SORTED_BY = ("position", "serial", "description", "state", "rx", "read")
SORTS = (*_SORTED_BY, *(f"-{name}" for name in _SORTED_BY))

_POSITION = re.compile(r"\d{1,3}(?:/\d{1,3}){1,2}(?:[/:]\d{1,4})?", re.ASCII)
_PART_OF_SERIAL = re.compile(r"[0-9A-Z]{4,16}", re.ASCII | re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s:.\-]+")
_NO_POSITION = 1_000_000


@dataclass(frozen=True)
class OnuFilter:
    """What the URL asks for; "" or None = everything. `state` is one of STATES, `sort` one of SORTS."""

    q: str = ""
    state: str = ""
    sort: str = "position"
    olt_id: int | None = None
    slot: int | None = None
    port: int | None = None
    found: tuple[int, ...] | None = None  # what `find` found for `q`: the search need not be made again

    @property
    def active(self) -> bool:
        """True when something is left out of the list."""
        return bool(self.q or self.state or self.slot is not None or self.port is not None)


@dataclass(frozen=True)
class Value:
    """A latest reading. `number` None = the device gave no value, for `reason`."""

    number: float | None
    text: str | None
    raw: str
    reason: str
    collected_at: datetime


@dataclass(frozen=True)
class OnuRow:
    """One line of the list. `serial` as printed on the label; readings by metric."""

    onu: Onu
    olt_name: str
    readings: dict[str, Value]
    seen_at: datetime  # when a discovery last listed it
    online: bool | None  # as of now; None: not known

    @property
    def serial(self) -> str:
        """The serial as it stands on the label, or ""."""
        return serials.printed(self.onu.serial) if self.onu.serial else ""

    @property
    def position(self) -> str:
        """slot/port/onu as the field writes it."""
        return position_of(self.onu)

    @property
    def read_at(self) -> datetime:
        """When the newest of the shown facts was read."""
        return max([self.seen_at, *(value.collected_at for value in self.readings.values())])


def position_of(onu: Onu | Row[Any]) -> str:
    """slot/port/onu as the field writes it; the raw index where the position is unknown."""
    if onu.slot is None or onu.port is None:
        return onu.index_key or ""
    place = f"{onu.slot}/{onu.port}" if not onu.frame else f"{onu.frame}/{onu.slot}/{onu.port}"
    return place if onu.onu_number is None else f"{place}/{onu.onu_number}"


def _position_clause(q: str) -> ColumnElement[bool] | None:
    """slot/port, slot/port/onu or frame/slot/port, frame/slot/port/onu (the last also as frame/slot/port:onu)."""
    text = q.replace(" ", "")
    if not _POSITION.fullmatch(text):
        return None
    numbers = [int(part) for part in re.split("[/:]", text)]
    without_frame, with_frame = (Onu.slot, Onu.port, Onu.onu_number), (Onu.frame, Onu.slot, Onu.port, Onu.onu_number)
    readings = {2: (without_frame,), 3: (without_frame, with_frame), 4: (with_frame,)}[len(numbers)]
    return or_(*(and_(*(column == number for column, number in zip(columns, numbers, strict=False)))
                 for columns in readings))  # fmt: skip


def _search(q: str) -> ColumnElement[bool]:
    """A whole serial means that ONU and nothing else; anything shorter is a part of description, serial or label."""
    whole = serials.canonical(q) or serials.mac(q)
    if whole is not None:
        return Onu.serial == whole
    clauses = [contains_folded(Onu.search, q)]
    compact = _SEPARATORS.sub("", q)
    if compact != q and _PART_OF_SERIAL.fullmatch(compact):
        clauses.append(contains_folded(Onu.search, compact))
    position = _position_clause(q)
    return or_(*clauses, position) if position is not None else or_(*clauses)


def _scope(wanted: OnuFilter) -> list[ColumnElement[bool]]:
    clauses: list[ColumnElement[bool]] = [Olt.deleted_at.is_(None)]
    if wanted.olt_id is not None:
        clauses.append(Onu.olt_id == wanted.olt_id)
    if wanted.slot is not None:
        clauses.append(Onu.slot == wanted.slot)
    if wanted.port is not None:
        clauses.append(Onu.port == wanted.port)
    if wanted.found is not None:
        return [*clauses, Onu.id.in_(wanted.found)]
    return [*clauses, _search(wanted.q)] if wanted.q else clauses


def find(wanted: OnuFilter) -> OnuFilter | None:
    """`wanted` with what its search found; None where that is more than FOUND_LIMIT. One SQL statement.

    A search for a part of a text reads every ONU. It reads nothing else, and is made once for a page.
    """
    if not wanted.q:
        return wanted
    ids = _found(wanted, FOUND_LIMIT + 1)
    return None if len(ids) > FOUND_LIMIT else replace(wanted, found=ids)


def first_found(wanted: OnuFilter) -> OnuFilter:
    """`wanted` with the first that its search finds: one more than an export writes. One SQL statement."""
    return replace(wanted, found=_found(wanted, MOST_EXPORTED + 1))


def _found(wanted: OnuFilter, most: int) -> tuple[int, ...]:
    return tuple(db.session.scalars(_in_scope(wanted, Onu.id).limit(most)))


_rx, _back, _distance = aliased(OnuData), aliased(OnuData), aliased(OnuData)
present = Onu.presence == Presence.ENABLED
weak = _rx.number < WEAK_BELOW_DBM
# What a complete run says of all present ONUs stands once for the OLT, not in each row (services.collecting.latest).
_listed = aliased(OltRead)
_with_listed = and_(_listed.olt_id == Onu.olt_id, _listed.metric == literal(PRESENCE) + cast(Onu.found_by, String))
_seen_at = case((and_(present, _listed.read_at > Onu.last_seen), _listed.read_at), else_=Onu.last_seen)
_state_clauses: dict[str, ColumnElement[bool]] = {
    "online": and_(present, online.is_(True)),
    "offline": and_(present, online.is_(False)),
    "unread": and_(present, online.is_(None)),
    "weak": and_(present, weak),
    "gone": Onu.presence == Presence.DISABLED,
}


def with_rx(query: Select[Any]) -> Select[Any]:
    """The query on Onu with the latest power that each receives, so that `weak` can be asked."""
    return query.outerjoin(_rx, and_(_rx.onu_id == Onu.id, _rx.metric == RX))


def _in_scope(wanted: OnuFilter, *columns: Any) -> Select[Any]:
    return select(*columns).select_from(Onu).join(Olt, Olt.id == Onu.olt_id).where(*_scope(wanted))


def scope_size(wanted: OnuFilter) -> int:
    """ONUs on this OLT, or on all, counted up to SORT_LIMIT + 1."""
    query = select(literal(1)).select_from(Onu)
    if wanted.olt_id is not None:
        query = query.where(Onu.olt_id == wanted.olt_id)
    return db.session.scalar(select(func.count()).select_from(query.limit(SORT_LIMIT + 1).subquery())) or 0


_counted: dict[Hashable, tuple[float, dict[str, int]]] = {}
_counting = threading.Lock()


def counts(wanted: OnuFilter, *, large: bool = False) -> dict[str, int]:
    """State word → ONUs that the other filters let through; "" = all of them. One SQL statement, or none.

    `large`: all ONUs must be looked at, which costs 0.1 s for 100,000. Everybody who looks then sees the same counts
    for COUNTED_FOR seconds, so that neither typing nor many open lists count them again and again.
    """
    if not large:
        return _count(wanted)
    key = str(db.engine.url), replace(wanted, state="", sort="")
    with _counting:  # who comes meanwhile waits for these instead of counting too
        at, found = _counted.get(key, (0.0, {}))
        if time.monotonic() - at > COUNTED_FOR or not found:
            found = _count(wanted)
            if len(_counted) > 100:
                _counted.clear()
            _counted[key] = time.monotonic(), found
    return found


def _count(wanted: OnuFilter) -> dict[str, int]:
    sums = (func.count(case((clause, 1))) for clause in _state_clauses.values())
    row = db.session.execute(with_rx(_in_scope(wanted, func.count(), *sums))).one()
    return dict(zip(("", *_state_clauses), row, strict=True))


def _place() -> tuple[keyset.Key, ...]:
    columns = (Onu.frame, Onu.slot, Onu.port, Onu.onu_number)
    return (keyset.lower(Olt.name), *(func.coalesce(column, _NO_POSITION) for column in columns), Onu.id)


def _order(sort: str) -> keyset.Order:
    descending, name = sort.startswith("-"), sort.removeprefix("-")
    missing = -1000.0 if descending else 1000.0  # no reading comes last in both directions
    keys: dict[str, tuple[keyset.Key, ...]] = {
        "serial": (func.coalesce(Onu.serial, ""),),
        "description": (keyset.lower(Onu.description),),
        "state": (case((~present, 3), (online.is_(False), 0), (online.is_(None), 1), else_=2),),
        "rx": (func.coalesce(_rx.number, missing),),
        "read": (_seen_at,),
    }
    return keyset.Order((*keys[name], Onu.id), descending) if name in keys else keyset.Order(_place(), descending)


def page(
    wanted: OnuFilter, cursor: str = "", size: int = keyset.PAGE_SIZE, *, sorted_rows: bool = True, large: bool = False
) -> keyset.Page[OnuRow]:
    """One page of ONUs: two SQL statements of what a search found, else three: all ids may have to be put in order.

    `sorted_rows` False = in order of discovery, for very large tables. `large`: one statement more where the first OLTs
    in order have too few that match.
    """
    order = _order(wanted.sort) if sorted_rows else keyset.Order((Onu.id,))
    if wanted.found is not None:
        found = keyset.fetch(_which(wanted, *_WHOLE), order, cursor, size)
    else:
        near = _near(wanted, order, cursor) if large and sorted_rows else None
        query = _which(wanted, Onu.id)
        found = keyset.fetch(query if near is None else query.where(near), order, cursor, size)
        if near is not None and not _filled(found, order, cursor):
            found = keyset.fetch(query, order, cursor, size)
        found = keyset.Page(_rows([row[0] for row in found.rows]), found.next, found.previous)
    read = readings([row[0].id for row in found.rows], (RX, OLT_RX, DISTANCE))
    return found.map(lambda row: OnuRow(row[0], row[1], read.get(row[0].id, {}), row[2], row[3]))


_WHOLE = (Onu, Olt.name, _seen_at, online)


def _which(wanted: OnuFilter, *columns: Any) -> Select[Any]:
    """The list's rows, joined with no more than columns, filter and order need."""
    query, order = _in_scope(wanted, *columns), wanted.sort.removeprefix("-")
    if wanted.state == "weak" or order == "rx":
        query = with_rx(query)
    if order == "read" or len(columns) > 1:
        query = query.outerjoin(_listed, _with_listed)
    return query.where(_state_clauses[wanted.state]) if wanted.state else query


def _near(wanted: OnuFilter, order: keyset.Order, cursor: str) -> ColumnElement[bool] | None:
    """ONUs of the OLTs that come next in the order of place, in which 64 OLTs nearly always hold a page."""
    if wanted.olt_id is not None or wanted.q or wanted.sort.removeprefix("-") != "position":
        return None
    name = keyset.lower(Olt.name)
    values, backward = _at(cursor, order)
    upward = order.descending == backward
    olts = select(Olt.id).where(Olt.deleted_at.is_(None))
    if values:
        olts = olts.where(name >= values[0] if upward else name <= values[0])
    return Onu.olt_id.in_(olts.order_by(name if upward else name.desc(), Olt.id).limit(OLTS_AT_ONCE))


def _at(cursor: str, order: keyset.Order) -> tuple[list[Any], bool]:
    """Sort values of the cursor, and whether it leads back; none for one that leads nowhere."""
    found = keyset.decode(cursor, len(order.keys)) if keyset.fits(cursor, order) else None
    return found or ([], False)


def _filled(found: keyset.Page[Any], order: keyset.Order, cursor: str) -> bool:
    """True when there are more rows beyond the page: it is the one that all ONUs would have given."""
    return bool(found.previous if _at(cursor, order)[1] else found.next)


def _rows(onu_ids: list[int]) -> tuple[Any, ...]:
    """(ONU, name of its OLT, when it was seen, whether it is online) in the order of the ids. One SQL statement."""
    query = select(*_WHOLE).join(Olt, Olt.id == Onu.olt_id).outerjoin(_listed, _with_listed)
    rows = {row[0].id: row for row in db.session.execute(query.where(Onu.id.in_(onu_ids)))}
    return tuple(rows[onu_id] for onu_id in onu_ids if onu_id in rows)


def exported(wanted: OnuFilter) -> list[Row[Any]]:
    """As many ONUs as a file holds and one more, in their order. Two SQL statements. Columns: Onu's of these names,

    `olt`, `rx`, `olt_rx`, `distance` (numbers or None) and `seen_at`. No entities: there are 10,000 of them.
    """
    page = keyset.fetch(_which(wanted, Onu.id), _order(wanted.sort), "", MOST_EXPORTED + 1)
    ids = [row[0] for row in page.rows]
    columns = (
        Onu.id, Olt.name.label("olt"), Onu.index_key, Onu.frame, Onu.slot, Onu.port, Onu.onu_number, Onu.serial,
        Onu.description, Onu.model, Onu.presence, online.label("online"), Onu.last_state_change, _rx.number.label("rx"),
        _back.number.label("olt_rx"), _distance.number.label("distance"), _seen_at.label("seen_at"),
    )  # fmt: skip
    query = with_rx(select(*columns).select_from(Onu).join(Olt, Olt.id == Onu.olt_id))
    for one, metric in ((_back, OLT_RX), (_distance, DISTANCE)):
        query = query.outerjoin(one, and_(one.onu_id == Onu.id, one.metric == metric))
    query = query.outerjoin(_listed, _with_listed).where(Onu.id.in_(ids))
    rows = {row.id: row for row in db.session.execute(query)}
    return [rows[onu_id] for onu_id in ids if onu_id in rows]


def read_of_all() -> ColumnElement[bool]:
    """Joins OltRead to a reading: when its metric was read of all ONUs that were present, once this one was too."""
    of_table = OnuData.metric + literal("@") + cast(Onu.found_by, String)  # where an OLT has several tables of ONUs
    return and_(
        OltRead.olt_id == Onu.olt_id, or_(OltRead.metric == OnuData.metric, OltRead.metric == of_table), present,
        OltRead.read_at >= Onu.presence_since,
    )  # fmt: skip


def readings(onu_ids: list[int], metrics: tuple[str, ...] = ()) -> dict[int, dict[str, Value]]:
    """Latest readings (all without `metrics`) by ONU and metric, in the metrics' order. One SQL statement."""
    query = select(OnuData, OltRead.read_at).join(Onu, Onu.id == OnuData.onu_id).outerjoin(OltRead, read_of_all())
    query = query.where(OnuData.onu_id.in_(onu_ids)).order_by(OnuData.metric)
    found: dict[int, dict[str, Value]] = {}
    for data, at in db.session.execute(query.where(OnuData.metric.in_(metrics)) if metrics else query):
        before = found.setdefault(data.onu_id, {}).get(data.metric)
        when = max(moment for moment in (data.collected_at, at, before and before.collected_at) if moment)
        found[data.onu_id][data.metric] = Value(data.number, data.text, data.raw, data.reason, when)
    return found


def get(onu_id: int) -> OnuRow | None:
    """The ONU with its OLT and every latest reading, or None when it or its OLT is gone. Two SQL statements."""
    query = select(*_WHOLE).join(Onu.olt).outerjoin(_listed, _with_listed)
    query = query.options(contains_eager(Onu.olt)).where(Onu.id == onu_id, Olt.deleted_at.is_(None))
    row = db.session.execute(query).one_or_none()
    return OnuRow(row[0], row[1], readings([onu_id]).get(onu_id, {}), row[2], row[3]) if row else None
