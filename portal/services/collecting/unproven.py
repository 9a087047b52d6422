"""Takes back what was booked to an ONU at a place where another one was found afterwards. In the caller's transaction.

What is read between two readings of the serials is booked to the ONU of the first. Where the second finds another one,
nobody knows when they changed places: what the first was given since may be the other's.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select, tuple_, update
from sqlalchemy.orm import Session

from portal.domain import searching, series
from portal.domain.composite import IDENTITIES
from portal.domain.readings import ANOTHER_ONU, NOT_LISTED
from portal.domain.statuses import OnuEventKind
from portal.services.bulk_rows import moment, upsert_rows
from portal.services.collecting.onus import Row, batches
from portal.tables import OltRead, Onu, OnuData, OnuEvent, OnuHistory

_HISTORY = ("onu_id", "metric", "collected_at", *series.VALUES)
_Series = tuple[int, str]


def take_back(session: Session, olt_id: int, onus: Mapping[int, Row], ids: Collection[int]) -> None:
    """Of ONUs that left their place: readings, history and events of state since their serial was last read there."""
    if not ids:
        return
    session.flush()
    reads = _reads(session, olt_id)
    for part in batches(sorted(ids)):
        proven = _proven(session, onus, reads, part)
        _take_back(session, onus, proven, states_held=True)


def take_back_nameless(session: Session, olt_id: int, onus: Mapping[int, Row], ids: Collection[int]) -> set[int]:
    """The same of ONUs that got their first serial after they had been read without, though those of others are known.

    Where no serials had been read before, an ONU is told by its index. Returns who may have been given another's.
    """
    if not ids:
        return set()
    session.flush()
    reads = _reads(session, olt_id)
    known = [onu_id for onu_id in sorted(ids) if not reads.keys().isdisjoint(_names(onus[onu_id]))]
    for part in batches(known):
        query = select(Onu.id, Onu.first_seen).where(Onu.id.in_(part))
        before = {row.id: row.first_seen - timedelta(microseconds=1) for row in session.execute(query)}
        _take_back(session, onus, before, states_held=False)
    return set(known)


def _take_back(
    session: Session, onus: Mapping[int, Row], proven: Mapping[int, datetime], *, states_held: bool
) -> None:  # fmt: skip
    """`proven`: ONU → until when it is known to have stood at its place. `states_held`: its state then is its own."""
    if proven:
        ended, states = _past(session, proven), _events(session, proven)
        _latest(session, onus, proven, ended, states if states_held else {})


def _reads(session: Session, olt_id: int) -> dict[str, datetime]:
    """Metric, or metric@discovery → when it was last read of all its ONUs."""
    query = select(OltRead.metric, OltRead.read_at).where(OltRead.olt_id == olt_id)
    return {row.metric: row.read_at for row in session.execute(query) if row.metric.startswith(IDENTITIES)}


def _names(onu: Row) -> list[str]:
    """Under which it stands that the serials of all ONUs of its table were read."""
    return [name for metric in IDENTITIES for name in (metric, f"{metric}@{onu.found_by}")]


def _proven(
    session: Session, onus: Mapping[int, Row], reads: Mapping[str, datetime], ids: list[int]
) -> dict[int, datetime]:
    query = select(OnuData.onu_id, OnuData.metric, OnuData.collected_at, OnuData.reason).where(
        OnuData.onu_id.in_(ids), OnuData.metric.in_(IDENTITIES)
    )
    found: dict[int, datetime] = {}
    for onu_id, metric, at, reason in session.execute(query):
        of_all = (reads.get(name) for name in _names(onus[onu_id]) if reason != NOT_LISTED and name.startswith(metric))
        found[onu_id] = max(one for one in (found.get(onu_id), at, *of_all) if one is not None)
    return found


def _past(session: Session, proven: Mapping[int, datetime]) -> dict[_Series, datetime]:
    """Deletes the history since then. Returns by series when it would have begun to be another's."""
    key = (OnuHistory.onu_id, OnuHistory.metric, OnuHistory.collected_at)
    query = select(*key).where(OnuHistory.onu_id.in_(proven), OnuHistory.collected_at > min(proven.values()))
    keys = [(row[0], row[1], row[2]) for row in session.execute(query.order_by(*key)) if row[2] > proven[row[0]]]
    for part in batches(keys):
        session.execute(delete(OnuHistory).where(tuple_(*key).in_(part)))
    found: dict[_Series, datetime] = {}
    for onu_id, metric, at in keys:
        found.setdefault((onu_id, metric), at)
    return found


def _events(session: Session, proven: Mapping[int, datetime]) -> dict[int, str]:
    """Deletes the changes of state since then. Returns by ONU what its state was before them."""
    query = select(OnuEvent.id, OnuEvent.onu_id, OnuEvent.happened_at, OnuEvent.before).where(
        OnuEvent.onu_id.in_(proven), OnuEvent.kind == OnuEventKind.STATE, OnuEvent.happened_at > min(proven.values())
    )
    rows = [row for row in session.execute(query.order_by(OnuEvent.id)) if row.happened_at > proven[row.onu_id]]
    for part in batches([row.id for row in rows]):
        session.execute(delete(OnuEvent).where(OnuEvent.id.in_(part)))
    found: dict[int, str] = {}
    for row in rows:
        found.setdefault(row.onu_id, row.before)
    return found


def _latest(
    session: Session, onus: Mapping[int, Row], proven: Mapping[int, datetime], ended: Mapping[_Series, datetime],
    states: Mapping[int, str],
) -> None:  # fmt: skip
    """Latest readings that came since then become none, on the ONU's own columns too; its history has a gap."""
    query = select(OnuData).where(OnuData.onu_id.in_(proven), OnuData.metric.not_in(IDENTITIES))
    gaps = dict(ended)
    for data in session.scalars(query):
        name = (data.onu_id, data.metric)
        late = data.collected_at > proven[data.onu_id]
        if not late and name not in ended:
            continue
        if data.kept is not None or name in ended:
            gaps.setdefault(name, data.collected_at)
        if late:
            _forget(session, onus[data.onu_id], data.metric, states.get(data.onu_id))
        data.number, data.text, data.raw, data.reason, data.kept = None, None, "", ANOTHER_ONU, None
    session.flush()
    rows = [_gap(session, name, at, proven[name[0]]) for name, at in sorted(gaps.items())]
    upsert_rows(session, OnuHistory, _HISTORY, rows, _HISTORY[:3], _HISTORY[3:])
    session.expire_all()


def _gap(session: Session, name: _Series, at: datetime, proven: datetime) -> tuple[Any, ...]:
    return (*name, moment(session, max(at, proven + timedelta(microseconds=1))), *series.values_of(None))


def _forget(session: Session, onu: Row, metric: str, state_before: str | None) -> None:
    """The columns of the ONU itself that say what this reading said."""
    values: dict[str, Any] = {}
    if metric == "onu_state":
        onu.state, onu.online = None, {"online": True, "offline": False}.get(state_before or "")
        values = {"state": None, "state_label": "", "online": onu.online}
    elif metric == "onu_description":
        onu.description = ""
        values = {"description": "", "search": searching.of_onu("", onu.serial)}
    elif metric == "onu_model":
        onu.model = ""
        values = {"model": ""}
    if values:
        session.execute(update(Onu).where(Onu.id == onu.id).values(values))
