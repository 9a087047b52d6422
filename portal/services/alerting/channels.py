"""Verbs on channels. An address goes in, never out; audit rows show only that it changed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from portal import notify
from portal.domain import channel_fields
from portal.domain.fields import read_all
from portal.domain.messages import N_, Message
from portal.domain.statuses import NotificationStatus
from portal.extensions import transaction
from portal.services import audit
from portal.services.errors import Invalid, NotFound
from portal.services.uniqueness import unique_or_invalid
from portal.tables import Channel, Notification

NAME_TAKEN = N_("another channel has this name")
_UNIQUE = dict.fromkeys(("uq_channels_name", "channels.name"), ("name", NAME_TAKEN))
COLUMNS = tuple(name for name in channel_fields.CHANNEL_FIELDS if name != "target")
SWITCHED_OFF = N_("The channel was disabled before it could be sent")


def save(fields: Mapping[str, Any], actor: str, now: datetime, channel_id: int | None = None) -> int:
    """Create, or change the one named by id; returns its id. On a change an empty address means "as it was"."""
    with unique_or_invalid(_UNIQUE), transaction() as session:
        row = existing(session, channel_id) if channel_id is not None else None
        read, errors = read_all(channel_fields.CHANNEL_FIELDS, fields)
        target = read.pop("target", None)
        values = {**channel_fields.CHANNEL_DEFAULTS, **_stored(row), **read}
        found = {**channel_fields.check_channel(values), **_check_target(row, target), **errors}
        errors = found or _taken(session, values["name"], channel_id)
        if errors:
            raise Invalid(errors)
        return _write(session, row, values, target, actor, now).id


def delete(channel_id: int, actor: str, now: datetime) -> None:
    """Delete a channel with all that waits for it and all that went through it."""
    with transaction() as session:
        row = session.scalar(select(Channel).where(Channel.id == channel_id).with_for_update())
        row = row or existing(session, channel_id)
        audit.record(session, actor=actor, action="channel.delete", subject=row, changes=None, now=now)
        session.delete(row)


def existing(session: Session, channel_id: int) -> Channel:
    """The channel, or NotFound."""
    row = session.get(Channel, channel_id)
    if row is None:
        raise NotFound(N_("the channel does not exist any more"))
    return row


def by_name(session: Session, name: str) -> Channel:
    """The channel of that name, or NotFound."""
    row = session.scalar(select(Channel).where(Channel.name == name.strip()))
    if row is None:
        raise NotFound(N_("there is no channel of this name"))
    return row


def _stored(row: Channel | None) -> dict[str, Any]:
    return {name: getattr(row, name) for name in COLUMNS} if row else {}


def _check_target(row: Channel | None, target: str | None) -> dict[str, Message]:
    if target is None:
        return {} if row else {"target": N_("is missing")}
    try:
        notify.look(target)
    except notify.BadAddress as bad:
        return {"target": bad.message}
    return {}


def _taken(session: Session, name: str, own_id: int | None) -> dict[str, Message]:
    other = session.scalar(select(Channel.id).where(Channel.name == name))
    return {"name": NAME_TAKEN} if other not in (None, own_id) else {}


def _write(
    session: Session, row: Channel | None, values: Mapping[str, Any], target: str | None, actor: str, now: datetime
) -> Channel:
    """Insert or change in the caller's transaction, with the audit row."""
    changes = audit.masked(audit.difference(_stored(row), values))
    action = "channel.update" if row else "channel.create"
    row = row or Channel()
    for name in COLUMNS:
        setattr(row, name, values[name])
    if target is not None:
        changes |= {"target": [audit.MASK if row.sealed_target else None, audit.MASK]} | _point(row, target)
    if changes:
        session.add(row)
        session.flush()
        audit.record(session, actor=actor, action=action, subject=row, changes=changes, now=now)
    if "enabled" in changes:
        _give_up(session, row.id, now)
    return row


def _point(row: Channel, target: str) -> dict[str, list[str]]:
    """Another address: what the old one did wrong is forgotten. Returns what of it may be shown."""
    shown, before = notify.look(target), (row.kind, row.host)
    row.target, row.kind, row.host = target, shown.kind, shown.host[:255]
    row.failures, row.retry_at, row.last_error, row.last_answer = 0, None, "", ""
    after = (row.kind, row.host)
    return {} if before == after else {"address": [_address(*before), _address(*after)]}


def _address(kind: str | None, host: str | None) -> str:
    return f"{kind}://{host or '…'}" if kind else ""


def _give_up(session: Session, channel_id: int, now: datetime) -> None:
    """It was switched off, or on again: what waited before would come as a surprise.

    On again, too: what was on its way when it was switched off, or raised at that moment, may wait since.
    """
    vanished = (Notification.status == NotificationStatus.SENDING) & (Notification.deadline <= now)
    session.execute(
        update(Notification)
        .where(Notification.channel_id == channel_id, vanished | (Notification.status == NotificationStatus.PENDING))
        .values(status=NotificationStatus.GIVEN_UP, deadline=None, error=str(SWITCHED_OFF), answer="")
    )
