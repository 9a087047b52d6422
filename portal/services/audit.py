"""The audit log: one row for each write by a person, a token or a command, in the transaction of that write."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from flask import has_request_context, request
from sqlalchemy.orm import Session

from portal.tables import AuditLog

log = logging.getLogger(__name__)

MASK = "***"
_TYPES = {"WorkflowNode": "node", "TemplateNode": "node", "WorkflowTemplate": "template"}
_SECRET_WORDS = ("password", "community", "secret", "token", "target", "digest")


@dataclass(frozen=True)
class Subject:
    """What an audit row is about when that is no row of a table."""

    type: str
    name: str
    id: int | None = None


def record(
    session: Session, *, actor: str, action: str, subject: object, changes: Mapping[str, Any] | None, now: datetime
) -> None:
    """Add the audit row of one write. `subject` is a flushed model or a Subject; secrets in `changes` are masked."""
    kind, ident, name = _identify(subject)
    session.add(
        AuditLog(
            happened_at=now,
            actor=actor[:80],
            address=(request.remote_addr or "")[:64] if has_request_context() else "",
            action=action[:60],
            subject_type=kind[:40],
            subject_id=ident,
            subject_name=name[:120],
            changes=masked(changes or {}),
        )
    )
    log.debug("audit action=%s actor=%s subject_type=%s subject_id=%s", action, actor, kind, ident)


def masked(changes: Mapping[str, Any]) -> dict[str, Any]:
    """`changes` as JSON, with the mask in place of whatever is stored under a secret's name."""
    return {name: _hidden(value) if _is_secret(name) else _plain(value) for name, value in changes.items()}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """field → [old, new] of what differs between two sets of columns."""
    return {name: [before.get(name), value] for name, value in after.items() if before.get(name) != value}


def _identify(subject: object) -> tuple[str, int | None, str]:
    table = type(subject).__name__
    kind = subject.type if isinstance(subject, Subject) else _TYPES.get(table, table.lower())
    names = (getattr(subject, attribute, None) for attribute in ("name", "username", "key", "node_name"))
    return kind, getattr(subject, "id", None), next((name for name in names if name), "")


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRET_WORDS)


def _hidden(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_hidden(item) for item in value]
    return MASK if value else value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return masked({str(name): item for name, item in value.items()})
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value.value if isinstance(value, Enum) else value
