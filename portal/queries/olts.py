"""Reads OLTs for pages: the list with what happens now, and the facts of one OLT. Touches no secret."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, case, func, literal, or_, select, union_all
from sqlalchemy.orm import joinedload, with_expression

from portal.domain.statuses import ExecutionStatus, NodeKind, OltCondition, OltState, Presence
from portal.extensions import db
from portal.queries import keyset
from portal.queries.freshness import condition, fresh, online
from portal.queries.matching import contains
from portal.tables import (
    Brand,
    Credential,
    Execution,
    Olt,
    OltModel,
    Onu,
    Poller,
    PonPort,
    Workflow,
    WorkflowNode,
    WorkflowTemplate,
)

Place = tuple[int, int | None, int | None]

SORTS = ("name", "-name", "address", "-address", "state", "-state", "brand", "-brand")
MOST_EXPORTED = 10_000
NO_SITE, NO_TEMPLATE = "-", "-"  # what a filter asks for to see those that have none


@dataclass(frozen=True)
class OltFilter:
    """What the URL asks for; "" = everything. `state` is an OltCondition, `enabled` "1" or "0".

    `model` is a key within any brand; `site` and `template` are names, "-" asks for those that have none.
    """

    q: str = ""
    state: str = ""
    brand: str = ""
    model: str = ""
    site: str = ""
    template: str = ""
    enabled: str = ""
    sort: str = "name"

    @property
    def active(self) -> bool:
        """True when something is left out of the list."""
        return any((self.q, self.state, self.brand, self.model, self.site, self.template, self.enabled))


@dataclass(frozen=True)
class Running:
    """The execution that holds an OLT, and who runs it. `poller` None = the pollers' rows do not know it."""

    execution_id: int
    node_name: str
    started_at: datetime | None
    poller: int | None
    host: str


@dataclass(frozen=True)
class OltRow:
    """One line of the list."""

    id: int
    name: str
    address: str
    port: int
    enabled: bool
    state: OltState
    condition: OltCondition
    state_since: datetime | None
    stale_at: datetime | None
    paused_reason: str
    paused_until: datetime | None
    brand: str
    model: str
    site: str
    template: str
    credential: str
    online: int | None = 0  # None: their states were not read of late
    onus: int = 0
    last_discovery: datetime | None = None
    next_run_at: datetime | None = None
    running: Running | None = None


@dataclass(frozen=True)
class PortRow:
    """One PON port: how many of its ONUs are online, and what the device calls it. None = position unknown, or states

    not read of late.
    """

    frame: int
    slot: int | None
    port: int | None
    online: int | None = 0
    total: int = 0
    name: str = ""

    @property
    def dark(self) -> int:
        """ONUs that should be there and are not online."""
        return 0 if self.online is None else self.total - self.online


_ALIVE = Olt.deleted_at.is_(None)
_RANK = {one: rank for rank, one in enumerate(OltCondition)}


def _matches(wanted: OltFilter, *, state: bool = True) -> list[ColumnElement[bool]]:
    clauses: list[ColumnElement[bool]] = [_ALIVE]
    if wanted.q:
        columns = (Olt.name, Olt.address, Olt.site, Brand.name, func.coalesce(OltModel.name, ""))
        clauses.append(or_(*(contains(column, wanted.q) for column in columns)))
    if wanted.brand:
        clauses.append(Brand.key == wanted.brand)
    if wanted.model:
        clauses.append(OltModel.key == wanted.model)
    if wanted.site:
        clauses.append(Olt.site == ("" if wanted.site == NO_SITE else wanted.site))
    if wanted.template:
        none = WorkflowTemplate.id.is_(None)
        clauses.append(none if wanted.template == NO_TEMPLATE else WorkflowTemplate.name == wanted.template)
    if wanted.enabled:
        clauses.append(Olt.enabled.is_(wanted.enabled == "1"))
    if state and wanted.state:
        clauses.append(condition == wanted.state)
    return clauses


def _order(sort: str) -> keyset.Order:
    name = keyset.lower(Olt.name)
    keys: dict[str, tuple[keyset.Key, ...]] = {
        "state": (case(_RANK, value=condition, else_=9), name),
        "brand": (keyset.lower(Brand.name), func.coalesce(OltModel.name, ""), name),
        "address": (Olt.address,),
    }
    return keyset.Order((*keys.get(sort.removeprefix("-"), (name,)), Olt.id), descending=sort.startswith("-"))


def _joined(*columns: Any) -> Select[Any]:
    query = select(*columns).select_from(Olt).join(Olt.brand).join(Olt.credential).outerjoin(Olt.model)
    return query.outerjoin(Olt.workflow).outerjoin(Workflow.template)


def counts(wanted: OltFilter) -> dict[str, int]:
    """Condition → OLTs that the other filters let through; "" = all of them. One SQL statement."""
    told = _joined(condition.label("told")).where(*_matches(wanted, state=False)).subquery()
    query = select(told.c.told, func.count()).group_by(told.c.told)
    found = {str(state): int(number) for state, number in db.session.execute(query)}
    return {**found, "": sum(found.values())}


def page(wanted: OltFilter, cursor: str = "", size: int = keyset.PAGE_SIZE) -> keyset.Page[OltRow]:
    """One page of the list: four SQL statements whatever the number of OLTs."""
    columns = (
        Olt.id, Olt.name, Olt.address, Olt.port, Olt.enabled, Olt.state, condition, Olt.state_since, Olt.stale_at,
        Olt.paused_reason, Olt.paused_until, Brand.name, func.coalesce(OltModel.name, ""),
        Olt.site, func.coalesce(WorkflowTemplate.name, ""), Credential.name,
    )  # fmt: skip
    found = keyset.fetch(_joined(*columns).where(*_matches(wanted)), _order(wanted.sort), cursor, size)
    ids = [row[0] for row in found.rows]
    onus, clocks, running = onu_counts(ids), _clocks(ids), running_now(ids)

    def made(row: Any) -> OltRow:
        here = (*onus.get(row[0], (0, 0)), *clocks.get(row[0], (None, None)), running.get(row[0]))
        values: tuple[Any, ...] = (*row, *here)
        return OltRow(*values)

    return found.map(made)


@dataclass(frozen=True)
class Offered:
    """What the list can be filtered by: (key, name) of brands and models, names of sites and templates; in order."""

    brands: list[tuple[str, str]]
    models: list[tuple[str, list[tuple[str, str]]]]
    sites: list[str]
    templates: list[str]


def offered() -> Offered:
    """What OLTs in service have. Two SQL statements."""
    query = select(Brand.key, Brand.name, OltModel.key, OltModel.name).select_from(Olt).join(Olt.brand)
    brands: dict[str, str] = {}
    models: dict[str, list[tuple[str, str]]] = {}
    devices = query.outerjoin(Olt.model).where(_ALIVE).distinct().order_by(Brand.name, OltModel.name)
    for brand, name, key, model in db.session.execute(devices):
        brands[brand] = name
        if key is not None:
            models.setdefault(name, []).append((key, model))
    sites = select(literal("site"), Olt.site).where(_ALIVE, Olt.site != "").distinct()
    templates = select(literal("template"), WorkflowTemplate.name)
    words = sorted((kind, name) for kind, name in db.session.execute(union_all(sites, templates)))
    named = [[name for kind, name in words if kind == wanted] for wanted in ("site", "template")]
    return Offered(list(brands.items()), list(models.items()), *named)


_lit = func.sum(case((online.is_(True), 1), (fresh, 0)))  # NULL where the OLT was not read of late


def onu_counts(olt_ids: list[int]) -> dict[int, tuple[int | None, int]]:
    """OLT id → (online, present ONUs). One SQL statement."""
    query = (
        select(Onu.olt_id, _lit, func.count())
        .join(Olt, Olt.id == Onu.olt_id)
        .where(Onu.olt_id.in_(olt_ids), Onu.presence == Presence.ENABLED)
        .group_by(Onu.olt_id)
    )
    return {olt_id: (_whole(lit), total) for olt_id, lit, total in db.session.execute(query)}


def _whole(number: Any) -> int | None:
    return None if number is None else int(number)


def _clocks(olt_ids: list[int]) -> dict[int, tuple[datetime | None, datetime | None]]:
    """OLT id → (last successful discovery, next run of anything). One SQL statement.

    What may not run has no clock (services.dispatch.clock).
    """
    discovered = func.max(case((WorkflowNode.kind == NodeKind.DISCOVERY, WorkflowNode.last_success_at)))
    query = (
        select(Workflow.olt_id, discovered, func.min(WorkflowNode.next_run_at))
        .join(WorkflowNode, WorkflowNode.workflow_id == Workflow.id)
        .where(Workflow.olt_id.in_(olt_ids))
        .group_by(Workflow.olt_id)
    )
    return {olt_id: (last, coming) for olt_id, last, coming in db.session.execute(query)}


def expected(olt: Olt | OltRow, moment: datetime | None) -> datetime | None:
    """`moment`, when something would run on `olt`, if it is not skipped because the OLT is disabled or held back."""
    if moment is None or not olt.enabled or olt.state is OltState.UNREACHABLE:
        return None
    held = olt.state is OltState.PAUSED and (olt.paused_until is None or olt.paused_until > moment)
    return None if held else moment


def next_run(olt_id: int) -> datetime | None:
    """When the OLT is read next, or None when nothing is planned."""
    return _clocks([olt_id]).get(olt_id, (None, None))[1]


def running_now(olt_ids: list[int]) -> dict[int, Running]:
    """OLT id → what holds it at this moment. One SQL statement.

    All running executions are read (no more than there are pollers): an OLT filter would tempt SQLite away from
    the status index to years of an OLT's executions.
    """
    query = (
        select(Execution.olt_id, Execution.id, Execution.node_name, Execution.started_at, Poller.poller_id, Poller.host)
        .outerjoin(Poller, Poller.current_execution_id == Execution.id)
        .where(Execution.status == ExecutionStatus.RUNNING)
    )
    wanted = set(olt_ids)
    return {
        olt_id: Running(execution_id, node, since, poller, host or "")
        for olt_id, execution_id, node, since, poller, host in db.session.execute(query)
        if olt_id in wanted
    }


def get(olt_id: int) -> Olt | None:
    """The OLT with its condition, unless it was deleted. Its credential is not loaded: see queries.catalogue."""
    parts = (
        joinedload(Olt.brand),
        joinedload(Olt.model),
        joinedload(Olt.device),
        with_expression(Olt.condition, condition),
    )
    return db.session.scalar(select(Olt).options(*parts).where(Olt.id == olt_id, _ALIVE))


def names(olt_ids: Iterable[int]) -> dict[int, str]:
    """OLT id → name of those that are in service, by name. One SQL statement."""
    query = select(Olt.id, Olt.name).where(Olt.id.in_(list(olt_ids)), _ALIVE).order_by(keyset.lower(Olt.name))
    return {row.id: row.name for row in db.session.execute(query)}


def ports(olt_id: int) -> list[PortRow]:
    """PON ports with ONUs or with a name of their own, in the order of the shelf. Two SQL statements."""
    counted, named = _counted_ports(olt_id), _named_ports(olt_id)
    rows = [
        PortRow(*place, *counted.get(place, (0, 0)), named.get(place, ""))
        for place in {**counted, **named}
        if place in counted or place[1] is not None
    ]
    return sorted(rows, key=lambda row: tuple(-1 if n is None else n for n in (row.frame, row.slot, row.port)))


def _counted_ports(olt_id: int) -> dict[Place, tuple[int | None, int]]:
    place = (func.coalesce(Onu.frame, 0), Onu.slot, Onu.port)
    query = (
        select(*place, _lit, func.count())
        .join(Olt, Olt.id == Onu.olt_id)
        .where(Onu.olt_id == olt_id, Onu.presence == Presence.ENABLED)
        .group_by(*place)
    )
    return {(row[0], row[1], row[2]): (_whole(row[3]), row[4]) for row in db.session.execute(query)}


def _named_ports(olt_id: int) -> dict[Place, str]:
    """The ports themselves: where a device lists ONUs as interfaces, those are not what their port is called."""
    query = select(func.coalesce(PonPort.frame, 0), PonPort.slot, PonPort.port, PonPort.name)
    query = query.where(PonPort.olt_id == olt_id, PonPort.onu_number.is_(None))
    return {(row[0], row[1], row[2]): row[3] for row in db.session.execute(query)}


def last_executions(olt_id: int, limit: int = 10) -> list[Execution]:
    """The newest executions of one OLT, newest first. One SQL statement."""
    query = select(Execution).where(Execution.olt_id == olt_id).order_by(Execution.id.desc()).limit(limit)
    return list(db.session.scalars(query))
