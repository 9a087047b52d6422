"""Reads workflow templates for pages: what hangs on each. Reads only."""

from dataclasses import dataclass

from sqlalchemy import func, select

from portal.extensions import db
from portal.models import Olt, TemplateNode, Workflow, WorkflowTemplate


@dataclass(frozen=True)
class TemplateRow:
    """One template: its nodes, and the OLTs in service that have it."""

    id: int
    name: str
    description: str
    enabled: bool
    nodes: int
    olts: int


def rows() -> list[TemplateRow]:
    """All templates by name. One SQL statement."""
    template = WorkflowTemplate
    nodes = select(func.count()).where(TemplateNode.template_id == template.id).scalar_subquery()
    olts = (
        select(func.count())
        .select_from(Workflow)
        .join(Olt, Olt.id == Workflow.olt_id)
        .where(Workflow.template_id == template.id, Olt.deleted_at.is_(None))
        .scalar_subquery()
    )
    query = select(template.id, template.name, template.description, template.enabled, nodes, olts)
    return [TemplateRow(*row) for row in db.session.execute(query.order_by(func.lower(template.name)))]
