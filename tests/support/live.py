"""A running stack seen by a test: OLTs to poll, slots that are due, and what became of them."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select, update

from portal.domain.statuses import ExecutionStatus
from portal.extensions import db
from portal.models import Credential, Execution, Onu, WorkflowNode
from portal.services import catalogue, credentials, olts, workflows
from tests.support.stack import Stack

ACTOR = "rosa"


@dataclass
class Live:
    """Helpers around a Stack. Needs the app context that the fixture pushes."""

    stack: Stack
    now: datetime

    def olt(self, name: str, port: int, brand: str = "huawei", community: str = "public", **fields: object) -> int:
        """An OLT on loopback with the shipped catalogue; its id."""
        if db.session.query(Credential.id).first() is None:
            catalogue.sync(catalogue.load_shipped(), self.now)
        known = db.session.query(Credential.id).filter_by(name=community).first()
        if known is None:
            credentials.save({"name": community, "version": "2c", "community": community}, ACTOR, self.now)
        given = {"name": name, "address": "127.0.0.1", "port": port, "brand": brand, "credential": community}
        return olts.create(given | fields, ACTOR, self.now)

    def node(self, olt_id: int, key: str, oid: str, kind: str = "get", **fields: object) -> int:
        """A node of its workflow; a master every minute unless it has a master_id."""
        clock = {} if "master_id" in fields else {"interval": "60s", "override_reason": "test"}
        return workflows.add_node(olt_id, {"key": key, "kind": kind, "oid": oid} | clock | fields, ACTOR, self.now)

    def due_now(self) -> None:
        """Every master's slot comes at once."""
        moment = self.now.replace(microsecond=0) - timedelta(seconds=1)
        db.session.execute(update(WorkflowNode).where(WorkflowNode.master_id.is_(None)).values(next_run_at=moment))
        db.session.commit()

    def executions(self, olt_id: int | None = None) -> list[Execution]:
        """As they are now, oldest first."""
        db.session.rollback()
        db.session.expire_all()
        query = select(Execution).order_by(Execution.id)
        return list(db.session.scalars(query.where(Execution.olt_id == olt_id) if olt_id else query))

    def onus(self, olt_id: int) -> list[Onu]:
        """ONUs of an OLT by index."""
        db.session.rollback()
        return list(db.session.scalars(select(Onu).where(Onu.olt_id == olt_id).order_by(Onu.id)))

    def wait_for(self, status: ExecutionStatus, olt_id: int | None = None, count: int = 1, timeout: float = 60) -> None:
        """Until so many executions have that status."""

        def there() -> bool:
            return sum(e.status is status for e in self.executions(olt_id)) >= count

        self.stack.wait_until(there, f"{count} executions {status}", timeout)
