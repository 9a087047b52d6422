"""A node as a form gives it: its columns, its master. Of a workflow and of a template alike. No database."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from portal.domain import node_fields
from portal.domain.fields import read_all
from portal.domain.messages import N_, Message
from portal.services.errors import Invalid
from portal.tables import TemplateNode, WorkflowNode

LONGEST_MADE_KEY = 60

Node = TypeVar("Node", WorkflowNode, TemplateNode)


def with_key(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with a key made from the name where none is given."""
    if str(fields.get("key") or "").strip():
        return dict(fields)
    made = re.sub(r"[^a-z0-9]+", "_", str(fields.get("name") or "").lower()).strip("_")
    return {**fields, "key": made[:LONGEST_MADE_KEY]}


def columns(fields: Mapping[str, Any], base: Mapping[str, Any] | None, *, chained: bool) -> dict[str, Any]:
    """All columns; what `fields` leaves out is as in `base`. Invalid names each wrong field."""
    given = {name: value for name, value in fields.items() if name != "master_id"}
    values, errors = read_all(node_fields.READERS, given)
    complete, missing = node_fields.complete(values, base, chained=chained)
    if errors or missing:
        raise Invalid({**missing, **errors})
    return complete


def master(nodes: Iterable[Node], master_id: object, foreign: Message) -> Node | None:
    """The one of `nodes` that `master_id` names, None for none; Invalid when it is chained, or with `foreign` none."""
    if master_id in (None, ""):
        return None
    found = next((node for node in nodes if str(node.id) == str(master_id)), None)
    if found is None:
        raise Invalid({"master_id": foreign})
    if found.master_id is not None:
        raise Invalid({"master_id": N_("is chained itself: choose its master, chains have one level")})
    return found


def check_chain(node: Node, master: Node | None) -> None:
    """Invalid when the node cannot hang on this master."""
    if master is node:
        raise Invalid({"master_id": N_("a node cannot be its own master")})
    if master is not None and node.chained:
        raise Invalid({"master_id": N_("this node has a chain of its own: move or delete its chained nodes first")})
