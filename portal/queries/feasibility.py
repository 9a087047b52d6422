"""Whether OLTs can keep what their workflows promise; also for a workflow as it would be after an edit. Reads only."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import select

from portal import cron, masters
from portal.domain import feasibility, quota
from portal.domain.feasibility import Feasibility, Verdict
from portal.domain.pace import Pace
from portal.domain.plans import PlanNode
from portal.domain.statuses import NodeKind
from portal.extensions import db
from portal.masters import Master
from portal.models import Olt, Workflow

DETAILED = 50  # OLTs of a list that are looked at slot by slot


@dataclass(frozen=True)
class Edit:
    """A master as it would be: `node_id` None = a new one. Times in seconds; exactly one of interval and cron."""

    key: str
    kind: NodeKind
    priority: int
    interval: int | None
    cron: str | None = None
    node_id: int | None = None
    enabled: bool = True


@dataclass(frozen=True)
class OltFit:
    """One OLT and how its work fits."""

    olt_id: int
    name: str
    fit: Feasibility


def of_olt(olt_id: int, now: datetime) -> Feasibility:
    """As its workflow is. Five SQL statements at most."""
    return feasibility.assess(_nodes(masters.load(db.session(), now, [olt_id]).get(olt_id, [])), now)


def what_if(
    olt_id: int, now: datetime, edits: Iterable[Edit] = (), removed: Collection[int] = (),
    chained: Iterable[tuple[int, NodeKind]] = (),
) -> Feasibility:  # fmt: skip
    """As it would be after these edits, without the masters `removed` (node ids), and with nodes chained to others.

    `chained`: (id of the master, kind) of each new one; its time, a guess, is added to that of its master.
    """
    found = {master.node.node_id: master for master in masters.load(db.session(), now, [olt_id]).get(olt_id, [])}
    for gone in removed:
        found.pop(gone, None)
    for number, edit in enumerate(edits, 1):
        ident = edit.node_id or -number
        before = found.pop(ident, None)
        if edit.enabled and (edit.interval or edit.cron):
            found[ident] = _edited(olt_id, ident, edit, before, now)
    complete = {one.node.node_id: one for one in masters.with_guesses(db.session(), list(found.values()))}
    for master_id, kind in chained:
        if master_id in complete:
            complete[master_id] = _longer(complete[master_id], kind)
    return feasibility.assess(_nodes(complete.values()), now)


def _longer(master: Master, kind: NodeKind) -> Master:
    """The master with a further node of this kind in its chain."""
    alone = replace(master, kind=kind, node=replace(master.node, pace=Pace(0, 0)))
    more = masters.with_guesses(db.session(), [alone])[0].node.pace
    pace = master.node.pace
    both = Pace(pace.p50_ms + more.p50_ms, pace.p95_ms + more.p95_ms, pace.runs)
    return replace(master, node=replace(master.node, pace=both))


def _edited(olt_id: int, ident: int, edit: Edit, before: Master | None, now: datetime) -> Master:
    times = cron.firings(edit.cron, now, now + masters.AHEAD) if edit.cron else ()
    same = before is not None and (before.node.interval_seconds, before.cron) == (edit.interval, edit.cron)
    clock = before.node.next_run_at if before is not None and same else None
    pace = before.node.pace if before is not None and before.kind is edit.kind else Pace(0, 0)
    node = PlanNode(
        ident, edit.key, quota.task_type(edit.kind, edit.key), edit.priority, clock,
        None if edit.cron else edit.interval, pace, times,
    )  # fmt: skip
    return Master(olt_id, edit.kind, edit.cron, feasibility.starting(node, now))


def _nodes(found: Iterable[Master]) -> list[PlanNode]:
    return [master.node for master in found]


def of_olts(now: datetime, template_id: int | None = None) -> list[OltFit]:
    """Every OLT in service, or those of a template, the busiest first. Three SQL statements and the guesses'.

    The DETAILED busiest of those that do not fit are looked at slot by slot; of the others only their share is told.
    """
    query = select(Olt.id, Olt.name).where(Olt.deleted_at.is_(None), Olt.enabled.is_(True))
    if template_id is not None:
        query = query.join(Workflow, Workflow.olt_id == Olt.id).where(Workflow.template_id == template_id)
    names = {row.id: row.name for row in db.session.execute(query)}
    known = {olt: _nodes(found) for olt, found in masters.load(db.session(), now, names).items()}
    shares = {olt: feasibility.busy_share(known.get(olt, []), now) for olt in names}
    ordered = sorted(names, key=lambda olt: (-shares[olt], names[olt].lower()))
    return [OltFit(olt, names[olt], _fit(known.get(olt, []), shares[olt], now, at)) for at, olt in enumerate(ordered)]


def _fit(nodes: list[PlanNode], share: float, now: datetime, place: int) -> Feasibility:
    verdict = feasibility.verdict(share)
    if verdict is Verdict.FITS or place >= DETAILED:
        return Feasibility(share, verdict, (), (), (), None)
    return feasibility.assess(nodes, now)
