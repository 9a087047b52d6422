"""Verbs on the nodes of a template: add, change, move, delete. No OLT is touched: that is what applying is for."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from portal.domain.messages import N_, Message, joined
from portal.extensions import db, transaction
from portal.services import audit
from portal.services.cataloguing import catalogue
from portal.services.dispatch import clock
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.network import node_input
from portal.services.network.node_rules import NodeRules
from portal.services.network.trees import GONE, columns_of
from portal.services.uniqueness import unique_or_invalid
from portal.tables import TemplateNode, WorkflowNode, WorkflowTemplate

KEY_TAKEN = N_("another node of this template has this key")
KEY_STAYS = N_("stays as it is: it is how the OLTs know this node")
OUTDATED = N_("somebody else changed this template meanwhile: nothing of yours was saved yet")
_UNIQUE = dict.fromkeys(
    ("uq_template_nodes_template_id_key", "template_nodes.template_id, template_nodes.key"), ("key", KEY_TAKEN)
)


@contextmanager
def changing(template_id: int, revision: int | None) -> Iterator[tuple[Session, WorkflowTemplate]]:
    """A transaction on a locked template; `revision`: the one that the person saw, None = whatever it is.

    NotFound when it is gone, Conflict when it has another revision. Who changed something raises its revision.
    """
    with unique_or_invalid(_UNIQUE), transaction() as session:
        row = session.get(WorkflowTemplate, template_id, with_for_update=True, populate_existing=True)
        if row is None:
            raise NotFound(N_("the template does not exist any more"))
        if revision is not None and row.revision != revision:
            raise Conflict(OUTDATED)
        yield session, row


def add_node(
    template_id: int, fields: Mapping[str, Any], actor: str, now: datetime, revision: int | None = None
) -> int:  # fmt: skip
    """Add a master, or with `master_id` a node that runs after it. Returns its id. Invalid names each wrong field."""
    with changing(template_id, revision) as (session, template):
        return put(session, template, fields, actor, now)


def put(session: Session, template: WorkflowTemplate, fields: Mapping[str, Any], actor: str, now: datetime) -> int:
    """`add_node` in the caller's transaction."""
    master = _master(template, fields.get("master_id"))
    columns = node_input.columns(node_input.with_key(fields), None, chained=master is not None)
    _check_key(template, columns["key"])
    node = TemplateNode(template=template, master=master, position=_last(template, master) + 1, **columns)
    session.add(node)
    _check(session, node, now)
    template.revision += 1
    session.flush()
    _record(
        session, node, "template_node.create", {k: v for k, v in columns.items() if v not in (None, "")}, actor, now
    )
    return node.id


def update_node(
    node_id: int, fields: Mapping[str, Any], actor: str, now: datetime, revision: int | None = None
) -> None:  # fmt: skip
    """Change a node; what `fields` leaves out stays. Its key cannot be changed: it is how the OLTs know the node."""
    with changing(template_of(node_id), revision) as (session, template):
        node = _node(session, node_id)
        before = columns_of(node)
        master = _master(template, fields["master_id"]) if "master_id" in fields else node.master
        node_input.check_chain(node, master)
        columns = node_input.columns(fields, before, chained=master is not None)
        if columns["key"] != node.key:
            raise Invalid({"key": KEY_STAYS})
        changes = audit.difference(before, columns)
        if master is not node.master:
            changes["master"] = [node.master.key if node.master else None, master.key if master else None]
            node.position, node.master = _last(template, master) + 1, master
        for name, value in columns.items():
            setattr(node, name, value)
        _check(session, node, now)
        if changes:
            template.revision += 1
            _record(session, node, "template_node.update", changes, actor, now)


def delete_node(node_id: int, actor: str, now: datetime, revision: int | None = None) -> None:
    """Delete a node, and with a master its chain. OLTs have it until the template is applied to them."""
    with changing(template_of(node_id), revision) as (session, template):
        node = _node(session, node_id)
        chain = [chained.key for chained in node.chained if not _gone(chained)]
        changes = {"key": node.key, "oid": node.oid} | ({"chain": chain} if chain else {})
        _record(session, node, "template_node.delete", changes, actor, now)
        held = [each for each in (node, *node.chained) if _held(session, each)]
        for each in (*node.chained, node):
            if held:  # what hangs on a held node stays with it: a chain is one unit on the OLTs too
                each.key = f"{GONE}{each.id}"
            else:
                session.delete(each)
        template.revision += 1


def _held(session: Session, node: TemplateNode) -> bool:
    return bool(session.scalar(select(exists().where(WorkflowNode.template_node_id == node.id))))


def move_node(node_id: int, direction: str, actor: str, now: datetime, revision: int | None = None) -> None:
    """One place "up" or "down": a chained node inside its chain, a master among those of its priority."""
    if direction not in ("up", "down"):
        raise Invalid({"direction": N_("must be up or down")})
    with changing(template_of(node_id), revision) as (session, template):
        node = _node(session, node_id)
        siblings = _siblings(template, node)
        place = siblings.index(node)
        target = place + (-1 if direction == "up" else 1)
        if not 0 <= target < len(siblings):
            return
        places = sorted(sibling.position for sibling in siblings)
        if len(set(places)) < len(places):
            places = list(range(places[0], places[0] + len(places)))
        siblings[place], siblings[target] = siblings[target], siblings[place]
        for sibling, position in zip(siblings, places, strict=True):
            sibling.position = position
        template.revision += 1
        _record(session, node, "template_node.move", {"direction": direction}, actor, now)


def template_of(node_id: int) -> int:
    """Id of the template that the node belongs to; NotFound when it is gone."""
    return _node(db.session(), node_id).template_id


def _node(session: Session, node_id: int) -> TemplateNode:
    node = session.get(TemplateNode, node_id)
    if node is None or _gone(node):
        raise NotFound(N_("the node does not exist any more"))
    return node


def _gone(node: TemplateNode) -> bool:
    return node.key.startswith(GONE)


def _present(template: WorkflowTemplate) -> list[TemplateNode]:
    return [node for node in template.nodes if not _gone(node)]


def _siblings(template: WorkflowTemplate, node: TemplateNode) -> list[TemplateNode]:
    same = [
        other for other in _present(template)
        if other.master is node.master and (node.master is not None or other.priority == node.priority)
    ]  # fmt: skip
    return sorted(same, key=lambda sibling: (sibling.position, sibling.id))


def _last(template: WorkflowTemplate, master: TemplateNode | None) -> int:
    return max((node.position for node in template.nodes if node.master is master), default=-1)


def _master(template: WorkflowTemplate, master_id: object) -> TemplateNode | None:
    return node_input.master(_present(template), master_id, N_("is no node of this template"))


def _check_key(template: WorkflowTemplate, key: str) -> None:
    if any(other.key == key for other in template.nodes):
        raise Invalid({"key": KEY_TAKEN})


def _check(session: Session, node: TemplateNode, now: datetime) -> None:
    """Check the composite of `node` as it now is; Invalid, with the errors of its other nodes put into words."""
    with session.no_autoflush:
        master = node.master or node
        chain = [columns_of(chained) for chained in master.chained if not _gone(chained)]
        rules = NodeRules(catalogue.load_lookup(session), now, clock.portal_zone())
        verdict = rules.check(None, columns_of(master), chain)
    errors: dict[str, Message] = dict(verdict.errors.get(node.key, {}))
    for key, found in verdict.errors.items():
        if key != node.key and node.master is None:
            errors.setdefault("override_reason", N_("%(node)s: %(reason)s", node=key, reason=joined(found.values())))
    if errors:
        raise Invalid(errors)


def _record(
    session: Session, node: TemplateNode, action: str, changes: Mapping[str, Any], actor: str, now: datetime
) -> None:  # fmt: skip
    with session.no_autoflush:
        subject = audit.Subject("template", node.template.name, node.template.id)
        told = {"node": node.name, **changes}
    audit.record(session, actor=actor, action=action, subject=subject, changes=told, now=now)
