"""Reads ONUs for pages: search over all OLTs or one, and everything known of one ONU."""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, String, and_, case, cast, func, literal, or_, select
from sqlalchemy.orm import aliased, contains_eager

from portal.domain import serials
from portal.domain.statuses import Presence
from portal.extensions import db
from portal.models import Olt, OltRead, Onu, OnuData, OnuEvent, OnuHistory
from portal.queries import keyset
from portal.queries.matching import contains_folded

RX, OLT_RX, DISTANCE = "onu_rx_power", "onu_olt_rx_power", "onu_distance"
WEAK_BELOW_DBM = -25.0  # pages mark readings below in amber; G.984.2 class B+ receivers stop at -27
PRESENCE = "presence:"  # and the discovery that answers for the ONU; portal.services.collecting.onus writes it
FOUND_LIMIT = 1_000  # above, a search is too wide to be sorted and counted while somebody types
SORT_LIMIT = 100_000  # above this, sorting and counting by state would read too much for a page
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


@dataclass(frozen=True)
class Sample:
    """One change of a numeric reading, or an hour's mean. `mean` None = the device gave no value."""

    at: datetime
    mean: float | None


@dataclass(frozen=True)
class Neighbours:
    """The ONUs on the same PON port, this one left out."""

    online: int
    total: int

    @property
    def dark(self) -> int:
        """Those that are not online."""
        return self.total - self.online

    @property
    def outage(self) -> bool:
        """True when the port looks cut rather than one customer's line: a quarter of 4 or more are dark."""
        return self.total >= 4 and self.dark * 4 >= self.total


def position_of(onu: Onu) -> str:
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
    query = select(Onu.id).join(Olt, Olt.id == Onu.olt_id).where(*_scope(wanted)).limit(FOUND_LIMIT + 1)
    ids = tuple(db.session.scalars(query))
    return None if len(ids) > FOUND_LIMIT else replace(wanted, found=ids)


_rx = aliased(OnuData)
_present = Onu.presence == Presence.ENABLED
# What a complete run says of all present ONUs stands once for the OLT, not in each row (services.collecting.latest).
_listed = aliased(OltRead)
_with_listed = and_(_listed.olt_id == Onu.olt_id, _listed.metric == literal(PRESENCE) + cast(Onu.found_by, String))
_seen_at = case((and_(_present, _listed.read_at > Onu.last_seen), _listed.read_at), else_=Onu.last_seen)
_state_clauses: dict[str, ColumnElement[bool]] = {
    "online": and_(_present, Onu.online.is_(True)),
    "offline": and_(_present, Onu.online.is_(False)),
    "unread": and_(_present, Onu.online.is_(None)),
    "weak": and_(_present, _rx.number < WEAK_BELOW_DBM),
    "gone": Onu.presence == Presence.DISABLED,
}


def _base(*columns: Any) -> Select[Any]:
    with_rx = and_(_rx.onu_id == Onu.id, _rx.metric == RX)
    onus = select(*columns).select_from(Onu).join(Olt, Olt.id == Onu.olt_id)
    return onus.outerjoin(_rx, with_rx).outerjoin(_listed, _with_listed)


def scope_size(wanted: OnuFilter) -> int:
    """ONUs on this OLT, or on all, counted up to SORT_LIMIT + 1."""
    query = select(literal(1)).select_from(Onu)
    if wanted.olt_id is not None:
        query = query.where(Onu.olt_id == wanted.olt_id)
    return db.session.scalar(select(func.count()).select_from(query.limit(SORT_LIMIT + 1).subquery())) or 0


def counts(wanted: OnuFilter) -> dict[str, int]:
    """State word → ONUs that the other filters let through; "" = all of them. One SQL statement."""
    sums = (func.count(case((clause, 1))) for clause in _state_clauses.values())
    row = db.session.execute(_base(func.count(), *sums).where(*_scope(wanted))).one()
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
        "state": (case((~_present, 3), (Onu.online.is_(False), 0), (Onu.online.is_(None), 1), else_=2),),
        "rx": (func.coalesce(_rx.number, missing),),
        "read": (_seen_at,),
    }
    return keyset.Order((*keys[name], Onu.id), descending) if name in keys else keyset.Order(_place(), descending)


def page(
    wanted: OnuFilter, cursor: str = "", size: int = keyset.PAGE_SIZE, *, sorted_rows: bool = True
) -> keyset.Page[OnuRow]:
    """One page of ONUs: two SQL statements. `sorted_rows` False = in order of discovery, for very large tables."""
    query = _base(Onu, Olt.name, _seen_at).where(*_scope(wanted))
    if wanted.state:
        query = query.where(_state_clauses[wanted.state])
    order = _order(wanted.sort) if sorted_rows else keyset.Order((Onu.id,))
    found = keyset.fetch(query, order, cursor, size)
    readings = _readings([row[0].id for row in found.rows], (RX, OLT_RX, DISTANCE))
    return found.map(lambda row: OnuRow(row[0], row[1], readings.get(row[0].id, {}), row[2]))


def _readings(onu_ids: list[int], metrics: tuple[str, ...] = ()) -> dict[int, dict[str, Value]]:
    """Latest readings (all without `metrics`) by ONU and metric, in the metrics' order. One SQL statement.

    One that is present has what was read of all that were present, once it was among them.
    """
    of_table = OnuData.metric + literal("@") + cast(Onu.found_by, String)  # where an OLT has several tables of ONUs
    read = and_(
        OltRead.olt_id == Onu.olt_id, or_(OltRead.metric == OnuData.metric, OltRead.metric == of_table), _present,
        OltRead.read_at >= Onu.presence_since,
    )  # fmt: skip
    query = select(OnuData, OltRead.read_at).join(Onu, Onu.id == OnuData.onu_id).outerjoin(OltRead, read)
    query = query.where(OnuData.onu_id.in_(onu_ids)).order_by(OnuData.metric)
    found: dict[int, dict[str, Value]] = {}
    for data, at in db.session.execute(query.where(OnuData.metric.in_(metrics)) if metrics else query):
        before = found.setdefault(data.onu_id, {}).get(data.metric)
        when = max(moment for moment in (data.collected_at, at, before and before.collected_at) if moment)
        found[data.onu_id][data.metric] = Value(data.number, data.text, data.raw, data.reason, when)
    return found


def get(onu_id: int) -> OnuRow | None:
    """The ONU with its OLT and every latest reading, or None when it or its OLT is gone. Two SQL statements."""
    query = select(Onu, Olt.name, _seen_at).join(Onu.olt).outerjoin(_listed, _with_listed)
    query = query.options(contains_eager(Onu.olt)).where(Onu.id == onu_id, Olt.deleted_at.is_(None))
    row = db.session.execute(query).one_or_none()
    return OnuRow(row[0], row[1], _readings([onu_id]).get(onu_id, {}), row[2]) if row else None


def history(onu_id: int, metric: str, since: datetime) -> list[Sample]:
    """Changes of one reading since a moment, oldest first, with the last one before it. Two SQL statements."""
    series = select(OnuHistory.collected_at, OnuHistory.mean).where(
        OnuHistory.onu_id == onu_id, OnuHistory.metric == metric
    )
    before = series.where(OnuHistory.collected_at < since).order_by(OnuHistory.collected_at.desc()).limit(1)
    inside = series.where(OnuHistory.collected_at >= since).order_by(OnuHistory.collected_at)
    return [Sample(row[0], row[1]) for query in (before, inside) for row in db.session.execute(query)]


def events(onu_id: int, limit: int = 30) -> list[OnuEvent]:
    """What happened to one ONU, newest first."""
    query = select(OnuEvent).where(OnuEvent.onu_id == onu_id)
    return list(db.session.scalars(query.order_by(OnuEvent.happened_at.desc(), OnuEvent.id.desc()).limit(limit)))


def neighbours(onu: Onu) -> Neighbours | None:
    """How the rest of the PON port is; None when the position is unknown or it is alone."""
    if onu.slot is None or onu.port is None:
        return None
    query = select(func.count(case((Onu.online.is_(True), 1))), func.count()).where(
        Onu.olt_id == onu.olt_id, Onu.slot == onu.slot, Onu.port == onu.port, Onu.id != onu.id, _present
    )
    if onu.frame is not None:
        query = query.where(Onu.frame == onu.frame)
    online, total = db.session.execute(query).one()
    return Neighbours(online, total) if total else None
