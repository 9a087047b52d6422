"""Revisions of a workflow: each change of it leaves what was before, for an undo and to tell two tabs apart.

A change calls `begin` first, which locks the workflow until the transaction ends, and `finish` when it is made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from portal.domain.statuses import NodeKind
from portal.services.network.trees import Tree, Wanted, tree_of
from portal.tables import Workflow, WorkflowRevision

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Begun:
    """A workflow that is being changed: locked, with its nodes as they were."""

    workflow: Workflow
    before: Rows


def begin(session: Session, workflow: Workflow) -> Begun:
    """Lock the workflow, so that no other change comes between, and note what it is. The workflow has to be flushed.

    Its OLT's row before it: in that order everybody locks who may wind a clock, and each sees what the other switched.
    """
    session.refresh(workflow.olt, attribute_names=["enabled", "deleted_at"], with_for_update={"key_share": True})
    session.refresh(workflow, attribute_names=["revision", "nodes"], with_for_update=True)
    return Begun(workflow, to_rows(tree_of(workflow.nodes)))


def finish(session: Session, begun: Begun, action: str, subject: str, actor: str, now: datetime) -> int:
    """Raise the revision and keep what was before; returns its number. `subject`: name of the node, "" for all."""
    begun.workflow.revision += 1
    session.add(
        WorkflowRevision(
            workflow_id=begun.workflow.id, number=begun.workflow.revision, made_at=now, actor=actor[:80],
            action=action[:60], subject=subject[:120], before=begun.before,
        )
    )  # fmt: skip
    return begun.workflow.revision


def to_rows(tree: Tree) -> Rows:
    """A tree as JSON."""
    return [_row(node) for node in tree]


def _row(node: Wanted) -> dict[str, Any]:
    columns = {name: value.value if isinstance(value, NodeKind) else value for name, value in node.columns.items()}
    return {"columns": columns, "chain": to_rows(node.chain), "from_template": node.from_template,
            "overridden": node.overridden}  # fmt: skip


def to_tree(rows: Iterable[Mapping[str, Any]]) -> Tree:
    """What `to_rows` made, as a tree again."""
    return tuple(
        Wanted(
            {**row["columns"], "kind": NodeKind(row["columns"]["kind"])}, to_tree(row["chain"]), row["from_template"],
            row["overridden"],
        )
        for row in rows
    )  # fmt: skip
