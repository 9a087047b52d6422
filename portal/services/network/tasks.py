"""One new task for many OLTs: a node of each OLT's own, or a new template that they get. What the wizard does."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from portal.domain.messages import N_, Message
from portal.extensions import db, transaction
from portal.services.cataloguing import catalogue
from portal.services.dispatch import clock
from portal.services.errors import Invalid
from portal.services.network import many, node_input, template_nodes, templates
from portal.services.network.applying import TemplateChange
from portal.services.network.many import Effect
from portal.services.network.node_rules import NodeRules
from portal.services.network.trees import Tree, Wanted, every
from portal.services.uniqueness import unique_or_invalid
from portal.tables import Workflow, WorkflowTemplate

Fields = Mapping[str, Any]


class TaskChange:
    """A workflow gets one more master. `template`: it shall be its first template's; one that has another is out."""

    action = "task.create"

    def __init__(self, columns: Fields, *, in_template: bool = False) -> None:
        self.columns = columns
        self.in_template = in_template

    def prepare(self, session: Session) -> None:
        """It depends on nothing but the workflow."""

    def template(self, workflow: Workflow) -> WorkflowTemplate | None:
        """As it is."""
        return workflow.template

    def clashes(self, workflow: Workflow, stored: Tree) -> list[Message]:
        """A node that has the key already, or a template that would be lost."""
        found = _other_template(workflow, None) if self.in_template else []
        if any(node.key == self.columns["key"] for node in every(stored)):
            found.append(N_("it has a node %(node)s already", node=self.columns["key"]))
        return found

    def tree(self, stored: Tree) -> Tree:
        """With the new master behind the others."""
        return (*stored, Wanted(self.columns))

    def concerns(self, tree: Tree) -> Tree:
        """The new one only."""
        return tuple(master for master in tree if master.key == self.columns["key"])


class FirstTemplate(TemplateChange):
    """Applied only where there is no other template yet."""

    def clashes(self, workflow: Workflow, stored: Tree) -> list[Message]:
        """Another template that would be lost, and own nodes with the same key."""
        return _other_template(workflow, self.template_id) + super().clashes(workflow, stored)


def _other_template(workflow: Workflow, own_id: int | None) -> list[Message]:
    other = workflow.template
    if other is None or other.id == own_id:
        return []
    return [N_("it has template %(name)s: add the task to that one, or make it a node of its own", name=other.name)]


def check(fields: Fields, now: datetime) -> dict[str, Any]:
    """The columns of the task. Invalid names each wrong field, an interval that is not safe among them."""
    columns = node_input.columns(node_input.with_key(fields), None, chained=False)
    rules = NodeRules(catalogue.load_lookup(db.session()), now, clock.portal_zone())
    errors = rules.check(None, columns).errors.get(columns["key"])
    if errors:
        raise Invalid(errors)
    return columns


def preview(fields: Fields, olt_ids: Sequence[int], now: datetime, *, in_template: bool = False) -> list[Effect]:
    """What the task would do to each OLT. Invalid when it cannot be read at all."""
    return many.preview(TaskChange(check(fields, now), in_template=in_template), olt_ids, now)


def create(fields: Fields, olt_ids: Sequence[int], actor: str, now: datetime) -> list[Effect]:
    """A node of its own for each OLT, each in a transaction of its own; one that cannot have it is named."""
    return many.make(TaskChange(check(fields, now)), olt_ids, actor, now)


def create_template(
    name: str, fields: Fields, olt_ids: Sequence[int], actor: str, now: datetime
) -> tuple[int, list[Effect]]:  # fmt: skip
    """A new template with the task, then each OLT by itself. Returns its id and what became of the OLTs.

    Invalid under `template_name` when the name is taken or none; nothing is made then.
    """
    columns = check(fields, now)
    try:
        with unique_or_invalid(templates.UNIQUE), transaction() as session:
            row = templates.add(session, {"name": name}, actor, now)
            template_nodes.put(session, row, {**fields, "key": columns["key"]}, actor, now)
            template_id = row.id
    except Invalid as refused:
        errors = {"template_name" if key == "name" else key: told for key, told in refused.errors.items()}
        raise Invalid(errors) from None
    effects = many.make(FirstTemplate(template_id), olt_ids, actor, now)
    return template_id, effects
