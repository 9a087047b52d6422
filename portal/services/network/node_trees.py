"""Writes a tree of nodes into a template or a workflow: what differs is changed, clocks by the rules of time."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from portal.domain.messages import N_
from portal.services import audit
from portal.services.dispatch import clock, waiting
from portal.services.network import workflows
from portal.services.network.trees import AnyNode, Difference, Tree, Wanted, columns_of, every
from portal.tables import TemplateNode, Workflow, WorkflowNode, WorkflowTemplate


class _Writer:
    """Brings stored nodes to the wanted tree; nodes are the same when their keys are."""

    def __init__(self, stored: Iterable[AnyNode], make: Callable[[], AnyNode], wind: Callable[..., None]) -> None:
        self.nodes: dict[str, Any] = {node.key: node for node in stored}
        self.make = make
        self.wind = wind
        self.difference = Difference()

    def place(self, session: Session, tree: Tree, template_ids: Mapping[str, int] | None) -> None:
        """Make and change nodes; the caller flushes before it goes on to `remove`."""
        self.template_ids = template_ids
        wanted = {node.key for node in every(tree)}
        self.surplus = [node for key, node in self.nodes.items() if key not in wanted]
        with session.no_autoflush:  # half a tree breaks constraints that the whole one keeps
            for position, master in enumerate(tree):
                placed = self._place(master, None, position)
                for place, chained in enumerate(master.chain):
                    self._place(chained, placed, place)

    def remove(self, session: Session) -> None:
        """Delete what the tree does not have, chained nodes before their masters."""
        for node in sorted(self.surplus, key=lambda node: node.master_id is None):
            session.expire(node, ["chained"])
            session.delete(node)
            self.difference.removed.append(node.key)
        if self.surplus:
            session.flush()

    def _place(self, wanted: Wanted, master: AnyNode | None, position: int) -> AnyNode:
        node = self.nodes.get(wanted.key)
        if node is None:
            node = self.nodes[wanted.key] = self.make()
            self._assign(node, wanted, master, position)
            self.wind(node, None, became_master=master is None)
            self.difference.added.append(wanted.key)
            return node
        was = self._state(node)
        before, old_master = columns_of(node), node.master
        self._assign(node, wanted, master, position)
        changes = audit.difference(was, self._state(node))
        if changes:
            self.difference.changed[wanted.key] = changes
            self.wind(node, before, became_master=old_master is not None and master is None)
        return node  # type: ignore[no-any-return]

    def _state(self, node: Any) -> dict[str, Any]:
        state = {**columns_of(node), "position": node.position, "master": node.master.key if node.master else None}
        if self.template_ids is not None:
            state["from template"] = node.template_node_id is not None
        return state

    def _assign(self, node: Any, wanted: Wanted, master: Any, position: int) -> None:
        values: dict[str, Any] = {**wanted.columns, "position": position}
        if self.template_ids is not None:
            values["template_node_id"] = self.template_ids.get(wanted.key) if wanted.from_template else None
            values["overridden"] = wanted.overridden
        for name, value in values.items():
            if getattr(node, name) != value:
                setattr(node, name, value)
        if node.master is not master:
            node.master = master


def write_template(session: Session, template: WorkflowTemplate, tree: Tree) -> Difference:
    """Make the nodes of a template as in `tree`, and raise its revision; its OLTs are synced by WorkflowWriter."""

    def make() -> TemplateNode:
        node = TemplateNode(template=template)
        session.add(node)
        return node

    writer = _Writer(list(template.nodes), make, lambda *_args, **_named: None)
    writer.place(session, tree, None)
    session.flush()
    writer.remove(session)
    session.expire(template, ["nodes"])
    if writer.difference:
        template.revision += 1
    return writer.difference


class WorkflowWriter:
    """Makes the nodes of one OLT as in a tree: clocks by the rules of time, what waits of stopped nodes is aborted.

    In two steps, so that the nodes of many OLTs are written in one flush between them.
    """

    def __init__(self, session: Session, workflow: Workflow, now: datetime, first_run: clock.FirstRun) -> None:
        self.session = session
        self.workflow = workflow
        self.now = now
        self.first_run = first_run
        self._writer = _Writer(list(workflow.nodes), self._make, self._wind)

    def place(self, tree: Tree) -> None:
        """Make and change nodes; the caller flushes."""
        self._abort(tree)
        template = self.workflow.template
        template_ids = {node.key: node.id for node in template.nodes} if template else {}
        self._writer.place(self.session, tree, template_ids)

    def finish(self) -> Difference:
        """Remove surplus nodes; tells what changed."""
        self._writer.remove(self.session)
        if self._writer.difference:
            self._settle()
            self.session.expire(self.workflow, ["nodes"])
        return self._writer.difference

    def _settle(self) -> None:
        """Only where a clock is wrong: an import of many OLTs need not ask the database for each of them."""
        removed = self._writer.difference.removed
        masters = [node for key, node in self._writer.nodes.items() if node.master is None and key not in removed]
        if any((node.next_run_at is not None) is not node.runs for node in masters):
            clock.settle(self.session, WorkflowNode.workflow_id == self.workflow.id, self.now)

    def node(self, key: str) -> WorkflowNode:
        """A placed node."""
        found: WorkflowNode = self._writer.nodes[key]
        return found

    def _make(self) -> WorkflowNode:
        node = WorkflowNode(workflow=self.workflow)
        self.session.add(node)
        return node

    def _wind(self, node: WorkflowNode, was: Mapping[str, Any] | None, *, became_master: bool) -> None:
        if was is not None:
            workflows.wind(self.session, node, was, self.now, became_master=became_master, first_run=self.first_run)
        elif became_master:
            clock.wind(self.session, node, self.now, self.first_run)

    def _abort(self, tree: Tree) -> None:
        wanted = {node.key: node for node in every(tree)}
        masters = {node.key for node in tree}
        stopped = [
            node.id
            for node in self._writer.nodes.values()
            if node.key not in wanted
            or (node.enabled and not wanted[node.key].columns["enabled"])
            or (node.master_id is None and node.key not in masters)
        ]
        if stopped:
            waiting.end_of_nodes(self.session, stopped, self.now, N_("its node was disabled or removed"))
        removed = [node.id for key, node in self._writer.nodes.items() if key not in wanted]
        if removed:
            clock.release(self.session, WorkflowNode.id.in_(removed), self.now, off=True)
