"""Reads workflow templates for pages: what hangs on each, its nodes, and what they can be made of. Reads only."""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import joinedload

from portal.domain.statuses import RolloutStatus
from portal.extensions import db
from portal.queries import catalogue
from portal.queries.catalogue import OidChoice
from portal.tables import Brand, Oid, Olt, TemplateNode, TemplateRollout, Workflow, WorkflowTemplate

_PRESENT = ~TemplateNode.key.startswith("~")  # a deleted one is kept until no OLT has it (services.network.trees.GONE)


@dataclass(frozen=True)
class TemplateRow:
    """One template: its nodes, and the OLTs in service that have it."""

    id: int
    name: str
    description: str
    enabled: bool
    nodes: int
    olts: int


@dataclass(frozen=True)
class NodeView:
    """A node of a template and what runs after it."""

    node: TemplateNode
    chain: tuple["NodeView", ...] = ()


def rows() -> list[TemplateRow]:
    """All templates by name. One SQL statement."""
    template = WorkflowTemplate
    nodes = select(func.count()).where(TemplateNode.template_id == template.id, _PRESENT).scalar_subquery()
    olts = (
        select(func.count())
        .select_from(Workflow)
        .join(Olt, Olt.id == Workflow.olt_id)
        .where(Workflow.template_id == template.id, Olt.deleted_at.is_(None))
        .scalar_subquery()
    )
    query = select(template.id, template.name, template.description, template.enabled, nodes, olts)
    return [TemplateRow(*row) for row in db.session.execute(query.order_by(func.lower(template.name)))]


def get(template_id: int) -> WorkflowTemplate | None:
    """The template, or None."""
    return db.session.get(WorkflowTemplate, template_id)


def nodes(template_id: int) -> list[NodeView]:
    """Its masters, highest priority first, each with its chain. One SQL statement."""
    query = select(TemplateNode).where(TemplateNode.template_id == template_id, _PRESENT)
    found = list(db.session.scalars(query.order_by(TemplateNode.position, TemplateNode.id)))
    masters = sorted((node for node in found if node.master_id is None), key=lambda node: -node.priority)
    return [
        NodeView(master, tuple(NodeView(node) for node in found if node.master_id == master.id)) for master in masters
    ]


def node(node_id: int) -> tuple[TemplateNode, WorkflowTemplate] | None:
    """A node and its template, or None when either is gone."""
    query = select(TemplateNode, WorkflowTemplate).join(TemplateNode.template)
    row = db.session.execute(query.where(TemplateNode.id == node_id, _PRESENT)).first()
    return (row[0], row[1]) if row else None


def offers(brand: str = "") -> list[tuple[str, list[OidChoice]]]:
    """(brand, what it can be asked), of all brands or of one and the generic one. One SQL statement."""
    query = select(Oid).join(Oid.brand).options(joinedload(Oid.brand)).order_by(Brand.name, Oid.name, Oid.variant)
    if brand:
        query = query.where(Brand.key.in_((brand, catalogue.GENERIC)))
    found: dict[str, list[OidChoice]] = {}
    for oid in db.session.scalars(query):
        found.setdefault(oid.brand.name, []).append(catalogue.choice_of(oid))
    return list(found.items())


def tried(template_id: int | None = None) -> dict[int, TemplateRollout]:
    """Template id → its try on one OLT that goes on. One SQL statement."""
    query = select(TemplateRollout).where(TemplateRollout.status == RolloutStatus.CANARY)
    if template_id is not None:
        query = query.where(TemplateRollout.template_id == template_id)
    return {row.template_id: row for row in db.session.scalars(query)}
