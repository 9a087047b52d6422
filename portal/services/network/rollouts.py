"""A template tried on one OLT first, the canary: then applied to the rest, or taken back. One try at a time of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.messages import N_, joined
from portal.domain.statuses import RolloutStatus
from portal.extensions import db, transaction
from portal.services import audit
from portal.services.dispatch import clock
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.network import applying, many, revisions, synced, workflows
from portal.services.network.applying import TemplateChange
from portal.services.network.many import Effect
from portal.services.network.node_trees import WorkflowWriter
from portal.services.network.revisions import to_rows, to_tree
from portal.services.network.trees import tree_of
from portal.tables import TemplateRollout, Workflow, WorkflowRevision, WorkflowTemplate

TRY, TAKE_BACK = "template.try", "template.take_back"
TOUCHED = N_("its nodes were changed by hand since: taking the template back would undo that too; change them by hand")
OVER = N_("this try is over already")
OUTDATED = N_(
    "the template was changed since it was tried: what the rest would get is not what was tried; take it back and try"
    " it again"
)


def start(
    template_id: int, canary_id: int, olt_ids: Sequence[int], actor: str, now: datetime, revision: int | None = None
) -> int:  # fmt: skip
    """Apply the template to the canary; `olt_ids`: the rest, which get it later or never. Returns the rollout's id.

    Conflict when the template is being tried already, or is not what was looked at; Invalid, with the reasons under
    the canary, when that one cannot have it or is in step already.
    """
    change = TemplateChange(template_id, revision, TRY)
    rules = many.rules([canary_id], now)
    with transaction() as session:
        session.get(WorkflowTemplate, template_id, with_for_update=True)  # of two that begin at once one comes second
        change.prepare(session)
        if opened(session, template_id) is not None:
            raise Conflict(N_("this template is being tried on an OLT already: end that first"))
        step = next(many.steps(session, change, [canary_id], rules, now, clock.first_runs(now, many_olts=False)))
        if step.problems:
            raise Invalid({"canary": joined(step.problems)})
        if step.writer is None:
            raise Invalid({"canary": N_("%(olt)s is in step already: there is nothing to try on it", olt=step.name)})
        row = TemplateRollout(
            template_id=template_id, canary_olt_id=canary_id, olt_ids=[one for one in olt_ids if one != canary_id],
            status=RolloutStatus.CANARY, before=to_rows(step.stored), actor=actor, started_at=now,
            template_before_id=step.template_before_id,
        )  # fmt: skip
        many.write(session, [step])
        step.record(session, actor, now)
        session.add(row)
        session.flush()
        return row.id


def apply_rest(rollout_id: int, actor: str, now: datetime) -> list[Effect]:
    """Apply the template to the rest, each OLT by itself, and end the try. Conflict when it is not what was tried.

    The try ends first: whatever comes between, those that did not get it are told as behind.
    """
    with transaction() as session:
        row = _open(session, rollout_id)
        if state_of(row, session).outdated:
            raise Conflict(OUTDATED)
        row.status, row.ended_at = RolloutStatus.DONE, now
        template_id, olt_ids = row.template_id, list(row.olt_ids)
        revision = session.get_one(WorkflowTemplate, template_id).revision
    return applying.apply(template_id, olt_ids, actor, now, revision)


def keep(rollout_id: int, actor: str, now: datetime) -> None:
    """End the try: the canary stays as it is, the rest gets nothing."""
    with transaction() as session:
        row = _open(session, rollout_id)
        row.status, row.ended_at, row.olt_ids = RolloutStatus.DONE, now, []
        subject = session.get_one(WorkflowTemplate, row.template_id)
        audit.record(session, actor=actor, action="template.keep", subject=subject, changes={}, now=now)


def take_back(rollout_id: int, actor: str, now: datetime) -> None:
    """Give the canary back the nodes and the template that it had. Conflict when it was changed by hand meanwhile.

    A template that is gone meanwhile cannot come back: its nodes are then the OLT's own.
    """
    with transaction() as session:
        row = _open(session, rollout_id)
        olt = workflows.existing_olt(session, row.canary_olt_id)
        begun = revisions.begin(session, workflows.ensure_workflow(session, olt))
        if touched(session, row):
            raise Conflict(TOUCHED)
        before = session.get(WorkflowTemplate, row.template_before_id) if row.template_before_id else None
        tree = to_tree(row.before)
        begun.workflow.template = before
        writer = WorkflowWriter(session, begun.workflow, now, clock.first_runs(now, many_olts=False))
        writer.place(tree if before is not None else synced.without_template(tree))
        session.flush()
        difference = writer.finish()
        revisions.finish(session, begun, TAKE_BACK, "", actor, now)
        row.status, row.ended_at = RolloutStatus.TAKEN_BACK, now
        audit.record(session, actor=actor, action=TAKE_BACK, subject=olt, changes=difference.as_dict(), now=now)
        session.flush()
        applying.sweep(session, row.template_id)


def opened(session: Session, template_id: int) -> TemplateRollout | None:
    """The try of this template that is going on, if there is one."""
    return session.scalar(
        select(TemplateRollout).where(
            TemplateRollout.template_id == template_id, TemplateRollout.status == RolloutStatus.CANARY
        )
    )


def touched(session: Session, row: TemplateRollout) -> bool:
    """Whether the canary's nodes were changed after the template had been tried on it."""
    return state_of(row, session).touched


@dataclass(frozen=True)
class State:
    """What stands in the way: `touched`, of taking back; `outdated`, of going on to the rest."""

    touched: bool
    outdated: bool


def state_of(row: TemplateRollout, session: Session | None = None) -> State:
    """Of a try that goes on. Reads only: four SQL statements. The template's nodes tell nothing of a touched canary."""
    session = session or db.session()
    made = (WorkflowRevision.made_at == row.started_at) & (WorkflowRevision.action == TRY)
    query = select(Workflow, WorkflowRevision.number).outerjoin(
        WorkflowRevision, (WorkflowRevision.workflow_id == Workflow.id) & made
    )
    found = session.execute(query.where(Workflow.olt_id == row.canary_olt_id)).first()
    if found is None or found.number != found.Workflow.revision:
        return State(True, False)
    template = session.get_one(WorkflowTemplate, row.template_id)
    stored = tree_of(found.Workflow.nodes)
    return State(False, bool(synced.difference(stored, synced.synced(stored, tree_of(template.nodes)))))


def get(rollout_id: int) -> TemplateRollout | None:
    """The rollout, or None."""
    return db.session.get(TemplateRollout, rollout_id)


def _open(session: Session, rollout_id: int) -> TemplateRollout:
    row = session.get(TemplateRollout, rollout_id, with_for_update=True, populate_existing=True)
    if row is None:
        raise NotFound(N_("the try does not exist any more"))
    if row.status is not RolloutStatus.CANARY:
        raise Conflict(OVER)
    return row
