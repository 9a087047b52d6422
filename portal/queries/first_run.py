"""How far a new portal has come: from the first credential to the first ONU that is live. Reads only."""

from dataclasses import dataclass

from sqlalchemy import exists, func, select

from portal.extensions import db
from portal.models.account import FIRST_RUN_DISMISSED
from portal.tables import Credential, Olt, Onu, Probe, ProbeStatus, Setting, WorkflowNode


@dataclass(frozen=True)
class FirstRun:
    """What has been done. `olt_id`: the first OLT in service, where the next steps are taken; None = there is none."""

    dismissed: bool
    credential: bool
    tested: bool
    planned: bool
    ran: bool
    live: bool
    olt_id: int | None

    @property
    def over(self) -> bool:
        """True when nobody needs the list any more."""
        return self.dismissed or self.live


def read() -> FirstRun:
    """One SQL statement; none of its parts reads more than a small table or up to the first row that fits."""
    planned, ran = exists().where(WorkflowNode.id > 0), exists().where(WorkflowNode.last_success_at.is_not(None))
    first_olt = select(func.min(Olt.id)).where(Olt.deleted_at.is_(None)).scalar_subquery()
    query = select(
        exists().where(Setting.key == FIRST_RUN_DISMISSED),
        exists().where(Credential.id > 0),
        exists().where(Probe.status == ProbeStatus.SUCCESS),
        planned,
        ran,
        exists().where(Onu.online.is_(True)),
        first_olt,
    )
    dismissed, credential, tested, has_nodes, has_run, live, olt_id = db.session.execute(query).one()
    return FirstRun(dismissed, credential, tested or has_run, has_nodes, has_run, live, olt_id)
