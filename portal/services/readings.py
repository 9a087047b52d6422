"""What a composite read goes into the tables: ONUs and their presence, PON ports, latest readings, events."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from portal.domain.composite import ColumnReadings, CompositeResult, ReadingSpec, StepResult
from portal.domain.formulas import Position
from portal.domain.readings import Reading, ValueType
from portal.domain.statuses import EventType, NodeKind, Presence
from portal.models import Execution, Onu, OnuData, OnuEvent, PonPort, WorkflowNode
from portal.services import decisions
from portal.services.upsert import BATCH, upsert

SUSPECT_TABLE = 10  # from so many known ONUs on, losing more than half at once needs a second walk that agrees
MODEL_LENGTH = 80  # of the column; cut before comparing, else a longer one would count as changed at each run
_IDENTITY = {"onu_serial": "serial", "onu_description": "description", "onu_model": "model"}


@dataclass
class _Known:
    """What the database holds of one ONU. `columns`: state, online, serial, description, model."""

    id: int
    presence: Presence
    columns: dict[str, Any]


def store(
    session: Session, execution: Execution, result: CompositeResult, kinds: Mapping[int, NodeKind], now: datetime
) -> dict[str, int]:
    """Write all columns of all steps; returns counts: onus_seen, onus_new, onus_gone, ports, values.

    `kinds`: node id → kind, of the nodes that still exist.
    """
    counts = {"onus_seen": 0, "onus_new": 0, "onus_gone": 0, "ports": 0, "values": 0}
    known: dict[str, _Known] | None = None  # read once, and again after a discovery has changed it
    latest: dict[tuple[int, str], dict[str, Any]] = {}  # one row for (ONU, metric), whichever step read it last
    for step in result.steps:
        at = step.finished_at or now
        for column in step.columns:
            if kinds.get(step.node_id) is NodeKind.TABLE:
                counts["ports"] += _store_ports(session, execution.olt_id, column, at)
                continue
            if known is None:
                known = _known(session, execution.olt_id)
            if kinds.get(step.node_id) is NodeKind.DISCOVERY and _discover(
                session, execution, step, column, known, counts, at
            ):
                known = _known(session, execution.olt_id)
            counts["values"] += _take_values(session, execution, column, known, latest, at)
    if latest:
        upsert(session, OnuData, list(latest.values()), ("onu_id", "metric"),
               ("number", "text", "raw", "reason", "collected_at", "execution_id"))  # fmt: skip
    return counts


def _known(session: Session, olt_id: int) -> dict[str, _Known]:
    columns = (Onu.state, Onu.online, Onu.serial, Onu.description, Onu.model)
    query = select(Onu.index_key, Onu.id, Onu.presence, *columns).where(Onu.olt_id == olt_id)
    return {
        row.index_key: _Known(row.id, row.presence, {column.key: getattr(row, column.key) for column in columns})
        for row in session.execute(query)
    }


def _position(spec: ReadingSpec, reading: Reading) -> Position | None:
    """From the index; where the formula reads names, from the value (ifName wins over any arithmetic)."""
    if spec.formula is None:
        return None
    position = spec.formula.decode(reading.index)
    if position is None and isinstance(reading.value, str):
        position = spec.formula.decode(reading.value)
    return position


def _store_ports(session: Session, olt_id: int, column: ColumnReadings, at: datetime) -> int:
    rows = []
    for reading in column.readings:
        position = _position(column.spec, reading)
        rows.append({
            "olt_id": olt_id, "index_key": reading.index, "name": str(reading.value or ""), "last_seen": at,
            "frame": position.frame if position else None, "slot": position.slot if position else None,
            "port": position.port if position else None,
        })  # fmt: skip
    if rows:
        upsert(session, PonPort, rows, ("olt_id", "index_key"), ("name", "frame", "slot", "port", "last_seen"))
    return len(rows)


def _discover(
    session: Session, execution: Execution, step: StepResult, column: ColumnReadings,
    known: Mapping[str, _Known], counts: dict[str, int], at: datetime,
) -> bool:  # fmt: skip
    """Rows of a discovery column are the ONUs that exist; only a complete walk may take one away.

    True when `known` is no longer what the database holds.
    """
    seen = {reading.index: reading for reading in column.readings}
    new = [key for key in seen if key not in known]
    rows = [_onu_row(execution.olt_id, column.spec, reading, at) for reading in seen.values()]
    if rows:
        upsert(session, Onu, rows, ("olt_id", "index_key"),
               ("frame", "slot", "port", "onu_number", "presence", "misses", "last_seen"))  # fmt: skip
    back = [key for key in seen if key in known and known[key].presence is Presence.DISABLED]
    _presence_events(session, execution, [known[key].id for key in back], Presence.ENABLED, at)
    counts["onus_seen"] += len(seen)
    counts["onus_new"] += len(new)
    gone = 0
    if column.complete:
        missing = [key for key, onu in known.items() if key not in seen and onu.presence is Presence.ENABLED]
        gone = _remove(session, execution, step, known, missing, at)
        counts["onus_gone"] += gone
    return bool(new or back or gone)


def _onu_row(olt_id: int, spec: ReadingSpec, reading: Reading, at: datetime) -> dict[str, Any]:
    position = _position(spec, reading)
    return {
        "olt_id": olt_id, "index_key": reading.index, "presence": Presence.ENABLED, "misses": 0,
        "frame": position.frame if position else None, "slot": position.slot if position else None,
        "port": position.port if position else None, "onu_number": position.onu if position else None,
        "first_seen": at, "last_seen": at,
    }  # fmt: skip


def _remove(
    session: Session, execution: Execution, step: StepResult, known: Mapping[str, _Known], missing: list[str],
    at: datetime,
) -> int:  # fmt: skip
    present = sum(onu.presence is Presence.ENABLED for onu in known.values())
    node = session.get(WorkflowNode, step.node_id)
    if present >= SUSPECT_TABLE and len(missing) > present / 2 and node is not None and node.suspect_at is None:
        node.suspect_at = at
        decisions.record(
            session, EventType.SUSPECT_TABLE,
            f"{node.name}: the table lost {len(missing)} of {present} ONUs; held until a second walk agrees", at,
            olt_id=execution.olt_id, node_id=node.id, execution_id=execution.id, level="WARNING",
            details={"missing": len(missing), "present": present},
        )  # fmt: skip
        return 0
    if node is not None:
        node.suspect_at = None
    ids = [known[key].id for key in missing]
    for start in range(0, len(ids), BATCH):
        session.execute(
            update(Onu).where(Onu.id.in_(ids[start : start + BATCH]))
            .values(presence=Presence.DISABLED, misses=Onu.misses + 1, last_state_change=at)
        )  # fmt: skip
    _presence_events(session, execution, ids, Presence.DISABLED, at)
    return len(ids)


def _presence_events(session: Session, execution: Execution, ids: list[int], now_is: Presence, at: datetime) -> None:
    was = Presence.DISABLED if now_is is Presence.ENABLED else Presence.ENABLED
    session.add_all(
        OnuEvent(onu_id=onu_id, kind="presence", before=was, after=now_is, happened_at=at, execution_id=execution.id)
        for onu_id in ids
    )


def _take_values(
    session: Session, execution: Execution, column: ColumnReadings, known: Mapping[str, _Known],
    latest: dict[tuple[int, str], dict[str, Any]], at: datetime,
) -> int:  # fmt: skip
    """Readings of known ONUs go into `latest`; identity columns and state are also written on the ONU itself."""
    metric, changes, count = column.spec.metric, [], 0
    for reading in column.readings:
        onu = known.get(reading.index)
        if onu is None:
            continue
        count += 1
        latest[onu.id, metric] = _data_row(onu.id, metric, reading, execution.id, at)
        changed = _changed(column.spec, reading, onu)
        if changed:
            changes.append({"id": onu.id, **changed, **({"last_state_change": at} if "online" in changed else {})})
            _state_event(session, execution, onu, changed, at)
            onu.columns |= changed
    for same_columns in _grouped(changes):
        session.execute(update(Onu), same_columns)
    return count


def _grouped(changes: list[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """Bulk UPDATE by primary key wants the same columns in each row."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for change in changes:
        groups.setdefault(tuple(sorted(change)), []).append(change)
    return groups.values()


def _data_row(onu_id: int, metric: str, reading: Reading, execution_id: int, at: datetime) -> dict[str, Any]:
    numeric = isinstance(reading.value, int | float)
    return {
        "onu_id": onu_id, "metric": metric, "number": reading.value if numeric else None,
        "text": reading.value[:255] if isinstance(reading.value, str) else None, "raw": reading.raw[:255],
        "reason": reading.reason[:80], "collected_at": at, "execution_id": execution_id,
    }  # fmt: skip


def _changed(spec: ReadingSpec, reading: Reading, onu: _Known) -> dict[str, Any]:
    """Columns of the ONU that this reading changes. "No value" never erases what is known."""
    if reading.value is None:
        return {}
    if spec.value.type is ValueType.STATE and spec.metric == "onu_state":
        code = int(reading.raw) if reading.raw.lstrip("-").isdigit() else None
        if (onu.columns["state"], onu.columns["online"]) == (code, reading.online):
            return {}
        changed: dict[str, Any] = {"state": code, "state_label": str(reading.value)[:40]}
        return changed | ({"online": reading.online} if onu.columns["online"] is not reading.online else {})
    column = _IDENTITY.get(spec.metric)
    if column is None:
        return {}
    value = str(reading.value)[:MODEL_LENGTH] if column == "model" else str(reading.value)
    return {column: value} if onu.columns[column] != value else {}


def _state_event(session: Session, execution: Execution, onu: _Known, changed: dict[str, Any], at: datetime) -> None:
    before: Any
    if "online" in changed and onu.columns["online"] is not None:
        kind, before, after = "state", onu.columns["online"], changed["online"]
    elif changed.get("serial") and onu.columns["serial"]:
        kind, before, after = "serial", onu.columns["serial"], changed["serial"]
    else:
        return
    session.add(
        OnuEvent(onu_id=onu.id, kind=kind, before=_word(before), after=_word(after), happened_at=at,
                 execution_id=execution.id)
    )  # fmt: skip


def _word(value: Any) -> str:
    return {True: "online", False: "offline", None: ""}.get(value, str(value)) if not isinstance(value, str) else value
