"""A node's form that was open for a while: saved when nobody else changed the same, else both sides are told."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain import merging, node_fields
from portal.domain.merging import Merge
from portal.domain.messages import N_
from portal.domain.statuses import NodeKind
from portal.extensions import transaction
from portal.services.errors import Conflict
from portal.services.network import node_input, workflows
from portal.services.network.revisions import Begun
from portal.services.network.trees import columns_of
from portal.services.uniqueness import unique_or_invalid
from portal.tables import WorkflowNode, WorkflowRevision

UNITS = (("interval_seconds", "cron"),)


@dataclass(frozen=True)
class Opened:
    """What a form began with: the workflow's revision, and the node's columns as `trees.columns_of` gives them."""

    revision: int
    columns: Mapping[str, Any]


class EditConflict(Conflict):
    """Somebody else saved the same fields meanwhile; nothing was written. `actor`, `made_at`: who did last, and when.

    `now_stored`: what a form that goes on from here has to begin with.
    """

    def __init__(self, merge: Merge, now_stored: Opened, change: WorkflowRevision | None) -> None:
        super().__init__(N_("somebody else changed the same meanwhile"))
        self.merge = merge
        self.now_stored = now_stored
        self.actor = change.actor if change else ""
        self.made_at = change.made_at if change else None


def save_node(node_id: int, opened: Opened, fields: Mapping[str, Any], actor: str, now: datetime) -> Merge:
    """Change a node as `update_node` does, but only what differs from `opened`; returns what others changed meanwhile.

    EditConflict when they changed the same fields. A change of other nodes is none. NotFound when the node is gone,
    Invalid names each wrong field.
    """
    with unique_or_invalid(workflows.UNIQUE), transaction() as session:
        begun, node = workflows.begin(session, node_id)
        master = workflows.master_of(node.workflow, fields["master_id"]) if "master_id" in fields else node.master
        theirs = columns_of(node)
        yours = node_input.columns(fields, opened.columns, chained=not _has_clock(fields))
        merge = merging.merge(opened.columns, theirs, yours, UNITS)
        if merge.conflicts:
            raise EditConflict(merge, Opened(begun.workflow.revision, theirs), _change_of(session, begun, node, opened))
        columns = merge.values
        if master is not None:
            columns = columns | dict.fromkeys(UNITS[0])
        changes = workflows.change(session, node, columns, master, actor, now)
        if changes:
            workflows.record(session, begun, "node.update", node, changes, actor, now)
        return merge


def _has_clock(fields: Mapping[str, Any]) -> bool:
    """Whether it was the form of a master."""
    return "interval" in fields or "cron" in fields


def _change_of(session: Session, begun: Begun, node: WorkflowNode, opened: Opened) -> WorkflowRevision | None:
    """The newest change of this node since the form was opened; when none says so, the newest of the workflow."""
    query = (
        select(WorkflowRevision)
        .where(WorkflowRevision.workflow_id == begun.workflow.id, WorkflowRevision.number > opened.revision)
        .order_by(WorkflowRevision.number.desc())
    )
    found = list(session.scalars(query.limit(50)))
    names = {node.name, opened.columns["name"]}
    return next((one for one in found if one.subject in names), found[0] if found else None)


def read_columns(given: Any) -> dict[str, Any] | None:
    """The columns of a node as JSON brought them back; None when they are none."""
    if not isinstance(given, dict) or given.keys() != set(node_fields.COLUMNS):
        return None
    kind = next((kind for kind in NodeKind if kind.value == given["kind"]), None)
    return given | {"kind": kind} if kind else None
