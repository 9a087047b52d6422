"""One change to the nodes of many OLTs: seen beforehand as the writer itself makes it, then made OLT by OLT.

No OLT waits for another: each is written in a transaction of its own, and one that cannot have the change is named.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, joinedload, selectinload

from portal import masters
from portal.domain import feasibility
from portal.domain.feasibility import Feasibility, Verdict
from portal.domain.messages import N_, Message
from portal.extensions import db, transaction
from portal.services import audit
from portal.services.cataloguing import catalogue
from portal.services.dispatch import clock
from portal.services.errors import ServiceError
from portal.services.network import revisions, synced, workflows
from portal.services.network.node_rules import NodeRules, Override, log_override
from portal.services.network.node_trees import WorkflowWriter
from portal.services.network.revisions import Begun
from portal.services.network.trees import Difference, Tree, tree_of
from portal.tables import Brand, Oid, Olt, Workflow, WorkflowTemplate

log = logging.getLogger(__name__)

SEEN_AT_ONCE = 20  # OLTs of a preview in one transaction, which is rolled back: no writer waits longer than for these
_PACED = {"interval_seconds", "cron", "oid", "override_reason", "master"}
EMPTY = Feasibility(0.0, Verdict.FITS, (), (), (), None)


class Change(Protocol):
    """What shall become of the nodes of each OLT."""

    action: str  # in the audit log, and of the revisions

    def prepare(self, session: Session) -> None:
        """First in each transaction: read what the change depends on. Conflict when that is not what was previewed."""

    def template(self, workflow: Workflow) -> WorkflowTemplate | None:
        """The template that the workflow has afterwards."""

    def clashes(self, workflow: Workflow, stored: Tree) -> list[Message]:
        """Why this workflow cannot have the change, as far as its nodes and its template are concerned."""

    def tree(self, stored: Tree) -> Tree:
        """The nodes that it has afterwards."""

    def concerns(self, tree: Tree) -> Tree:
        """The composites of that tree that the catalogue has to agree to."""


@dataclass(frozen=True)
class Effect:
    """What the change does to one OLT. `problems`: why it is left out; then nothing of it was or would be written.

    `kept`: keys of nodes that stay otherwise than in the template. `left`: name of the template it had and has not any
    more. `share_before` and `fit`: of its hour, before and after; only a preview knows them.
    """

    olt_id: int
    name: str
    problems: tuple[Message, ...] = ()
    difference: Difference = field(default_factory=Difference)
    kept: tuple[str, ...] = ()
    left: str = ""
    linked: bool = False  # it gets a template, or another one
    share_before: float = 0.0
    fit: Feasibility = EMPTY

    @property
    def changes(self) -> bool:
        """True when there is, or was, anything to write."""
        return not self.problems and (bool(self.difference) or self.linked)

    @property
    def breaks(self) -> bool:
        """True when the OLT would not fit any more, or no longer keep a promise, and did before."""
        fitted = feasibility.verdict(self.share_before) is Verdict.FITS
        return self.changes and fitted and (self.fit.verdict is not Verdict.FITS or bool(self.fit.failing))


class _Rehearsal(Exception):
    """Rolls back what shall not stay: a preview, or an OLT that is left out."""


def preview(change: Change, olt_ids: Sequence[int], now: datetime) -> list[Effect]:
    """What the change would do, in the order of the OLTs given. Nothing of it stays written."""
    known = rules(olt_ids, now)
    found: list[Effect] = []
    ordered = sorted(olt_ids)  # alike for everybody: two previews cannot wait for each other's locks
    for at in range(0, len(ordered), SEEN_AT_ONCE):
        try:
            with transaction() as session:
                found += _rehearse(session, change, ordered[at : at + SEEN_AT_ONCE], known, now)
                raise _Rehearsal
        except _Rehearsal:
            pass
    order = {olt_id: place for place, olt_id in enumerate(olt_ids)}
    return sorted(found, key=lambda effect: order[effect.olt_id])


def make(change: Change, olt_ids: Sequence[int], actor: str, now: datetime) -> list[Effect]:
    """Make the change, each OLT by itself, in the order given. Made again it changes nothing."""
    known = rules(olt_ids, now)
    first_run = clock.spread_first_runs(db.session(), now) if len(olt_ids) > 1 else clock.first_runs(
        now, many_olts=False)  # fmt: skip
    return [_make(change, olt_id, known, actor, now, first_run) for olt_id in olt_ids]


def _make(
    change: Change, olt_id: int, known: NodeRules, actor: str, now: datetime, first_run: clock.FirstRun
) -> Effect:  # fmt: skip
    name = f"#{olt_id}"
    try:
        with transaction() as session:
            change.prepare(session)
            step = next(steps(session, change, [olt_id], known, now, first_run))
            name = step.name
            if step.problems:
                raise _Rehearsal
            write(session, [step])
            step.record(session, actor, now)
            return step.effect()
    except _Rehearsal:
        return step.effect()
    except ServiceError as refused:
        reasons = tuple(m for m in getattr(refused, "errors", {"": refused.args[0]}).values() if isinstance(m, Message))
        return Effect(olt_id, name, reasons or (Message(str(refused)),))
    except SQLAlchemyError:
        log.exception("event=nodes_not_written action=%s olt_id=%d", change.action, olt_id)
        return Effect(olt_id, name, (N_("the database refused it, the log of the program says why: repeat"),))


def _rehearse(
    session: Session, change: Change, olt_ids: Sequence[int], known: NodeRules, now: datetime
) -> list[Effect]:  # fmt: skip
    change.prepare(session)
    before = _busy(session, olt_ids, now)
    first_run = clock.first_runs(now, many_olts=True)
    made = list(steps(session, change, olt_ids, known, now, first_run, begin=_seen))
    session.flush()
    write(session, made)
    session.flush()
    after = _busy(session, olt_ids, now)
    return [step.effect(before.get(step.olt_id, EMPTY), after.get(step.olt_id, EMPTY)) for step in made]


def _busy(session: Session, olt_ids: Sequence[int], now: datetime) -> dict[int, Feasibility]:
    """OLT id → how its work fits; slot by slot only where it does not."""
    fits = {}
    for olt_id, found in masters.load(session, now, olt_ids).items():
        nodes = [master.node for master in found]
        share = feasibility.busy_share(nodes, now)
        if feasibility.verdict(share) is Verdict.FITS and not feasibility.may_lose(nodes):
            fits[olt_id] = Feasibility(share, Verdict.FITS, (), (), (), None)
        else:
            fits[olt_id] = feasibility.assess(nodes, now)
    return fits


def rules(olt_ids: Sequence[int], now: datetime) -> NodeRules:
    """The catalogue's rules for these OLTs, read once: its rows leave the session, so that no commit expires them."""
    session: Session = db.session()
    session.rollback()
    brands = session.scalars(
        select(Brand.key).join(Olt, Olt.brand_id == Brand.id).where(Olt.id.in_(olt_ids)).distinct()
    )
    lookup = catalogue.load_lookup(session, list(brands))
    for row in list(session):
        if isinstance(row, Oid | Brand):
            session.expunge(row)
    return NodeRules(lookup, now, clock.portal_zone())


def _locked(session: Session, olt: Olt) -> Begun:
    """The OLT's workflow, made where there is none, as it is now that nobody else can change it."""
    return revisions.begin(session, workflows.ensure_workflow(session, olt))


def _seen(session: Session, olt: Olt) -> Begun:
    """The OLT's workflow as it was read: enough for what is rolled back, and the same few statements for many OLTs."""
    if olt.workflow is None:
        with session.no_autoflush:
            session.add(Workflow(olt=olt, olt_id=olt.id, enabled=True, revision=0, nodes=[]))
    assert olt.workflow is not None  # noqa: S101
    return Begun(olt.workflow, [])


def steps(
    session: Session, change: Change, olt_ids: Sequence[int], known: NodeRules, now: datetime,
    first_run: clock.FirstRun, begin: Callable[[Session, Olt], Begun] = _locked,
) -> Iterator["Step"]:  # fmt: skip
    """One OLT after the other, read and locked, in the caller's transaction; nothing is written yet."""
    if begin is _locked:
        session.execute(select(Workflow.id).where(Workflow.olt_id.in_(olt_ids)).with_for_update())
    query = select(Olt).where(Olt.id.in_(olt_ids), Olt.deleted_at.is_(None)).options(
        joinedload(Olt.brand), joinedload(Olt.model), selectinload(Olt.workflow).selectinload(Workflow.nodes),
        selectinload(Olt.workflow).joinedload(Workflow.template),
    )  # fmt: skip
    found = {olt.id: olt for olt in session.scalars(query)}
    for olt_id in olt_ids:
        olt = found.get(olt_id)
        yield Gone(olt_id) if olt is None else Step(session, change, olt, begin(session, olt), known, now, first_run)


class Step:
    """One OLT on its way through the change, inside the caller's transaction."""

    def __init__(
        self, session: Session, change: Change, olt: Olt, begun: Begun, known: NodeRules, now: datetime,
        first_run: clock.FirstRun,
    ) -> None:  # fmt: skip
        self.olt_id, self.name, self.olt, self.change, self.begun = olt.id, olt.name, olt, change, begun
        workflow = begun.workflow
        self.template = change.template(workflow)
        before = workflow.template
        self.linked = before is not self.template
        self.template_before_id = before.id if before is not None else None
        self.left = before.name if before is not None and self.linked else ""
        self.stored = tree_of(workflow.nodes)
        self.problems = tuple(change.clashes(workflow, self.stored))
        self.wanted = self.stored if self.problems else change.tree(self.stored)
        self.overrides: tuple[Override, ...] = ()
        self.difference = Difference()
        self.writer: WorkflowWriter | None = None
        if not self.problems:
            self._ask(known)
        if not self.problems and (self.linked or self.wanted != self.stored):
            self.writer = WorkflowWriter(session, workflow, now, first_run)

    def _ask(self, known: NodeRules) -> None:
        device = workflows.device_of(self.olt)
        found: list[Override] = []
        for master in self.change.concerns(self.wanted):
            verdict = known.check(device, master.columns, [node.columns for node in master.chain])
            found += verdict.overrides
            self.problems += tuple(
                N_("%(node)s: %(reason)s", node=key, reason=reason)
                for key, errors in verdict.errors.items() for reason in errors.values()
            )  # fmt: skip
        self.overrides = tuple(found)

    def place(self) -> None:
        """Make and change nodes; the caller flushes, and then calls `finish`."""
        if self.writer is not None:
            self.begun.workflow.template = self.template
            self.writer.place(self.wanted)

    def finish(self) -> None:
        """Remove what is not wanted any more."""
        if self.writer is not None:
            self.difference = self.writer.finish()

    def record(self, session: Session, actor: str, now: datetime) -> None:
        """Revision, audit row, and in the decision log who lets nodes run more often than is safe."""
        if self.writer is None:
            return
        revisions.finish(session, self.begun, self.change.action, "", actor, now)
        template = {"template": [self.left, self.template.name if self.template else ""]} if self.linked else {}
        audit.record(session, actor=actor, action=self.change.action, subject=self.olt,
                     changes={**template, **self.difference.as_dict()}, now=now)  # fmt: skip
        for item in self.overrides:
            if item.key in self.difference.added or _PACED & self.difference.changed.get(item.key, {}).keys():
                log_override(session, self.olt_id, self.writer.node(item.key), item, actor, now)

    def effect(self, before: Feasibility = EMPTY, after: Feasibility = EMPTY) -> Effect:
        """As plain facts."""
        if self.problems:
            return Effect(self.olt_id, self.name, self.problems, share_before=before.share, fit=before)
        kept, told = tuple(synced.kept(self.wanted)), _worth_telling(self.difference)
        return Effect(self.olt_id, self.name, (), told, kept, self.left, self.linked, before.share, after)


def _worth_telling(made: Difference) -> Difference:
    """Without nodes that only count one place further, unless nothing but the order is changed."""
    changed = {key: fields for key, fields in made.changed.items() if fields.keys() - {"position"}}
    if not (changed or made.added or made.removed):
        changed = made.changed
    return Difference(made.added, changed, made.removed)


class Gone(Step):
    """An OLT that does not exist any more."""

    def __init__(self, olt_id: int) -> None:
        self.olt_id, self.name, self.writer = olt_id, f"#{olt_id}", None
        self.problems = (N_("the OLT does not exist any more"),)


def write(session: Session, steps: Sequence[Step]) -> None:
    """All of them in the caller's transaction, with one flush between the two halves."""
    for step in steps:
        step.place()
    session.flush()
    for step in steps:
        step.finish()
