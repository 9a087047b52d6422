"""Reads what the page of one ONU shows around its readings: the port it hangs on, its events, its next reading."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import aliased

from portal.domain import serials
from portal.domain.statuses import NodeKind
from portal.extensions import db
from portal.queries import onus
from portal.queries.freshness import online
from portal.tables import Olt, Onu, OnuEvent, Workflow, WorkflowNode, WorkflowTemplate

MOST_SHOWN = 256  # of a PON port: XGS-PON's largest split


@dataclass(frozen=True)
class Neighbour:
    """One ONU of a port. `online` None = its state is not known; `weak` = less light than pages call good."""

    id: int
    number: int | None
    serial: str  # as printed on the label, or ""
    description: str
    online: bool | None
    weak: bool

    @property
    def look(self) -> str:
        """dark, unread, weak or lit."""
        if self.online is None:
            return "unread"
        return "dark" if not self.online else "weak" if self.weak else "lit"


@dataclass(frozen=True)
class Port:
    """The ONUs of one PON port in their order, `own` among them; the counts leave that one out."""

    own: int
    rows: tuple[Neighbour, ...]

    def _others(self) -> Iterable[Neighbour]:
        return (row for row in self.rows if row.id != self.own)

    @property
    def total(self) -> int:
        """Neighbours."""
        return sum(1 for _ in self._others())

    @property
    def online(self) -> int | None:
        """Neighbours that are lit; None where of none it is known."""
        states = [row.online for row in self._others() if row.online is not None]
        return sum(states) if states else None

    @property
    def dark(self) -> int:
        """Neighbours that are known to be offline: one whose state nobody read says nothing of the fibre."""
        return sum(row.online is False for row in self._others())

    @property
    def outage(self) -> bool:
        """True when the port looks cut rather than one customer's line: a quarter of 4 or more are dark."""
        return self.total >= 4 and self.dark * 4 >= self.total


def port(onu: Onu) -> Port | None:
    """The PON port of an ONU with all that is on it; None when its place is unknown or it is alone. One statement."""
    if onu.slot is None or onu.port is None:
        return None
    columns = (Onu.id, Onu.onu_number, Onu.serial, Onu.description, online, func.coalesce(onus.weak, False))
    query = onus.with_rx(select(*columns).select_from(Onu).join(Olt, Olt.id == Onu.olt_id))
    query = query.where(Onu.olt_id == onu.olt_id, Onu.slot == onu.slot, Onu.port == onu.port)
    query = query.where(or_(onus.present, Onu.id == onu.id))
    if onu.frame is not None:
        query = query.where(Onu.frame == onu.frame)
    query = query.order_by(func.coalesce(Onu.onu_number, -1), Onu.id).limit(MOST_SHOWN)
    rows = tuple(
        Neighbour(id_, number, serials.printed(serial) if serial else "", description, lit, bool(weak))
        for id_, number, serial, description, lit, weak in db.session.execute(query)
    )
    return Port(onu.id, rows) if len(rows) > 1 else None


def events(onu_id: int, limit: int = 40) -> list[OnuEvent]:
    """What happened to one ONU, newest first."""
    query = select(OnuEvent).where(OnuEvent.onu_id == onu_id)
    return list(db.session.scalars(query.order_by(OnuEvent.happened_at.desc(), OnuEvent.id.desc()).limit(limit)))


def next_read(olt_id: int) -> datetime | None:
    """When a master runs next that reads of ONUs, itself or in its chain; None: nothing is planned. One statement.

    A table of ports alone says nothing of an ONU. What the OLT's state makes of it: queries.olts.expected.
    """
    chained = aliased(WorkflowNode)
    of_onus = WorkflowNode.kind != NodeKind.TABLE
    in_chain = select(chained.id).where(chained.master_id == WorkflowNode.id, chained.enabled.is_(True))
    query = (
        select(func.min(WorkflowNode.next_run_at))
        .join(Workflow, Workflow.id == WorkflowNode.workflow_id)
        .outerjoin(WorkflowTemplate, WorkflowTemplate.id == Workflow.template_id)
        .where(
            Workflow.olt_id == olt_id, Workflow.enabled.is_(True), WorkflowNode.enabled.is_(True),
            WorkflowNode.master_id.is_(None),
            or_(WorkflowNode.template_node_id.is_(None), WorkflowTemplate.enabled.is_(True)),
            or_(of_onus, in_chain.where(chained.kind != NodeKind.TABLE).exists()),
        )
    )  # fmt: skip
    return db.session.scalar(query)
