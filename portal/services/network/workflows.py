"""Verbs on the workflow of one OLT: add, change, move, enable and delete nodes. One transaction each."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from portal.domain import node_fields
from portal.domain.fields import read_all
from portal.domain.messages import N_, Message, joined
from portal.extensions import transaction
from portal.models import Olt, Workflow, WorkflowNode
from portal.services import audit
from portal.services.cataloguing import catalogue
from portal.services.dispatch import clock, waiting
from portal.services.errors import Invalid, NotFound
from portal.services.network.node_rules import Device, NodeRules, Override, log_override
from portal.services.network.trees import columns_of
from portal.services.uniqueness import unique_or_invalid

KEY_TAKEN = N_("another node of this workflow has this key")
DISABLED = "its node was disabled"
_UNIQUE = dict.fromkeys(
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
    with unique_or_invalid(_UNIQUE), transaction() as session:
        workflow = ensure_workflow(session, existing_olt(session, olt_id))
        master = _master(workflow, fields.get("master_id"))
        columns = _columns(_with_key(fields), None, chained=master is not None)
        _check_key(workflow, None, columns["key"])
        node = WorkflowNode(workflow=workflow, master=master, position=_last(workflow, master) + 1, **columns)
        session.add(node)
        overrides = _check(session, node, now)
        session.flush()
        if master is None:
            clock.start_new(node, olt_id, now, clock.first_runs(now, many_olts=False))
            clock.settle(session, WorkflowNode.id == node.id, now)
        _log(session, node, overrides, actor, now)
        audit.record(session, actor=actor, action="node.create", subject=node, changes=_shown(columns), now=now)
        return node.id


def update_node(node_id: int, fields: Mapping[str, Any], actor: str, now: datetime) -> None:
    """Change a node; what `fields` leaves out stays. Its clock follows rules 2 and 4.

    A node that came from a template becomes this OLT's own: the template does not change it any more.
    """
    with unique_or_invalid(_UNIQUE), transaction() as session:
        node = _node(session, node_id)
        before = columns_of(node)
        master = _master(node.workflow, fields["master_id"]) if "master_id" in fields else node.master
        _check_chain_change(node, master)
        columns = _columns(fields, before, chained=master is not None)
        _check_key(node.workflow, node, columns["key"])
        changes = audit.difference(before, columns)
        if master is not node.master:
            changes["master"] = [node.master.key if node.master else None, master.key if master else None]
        if changes:
            _apply(session, node, columns, master, actor, now)
            audit.record(session, actor=actor, action="node.update", subject=node, changes=changes, now=now)


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
    overrides = _check(session, node, now)
    wind(node, was, node.workflow.olt_id, now, became_master=became_master)
    clock.settle(session, WorkflowNode.id == node.id, now)
    if was["enabled"] and not node.enabled or master is not None:
        waiting.end_of_nodes(session, [node.id], now, DISABLED)
    paced = ("interval_seconds", "cron", "oid", "override_reason")
    if any(was[name] != columns[name] for name in paced) or became_master:
        _log(session, node, overrides, actor, now)


def wind(
    node: WorkflowNode, was: Mapping[str, Any], olt_id: int, now: datetime, *, became_master: bool = False,
    first_run: clock.FirstRun | None = None,
) -> None:  # fmt: skip
    """Set the clock of a changed node by the rules of time; `was` = its columns before. Then call `clock.settle`,

    which knows whether it may run at all, and starts the clock of one that was enabled.
    """
    if node.master is not None:
        clock.stop(node)
    elif became_master:
        clock.start_new(node, olt_id, now, first_run or clock.first_runs(now, many_olts=False))
    elif node.next_run_at is not None and (node.interval_seconds, node.cron) != (was["interval_seconds"], was["cron"]):
        clock.follow_change(node, now)


def delete_node(node_id: int, actor: str, now: datetime) -> None:
    """Delete a node, and with a master its whole chain. What waits is aborted; executions stay, without their node."""
    with transaction() as session:
        node = _node(session, node_id)
        chain = [chained.key for chained in node.chained]
        waiting.end_of_nodes(session, [node.id], now, "its node was deleted")
        changes = _shown(columns_of(node)) | ({"chain": chain} if chain else {})
        audit.record(session, actor=actor, action="node.delete", subject=node, changes=changes, now=now)
        session.delete(node)


def move_node(node_id: int, direction: str, actor: str, now: datetime) -> None:
    """One place "up" or "down": a chained node inside its chain, a master among those of its priority."""
    if direction not in ("up", "down"):
        raise Invalid({"direction": N_("must be up or down")})
    with transaction() as session:
        node = _node(session, node_id)
        siblings = _siblings(node)
        place = siblings.index(node)
        target = place + (-1 if direction == "up" else 1)
        if not 0 <= target < len(siblings):
            return
        places = sorted(sibling.position for sibling in siblings)
        if len(set(places)) < len(places):
            places = list(range(places[0], places[0] + len(places)))
        for moved in (node, siblings[target]):
            moved.overridden = moved.overridden or moved.template_node_id is not None
        siblings[place], siblings[target] = siblings[target], siblings[place]
        for sibling, position in zip(siblings, places, strict=True):
            sibling.position = position
        audit.record(session, actor=actor, action="node.move", subject=node, changes={"direction": direction}, now=now)


def _siblings(node: WorkflowNode) -> list[WorkflowNode]:
    if node.master is not None:
        found = list(node.master.chained)
    else:
        found = [n for n in node.workflow.nodes if n.master_id is None and n.priority == node.priority]
    return sorted(found, key=lambda sibling: (sibling.position, sibling.id))


def set_node_enabled(node_id: int, enabled: bool, actor: str, now: datetime) -> None:
    """Enable (a master next runs a full interval from now) or disable a node; what waits of it is aborted."""
    with transaction() as session:
        node = _node(session, node_id)
        if node.enabled == enabled:
            return
        node.enabled = enabled
        node.overridden = node.overridden or node.template_node_id is not None
        clock.settle(session, WorkflowNode.id == node.id, now)
        if not enabled:
            waiting.end_of_nodes(session, [node.id], now, DISABLED)
        _record_enabled(session, "node", node, enabled, actor, now)


def set_workflow_enabled(olt_id: int, enabled: bool, actor: str, now: datetime) -> None:
    """Enable (masters next run a full interval from now) or disable all nodes of an OLT at once."""
    with transaction() as session:
        olt = existing_olt(session, olt_id)
        workflow = ensure_workflow(session, olt)
        if workflow.enabled == enabled:
            return
        workflow.enabled = enabled
        switch_clocks(session, workflow, enabled, now, "the workflow of its OLT was disabled")
        _record_enabled(session, "workflow", olt, enabled, actor, now)


def switch_clocks(session: Session, workflow: Workflow, enabled: bool, now: datetime, why: str) -> None:
    """After a workflow was switched: rule 2 for those of its masters that really run now, or what waits is aborted."""
    node_ids = [node.id for node in workflow.nodes]
    if not node_ids:
        return
    clock.settle(session, WorkflowNode.id.in_(node_ids), now)
    if not enabled:
        waiting.end_of_nodes(session, node_ids, now, why)


def _record_enabled(session: Session, what: str, subject: object, enabled: bool, actor: str, now: datetime) -> None:
    action = f"{what}.{'enable' if enabled else 'disable'}"
    audit.record(session, actor=actor, action=action, subject=subject, changes={"enabled": [not enabled, enabled]},
                 now=now)  # fmt: skip


def existing_olt(session: Session, olt_id: int) -> Olt:
    """The OLT, or NotFound when it does not exist or was deleted."""
    olt = session.get(Olt, olt_id)
    if olt is None or olt.deleted_at is not None:
        raise NotFound(N_("the OLT does not exist any more"))
    return olt


def device_of(olt: Olt) -> Device:
    """What decides which OIDs an OLT has."""
    return Device(olt.brand.key, olt.model.key if olt.model else "")


def _node(session: Session, node_id: int) -> WorkflowNode:
    node = session.get(WorkflowNode, node_id)
    if node is None:
        raise NotFound(N_("the node does not exist any more"))
    return node


def _master(workflow: Workflow, master_id: object) -> WorkflowNode | None:
    """The master that `master_id` names; Invalid when it is of another workflow or chained itself."""
    if master_id in (None, ""):
        return None
    found = next((node for node in workflow.nodes if str(node.id) == str(master_id)), None)
    if found is None:
        raise Invalid({"master_id": N_("is no node of this workflow")})
    if found.master_id is not None:
        raise Invalid({"master_id": N_("is chained itself: choose its master, chains have one level")})
    return found


def _check_chain_change(node: WorkflowNode, master: WorkflowNode | None) -> None:
    if master is node:
        raise Invalid({"master_id": N_("a node cannot be its own master")})
    if master is not None and node.chained:
        raise Invalid({"master_id": N_("this node has a chain of its own: move or delete its chained nodes first")})


def _with_key(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A key made from the name where none is given."""
    if str(fields.get("key") or "").strip():
        return dict(fields)
    made = re.sub(r"[^a-z0-9]+", "_", str(fields.get("name") or "").lower()).strip("_")
    return {**fields, "key": made[:60]}


def _columns(fields: Mapping[str, Any], base: Mapping[str, Any] | None, *, chained: bool) -> dict[str, Any]:
    given = {name: value for name, value in fields.items() if name != "master_id"}
    values, errors = read_all(node_fields.READERS, given)
    columns, missing = node_fields.complete(values, base, chained=chained)
    if errors or missing:
        raise Invalid({**missing, **errors})
    return columns


def _check_key(workflow: Workflow, node: WorkflowNode | None, key: str) -> None:
    if any(other.key == key for other in workflow.nodes if other is not node):
        raise Invalid({"key": KEY_TAKEN})


def _last(workflow: Workflow, master: WorkflowNode | None) -> int:
    """Position of the last node of that chain (of the masters for None); -1 when there is none."""
    return max((node.position for node in workflow.nodes if node.master is master), default=-1)


def _check(session: Session, node: WorkflowNode, now: datetime) -> tuple[Override, ...]:
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


def _log(session: Session, node: WorkflowNode, overrides: tuple[Override, ...], actor: str, now: datetime) -> None:
    for item in overrides:
        if item.key == node.key:
            log_override(session, node.workflow.olt_id, node, item, actor, now)


def _shown(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in columns.items() if value not in (None, "")}
