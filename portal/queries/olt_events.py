"""What happened to an OLT: states, pauses, lost pollers, changes of its settings by people. Reads only."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from portal.domain.statuses import EventType
from portal.extensions import db
from portal.queries.decision_log import message_of
from portal.tables import AuditLog, CoordinatorLog

SHOWN = 12
LOOKED_BACK = timedelta(days=14)
# What concerns the OLT itself; skipped slots and judged quotas have pages of their own.
DECIDED = (
    EventType.OLT_STATE_CHANGED, EventType.OLT_RESTARTED, EventType.OTHER_DEVICE, EventType.WORKER_LOST,
    EventType.POISONED, EventType.SUSPECT_TABLE,
    EventType.EXECUTION_ABORTED, EventType.INTERVAL_OVERRIDDEN, EventType.TASK_ADDED, EventType.TASK_REMOVED,
    EventType.TASK_INTERVAL_CHANGED, EventType.SYSTEM,
)  # fmt: skip
DONE = (
    "olt.create",
    "olt.update",
    "olt.accept_device",
    "olt.enable",
    "olt.disable",
    "olt.delete",
    "olt.restore",
    "olt.break",
)


@dataclass(frozen=True)
class OltEvent:
    """One thing that happened. `event` of the machine's log, or `action` of a person's (`actor`), with its changes."""

    at: datetime
    message: str
    level: str = "INFO"
    event: EventType | None = None
    reason: Any = None
    action: str = ""
    actor: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    execution_id: int | None = None


def of(olt_id: int, now: datetime, limit: int = SHOWN) -> list[OltEvent]:
    """The newest first, of the last days. Two SQL statements, each over one OLT's part of an index."""
    found = [*_decided(olt_id, now, limit), *_done(olt_id, now, limit)]
    return sorted(found, key=lambda one: one.at, reverse=True)[:limit]


def _decided(olt_id: int, now: datetime, limit: int) -> list[OltEvent]:
    columns = (
        CoordinatorLog.timestamp, CoordinatorLog.message, CoordinatorLog.level, CoordinatorLog.event_type,
        CoordinatorLog.reason, CoordinatorLog.details, CoordinatorLog.execution_id,
    )  # fmt: skip
    query = (
        select(*columns)
        .where(
            CoordinatorLog.olt_id == olt_id, CoordinatorLog.timestamp > now - LOOKED_BACK,
            # in a form for which the index of types is not taken: it would be read for all OLTs
            func.coalesce(CoordinatorLog.event_type, "").in_([one.value for one in DECIDED]),
        )
        .order_by(CoordinatorLog.timestamp.desc())
        .limit(limit)
    )  # fmt: skip
    return [
        OltEvent(
            at,
            message_of(message, details or {}),
            level,
            event,
            reason,
            details=details or {},
            execution_id=execution_id,
        )  # fmt: skip
        for at, message, level, event, reason, details, execution_id in db.session.execute(query)
    ]


def _done(olt_id: int, now: datetime, limit: int) -> list[OltEvent]:
    query = (
        select(AuditLog.happened_at, AuditLog.action, AuditLog.actor, AuditLog.changes)
        .where(AuditLog.subject_type == "olt", AuditLog.subject_id == olt_id, AuditLog.action.in_(DONE),
               AuditLog.happened_at > now - LOOKED_BACK)
        .order_by(AuditLog.id.desc())
        .limit(limit)
    )  # fmt: skip
    return [
        OltEvent(at, "", action=action, actor=actor, details=changes or {})
        for at, action, actor, changes in db.session.execute(query)
    ]
