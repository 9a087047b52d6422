"""Reads the workflow of one OLT for pages: masters, their chains, and what the last runs brought."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Row, Select, and_, case, cast, func, literal_column, select
from sqlalchemy.orm import aliased, joinedload

from portal.domain import merging, node_fields
from portal.domain.statuses import TERMINAL, ErrorKind, OltState, SkipReason, StepStatus
from portal.extensions import db
from portal.queries import catalogue, keyset
from portal.queries.matching import contains
from portal.tables import (
    Execution,
    ExecutionAttempt,
    ExecutionStep,
    NodeDay,
    NodePace,
    Olt,
    TemplateNode,
    Workflow,
    WorkflowNode,
    WorkflowRevision,
)

LEDGER = timedelta(days=7)  # of which a card says how long its node takes and how much of what it reads is new
GONE = "~"  # begins the key of a node that the template does not have any more (services.network.trees)
ORDER = "order"  # beside columns, in what a node can differ from its template's

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
# Literals, not parameters: only so do both databases see that their partial indexes apply.
_ACTIVE = Execution.status.in_((literal_column("'PENDING'"), literal_column("'RUNNING'")))


@dataclass(frozen=True)
class StepView:
    """What one node brought in the last finished run of its chain."""

    status: StepStatus
    skip_reason: SkipReason | None
    finished_at: datetime | None
    duration_ms: int | None
    rows: int
    error_kind: ErrorKind | None
    error_message: str


@dataclass(frozen=True)
class NodeView:
    """A node with its meaning and its last results.

    `active` and `last` are of what it starts: a master's composite, or a chained node that a person ran alone.
    `usual_ms`: median of a master's composites, mean of a chained node's steps. `changed`: percent of the values read
    that said something new. `differs`: columns in which it differs from its template's node, or ORDER.
    """

    node: WorkflowNode
    meanings: tuple[catalogue.OidChoice, ...]
    usual_ms: int | None = None
    changed: float | None = None
    differs: tuple[str, ...] = ()
    step: StepView | None = None
    last: Execution | None = None
    active: Execution | None = None
    chain: tuple["NodeView", ...] = field(default=())


@dataclass(frozen=True)
class Change:
    """The last change of a workflow. `subject`: name of the node, "" for all of them."""

    action: str
    subject: str
    actor: str
    made_at: datetime


@dataclass(frozen=True)
class WorkflowView:
    """The workflow of one OLT. `workflow` None = nobody gave it one yet."""

    workflow: Workflow | None
    masters: tuple[NodeView, ...] = ()
    last_change: Change | None = None

    @property
    def nodes(self) -> int:
        """How many nodes there are, masters and chained."""
        return sum(1 + len(master.chain) for master in self.masters)


@dataclass(frozen=True)
class WorkflowRow:
    """One line of the list of workflows. `next_run_at` is planned only: queries.olts.expected says what will run."""

    olt_id: int
    olt: str
    olt_enabled: bool
    state: OltState
    paused_until: datetime | None
    enabled: bool
    masters: int
    chained: int
    next_run_at: datetime | None
    failing: int


def of_olt(olt: Olt, now: datetime) -> WorkflowView:
    """Everything the workflow page shows: five SQL statements whatever the number of nodes."""
    workflow, change = _workflow(olt.id)
    if workflow is None:
        return WorkflowView(None)
    rows = {row[0].id: row for row in db.session.execute(_nodes(workflow, now))}
    nodes = [row[0] for row in rows.values()]
    last, active = last_and_active([node.id for node in nodes])
    steps = _steps(list(last.values()))
    known = catalogue.meanings(catalogue.oid_choices(olt.brand_id))

    def view(node: WorkflowNode) -> NodeView:
        chain = sorted((n for n in nodes if n.master_id == node.id), key=lambda n: (n.position, n.id))
        meant = tuple(known[part] for part in node.oid.split(",") if part in known)
        figures = *_figures(rows[node.id]), _differs(rows[node.id], rows)
        runs = steps.get(node.id), last.get(node.id), active.get(node.id)
        return NodeView(node, meant, *figures, *runs, tuple(map(view, chain)))

    return WorkflowView(workflow, tuple(map(view, _masters(nodes))), change)


def _masters(nodes: Sequence[WorkflowNode]) -> list[WorkflowNode]:
    """Those that start composites, highest priority first."""
    masters = (node for node in nodes if node.master_id is None)
    return sorted(masters, key=lambda n: (-n.priority, n.position, n.id))


def at_work(olt_id: int) -> WorkflowView:
    """What the page of an OLT shows of its workflow: masters with their last run and what they do now.

    Without meanings, figures, steps and the last change. Two SQL statements.
    """
    query = (
        select(Workflow, WorkflowNode)
        .outerjoin(WorkflowNode, WorkflowNode.workflow_id == Workflow.id)
        .options(joinedload(Workflow.template))
        .where(Workflow.olt_id == olt_id)
    )
    rows = db.session.execute(query).all()
    if not rows:
        return WorkflowView(None)
    nodes = [row[1] for row in rows if row[1] is not None]
    masters = _masters(nodes)
    last, active = last_and_active([master.id for master in masters])
    views = (
        NodeView(
            master, (), last=last.get(master.id), active=active.get(master.id),
            chain=tuple(NodeView(node, ()) for node in nodes if node.master_id == master.id),
        )
        for master in masters
    )  # fmt: skip
    return WorkflowView(rows[0][0], tuple(views))


def _workflow(olt_id: int) -> tuple[Workflow | None, Change | None]:
    """One SQL statement; without what the revision replaced, which is long."""
    revision = WorkflowRevision
    query = (
        select(Workflow, revision.action, revision.subject, revision.actor, revision.made_at)
        .outerjoin(revision, (revision.workflow_id == Workflow.id) & (revision.number == Workflow.revision))
        .where(Workflow.olt_id == olt_id)
    )
    row = db.session.execute(query).first()
    if row is None:
        return None, None
    return row[0], Change(*row[1:]) if row.action else None


def _nodes(workflow: Workflow, now: datetime) -> Select[Any]:
    """(node, median, sums of its ledger, its template's node, key of the master that has there)."""
    sums = [cast(func.sum(column), BigInteger).label(column.key) for column in (
        NodeDay.runs, NodeDay.duration_ms, NodeDay.values_read, NodeDay.values_changed)]  # fmt: skip
    recent = NodeDay.olt_id == workflow.olt_id, NodeDay.day >= now - LEDGER
    days = select(NodeDay.node_id, *sums).where(*recent).group_by(NodeDay.node_id).subquery()
    above = aliased(TemplateNode)
    return (
        select(
            WorkflowNode, NodePace.p50_ms, days.c.runs, days.c.duration_ms, days.c.values_read, days.c.values_changed,
            TemplateNode, above.key.label("above"),
        )
        .outerjoin(NodePace, NodePace.node_id == WorkflowNode.id)
        .outerjoin(days, days.c.node_id == WorkflowNode.id)
        .outerjoin(TemplateNode, TemplateNode.id == WorkflowNode.template_node_id)
        .outerjoin(above, above.id == TemplateNode.master_id)
        .where(WorkflowNode.workflow_id == workflow.id)
    )  # fmt: skip


def _figures(row: Row[Any]) -> tuple[int | None, float | None]:
    """(usual duration in ms, changed percent)."""
    mean = round(row.duration_ms / row.runs) if row.runs else None
    changed = 100 * row.values_changed / row.values_read if row.values_read else None
    return row.p50_ms or mean, changed


def _differs(row: Row[Any], rows: dict[int, Row[Any]]) -> tuple[str, ...]:
    node, wanted = row[0], row.TemplateNode
    if wanted is None or wanted.key.startswith(GONE):
        return ()
    master = rows[node.master_id][0].key if node.master_id in rows else None
    here, there = (columns_of(one) | {"master": key} for one, key in ((node, master), (wanted, row.above)))
    found = tuple(merging.differences(here, there))
    return found or ((ORDER,) if node.overridden else ())


def columns_of(node: WorkflowNode | TemplateNode) -> dict[str, Any]:
    """The settings of a node by column."""
    return {name: getattr(node, name) for name in node_fields.COLUMNS}


def deletion(olt_id: int, name: str, since: int) -> Change | None:
    """Who deleted the node of this name, or last any, after a revision. One SQL statement."""
    revision = WorkflowRevision
    query = (
        select(revision.action, revision.subject, revision.actor, revision.made_at)
        .join(Workflow, Workflow.id == revision.workflow_id)
        .where(Workflow.olt_id == olt_id, revision.number > since)
        .order_by((revision.subject == name).desc(), (revision.action == "node.delete").desc(), revision.number.desc())
    )
    row = db.session.execute(query.limit(1)).first()
    return Change(*row) if row else None


def last_and_active(node_ids: Sequence[int]) -> tuple[dict[int, Execution], dict[int, Execution]]:
    """Node id → its own newest finished execution; and its own that waits or runs. One SQL statement.

    One index look-up a node for the one, a partial index for the other.
    """
    inner = aliased(Execution)
    newest = (
        select(inner.id)
        .where(inner.node_id == WorkflowNode.id, inner.status.in_(TERMINAL))
        .order_by(inner.scheduled_for.desc())
        .limit(1)
        .correlate(WorkflowNode)
        .scalar_subquery()
    )
    finished = select(newest.label("id")).where(WorkflowNode.id.in_(node_ids))
    active = select(Execution.id).where(Execution.node_id.in_(node_ids), _ACTIVE)
    last: dict[int, Execution] = {}
    now: dict[int, Execution] = {}
    for execution in db.session.scalars(select(Execution).where(Execution.id.in_(finished.union_all(active)))):
        if execution.node_id is not None:
            (last if execution.status in TERMINAL else now)[execution.node_id] = execution
    return last, now


def _steps(executions: list[Execution]) -> dict[int, StepView]:
    """Node id → its newest step in the last attempts of these executions. One SQL statement."""
    later = aliased(ExecutionAttempt)
    newest = (
        select(func.max(later.number))
        .where(later.execution_id == ExecutionAttempt.execution_id)
        .correlate(ExecutionAttempt)
        .scalar_subquery()
    )
    query = (
        select(ExecutionStep, ExecutionAttempt.finished_at)
        .join(ExecutionStep.attempt)
        .where(ExecutionAttempt.execution_id.in_([e.id for e in executions]), ExecutionAttempt.number == newest)
        .order_by(ExecutionAttempt.started_at)
    )
    return {
        step.node_id: StepView(
            step.status, step.skip_reason, finished, step.duration_ms, step.rows, step.error_kind, step.error_message
        )
        for step, finished in db.session.execute(query)
        if step.node_id is not None
    }


def node(node_id: int) -> tuple[WorkflowNode, Olt] | None:
    """A node and its OLT, or None when either is gone."""
    row = db.session.execute(
        select(WorkflowNode, Olt)
        .join(WorkflowNode.workflow)
        .join(Workflow.olt)
        .where(WorkflowNode.id == node_id, Olt.deleted_at.is_(None))
    ).first()
    return (row[0], row[1]) if row else None


def template_node(node: WorkflowNode) -> TemplateNode | None:
    """The template's node that a node came from, if it still has it. One SQL statement."""
    found = db.session.get(TemplateNode, node.template_node_id) if node.template_node_id else None
    return None if found is None or found.key.startswith(GONE) else found


def masters_of(olt_id: int) -> list[WorkflowNode]:
    """The masters of one OLT, highest priority first: what a chained node can hang on."""
    query = (
        select(WorkflowNode)
        .join(WorkflowNode.workflow)
        .where(Workflow.olt_id == olt_id, WorkflowNode.master_id.is_(None))
        .order_by(WorkflowNode.priority.desc(), WorkflowNode.position, WorkflowNode.id)
    )
    return list(db.session.scalars(query))


def chain_length(node_id: int) -> int:
    """How many nodes hang on this master."""
    return db.session.scalar(select(func.count()).where(WorkflowNode.master_id == node_id)) or 0


def page(
    q: str = "", template_id: int | None = None, cursor: str = "", size: int = keyset.PAGE_SIZE
) -> keyset.Page[WorkflowRow]:
    """OLTs by name with the sums of their workflows: two SQL statements whatever the number of OLTs."""
    query = (
        select(Olt.id, Olt.name, Olt.enabled, Olt.state, Olt.paused_until, func.coalesce(Workflow.enabled, True))
        .outerjoin(Workflow, Workflow.olt_id == Olt.id)
        .where(Olt.deleted_at.is_(None))
    )
    if q:
        query = query.where(contains(Olt.name, q))
    if template_id is not None:
        query = query.where(Workflow.template_id == template_id)
    found = keyset.fetch(query, keyset.Order((keyset.lower(Olt.name), Olt.id)), cursor, size)
    sums = _sums([row[0] for row in found.rows])

    def made(row: Any) -> WorkflowRow:
        values: tuple[Any, ...] = (*row, *sums.get(row[0], (0, 0, None, 0)))
        return WorkflowRow(*values)

    return found.map(made)


def _sums(olt_ids: list[int]) -> dict[int, tuple[int, int, datetime | None, int]]:
    """OLT id → (masters, chained nodes, next run, masters whose last run failed). One SQL statement.

    What may not run has no clock (services.dispatch.clock).
    """
    master = WorkflowNode.master_id.is_(None)
    on = and_(master, WorkflowNode.enabled)
    failing = and_(on, WorkflowNode.last_failure_at > func.coalesce(WorkflowNode.last_success_at, _LONG_AGO))
    query = (
        select(
            Workflow.olt_id,
            func.count(case((master, 1))),
            func.count(case((WorkflowNode.master_id.is_not(None), 1))),
            func.min(WorkflowNode.next_run_at),
            func.count(case((failing, 1))),
        )
        .join(WorkflowNode, WorkflowNode.workflow_id == Workflow.id)
        .where(Workflow.olt_id.in_(olt_ids))
        .group_by(Workflow.olt_id)
    )
    return {row[0]: (row[1], row[2], row[3], row[4]) for row in db.session.execute(query)}
