"""A violation that somebody has seen: who, when, and what they said to it."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain import fields
from portal.domain.fields import FieldError
from portal.domain.messages import N_
from portal.extensions import transaction
from portal.services import audit
from portal.services.audit import Subject
from portal.services.errors import Conflict, Invalid, NotFound
from portal.tables import Olt, QuotaViolation

NOTE_LENGTH = 500


def acknowledge(violation_id: int, note: str, actor: str, now: datetime) -> None:
    """`actor` has seen it; a note may be empty. Conflict: somebody did so before, and their note stays."""
    try:
        text = fields.one_line(NOTE_LENGTH)(" ".join(note.split()))
    except FieldError as error:
        raise Invalid({"note": error.args[0]}) from None
    with transaction() as session:
        row = _locked(session, violation_id)
        if row.acknowledged_at is not None:
            raise Conflict(N_("%(name)s has acknowledged it already", name=row.acknowledged_by))
        row.acknowledged_at, row.acknowledged_by, row.note = now, actor[:80], text
        _record(session, row, "violation.acknowledge", {"note": text}, actor, now)


def reopen(violation_id: int, actor: str, now: datetime) -> None:
    """It is open again, and its note is gone; the audit keeps it. Doing it twice changes nothing."""
    with transaction() as session:
        row = _locked(session, violation_id)
        if row.acknowledged_at is None:
            return
        before = {"acknowledged_by": row.acknowledged_by, "note": row.note}
        row.acknowledged_at, row.acknowledged_by, row.note = None, "", ""
        _record(session, row, "violation.reopen", before, actor, now)


def _locked(session: Session, violation_id: int) -> QuotaViolation:
    row = session.scalar(select(QuotaViolation).where(QuotaViolation.id == violation_id).with_for_update())
    if row is None:
        raise NotFound(N_("there is no violation %(id)d: it was old and cleaned up", id=violation_id))
    return row


def _record(
    session: Session, row: QuotaViolation, action: str, changes: dict[str, str], actor: str, now: datetime
) -> None:
    olt = session.scalar(select(Olt.name).where(Olt.id == row.olt_id))
    name = f"{olt} {row.task_type} {row.period_start:%Y-%m-%dT%H:%MZ}"
    audit.record(session, actor=actor, action=action, subject=Subject("violation", name, row.id), changes=changes,
                 now=now)  # fmt: skip
