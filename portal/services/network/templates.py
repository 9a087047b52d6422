"""Verbs on workflow templates: create, rename, delete, switch on or off on all OLTs. One transaction each."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy import update as sql_update
from sqlalchemy.orm import Session

from portal.domain import fields
from portal.domain.fields import Reader
from portal.domain.messages import N_
from portal.domain.statuses import RolloutStatus, SkipReason
from portal.extensions import db, transaction
from portal.services import audit
from portal.services.dispatch import clock, reachability, waiting
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.network.template_nodes import changing
from portal.services.uniqueness import unique_or_invalid
from portal.tables import Execution, TemplateNode, TemplateRollout, Workflow, WorkflowNode, WorkflowTemplate

_READERS: Mapping[str, Reader] = {"name": fields.one_line(80, required=True), "description": fields.one_line(255)}
NAME_TAKEN = N_("another template has this name")
UNIQUE = dict.fromkeys(("uq_workflow_templates_name", "workflow_templates.name"), ("name", NAME_TAKEN))


def create(given: Mapping[str, Any], actor: str, now: datetime) -> int:
    """A template without nodes; returns its id. `given`: name, description. Invalid names each wrong field."""
    with unique_or_invalid(UNIQUE), transaction() as session:
        return add(session, given, actor, now).id


def add(session: Session, given: Mapping[str, Any], actor: str, now: datetime) -> WorkflowTemplate:
    """`create` in the caller's transaction."""
    values = _read({"description": "", **given})
    _check_name(session, values["name"], None)
    row = WorkflowTemplate(enabled=True, revision=0, nodes=[], **values)
    session.add(row)
    session.flush()
    audit.record(session, actor=actor, action="template.create", subject=row, changes=values, now=now)
    return row


def update(
    template_id: int, given: Mapping[str, Any], actor: str, now: datetime, revision: int | None = None
) -> None:  # fmt: skip
    """Rename or describe it anew; what `given` leaves out stays. Conflict when it has another revision by now."""
    with unique_or_invalid(UNIQUE), changing(template_id, revision) as (session, row):
        values = _read({"name": row.name, "description": row.description, **given})
        _check_name(session, values["name"], row.id)
        changes = audit.difference({"name": row.name, "description": row.description}, values)
        if changes:
            row.name, row.description = values["name"], values["description"]
            row.revision += 1
            audit.record(session, actor=actor, action="template.update", subject=row, changes=changes, now=now)


def delete(template_id: int, actor: str, now: datetime) -> int:
    """Delete it; the OLTs keep its nodes as their own. Returns how many OLTs had it.

    Those of a disabled template stay disabled, so that nothing starts to run because of this. While it is tried on one
    OLT it cannot be deleted (Conflict): the way back would be lost.
    """
    with changing(template_id, None) as (session, row):
        opened = select(TemplateRollout.id).where(
            TemplateRollout.template_id == row.id, TemplateRollout.status == RolloutStatus.CANARY
        )
        if session.scalar(opened.limit(1)) is not None:
            raise Conflict(N_("it is being tried on an OLT: end that first"))
        olts = session.scalar(select(func.count()).where(Workflow.template_id == row.id)) or 0
        values = {"overridden": False, "template_node_id": None} | ({} if row.enabled else {"enabled": False})
        session.execute(
            sql_update(WorkflowNode).where(_nodes_of(row.id)).values(values),
            execution_options={"synchronize_session": False},
        )
        session.execute(
            sql_update(Workflow).where(Workflow.template_id == row.id).values(template_id=None),
            execution_options={"synchronize_session": False},
        )
        audit.record(session, actor=actor, action="template.delete", subject=row, changes={"olts": olts}, now=now)
        session.delete(row)
        return olts


def _read(given: Mapping[str, Any]) -> dict[str, Any]:
    values, errors = fields.read_all(_READERS, given)
    if errors:
        raise Invalid(errors)
    return values


def _check_name(session: Session, name: str, own_id: int | None) -> None:
    other = session.scalar(select(WorkflowTemplate.id).where(WorkflowTemplate.name == name))
    if other not in (None, own_id):
        raise Invalid({"name": NAME_TAKEN})


def set_enabled(template_id: int, enabled: bool, actor: str, now: datetime) -> None:
    """Enable (its nodes next run a full interval from now) or disable the nodes of a template on all OLTs.

    What waits of them ends at once. What runs goes on: only disabling an OLT stops that. Nodes that an
    OLT has beside the template are not touched; one that hangs below a node of the template waits with it.
    """
    with transaction() as session:
        reachability.locked(session, olts_of(session, [template_id]))
        template = session.get(WorkflowTemplate, template_id)
        if template is None:
            raise NotFound(N_("the template does not exist any more"))
        if template.enabled is enabled:
            return
        template.enabled = enabled
        switch(session, template, now)
        audit.record(
            session, actor=actor, action=f"template.{'enable' if enabled else 'disable'}", subject=template,
            changes={"enabled": [not enabled, enabled]}, now=now,
        )  # fmt: skip


def switch(session: Session, template: WorkflowTemplate, now: datetime) -> None:
    """After its flag was changed, in the caller's transaction: clocks follow, and what waits ends where it must."""
    clock.settle(session, _nodes_of(template.id), now)
    if not template.enabled:
        nodes = select(WorkflowNode.id).where(_nodes_of(template.id))
        why = N_("its template %(name)s was disabled", name=template.name)
        waiting.end(session, Execution.node_id.in_(nodes), now, why, SkipReason.NODE_DISABLED)


def olts_of(session: Session, template_ids: Collection[int]) -> list[int]:
    """OLTs that have these templates, in the order in which their rows are locked."""
    query = select(Workflow.olt_id).where(Workflow.template_id.in_(template_ids)).order_by(Workflow.olt_id)
    return list(session.scalars(query))


def _nodes_of(template_id: int) -> ColumnElement[bool]:
    return WorkflowNode.template_node_id.in_(select(TemplateNode.id).where(TemplateNode.template_id == template_id))


def by_name(name: str) -> int:
    """Id of a template; NotFound when there is none of that name."""
    found = db.session.scalar(select(WorkflowTemplate.id).where(WorkflowTemplate.name == name.strip()))
    if found is None:
        raise NotFound(N_("there is no template %(name)s", name=name))
    return found
