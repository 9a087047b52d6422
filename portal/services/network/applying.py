"""A template applied to OLTs: the preview, and doing it. What each OLT has otherwise on purpose stays."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, exists
from sqlalchemy.orm import Session, aliased

from portal.domain.messages import N_, Message
from portal.extensions import transaction
from portal.services.errors import Conflict, NotFound
from portal.services.network import many, synced
from portal.services.network.many import Effect
from portal.services.network.trees import GONE, Tree, every, tree_of
from portal.tables import TemplateNode, Workflow, WorkflowNode, WorkflowTemplate

CHANGED = N_("the template was changed meanwhile: look at what it does now, and apply it again")


class TemplateChange:
    """A workflow gets the template's nodes as they are now. `revision`: the one that was previewed; None = any."""

    def __init__(self, template_id: int, revision: int | None = None, action: str = "template.apply") -> None:
        self.template_id = template_id
        self.revision = revision
        self.action = action

    def prepare(self, session: Session) -> None:
        """Read the template; whoever wants to change it waits until the OLT is written. Conflict when it did change."""
        row = session.get(WorkflowTemplate, self.template_id, with_for_update={"read": True}, populate_existing=True)
        if row is None:
            raise NotFound(N_("the template does not exist any more"))
        if self.revision is not None and row.revision != self.revision:
            raise Conflict(CHANGED)
        self.row = row
        self.wanted = tree_of(row.nodes)

    def template(self, workflow: Workflow) -> WorkflowTemplate | None:
        """This one, whatever it had."""
        return self.row

    def clashes(self, workflow: Workflow, stored: Tree) -> list[Message]:
        """Own nodes that have the key of one of the template's."""
        return [
            N_("it has a node %(node)s of its own: rename or delete that one, or change the template's", node=key)
            for key in synced.clashes(stored, self.wanted)
        ]

    def tree(self, stored: Tree) -> Tree:
        """In step with the template."""
        return synced.synced(stored, self.wanted)

    def concerns(self, tree: Tree) -> Tree:
        """Composites with a node of the template: what an OLT has for itself was checked when it was made."""
        return tuple(master for master in tree if any(node.from_template for node in every((master,))))


def preview(template_id: int, olt_ids: Sequence[int], now: datetime) -> list[Effect]:
    """What applying the template would do to each of these OLTs. NotFound when there is no such template."""
    return many.preview(TemplateChange(template_id), olt_ids, now)


def apply(
    template_id: int, olt_ids: Sequence[int], actor: str, now: datetime, revision: int | None = None
) -> list[Effect]:  # fmt: skip
    """Apply it, each OLT in a transaction of its own; one that cannot have it is named, and the others go on.

    Conflict, before anything is written, when the template has another revision than the one that was looked at.
    """
    change = TemplateChange(template_id, revision)
    with transaction() as session:
        change.prepare(session)
    effects = many.make(change, olt_ids, actor, now)
    with transaction() as session:
        sweep(session, template_id)
    return effects


def sweep(session: Session, template_id: int) -> None:
    """Forget the template's deleted nodes that no OLT has any more: chained ones first, they go with their master."""
    held = exists().where(WorkflowNode.template_node_id == TemplateNode.id)
    gone = (TemplateNode.template_id == template_id) & TemplateNode.key.startswith(GONE)
    hung = aliased(TemplateNode)
    for which in (TemplateNode.master_id.is_not(None), ~exists().where(hung.master_id == TemplateNode.id)):
        session.execute(
            delete(TemplateNode).where(gone, ~held, which), execution_options={"synchronize_session": False}
        )
