"""The phase advice before it is applied: what would move, by how much, and what it would be good for. Reads only.

For all OLTs together it takes seconds to reckon: a job does it (services.coordinating.phases.reckon), and this reads
what it found. For some of them it is reckoned here, within the pool as the job saw it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from flask import current_app
from sqlalchemy import select

from portal import masters
from portal.domain import phases
from portal.domain.phases import Advice
from portal.extensions import db
from portal.masters import Master
from portal.tables import Olt, PhaseAdvice, Workflow, WorkflowNode


@dataclass(frozen=True)
class Move:
    """One clock that would be moved forward by `seconds`: its next run as it is and as it would be."""

    olt_id: int
    olt_name: str
    key: str
    node_name: str
    before: datetime
    seconds: int

    @property
    def after(self) -> datetime:
        """Its next run once it is moved."""
        return self.before + timedelta(seconds=self.seconds)


@dataclass(frozen=True)
class Preview:
    """The advice, the first of its moves by OLT, and when it was reckoned."""

    advice: Advice
    moves: tuple[Move, ...]
    reckoned_at: datetime


def preview(now: datetime, olt_ids: Collection[int] | None = None) -> Preview | None:
    """For these OLTs (None: all); None where clocks go on from the end of a run: they have no phase."""
    stored = db.session.scalar(select(PhaseAdvice)) if _on_grid() else None
    if stored is None:
        return fresh(now, olt_ids)
    if olt_ids is None:
        advice = phases.advice_from_json(stored.advice)
        return Preview(advice, _stored_moves(advice, stored.first), stored.reckoned_at)
    known = masters.load(db.session(), now, olt_ids)
    advice = phases.advise_within(masters.phased(known), stored.pool)
    return Preview(advice, tuple(moves(known, advice)[: phases.SHOWN]), now)


def _on_grid() -> bool:
    return bool(current_app.config["NEXTCHECK_MODE"] != "from_end")


def fresh(now: datetime, olt_ids: Collection[int] | None = None) -> Preview | None:
    """The same from all clocks as they are at this moment."""
    if not _on_grid():
        return None
    known = masters.load(db.session(), now)
    advice = phases.advise(masters.phased(known, olt_ids), olt_ids)
    return Preview(advice, tuple(moves(known, advice)[: phases.SHOWN]), now)


def moves(known: dict[int, list[Master]], advice: Advice) -> list[Move]:
    """What the advice would do to these masters, by name of the OLT. One SQL statement."""
    moving = [olt for olt, found in known.items() if any(one.node.node_id in advice.shifts for one in found)]
    query = select(Olt.id, Olt.name).where(Olt.id.in_(moving))
    return [
        Move(row.id, row.name, one.node.key, one.node.name, one.node.next_run_at, advice.shifts[one.node.node_id])
        for row in sorted(db.session.execute(query), key=lambda row: row.name.lower())
        for one in known[row.id]
        if one.node.node_id in advice.shifts and one.node.next_run_at is not None
    ]


def _stored_moves(advice: Advice, first: list[int]) -> tuple[Move, ...]:
    """The first moves, with the clocks as they are now: a tick moves them by whole intervals. One SQL statement."""
    query = (
        select(WorkflowNode.id, Olt.id, Olt.name, WorkflowNode.key, WorkflowNode.name, WorkflowNode.next_run_at)
        .join(Workflow, Workflow.id == WorkflowNode.workflow_id)
        .join(Olt, Olt.id == Workflow.olt_id)
        .where(WorkflowNode.id.in_(first), WorkflowNode.next_run_at.is_not(None))
    )
    found = {row[0]: row for row in db.session.execute(query)}
    return tuple(
        Move(olt_id, olt, key, name, before, advice.shifts[node_id])
        for node_id, olt_id, olt, key, name, before in (found[ident] for ident in first if ident in found)
    )
