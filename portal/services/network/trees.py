"""Nodes as trees: masters with their chains, as they are stored or as they shall be. No writing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from portal.domain import node_fields
from portal.tables import TemplateNode, WorkflowNode

AnyNode = WorkflowNode | TemplateNode
GONE = "~"  # begins the key of a template's deleted node, which is kept until no OLT has it any more


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
    """Stored nodes as a tree. What a template had and only its OLTs still have (GONE) is none of it."""
    present = (node for node in nodes if not node.key.startswith(GONE))
    ordered = sorted(present, key=lambda node: (node.position, node.id))

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


def columns_of(node: Any) -> dict[str, Any]:
    """The settings of a node (of a workflow or of a template) by column."""
    return {name: getattr(node, name) for name in node_fields.COLUMNS}
