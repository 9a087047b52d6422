"""Which columns an OLT's workflow reads of one ONU, and how each is read and understood there. Reads only."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from portal.domain import node_fields
from portal.domain.catalogue_data import Shape
from portal.domain.composite import ReadingSpec
from portal.domain.statuses import NodeKind
from portal.services.cataloguing import catalogue, explaining
from portal.services.dispatch import work
from portal.tables import Oid, Olt, Onu, OnuData, Workflow, WorkflowNode


@dataclass(frozen=True)
class OnuColumn:
    """A column with the node that reads it. `row` None: the catalogue does not know it, its values are kept as text."""

    node: WorkflowNode
    spec: ReadingSpec
    row: Oid | None

    @property
    def runs(self) -> bool:
        """Whether the schedule reads it: the node and all above it are enabled."""
        return (self.node.master or self.node).runs and self.node.runs


def load_olt(session: Session, olt_id: int) -> Olt:
    """The OLT with all that says how it is asked, in one statement."""
    parts = (joinedload(part) for part in (Olt.credential, Olt.brand, Olt.model))
    return session.scalars(select(Olt).options(*parts).where(Olt.id == olt_id)).one()


def stored_metrics(session: Session, onu_id: int) -> set[str]:
    """Names of the readings that are stored of an ONU."""
    return set(session.scalars(select(OnuData.metric).where(OnuData.onu_id == onu_id)))


def of_onu(session: Session, onu: Onu, olt: Olt, stored: Container[str]) -> list[OnuColumn]:
    """Columns that tell something of this ONU, in the workflow's order, each once. Four SQL statements at most.

    Those of its own discovery and of every GET; of a walk those under whose name a reading of it is `stored`, because
    a walk may be of ports. Scalars tell of the OLT.
    """
    nodes = [node for node in _nodes(session, onu.olt_id) if node.kind is not NodeKind.TABLE]
    others = _discoveries_of_others(nodes, onu)
    named = [(node, *pair) for node in nodes if node.id not in others for pair in work.named_texts(node)]
    rows = catalogue.find_all(session, olt, {text for _node, text, _name in named})
    specs = _specs(session, olt, rows)
    found: dict[str, OnuColumn] = {}
    for node, text, name in named:
        spec = specs.get(text) or catalogue.reading_spec(None, text, name)
        of_this = node.kind in (NodeKind.GET, NodeKind.DISCOVERY) or spec.metric in stored
        if of_this and _by_onu(spec, rows[text]):
            found.setdefault(spec.oid, OnuColumn(node, spec, rows[text]))
    return list(found.values())


def _by_onu(spec: ReadingSpec, row: Oid | None) -> bool:
    """A key that the catalogue does not know (any more) is no OID that could be asked for."""
    if row is None:
        return node_fields.is_dotted(spec.oid) and not spec.scalar
    return row.shape == Shape.ONU


def _specs(session: Session, olt: Olt, rows: Mapping[str, Oid | None]) -> dict[str, ReadingSpec]:
    """Of the texts that the catalogue knows."""
    known = {text: row for text, row in rows.items() if row is not None}
    return dict(zip(known, explaining.specs_of(session, olt, known), strict=True))


def _nodes(session: Session, olt_id: int) -> Iterator[WorkflowNode]:
    """Masters by priority, each with its chain behind it."""
    above = joinedload(WorkflowNode.workflow).options(joinedload(Workflow.template), joinedload(Workflow.olt))
    query = select(WorkflowNode).join(Workflow).options(above, joinedload(WorkflowNode.master))
    nodes = list(session.scalars(query.where(Workflow.olt_id == olt_id)))
    masters = [node for node in nodes if node.master_id is None]
    for master in sorted(masters, key=lambda node: (-node.priority, node.position, node.id)):
        yield master
        yield from sorted((node for node in nodes if node.master_id == master.id), key=lambda n: (n.position, n.id))


def _discoveries_of_others(nodes: Iterable[WorkflowNode], onu: Onu) -> set[int]:
    """Where one discovery answers for this ONU, all others: they list another table."""
    ids = {node.id for node in nodes if node.kind is NodeKind.DISCOVERY}
    return ids - {onu.found_by} if onu.found_by in ids else set()


def index_of(column: OnuColumn, index_key: str) -> str:
    """The whole OID of this ONU's instance of a column."""
    suffix = column.spec.index_suffix.strip(".")
    return f"{column.spec.oid}.{index_key}" + (f".{suffix}" if suffix else "")
