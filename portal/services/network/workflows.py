"""Verbs on the workflow of one OLT: add, change, enable and delete nodes. One transaction and one revision each."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.messages import N_, Message, joined
from portal.extensions import transaction
from portal.services import audit
from portal.services.cataloguing import catalogue
from portal.services.dispatch import clock, reachability, waiting
from portal.services.errors import Invalid, NotFound
from portal.services.network import node_input, revisions
from portal.services.network.node_rules import Device, NodeRules, Override, log_override
from portal.services.network.revisions import Begun
from portal.services.network.trees import columns_of
from portal.services.uniqueness import unique_or_invalid
from portal.tables import Olt, Workflow, WorkflowNode

CHANGED = N_("the workflow was changed by somebody else meanwhile; look at it as it is now, then do it again")
KEY_TAKEN = N_("another node of this workflow has this key")
DISABLED = N_("its node was disabled")
UNIQUE = dict.fromkeys(
    ("uq_workflow_nodes_workflow_id_key", "workflow_nodes.workflow_id, workflow_nodes.key"), ("key", KEY_TAKEN)
)


def ensure_workflow(session: Session, olt: Olt) -> Workflow:
    """The workflow of `olt`, made when there is none."""
    if olt.workflow is None:
        olt.workflow = Workflow()
        session.flush()
    return olt.workflow


def add_node(olt_id: int, fields: Mapping[str, Any], actor: str, now: datetime) -> int:
    """Add a master, or with `master_id` a node that runs after it. Returns its id. Invalid names each wrong field.

    It runs first 60 s from now (rule 1).
    """
    with unique_or_invalid(UNIQUE), transaction() as session:
        workflow = ensure_workflow(session, existing_olt(session, olt_id))
        begun = revisions.begin(session, workflow)
        master = master_of(workflow, fields.get("master_id"))
        columns = node_input.columns(node_input.with_key(fields), None, chained=master is not None)
        _check_key(workflow, None, columns["key"])
        node = WorkflowNode(workflow=workflow, master=master, position=_last(workflow, master) + 1, **columns)
        session.add(node)
        overrides = check(session, node, now)
        session.flush()
        if master is None:
            clock.wind(session, node, now, clock.first_runs(now, many_olts=False))
            clock.settle(session, WorkflowNode.id == node.id, now)
        log_overrides(session, node, overrides, actor, now)
        record(session, begun, "node.create", node, _shown(columns), actor, now)
        return node.id


def update_node(node_id: int, fields: Mapping[str, Any], actor: str, now: datetime) -> None:
    """Change a node; what `fields` leaves out stays. Its clock follows rules 2 and 4.

    A node that came from a template becomes this OLT's own: the template does not change it any more.
    """
    with unique_or_invalid(UNIQUE), transaction() as session:
        begun, node = begin(session, node_id)
        master = master_of(node.workflow, fields["master_id"]) if "master_id" in fields else node.master
        columns = node_input.columns(fields, columns_of(node), chained=master is not None)
        changes = change(session, node, columns, master, actor, now)
        if changes:
            record(session, begun, "node.update", node, changes, actor, now)


def change(
    session: Session, node: WorkflowNode, columns: Mapping[str, Any], master: WorkflowNode | None, actor: str,
    now: datetime,
) -> dict[str, list[Any]]:  # fmt: skip
    """Give a node of a begun workflow all its columns and its master. Returns field → [old, new]; Invalid."""
    before = columns_of(node)
    node_input.check_chain(node, master)
    _check_key(node.workflow, node, columns["key"])
    changes = audit.difference(before, columns)
    if master is not node.master:
        changes["master"] = [node.master.key if node.master else None, master.key if master else None]
    if changes:
        _apply(session, node, columns, master, actor, now)
    return changes


def _apply(
    session: Session, node: WorkflowNode, columns: Mapping[str, Any], master: WorkflowNode | None, actor: str,
    now: datetime,
) -> None:  # fmt: skip
    was = columns_of(node)
    became_master = node.master is not None and master is None
    if master is not node.master:
        node.position = _last(node.workflow, master) + 1
        node.master = master
    for name, value in columns.items():
        setattr(node, name, value)
    node.overridden = node.overridden or node.template_node_id is not None
    overrides = check(session, node, now)
    wind(session, node, was, now, became_master=became_master)
    clock.settle(session, WorkflowNode.id == node.id, now)
    if was["enabled"] and not node.enabled or master is not None:
        waiting.end_of_nodes(session, [node.id], now, DISABLED)
    paced = ("interval_seconds", "cron", "oid", "override_reason")
    if any(was[name] != columns[name] for name in paced) or became_master:
        log_overrides(session, node, overrides, actor, now)


def wind(
    session: Session, node: WorkflowNode, was: Mapping[str, Any], now: datetime, *, became_master: bool = False,
    first_run: clock.FirstRun | None = None,
) -> None:  # fmt: skip
    """Wind the clock of a node where a change of it asks for that; `was` = its columns before. Then `clock.settle`."""
    paced = (node.interval_seconds, node.cron) != (was["interval_seconds"], was["cron"])
    if became_master:
        clock.wind(session, node, now, first_run or clock.first_runs(now, many_olts=False))
    elif node.next_run_at is not None and (paced or node.master is not None):
        clock.wind(session, node, now)


def delete_node(node_id: int, actor: str, now: datetime) -> None:
    """Delete a node, and with a master its whole chain. What waits is aborted; executions stay, without their node."""
    with transaction() as session:
        begun, node = begin(session, node_id)
        chain = [chained.key for chained in node.chained]
        waiting.end_of_nodes(session, [node.id], now, N_("its node was deleted"))
        clock.release(session, WorkflowNode.id == node.id, now, off=True)
        changes = _shown(columns_of(node)) | ({"chain": chain} if chain else {})
        record(session, begun, "node.delete", node, changes, actor, now)
        session.delete(node)


def set_node_enabled(node_id: int, enabled: bool, actor: str, now: datetime) -> None:
    """Enable (a master next runs a full interval from now) or disable a node; what waits of it is aborted."""
    with transaction() as session:
        begun, node = begin(session, node_id)
        if node.enabled == enabled:
            return
        node.enabled = enabled
        node.overridden = node.overridden or node.template_node_id is not None
        clock.settle(session, WorkflowNode.id == node.id, now)
        if not enabled:
            waiting.end_of_nodes(session, [node.id], now, DISABLED)
        changes = {"enabled": [not enabled, enabled]}
        record(session, begun, f"node.{_switched(enabled)}", node, changes, actor, now)


def set_workflow_enabled(olt_id: int, enabled: bool, actor: str, now: datetime) -> None:
    """Enable (masters next run a full interval from now) or disable all nodes of an OLT at once."""
    with transaction() as session:
        workflow = ensure_workflow(session, existing_olt(session, olt_id))
        switch(session, revisions.begin(session, workflow), enabled, actor, now)


def switch(session: Session, begun: Begun, enabled: bool, actor: str, now: datetime) -> None:
    """Enable or disable a begun workflow."""
    workflow = begun.workflow
    if workflow.enabled == enabled:
        return
    workflow.enabled = enabled
    switch_clocks(session, workflow, enabled, now, N_("the workflow of its OLT was disabled"))
    action, changes = f"workflow.{_switched(enabled)}", {"enabled": [not enabled, enabled]}
    audit.record(session, actor=actor, action=action, subject=workflow.olt, changes=changes, now=now)
    revisions.finish(session, begun, action, "", actor, now)


def _switched(enabled: bool) -> str:
    return "enable" if enabled else "disable"


def switch_clocks(session: Session, workflow: Workflow, enabled: bool, now: datetime, why: str) -> None:
    """After a workflow was switched: rule 2 for those of its masters that really run now, or what waits is aborted."""
    node_ids = [node.id for node in workflow.nodes]
    if not node_ids:
        return
    clock.settle(session, WorkflowNode.id.in_(node_ids), now)
    if not enabled:
        waiting.end_of_nodes(session, node_ids, now, why)


def record(
    session: Session, begun: Begun, action: str, node: WorkflowNode, changes: Mapping[str, Any], actor: str,
    now: datetime,
) -> None:  # fmt: skip
    """The audit row and the revision of one change of a node."""
    audit.record(session, actor=actor, action=action, subject=node, changes=changes, now=now)
    revisions.finish(session, begun, action, node.name, actor, now)


def existing_olt(session: Session, olt_id: int) -> Olt:
    """The OLT, its row locked before any other; NotFound when it does not exist or was deleted."""
    found = reachability.locked(session, [olt_id])
    if not found:
        raise NotFound(N_("the OLT does not exist any more"))
    return found[0]


def device_of(olt: Olt) -> Device:
    """What decides which OIDs an OLT has."""
    return Device(olt.brand.key, olt.model.key if olt.model else "")


def begin(session: Session, node_id: int) -> tuple[Begun, WorkflowNode]:
    """Lock the workflow of a node; both as they are once it is locked. NotFound when the node is gone."""
    workflow = session.scalar(select(Workflow).join(Workflow.nodes).where(WorkflowNode.id == node_id))
    begun = revisions.begin(session, workflow) if workflow is not None else None
    node = next((one for one in begun.workflow.nodes if one.id == node_id), None) if begun else None
    if begun is None or node is None:
        raise NotFound(N_("the node does not exist any more"))
    return begun, node


def master_of(workflow: Workflow, master_id: object) -> WorkflowNode | None:
    """The master that `master_id` names; Invalid when it is of another workflow or chained itself."""
    return node_input.master(workflow.nodes, master_id, N_("is no node of this workflow"))


def _check_key(workflow: Workflow, node: WorkflowNode | None, key: str) -> None:
    if any(other.key == key for other in workflow.nodes if other is not node):
        raise Invalid({"key": KEY_TAKEN})


def _last(workflow: Workflow, master: WorkflowNode | None) -> int:
    """Position of the last node of that chain (of the masters for None); -1 when there is none."""
    return max((node.position for node in workflow.nodes if node.master is master), default=-1)


def check(session: Session, node: WorkflowNode, now: datetime) -> tuple[Override, ...]:
    """Check the composite of `node` as it now is; Invalid, with the errors of its other nodes put into words."""
    with session.no_autoflush:  # the node may break a constraint that its clock, set later, keeps
        olt = node.workflow.olt
        master = node.master or node
        rules = NodeRules(catalogue.load_lookup(session, [olt.brand.key]), now, clock.portal_zone())
        verdict = rules.check(device_of(olt), columns_of(master), [columns_of(chained) for chained in master.chained])
    errors: dict[str, Message] = dict(verdict.errors.get(node.key, {}))
    for key, found in verdict.errors.items():
        if key != node.key and node.master is None:
            errors.setdefault("override_reason", N_("%(node)s: %(reason)s", node=key, reason=joined(found.values())))
    if errors:
        raise Invalid(errors)
    return verdict.overrides


def log_overrides(
    session: Session, node: WorkflowNode, overrides: tuple[Override, ...], actor: str, now: datetime
) -> None:
    """Into the decision log what of `overrides` is this node's."""
    for item in overrides:
        if item.key == node.key:
            log_override(session, node.workflow.olt_id, node, item, actor, now)


def _shown(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in columns.items() if value not in (None, "")}
