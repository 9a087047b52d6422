"""How far OLTs are in step with their templates, by the rule that applying follows. Reads only."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import Row, select

from portal.domain import node_fields
from portal.extensions import db
from portal.services.network import synced
from portal.services.network.trees import Difference, Tree, every, tree_of
from portal.tables import Olt, TemplateNode, Workflow, WorkflowNode


class Stand(StrEnum):
    """How an OLT stands to its template. BEHIND outweighs DIFFERS: what waits is to be applied."""

    BEHIND = "behind"
    DIFFERS = "differs"
    IN_STEP = "in_step"


@dataclass(frozen=True)
class OltStand:
    """One OLT: what applying would change, which nodes it has otherwise on purpose, how many of its own."""

    olt_id: int
    name: str
    enabled: bool
    waiting: Difference
    kept: tuple[str, ...]
    own: int

    @property
    def stand(self) -> Stand:
        """In one word."""
        if self.waiting:
            return Stand.BEHIND
        return Stand.DIFFERS if self.kept else Stand.IN_STEP


@dataclass(frozen=True)
class TemplateStand:
    """A template's OLTs by name, those behind first."""

    olts: tuple[OltStand, ...] = ()

    @property
    def behind(self) -> list[OltStand]:
        """OLTs that it has to be applied to."""
        return [olt for olt in self.olts if olt.waiting]

    @property
    def differing(self) -> int:
        """How many have nodes otherwise on purpose."""
        return sum(bool(olt.kept) for olt in self.olts)

    @property
    def waiting(self) -> int:
        """How many changes of nodes wait: each node counts once, whatever the number of OLTs that wait for it."""
        found = {
            (kind, key)
            for olt in self.olts
            for kind in ("added", "changed", "removed")
            for key in getattr(olt.waiting, kind)
        }
        return len(found)


@dataclass
class _Known:
    """Workflows whose nodes look alike stand alike: each look is compared once."""

    template: Tree
    seen: dict[Any, tuple[Difference, tuple[str, ...], int]] = field(default_factory=dict)

    def of(self, nodes: Sequence[Row[Any]]) -> tuple[Difference, tuple[str, ...], int]:
        keys = {node.id: node.key for node in nodes}
        look = tuple((node[4:], keys.get(node.master_id), node.template_node_id is None) for node in nodes)
        if look not in self.seen:
            stored = tree_of(nodes)  # type: ignore[arg-type]  # rows that have a node's columns
            wanted = synced.synced(stored, self.template)
            own = sum(not node.from_template for node in every(wanted))
            self.seen[look] = (synced.difference(stored, wanted), tuple(synced.kept(wanted)), own)
        return self.seen[look]


_COLUMNS = ("position", "overridden", *node_fields.COLUMNS)


def of_templates(template_ids: Iterable[int] | None = None) -> dict[int, TemplateStand]:
    """Template id → its OLTs; of these templates or of all. Three SQL statements whatever the number of OLTs."""
    query = select(TemplateNode)
    if template_ids is not None:
        query = query.where(TemplateNode.template_id.in_(list(template_ids)))
    nodes: dict[int, list[TemplateNode]] = defaultdict(list)
    for node in db.session.scalars(query):
        nodes[node.template_id].append(node)
    known: dict[int, _Known] = defaultdict(lambda: _Known(()))
    known |= {ident: _Known(tree_of(found)) for ident, found in nodes.items()}
    workflows = _workflows(template_ids)
    stored = _nodes(template_ids)
    stands: dict[int, list[OltStand]] = defaultdict(list)
    for row in workflows:
        found = known[row.template_id].of(stored.get(row.id, ()))
        stands[row.template_id].append(OltStand(row.olt_id, row.name, row.enabled, *found))
    return {ident: TemplateStand(tuple(sorted(olts, key=_order))) for ident, olts in stands.items()}


def _order(olt: OltStand) -> tuple[int, str]:
    return list(Stand).index(olt.stand), olt.name.lower()


def of_template(template_id: int) -> TemplateStand:
    """One template's OLTs."""
    return of_templates([template_id]).get(template_id, TemplateStand())


def _workflows(template_ids: Iterable[int] | None) -> Sequence[Row[Any]]:
    query = select(Workflow.id, Workflow.template_id, Workflow.olt_id, Olt.name, Olt.enabled).join(Workflow.olt)
    query = query.where(Workflow.template_id.is_not(None), Olt.deleted_at.is_(None))
    if template_ids is not None:
        query = query.where(Workflow.template_id.in_(list(template_ids)))
    return db.session.execute(query).all()


def _nodes(template_ids: Iterable[int] | None) -> dict[int, list[Row[Any]]]:
    node = WorkflowNode
    columns = (node.workflow_id, node.id, node.template_node_id, node.master_id)
    query = select(*columns, *(getattr(node, name) for name in _COLUMNS)).join(
        Workflow, Workflow.id == node.workflow_id
    )
    query = query.where(Workflow.template_id.is_not(None))
    if template_ids is not None:
        query = query.where(Workflow.template_id.in_(list(template_ids)))
    found: dict[int, list[Row[Any]]] = defaultdict(list)
    for row in db.session.execute(query.order_by(node.workflow_id, node.position, node.id)):
        found[row.workflow_id].append(row)
    return found
