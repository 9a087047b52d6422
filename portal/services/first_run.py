"""Puts the list of first steps away, for everybody."""

from datetime import datetime

from portal.extensions import transaction
from portal.models.account import FIRST_RUN_DISMISSED
from portal.services import audit
from portal.tables import Setting


def dismiss(actor: str, now: datetime) -> None:
    """The start page no longer shows the first steps; a second time changes nothing."""
    with transaction() as session:
        if session.get(Setting, FIRST_RUN_DISMISSED) is None:
            session.add(Setting(key=FIRST_RUN_DISMISSED, value=True, updated_at=now))
            subject = audit.Subject("setting", FIRST_RUN_DISMISSED)
            audit.record(session, actor=actor, action="first_run.dismiss", subject=subject, changes=None, now=now)
