"""The phase advice: reckoned for all OLTs by a job, and applied by a person: many clocks are moved at once."""

from collections.abc import Collection
from datetime import datetime

from flask import current_app
from sqlalchemy import delete, select

from portal import masters
from portal.domain import phases
from portal.domain.messages import N_
from portal.extensions import db, transaction
from portal.masters import Master
from portal.services import audit
from portal.services.audit import Subject
from portal.services.dispatch import clock
from portal.services.errors import Conflict
from portal.tables import Olt, PhaseAdvice


def reckon(now: datetime) -> int:
    """Reckon the advice for all OLTs and keep it; returns how many clocks it would move.

    Nothing is locked meanwhile. Where clocks go on from the end of a run there is none.
    """
    if current_app.config["NEXTCHECK_MODE"] == "from_end":
        return 0
    known = masters.load(db.session(), now)
    nodes = masters.phased(known)
    pool = phases.levels(nodes, {})
    advice = phases.advise_within(nodes, pool)
    first = _first(known, advice)
    db.session.rollback()
    with transaction() as session:
        session.execute(delete(PhaseAdvice))
        kept = phases.advice_to_json(advice)
        session.add(PhaseAdvice(id=1, reckoned_at=now, advice=kept, pool=pool, first=first))
    return len(advice.shifts)


def _first(known: dict[int, list[Master]], advice: phases.Advice) -> list[int]:
    """Ids of the first nodes to be moved, by name of their OLT. One SQL statement."""
    found: list[int] = []
    names = {row.id: row.name.lower() for row in db.session.execute(select(Olt.id, Olt.name))}
    for olt in sorted(known, key=lambda olt: (names.get(olt, ""), olt)):
        found += [one.node.node_id for one in known[olt] if one.node.node_id in advice.shifts]
        if len(found) >= phases.SHOWN:
            break
    return found[: phases.SHOWN]


def apply(actor: str, now: datetime, olt_ids: Collection[int] | None = None, name: str = "") -> int:
    """Move the clocks of these OLTs (None: of all) as the advice of this moment says; returns how many were moved.

    `name`: of what it was asked for, for the audit log. Conflict where clocks go on from the end of a run: they have
    no phase then. A clock that a tick has moved meanwhile keeps the advised phase. Plans follow within seconds: the
    coordinator plans anew whatever was wound, and it alone does, so that an hour has one plan. What was reckoned
    before is of other clocks, and is forgotten.
    """
    if current_app.config["NEXTCHECK_MODE"] == "from_end":
        raise Conflict(N_("clocks that go on from the end of a run cannot be spread"))
    db.session.rollback()
    known = masters.load(db.session(), now)
    advice = phases.advise(masters.phased(known, olt_ids), olt_ids)
    db.session.rollback()
    if not advice.helps:
        return 0
    with transaction() as session:
        moved = clock.shift(session, advice.shifts, now)
        changes = {
            "moved": len(moved), "meeting_seconds": [advice.before.meeting_seconds, advice.after.meeting_seconds],
            "peak": [advice.before.peak, advice.after.peak],
            "seconds": {str(node): moved[node] for node in sorted(moved)},
        }  # fmt: skip
        session.execute(delete(PhaseAdvice))
        subject = Subject("phases", name)
        audit.record(session, actor=actor, action="phases.apply", subject=subject, changes=changes, now=now)
    return len(moved)
