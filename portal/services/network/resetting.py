"""Nodes that came from a template and differ from it: in what they differ, and back to the template."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from portal.domain import merging
from portal.domain.messages import N_
from portal.extensions import transaction
from portal.services.errors import Conflict
from portal.services.network import workflows
from portal.services.network.trees import GONE, columns_of
from portal.tables import TemplateNode, WorkflowNode

NOT_OF_A_TEMPLATE = N_("this node does not come from a template, or the template does not have it any more")


def differences(node: WorkflowNode | TemplateNode, template_node: TemplateNode) -> dict[str, list[Any]]:
    """Column (and `master`, by its key) → [as it is, as the template has it]."""
    here, there = (columns_of(one) | {"master": one.master.key if one.master else None}
                   for one in (node, template_node))  # fmt: skip
    return merging.differences(here, there)


def reset_node(node_id: int, seen: int, actor: str, now: datetime) -> None:
    """Make a node as its template has it, its place in the order too; from then on the template changes it again.

    Conflict when the workflow changed since revision `seen`; Invalid when it cannot be so here.
    """
    with transaction() as session:
        begun, node = workflows.begin(session, node_id)
        if begun.workflow.revision != seen:
            raise Conflict(workflows.CHANGED)
        template_node = session.get(TemplateNode, node.template_node_id) if node.template_node_id else None
        if template_node is None or template_node.key.startswith(GONE):
            raise Conflict(NOT_OF_A_TEMPLATE)
        master = _master(node, template_node)
        columns = columns_of(template_node)
        changes = workflows.change(session, node, columns, master, actor, now)
        siblings = session.query(TemplateNode).filter_by(template_id=template_node.template_id)
        moved = _to_its_place(node, template_node, siblings.all())
        if changes or moved or node.overridden:
            node.overridden = False
            workflows.record(session, begun, "node.reset", node, changes, actor, now)


def _master(node: WorkflowNode, template_node: TemplateNode) -> WorkflowNode | None:
    if template_node.master is None:
        return None
    wanted = template_node.master
    found = next((one for one in node.workflow.nodes if one.template_node_id == wanted.id and one.is_master), None)
    if found is None:
        raise Conflict(N_("its template has it after %(master)s, which is no master of this workflow",
                          master=wanted.name))  # fmt: skip
    return found


def _to_its_place(node: WorkflowNode, template_node: TemplateNode, template: Sequence[TemplateNode]) -> bool:
    """Before the first of its siblings that comes later in the template; whether it was elsewhere."""
    order = {one.id: place for place, one in enumerate(sorted(template, key=lambda one: (one.position, one.id)))}
    siblings = [one for one in node.workflow.nodes if one.master is node.master]
    siblings.sort(key=lambda one: (one.position, one.id))
    places = [order[one.template_node_id] for one in siblings if one.template_node_id in order]
    if places == sorted(places):
        return False
    own = order[template_node.id]
    others = [one for one in siblings if one is not node]
    later = (place for place, one in enumerate(others) if one.template_node_id and order[one.template_node_id] > own)
    others.insert(next(later, len(others)), node)
    for position, sibling in enumerate(others):
        sibling.position = position
    return others != siblings
