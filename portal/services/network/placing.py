"""Where nodes stand: in which chain and in which order. Verbs of one transaction and one revision each."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from portal.domain.messages import N_
from portal.extensions import transaction
from portal.services.dispatch import clock, waiting
from portal.services.errors import Conflict, Invalid
from portal.services.network import node_input, workflows
from portal.tables import WorkflowNode

NEEDS_A_CLOCK = N_("a node that leaves its chain needs a clock of its own: give it one in its form")
OTHER_PRIORITY = N_("masters stand in the order of their priority: to move it further, change its priority")
GONE = N_("the node beside which it was dropped is not there any more")
CHAINED_NOW = N_("its node runs after another one now")


@dataclass(frozen=True)
class Place:
    """A place on the board, by node ids: in the chain of `master` (None: among the masters), there before or after

    another node, or last.
    """

    master: int | None
    before: int | None = None
    after: int | None = None


def move_node(node_id: int, direction: str, actor: str, now: datetime) -> None:
    """One place "up" or "down": a chained node inside its chain, a master among those of its priority."""
    if direction not in ("up", "down"):
        raise Invalid({"direction": N_("must be up or down")})
    with transaction() as session:
        begun, node = workflows.begin(session, node_id)
        siblings = _siblings(node)
        place = siblings.index(node)
        target = place + (-1 if direction == "up" else 1)
        if not 0 <= target < len(siblings):
            return
        _override(siblings[target])
        siblings[place], siblings[target] = siblings[target], siblings[place]
        _order(node, siblings)
        workflows.record(session, begun, "node.move", node, {"direction": direction}, actor, now)


def place_node(node_id: int, place: Place, seen: int, actor: str, now: datetime) -> None:
    """Put a node where it was dropped, on the board as it was at revision `seen`.

    Conflict when the workflow changed since; Invalid when the node cannot stand there. A master that is dropped into a
    chain loses its clock, and what waits of it is aborted.
    """
    with transaction() as session:
        begun, node = workflows.begin(session, node_id)
        if begun.workflow.revision != seen:
            raise Conflict(workflows.CHANGED)
        before = _where(node)
        master = workflows.master_of(node.workflow, place.master)
        if master is node.master:
            _order(node, _inserted(node, _siblings(node), place))
        else:
            _chain(session, node, master, place, actor, now)
        if _where(node) != before:
            changes = {name: [before[name], new] for name, new in _where(node).items() if before[name] != new}
            workflows.record(session, begun, "node.move", node, changes, actor, now)


def _where(node: WorkflowNode) -> dict[str, Any]:
    return {"master": node.master.key if node.master else None,
            "place": [sibling.key for sibling in _siblings(node)].index(node.key)}  # fmt: skip


def _siblings(node: WorkflowNode) -> list[WorkflowNode]:
    """The nodes among which it can be ordered, itself too: those of its chain, or the masters of its priority."""
    nodes = [other for other in node.workflow.nodes if other.master is node.master]
    if node.master is None:
        nodes = [other for other in nodes if other.priority == node.priority]
    return sorted(nodes, key=lambda sibling: (sibling.position, sibling.id))


def _inserted(node: WorkflowNode, siblings: Sequence[WorkflowNode], place: Place) -> list[WorkflowNode]:
    """The siblings with the node at its place."""
    others = [sibling for sibling in siblings if sibling is not node]
    wanted = place.before if place.before is not None else place.after
    if wanted is None or wanted == node.id:
        return list(siblings) if wanted is not None else [*others, node]
    at = next((number for number, other in enumerate(others) if other.id == wanted), None)
    if at is None:
        known = any(other.id == wanted and other.master is node.master for other in node.workflow.nodes)
        raise Invalid({"place": OTHER_PRIORITY if known else GONE})
    others.insert(at if place.before is not None else at + 1, node)
    return others


def _order(node: WorkflowNode, siblings: Sequence[WorkflowNode]) -> None:
    """Give siblings their order; positions that they have among other nodes stay theirs."""
    places = sorted(sibling.position for sibling in siblings)
    if len(set(places)) < len(places):
        places = list(range(places[0], places[0] + len(places)))
    if [sibling.position for sibling in siblings] == places:
        return
    _override(node)
    for sibling, position in zip(siblings, places, strict=True):
        sibling.position = position


def _override(node: WorkflowNode) -> None:
    node.overridden = node.overridden or node.template_node_id is not None


def _chain(
    session: Session, node: WorkflowNode, master: WorkflowNode | None, place: Place, actor: str, now: datetime
) -> None:
    """Hang a node on another master."""
    if master is None:
        raise Invalid({"master_id": NEEDS_A_CLOCK})
    node_input.check_chain(node, master)
    siblings = [other for other in node.workflow.nodes if other.master is master]
    siblings.sort(key=lambda sibling: (sibling.position, sibling.id))
    was_master = node.master is None
    node.master, node.interval_seconds, node.cron = master, None, None
    clock.wind(session, node, now)
    for position, sibling in enumerate(_inserted(node, siblings, place)):
        sibling.position = position
    _override(node)
    workflows.log_overrides(session, node, workflows.check(session, node, now), actor, now)
    session.flush()
    if was_master:
        waiting.end_of_nodes(session, [node.id], now, CHAINED_NOW)
