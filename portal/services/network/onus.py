"""Verbs on ONUs. What is known of them comes from the OLT; a person can only have one forgotten."""

from datetime import datetime

from portal.domain import serials
from portal.domain.messages import N_
from portal.domain.statuses import Presence
from portal.extensions import transaction
from portal.services import audit
from portal.services.errors import NotFound
from portal.tables import Onu


def forget(onu_id: int, actor: str, now: datetime) -> int:
    """Delete an ONU that is gone with all that was read of it; returns the id of its OLT. NotFound: it is not gone.

    Should the OLT list it again it is a new one.
    """
    with transaction() as session:
        onu = session.get(Onu, onu_id, with_for_update={"of": Onu})
        if onu is None:
            raise NotFound(N_("the ONU does not exist any more"))
        if onu.presence is not Presence.DISABLED:
            raise NotFound(N_("the ONU is listed by its OLT: only one that is gone can be forgotten"))
        name = serials.printed(onu.serial) if onu.serial else onu.index_key or ""
        changes = {"olt": onu.olt.name, "description": onu.description, "gone_since": onu.presence_since.isoformat()}
        subject = audit.Subject("onu", name, onu_id)
        audit.record(session, actor=actor, action="onu.forget", subject=subject, changes=changes, now=now)
        session.delete(onu)
        return onu.olt_id
