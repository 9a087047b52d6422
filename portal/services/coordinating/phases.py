"""Applying the phase advice: the clocks of many masters are moved at once, with one audit row."""

from collections.abc import Collection
from datetime import datetime

from flask import current_app

from portal import masters
from portal.domain import phases
from portal.domain.messages import N_
from portal.extensions import db, transaction
from portal.services import audit
from portal.services.audit import Subject
from portal.services.dispatch import clock
from portal.services.errors import Conflict


def apply(actor: str, now: datetime, olt_ids: Collection[int] | None = None, name: str = "") -> int:
    """Move the clocks of these OLTs (None: of all) as the advice of this moment says; returns how many were moved.

    `name`: of what it was asked for, for the audit log. Conflict where clocks go on from the end of a run: they have
    no phase then. A clock that a tick has moved meanwhile keeps the advised phase. Plans follow within seconds: the
    coordinator plans anew whatever was wound, and it alone does, so that an hour has one plan.
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
        subject = Subject("phases", name)
        audit.record(session, actor=actor, action="phases.apply", subject=subject, changes=changes, now=now)
    return len(moved)
