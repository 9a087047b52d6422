"""The audit log for people: filtered, newest first, and where each subject's page is. Reads only."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, String, literal, select, union_all

from portal.extensions import db
from portal.queries import keyset
from portal.queries.matching import contains
from portal.tables import (
    AuditLog,
    Channel,
    Credential,
    Execution,
    IndexFormula,
    Oid,
    Olt,
    QuotaViolation,
    StateMap,
    User,
    Workflow,
    WorkflowNode,
    WorkflowTemplate,
)

Place = tuple[str, int]  # kind and id of a subject


@dataclass(frozen=True)
class Filter:
    """What the URL asks for; "" and None = everything. `about`: one subject."""

    actor: str = ""
    kind: str = ""
    about: Place | None = None
    action: str = ""
    since: datetime | None = None
    text: str = ""


@dataclass(frozen=True)
class Row:
    """One write. `address`: from where, "" for a command. `changes`: as services.audit keeps them, secrets masked."""

    id: int
    happened_at: datetime
    actor: str
    address: str
    action: str
    kind: str
    subject_id: int | None
    name: str
    changes: dict[str, Any]


def page(wanted: Filter, cursor: str = "", size: int = keyset.PAGE_SIZE) -> keyset.Page[Row]:
    """One page, newest first: one SQL statement, along the index of time or of the subject.

    Without a beginning in the order of writing, which is the same: all rows one after the other are read several times
    faster than by way of an index, where few or none of them fit.
    """
    return keyset.fetch(_query(wanted), _order(wanted), cursor, size).map(lambda row: Row(*row))


def newest(wanted: Filter, most: int) -> Iterator[Row]:
    """The newest `most`, for a file. One SQL statement."""
    return (Row(*row) for row in keyset.stream(_query(wanted), _order(wanted), most))


def _order(wanted: Filter) -> keyset.Order:
    return _WRITTEN if wanted.since is None else _TIME


def _query(wanted: Filter) -> Select[Any]:
    query = select(
        AuditLog.id, AuditLog.happened_at, AuditLog.actor, AuditLog.address, AuditLog.action, AuditLog.subject_type,
        AuditLog.subject_id, AuditLog.subject_name, AuditLog.changes,
    )  # fmt: skip
    if wanted.about is not None:
        query = query.where(AuditLog.subject_type == wanted.about[0], AuditLog.subject_id == wanted.about[1])
    if wanted.kind:
        # An expression, so that no index serves it: by that of (type, id) half of the table would be read and sorted.
        query = query.where(AuditLog.subject_type.concat("") == wanted.kind)
    if wanted.actor:
        query = query.where(AuditLog.actor == wanted.actor)
    if wanted.action:
        query = query.where(AuditLog.action == wanted.action)
    if wanted.since is not None:
        query = query.where(AuditLog.happened_at >= wanted.since)
    if wanted.text:
        query = query.where(contains(AuditLog.subject_name, wanted.text))
    return query


_TIME = keyset.Order((AuditLog.happened_at, AuditLog.id), descending=True)
_WRITTEN = keyset.Order((AuditLog.id,), descending=True)

# Kind of subject → its table and whether the row still has a page.
_TABLES: dict[str, tuple[Any, Any]] = {
    "olt": (Olt, Olt.deleted_at.is_(None)),
    "template": (WorkflowTemplate, None),
    "credential": (Credential, None),
    "channel": (Channel, None),
    "user": (User, None),
    "execution": (Execution, None),
    "violation": (QuotaViolation, None),
    "oid": (Oid, None),
    "indexformula": (IndexFormula, None),
    "statemap": (StateMap, None),
}


def places(subjects: Iterable[Place]) -> dict[Place, int]:
    """Subject → the id in the address of its page, where it still has one; of a node that is its OLT. One statement."""
    wanted: dict[str, set[int]] = {}
    for kind, ident in subjects:
        wanted.setdefault(kind, set()).add(ident)
    parts = [_present(kind, ids) for kind, ids in wanted.items() if kind in _TABLES]
    if "node" in wanted:
        parts.append(_nodes(wanted["node"]))
    if not parts:
        return {}
    return {(kind, ident): page for kind, ident, page in db.session.execute(union_all(*parts))}


def _present(kind: str, ids: set[int]) -> Select[Any]:
    table, there = _TABLES[kind]
    query = select(literal(kind, String), table.id, table.id.label("page")).where(table.id.in_(ids))
    return query if there is None else query.where(there)


def _nodes(ids: set[int]) -> Select[Any]:
    return (
        select(literal("node", String), WorkflowNode.id, Workflow.olt_id.label("page"))
        .join(Workflow, Workflow.id == WorkflowNode.workflow_id)
        .join(Olt, Olt.id == Workflow.olt_id)
        .where(WorkflowNode.id.in_(ids), Olt.deleted_at.is_(None))
    )
