"""Verbs on workflow templates: switch one on or off on all OLTs at once. One transaction each."""

from datetime import datetime

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from portal.domain.messages import N_
from portal.domain.statuses import SkipReason
from portal.extensions import db, transaction
from portal.models import Execution, TemplateNode, WorkflowNode, WorkflowTemplate
from portal.services import audit
from portal.services.dispatch import clock, waiting
from portal.services.errors import NotFound


def set_enabled(template_id: int, enabled: bool, actor: str, now: datetime) -> None:
    """Enable (its nodes next run a full interval from now) or disable the nodes of a template on all OLTs.

    What waits of them ends at once. What runs goes on: only disabling an OLT stops that (design §6). Nodes that an
    OLT has beside the template are not touched; one that hangs below a node of the template waits with it.
    """
    with transaction() as session:
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
        why = f"its template {template.name} was disabled"
        waiting.end(session, Execution.node_id.in_(nodes), now, why, SkipReason.NODE_DISABLED)


def _nodes_of(template_id: int) -> ColumnElement[bool]:
    return WorkflowNode.template_node_id.in_(select(TemplateNode.id).where(TemplateNode.template_id == template_id))


def by_name(name: str) -> int:
    """Id of a template; NotFound when there is none of that name."""
    found = db.session.scalar(select(WorkflowTemplate.id).where(WorkflowTemplate.name == name.strip()))
    if found is None:
        raise NotFound(N_("there is no template %(name)s", name=name))
    return found
