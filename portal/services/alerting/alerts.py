"""Raising an alert: one row of the outbox for each channel that wants it, in the caller's transaction; its words."""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from flask import current_app
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal import translating
from portal.domain import alerting
from portal.domain.messages import N_, Message, packed, unpacked
from portal.domain.statuses import AlertKind, NotificationStatus, Severity
from portal.models.alert import SUBJECT_LENGTH
from portal.tables import Channel, Notification

PRODUCT = "Facho Deluxe"
SEVERITIES = {
    Severity.LOW: N_("low severity"),
    Severity.MEDIUM: N_("medium severity"),
    Severity.HIGH: N_("high severity"),
    Severity.CRITICAL: N_("critical severity"),
}

Listener = tuple[int, list[str], Severity]


def raise_alert(
    session: Session, kind: AlertKind, subject: str, body: str, now: datetime, *,
    severity: Severity, olt_id: int | None = None, violation_id: int | None = None,
    listening: Sequence[Listener] | None = None,
) -> int:  # fmt: skip
    """Put an alert into the outbox of each enabled channel that wants this kind and severity; returns of how many.

    In the caller's transaction: it leaves if that is committed, and only then. Pass Messages (`N_`) as they are: they
    are said in ALERT_LANGUAGE when they leave, and in the reader's language on the page. Adds one statement that reads,
    none where `listening` (of the same transaction) is given.
    """
    found = listeners(session) if listening is None else listening
    ids = [channel_id for channel_id, kinds, least in found if alerting.wants(kinds, least, kind, severity)]
    for channel_id in ids:
        session.add(row(channel_id, kind, subject, body, now, severity, olt_id=olt_id, violation_id=violation_id))
    return len(ids)


def listeners(session: Session) -> list[Listener]:
    """The enabled channels: id, kinds, least severity. Held, so that none is deleted before a row that points at it."""
    chosen = select(Channel.id, Channel.alert_kinds, Channel.min_severity).where(Channel.enabled.is_(True))
    with session.no_autoflush:
        rows = session.execute(chosen.order_by(Channel.id).with_for_update(read=True, key_share=True))
        return [(ident, kinds, least) for ident, kinds, least in rows]


def row(
    channel_id: int, kind: AlertKind, subject: str, body: str, now: datetime, severity: Severity, **more: object
) -> Notification:
    """An alert that waits for one channel."""
    return Notification(
        channel_id=channel_id, alert_kind=kind, severity=severity,
        subject=alerting.cut(_clean(subject), SUBJECT_LENGTH), body=alerting.cut(_clean(body), alerting.LONGEST_BODY),
        messages={"subject": packed(subject), "body": packed(body)},
        created_at=now, queued_at=now, status=NotificationStatus.PENDING, **more,
    )  # fmt: skip


def _clean(text: str) -> str:
    """What both databases store: names may come from a device."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def lines(*messages: str) -> Message:
    """Several messages below each other as one, each still to be said in another language. At least one."""
    first, *others = messages
    return Message("%(first)s\n%(rest)s", first=first, rest=lines(*others)) if others else Message("%(one)s", one=first)


def say(text: str) -> str:
    """`text` in the language of alerts (setting ALERT_LANGUAGE), where it is a Message."""
    config = current_app.config
    language = config["ALERT_LANGUAGE"]
    known = current_app.extensions.setdefault("facho-alert-languages", {})
    if language not in known:
        known[language] = translating.read([config["BABEL_TRANSLATION_DIRECTORIES"]], language)
    return translating.say(known[language], text)


def subject_of(notification: Notification) -> str:
    """Its subject: a Message where it was raised as one."""
    return unpacked(notification.messages.get("subject"), notification.subject)


def body_of(notification: Notification) -> str:
    """Its text: a Message where it was raised as one."""
    return unpacked(notification.messages.get("body"), notification.body)


def compose(rows: Sequence[Notification], zone: ZoneInfo) -> tuple[str, str]:
    """Title and text of the one message in which these alerts leave, in the order given; at least one."""
    if len(rows) == 1:
        return f"{PRODUCT}: {say(subject_of(rows[0]))}", alerting.cut(_told(rows[0], zone), alerting.LONGEST_BODY)
    worst = say(SEVERITIES[rows[0].severity])
    title = say(N_("%(count)d alerts, the worst: %(severity)s", count=len(rows), severity=worst))
    told: list[str] = []
    for one in rows[: alerting.LISTED]:
        item = f"{say(subject_of(one))} ({say(SEVERITIES[one.severity])})\n{_told(one, zone)}"
        if told and len("\n\n".join([*told, item])) > alerting.LONGEST_BODY:
            break
        told.append(alerting.cut(item, alerting.LONGEST_BODY))
    if len(told) < len(rows):
        told.append(say(N_("And %(count)d more: see the page of alerts.", count=len(rows) - len(told))))
    return f"{PRODUCT}: {title}", "\n\n".join(told)


def _told(one: Notification, zone: ZoneInfo) -> str:
    """Its text, and when it was raised: it may arrive much later."""
    moment = f"{one.created_at.astimezone(zone):%Y-%m-%d %H:%M:%S}"
    text = say(body_of(one)).replace("\x00", "")
    return f"{text}\n{moment}" if text else moment
