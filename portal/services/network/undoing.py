"""The last change of a workflow taken back: its tree before that change, by the rules of time. A revision itself."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.messages import N_, joined
from portal.extensions import transaction
from portal.services import audit
from portal.services.cataloguing import catalogue
from portal.services.dispatch import clock
from portal.services.errors import Conflict
from portal.services.network import revisions, workflows
from portal.services.network.node_rules import NodeRules, Override, log_override
from portal.services.network.node_trees import WorkflowWriter
from portal.services.network.trees import Tree, Wanted, every
from portal.tables import Olt, Workflow, WorkflowRevision

UNDO, REDO = "workflow.undo", "workflow.redo"
_SWITCHES = {"workflow.enable": False, "workflow.disable": True}  # what takes them back
UNDOABLE = frozenset(
    (*_SWITCHES, UNDO, REDO, "node.create", "node.update", "node.move", "node.enable", "node.disable", "node.delete",
     "node.reset")
)  # fmt: skip
CHANGED = N_("the workflow was changed meanwhile, so this is not its last change any more: nothing was undone")
NOTHING = N_("there is nothing to undo")
NOT_HERE = N_("the last change came from a template or an import: it is taken back there")


def undo(olt_id: int, seen: int, actor: str, now: datetime) -> list[str]:
    """Take back the change that made revision `seen`. Conflict when the workflow changed since, or it cannot be.

    Nodes that were deleted come back with their key and settings as new nodes: what ran of the old ones stays theirs.
    Their names are returned. Taking back an undo does it again.
    """
    with transaction() as session:
        olt = workflows.existing_olt(session, olt_id)
        if olt.workflow is None:
            raise Conflict(NOTHING)
        begun = revisions.begin(session, olt.workflow)
        last = _last(session, begun.workflow, seen)
        if last.action in _SWITCHES:
            workflows.switch(session, begun, _SWITCHES[last.action], actor, now)
            return []
        tree = revisions.to_tree(last.before)
        changes = _restore(session, begun, tree, actor, now)
        action = REDO if last.action == UNDO else UNDO
        told = {"of": [last.action, last.subject]} | changes
        audit.record(session, actor=actor, action=action, subject=olt, changes=told, now=now)
        revisions.finish(session, begun, action, last.subject, actor, now)
        return [str(node.columns["name"]) for node in every(tree) if node.key in changes["added"]]


def _last(session: Session, workflow: Workflow, seen: int) -> WorkflowRevision:
    if workflow.revision != seen:
        raise Conflict(CHANGED)
    query = select(WorkflowRevision).where(
        WorkflowRevision.workflow_id == workflow.id, WorkflowRevision.number == workflow.revision
    )
    last = session.scalar(query)
    if last is None:
        raise Conflict(NOTHING)
    if last.action not in UNDOABLE:
        raise Conflict(NOT_HERE)
    return last


def _restore(session: Session, begun: revisions.Begun, tree: Tree, actor: str, now: datetime) -> dict[str, Any]:
    """Write the tree; returns what changed, for the audit log."""
    workflow = begun.workflow
    overrides = _check(session, workflow.olt, revisions.to_tree(begun.before), tree, now)
    renamed = _rename_back(session, workflow, tree)
    links = {node.key: node.template_node_id for node in workflow.nodes}
    writer = WorkflowWriter(session, workflow, now, clock.first_runs(now, many_olts=False))
    writer.place(tree)
    for wanted in every(tree):  # the writer knows a template's node by its key, and a person may have changed that
        if wanted.from_template and writer.node(wanted.key).template_node_id is None:
            writer.node(wanted.key).template_node_id = links.get(wanted.key)
    session.flush()
    changes = writer.finish().as_dict()
    for item in overrides:
        log_override(session, workflow.olt_id, writer.node(item.key), item, actor, now)
    return changes | ({"renamed": renamed} if renamed else {})


def _rename_back(session: Session, workflow: Workflow, tree: Tree) -> list[str]:
    """A changed key: the writer knows nodes by their keys, and would make another node. [key now, key before]."""
    stored = {node.key: node for node in workflow.nodes}
    wanted = {node.key for node in every(tree)}
    missing, surplus = wanted - stored.keys(), stored.keys() - wanted
    if len(missing) != 1 or len(surplus) != 1:  # a change that adds and removes is none of a single node
        return []
    old, new = surplus.pop(), missing.pop()
    stored[old].key = new
    session.flush()
    return [old, new]


def _check(session: Session, olt: Olt, stored: Tree, tree: Tree, now: datetime) -> list[Override]:
    """What it brings back has to be allowed today: the catalogue or the OLT's model may be another one by now."""
    rules = NodeRules(catalogue.load_lookup(session, [olt.brand.key]), now, clock.portal_zone())
    before, device = _composites(stored), workflows.device_of(olt)
    overrides: list[Override] = []
    for master in tree:
        if before.get(master.key) == _settings(master):
            continue
        verdict = rules.check(device, master.columns, [chained.columns for chained in master.chain])
        for key, errors in verdict.errors.items():
            raise Conflict(N_("it cannot be undone any more: %(node)s: %(reason)s", node=key,
                              reason=joined(errors.values())))  # fmt: skip
        overrides += [item for item in verdict.overrides if _is_new(item, stored, master)]
    return overrides


def _composites(tree: Tree) -> dict[str, list[Mapping[str, Any]]]:
    return {master.key: _settings(master) for master in tree}


def _settings(master: Wanted) -> list[Mapping[str, Any]]:
    return [dict(node.columns) for node in (master, *master.chain)]


def _is_new(item: Override, stored: Tree, master: Wanted) -> bool:
    """Whether its pace was not the same a moment ago."""
    old = next((one for one in stored if one.key == master.key), None)
    paced = ("interval_seconds", "cron", "oid", "override_reason")

    def pace(of: Wanted | None) -> list[Any]:
        node = next((one for one in (of, *of.chain) if one.key == item.key), None) if of else None
        return [one.columns[name] for one in (of, node) for name in paced if one is not None]

    return pace(old) != pace(master)
