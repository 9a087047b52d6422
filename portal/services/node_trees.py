"""Trees of nodes (masters with chains) as they shall be, and the writing of what differs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from portal.models import TemplateNode, Workflow, WorkflowNode, WorkflowTemplate
from portal.services import audit, clock, executions, workflows
from portal.services.workflows import columns_of

AnyNode = WorkflowNode | TemplateNode


@dataclass(frozen=True)
class Wanted:
    """One node as it shall be, with all its columns, and in order the nodes that run after it."""

    columns: Mapping[str, Any]
    chain: tuple["Wanted", ...] = ()
    from_template: bool = False  # the template of the workflow has a node with this key
    overridden: bool = False  # … and this OLT's differs on purpose

    @property
    def key(self) -> str:
        """Key of the node in its workflow or template."""
        return str(self.columns["key"])


Tree = tuple[Wanted, ...]


def every(tree: Tree) -> Iterator[Wanted]:
    """All nodes of a tree: each master, then its chain."""
    for master in tree:
        yield master
        yield from master.chain


def tree_of(nodes: Iterable[AnyNode]) -> Tree:
    """Stored nodes as a tree."""
    ordered = sorted(nodes, key=lambda node: (node.position, node.id))

    def wanted(node: AnyNode) -> Wanted:
        chain = tuple(wanted(other) for other in ordered if other.master_id == node.id)
        return Wanted(
            columns_of(node), chain, getattr(node, "template_node_id", None) is not None,
            getattr(node, "overridden", False),
        )  # fmt: skip

    return tuple(wanted(node) for node in ordered if node.master_id is None)


@dataclass
class Difference:
    """What writing a tree changed: keys, and for changed nodes field → [old, new]."""

    added: list[str] = field(default_factory=list)
    changed: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def as_dict(self) -> dict[str, Any]:
        """For the audit log."""
        return {"added": self.added, "changed": self.changed, "removed": self.removed}


class _Writer:
    """Brings stored nodes to the wanted tree; nodes are the same when their keys are."""

    def __init__(self, stored: Iterable[AnyNode], make: Callable[[], AnyNode], wind: Callable[..., None]) -> None:
        self.nodes: dict[str, Any] = {node.key: node for node in stored}
        self.make = make
        self.wind = wind
        self.difference = Difference()

    def write(self, session: Session, tree: Tree, template_ids: Mapping[str, int] | None) -> Difference:
        self.template_ids = template_ids
        wanted = {node.key for node in every(tree)}
        surplus = [node for key, node in self.nodes.items() if key not in wanted]
        with session.no_autoflush:  # half a tree breaks constraints that the whole one keeps
            for position, master in enumerate(tree):
                placed = self._place(master, None, position)
                for place, chained in enumerate(master.chain):
                    self._place(chained, placed, place)
        session.flush()
        self._remove(session, surplus)
        return self.difference

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

    def _remove(self, session: Session, surplus: Sequence[Any]) -> None:
        for node in sorted(surplus, key=lambda node: node.master_id is None):  # chained ones before their masters
            session.expire(node, ["chained"])
            session.delete(node)
            self.difference.removed.append(node.key)
        session.flush()


def write_template(session: Session, template: WorkflowTemplate, tree: Tree) -> Difference:
    """Make the nodes of a template as in `tree`; its OLTs are synced by write_workflow."""

    def make() -> TemplateNode:
        node = TemplateNode(template=template)
        session.add(node)
        return node

    writer = _Writer(list(template.nodes), make, lambda *_args, **_named: None)
    difference = writer.write(session, tree, None)
    session.expire(template, ["nodes"])
    return difference


def write_workflow(
    session: Session, workflow: Workflow, tree: Tree, now: datetime, first_run: clock.FirstRun
) -> Difference:
    """Make the nodes of an OLT as in `tree`: clocks by the rules of time, what waits of removed nodes is aborted."""

    def make() -> WorkflowNode:
        node = WorkflowNode(workflow=workflow)
        session.add(node)
        return node

    def wind(node: WorkflowNode, was: Mapping[str, Any] | None, *, became_master: bool) -> None:
        if was is not None:
            workflows.wind(node, was, workflow.olt_id, now, became_master=became_master, first_run=first_run)
        elif became_master:
            clock.start_new(node, workflow.olt_id, now, first_run)

    stored = list(workflow.nodes)
    wanted = {node.key: node for node in every(tree)}
    masters = {node.key for node in tree}
    stopped = [
        node.id for node in stored
        if node.key not in wanted
        or (node.enabled and not wanted[node.key].columns["enabled"])
        or (node.master_id is None and node.key not in masters)
    ]  # fmt: skip
    if stopped:
        executions.abort_pending(session, stopped, now, "its node was disabled or removed")
    template_ids = {node.key: node.id for node in workflow.template.nodes} if workflow.template else {}
    difference = _Writer(stored, make, wind).write(session, tree, template_ids)
    if difference:
        session.expire(workflow, ["nodes"])
    return difference
