"""Reads trials for pages."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select

from portal.extensions import db
from portal.tables import Olt, Trial, TrialStatus

STALLED_AFTER = timedelta(seconds=60)  # without a worker
LOST_AFTER = timedelta(seconds=180)  # longer than the job may take


@dataclass(frozen=True)
class TrialView:
    """A trial as the page shows it."""

    trial: Trial
    olt_name: str

    @property
    def finished(self) -> bool:
        """True when there is an answer, good or bad."""
        return self.trial.status in (TrialStatus.SUCCESS, TrialStatus.FAILED)

    def stalled(self, now: datetime) -> bool:
        """True when nobody takes it (no worker of the queue of tests runs), or when its worker died with it."""
        waited = now - self.trial.created_at
        limit = STALLED_AFTER if self.trial.status is TrialStatus.PENDING else LOST_AFTER
        return not self.finished and waited > limit


def get(trial_id: int) -> TrialView | None:
    """The trial, or None when it is gone or its OLT was deleted. One SQL statement."""
    query = select(Trial, Olt.name).join(Olt, Trial.olt_id == Olt.id)
    row = db.session.execute(query.where(Trial.id == trial_id, Olt.deleted_at.is_(None))).first()
    return TrialView(row[0], row[1]) if row else None
