"""The decision log's one writer: what was skipped, lost, aborted or changed, and why."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from portal.domain.messages import SAID, packed
from portal.domain.statuses import EventType, SkipReason
from portal.tables import CoordinatorLog, Execution

LOG_DAYS = 7  # that decisions are kept


def record(
    session: Session,
    event: EventType,
    message: str,
    now: datetime,
    *,
    olt_id: int | None = None,
    node_id: int | None = None,
    execution_id: int | None = None,
    scheduled_for: datetime | None = None,
    reason: SkipReason | None = None,
    level: str = "INFO",
    details: Mapping[str, Any] | None = None,
) -> None:
    """Add one decision to the caller's transaction. A Message can be read in each language of the portal."""
    said = packed(message)
    session.add(
        CoordinatorLog(
            event_type=event,
            message=str(message),
            timestamp=now,
            olt_id=olt_id,
            node_id=node_id,
            execution_id=execution_id,
            scheduled_for=scheduled_for,
            reason=reason,
            level=level,
            details={**(details or {}), **({SAID: said} if said else {})},
        )  # fmt: skip
    )


def about(
    session: Session, execution: Execution, event: EventType, message: str, now: datetime, *,
    reason: SkipReason | None = None, level: str = "INFO", details: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Add one decision that concerns an execution."""
    record(
        session, event, message, now, olt_id=execution.olt_id, node_id=execution.node_id, execution_id=execution.id,
        scheduled_for=execution.scheduled_for, reason=reason, level=level, details=details,
    )  # fmt: skip
