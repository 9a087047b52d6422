"""The phase advice before it is applied: what would move, by how much, and what it would be good for. Reads only."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from flask import current_app
from sqlalchemy import select

from portal import masters
from portal.domain import phases
from portal.domain.phases import Advice
from portal.extensions import db
from portal.models import Olt


@dataclass(frozen=True)
class Move:
    """One clock that would be moved forward by `seconds`: its next run as it is and as it would be."""

    olt_id: int
    olt_name: str
    key: str
    before: datetime
    seconds: int

    @property
    def after(self) -> datetime:
        """Its next run once it is moved."""
        return self.before + timedelta(seconds=self.seconds)


@dataclass(frozen=True)
class Preview:
    """The advice, and the first of its moves by OLT."""

    advice: Advice
    moves: tuple[Move, ...]


SHOWN = 200


def preview(now: datetime, olt_ids: Collection[int] | None = None) -> Preview | None:
    """For these OLTs (None: all); None where clocks go on from the end of a run: they have no phase."""
    if current_app.config["NEXTCHECK_MODE"] == "from_end":
        return None
    known = masters.load(db.session(), now)
    advice = phases.advise(masters.phased(known, olt_ids), olt_ids)
    moving = [olt for olt, found in known.items() if any(one.node.node_id in advice.shifts for one in found)]
    query = select(Olt.id, Olt.name).where(Olt.id.in_(moving))
    moves = [
        Move(row.id, row.name, one.node.key, one.node.next_run_at, advice.shifts[one.node.node_id])
        for row in sorted(db.session.execute(query), key=lambda row: row.name.lower())
        for one in known[row.id]
        if one.node.node_id in advice.shifts and one.node.next_run_at is not None
    ]
    return Preview(advice, tuple(moves[:SHOWN]))
