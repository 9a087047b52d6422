"""Whether OLTs can keep what their workflows promise; also for a workflow as it would be after an edit. Reads only."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import select

from portal import masters
from portal.domain import feasibility, quota, schedule
from portal.domain.feasibility import Feasibility, Verdict
from portal.domain.pace import Pace
from portal.domain.plans import PlanNode
from portal.domain.statuses import NodeKind
from portal.extensions import db
from portal.masters import Master
from portal.queries.remembered import changes, remembered
from portal.tables import Olt, Workflow

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
    name: str = ""


@dataclass(frozen=True)
class Changes:
    """What would become of one OLT. `removed`: ids of masters. `chained`: (id of the master, kind) of each new node."""

    edits: tuple[Edit, ...] = ()
    removed: frozenset[int] = frozenset()
    chained: tuple[tuple[int, NodeKind], ...] = ()


@dataclass(frozen=True)
class OltFit:
    """One OLT and how its work fits. `detailed` False: only its share is known, though slots of it may be lost."""

    olt_id: int
    name: str
    fit: Feasibility
    detailed: bool = True


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
    changes = Changes(tuple(edits), frozenset(removed), tuple(chained))
    return what_if_many(now, {olt_id: changes})[olt_id]


def what_if_many(now: datetime, changes: Mapping[int, Changes]) -> dict[int, Feasibility]:
    """OLT id → how it would fit. As many SQL statements as for one OLT, however many there are."""
    session = db.session()
    ids = {edit.node_id for one in changes.values() for edit in one.edits if edit.node_id is not None}
    stored = masters.by_olt(masters.read(session, now, changes, also=ids))
    found = [master for olt, change in changes.items() for master in _changed(olt, change, stored.get(olt, ()), now)]
    lengthened = _lengthened(masters.with_guesses(session, found), changes)
    complete = masters.by_olt(masters.settled(session, lengthened, now))
    return {olt: feasibility.assess(_nodes(complete.get(olt, ())), now) for olt in changes}


def _changed(olt_id: int, change: Changes, stored: Iterable[Master], now: datetime) -> list[Master]:
    """The masters of an OLT after its edits; those that would not run are left out."""
    before = {master.node.node_id: master for master in stored}
    found = {ident: master for ident, master in before.items() if master.clocked and ident not in change.removed}
    for number, edit in enumerate(change.edits, 1):
        ident = edit.node_id or -number
        found.pop(ident, None)
        if edit.enabled and (edit.interval or edit.cron):
            found[ident] = _edited(olt_id, ident, edit, before.get(ident), now)
    return [found[ident] for ident in sorted(found, key=lambda ident: (ident < 0, abs(ident)))]  # as they are read


def _lengthened(found: list[Master], changes: Mapping[int, Changes]) -> list[Master]:
    """The same, each with the time of what would be chained to it."""
    by_key = {(master.olt_id, master.node.node_id): master for master in found}
    new = [((olt, ident), kind) for olt, one in changes.items() for ident, kind in one.chained]
    new = [(key, kind) for key, kind in new if key in by_key]
    alone = [replace(by_key[key], kind=kind, node=replace(by_key[key].node, pace=Pace(0, 0))) for key, kind in new]
    for (key, _), guess in zip(new, masters.with_guesses(db.session(), alone), strict=True):
        master, more = by_key[key], guess.node.pace
        pace = master.node.pace
        both = replace(pace, p50_ms=pace.p50_ms + more.p50_ms, p95_ms=pace.p95_ms + more.p95_ms)
        by_key[key] = replace(master, node=replace(master.node, pace=both), limit_ms=None)
    return list(by_key.values())


def _edited(olt_id: int, ident: int, edit: Edit, before: Master | None, now: datetime) -> Master:
    """What a save makes of it: its clock by domain.schedule, its pace as far as it reads the same."""
    times = masters.firings(edit.cron, now, now + masters.AHEAD) if edit.cron else ()
    same_kind = before is not None and before.kind is edit.kind
    node = PlanNode(
        ident, edit.key, quota.task_type(edit.kind, edit.key), edit.priority, _clock(olt_id, edit, before, times, now),
        None if edit.cron else edit.interval, before.node.pace if before is not None and same_kind else Pace(0, 0),
        times, edit.name or (before.node.name if before is not None else ""),
    )  # fmt: skip
    interval = None if edit.cron else edit.interval
    return Master(olt_id, edit.kind, edit.cron, node, interval, before.limit_ms if before is not None else None)


def _clock(
    olt_id: int, edit: Edit, before: Master | None, times: tuple[datetime, ...], now: datetime
) -> datetime | None:
    """When it strikes next; None: while it runs its clock stands (NEXTCHECK_MODE=from_end)."""
    if before is not None and before.clocked:
        if (before.interval, before.cron) == (edit.interval, edit.cron) or before.node.next_run_at is None:
            return before.node.next_run_at
        if edit.interval and not edit.cron:
            return schedule.after_interval_change(now, before.node.next_run_at, edit.interval)
    if edit.cron or not edit.interval:
        return min(times, default=None)
    if before is None or before.chained:
        return schedule.first_run(now, olt_id, edit.key, many_olts=False)
    return schedule.after_enabling(now, edit.interval)


def _nodes(found: Iterable[Master]) -> list[PlanNode]:
    return [master.node for master in found]


def of_olts(now: datetime, template_id: int | None = None, detailed: int | None = DETAILED) -> list[OltFit]:
    """Every OLT in service, or those of a template: who cannot keep its promises first, then the busiest.

    So many (None: all) of those that may lose slots, the busiest of them, are looked at slot by slot; of the others
    only their share is told. Three SQL statements and the guesses'.
    """
    query = select(Olt.id, Olt.name).where(Olt.deleted_at.is_(None), Olt.enabled.is_(True))
    if template_id is not None:
        query = query.join(Workflow, Workflow.olt_id == Olt.id).where(Workflow.template_id == template_id)
    names = {row.id: row.name for row in db.session.execute(query)}
    known = {olt: _nodes(found) for olt, found in masters.load(db.session(), now, names).items() if olt in names}
    shares = {olt: feasibility.busy_share(known.get(olt, []), now) for olt in names}
    doubtful = [olt for olt, nodes in known.items() if _is_doubtful(nodes, shares[olt])]
    unsure = set(doubtful)
    looked_at = set(sorted(doubtful, key=lambda olt: -shares[olt])[:detailed])
    fits = {olt: feasibility.assess(known[olt], now) for olt in looked_at}
    found = [
        OltFit(olt, name, fits.get(olt) or _by_share(shares[olt]), olt in looked_at or olt not in unsure)
        for olt, name in names.items()
    ]
    return sorted(found, key=lambda one: (one.fit.keeps, -one.fit.share, one.name.lower()))


def listed(now: datetime, template_id: int | None = None) -> list[OltFit]:
    """`of_olts` for a page: made anew once a minute, and when anybody has changed something. One SQL statement else."""
    return remembered(("capacity", template_id), now, lambda: of_olts(now, template_id), changes)


def _is_doubtful(nodes: list[PlanNode], share: float) -> bool:
    return feasibility.verdict(share) is not Verdict.FITS or feasibility.may_lose(nodes)


def _by_share(share: float) -> Feasibility:
    return Feasibility(share, feasibility.verdict(share), (), (), (), None)
