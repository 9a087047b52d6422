"""Delivering what waits in the outbox: claim, send outside of any transaction, settle.

Two at once never send a row twice. Who dies between sending and settling leaves rows that are sent again: at least
once, not exactly (docs/alerts.md).
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import TypeVar
from uuid import uuid4
from zoneinfo import ZoneInfo

from flask import current_app
from sqlalchemy import ColumnElement, exists, func, or_, select, update
from sqlalchemy.orm import Session

from portal import notify
from portal.domain import alerting
from portal.domain.messages import N_, Message
from portal.domain.statuses import AlertKind, NotificationStatus, Severity
from portal.extensions import KeyringError, db, transaction
from portal.services.alerting import alerts
from portal.tables import Channel, Notification, QuotaViolation

log = logging.getLogger(__name__)

T = TypeVar("T")
Send = Callable[[str, str, str], None]  # address, title, text; raises notify.DeliveryFailed or notify.BadAddress
Clock = Callable[[], datetime]

SENDING = timedelta(minutes=3)  # longer than a whole pass may take (scheduler.periodic)
AT_ONCE = 16  # channels that are sent to at the same time: one that hangs delays no other
LOOKED_AT = 1_000  # alerts of one channel in one message

LOST_KEY = N_("The channel's address is stored, but none of FERNET_KEYS opens it: enter it again, or restore the key")
OUR_FAULT = N_("A fault of this program, not of the receiver")
NOT_KNOWN = N_("Nobody knows whether it was sent: who sent it vanished")


@dataclass(frozen=True)
class Batch:
    """One message on its way. `target` None: the address cannot be decrypted."""

    channel_id: int
    channel: str
    message: str
    target: str | None
    title: str
    body: str


@dataclass(frozen=True)
class Failure:
    """Why a message was not taken: one of our sentences, and what the receiver or the system said."""

    error: Message
    answer: str = ""


@dataclass(frozen=True)
class Delivered:
    """What came of one pass: messages that were taken, and that were not."""

    sent: int = 0
    failed: int = 0


def deliver(now: datetime, send: Send, clock: Clock | None = None) -> Delivered:
    """One pass: whatever may leave now leaves, one message a channel.

    `clock`: what time it is once a receiver has answered (None: `now` and what has passed since). A channel whose rows
    cannot be read or written holds up no other; the first such error is raised at the end.
    """
    clock, errors = clock or _going_on(now), list[Exception]()
    claims = (_guarded(errors, partial(claim, channel_id, now)) for channel_id in _channels_with_work(now))
    batches = [batch for batch in claims if batch is not None]
    sent = 0
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        tries = {pool.submit(attempt, send, batch): batch for batch in batches}
        for done in as_completed(tries):
            sent += bool(_guarded(errors, partial(settle, tries[done], done.result(), clock())))
    if errors:
        raise errors[0]
    return Delivered(sent, len(batches) - sent)


def _going_on(now: datetime) -> Clock:
    began = monotonic()
    return lambda: now + timedelta(seconds=monotonic() - began)


def _guarded(errors: list[Exception], work: Callable[[], T]) -> T | None:
    """What `work` returns; None when it failed, which is kept in `errors`."""
    try:
        return work()
    except Exception as error:
        log.exception("event=alert_pass_failed")
        errors.append(error)
        return None


def zone() -> ZoneInfo:
    """The portal's zone, in which quiet hours are meant."""
    return ZoneInfo(current_app.config["TIMEZONE"])


def _vanished(now: datetime) -> ColumnElement[bool]:
    """Rows whose sender is gone. A deadline further away than any: the clock was set back since."""
    over = or_(Notification.deadline <= now, Notification.deadline > now + SENDING)
    return (Notification.status == NotificationStatus.SENDING) & over


def _channels_with_work(now: datetime) -> list[int]:
    waits = (Notification.status == NotificationStatus.PENDING) | _vanished(now)
    work = exists().where(Notification.channel_id == Channel.id, waits)
    ids = list(db.session.scalars(select(Channel.id).where(Channel.enabled.is_(True), work).order_by(Channel.id)))
    db.session.rollback()
    return ids


def claim(channel_id: int, now: datetime) -> Batch | None:
    """Take what may leave through a channel now. None: nothing may, or another message of it is on its way."""
    with transaction() as session:
        channel = locked(session, channel_id)
        if channel is None or not channel.enabled:
            return None
        _take_back(session, channel_id, now)
        if _on_its_way(session, channel_id):
            return None
        verdict = alerting.decide(rules_of(channel), _waiting(session, channel_id), _sent(session, channel_id, now),
                                  now, zone())  # fmt: skip
        return _taken(session, channel, verdict.send, now) if verdict.send else None


def locked(session: Session, channel_id: int) -> Channel | None:
    """The channel, so that only one at a time decides what leaves through it; new alerts are not held up."""
    query = select(Channel).where(Channel.id == channel_id).with_for_update(key_share=True)
    return session.scalar(query.execution_options(populate_existing=True))


def rules_of(channel: Channel) -> alerting.Rules:
    """What a channel asks for."""
    start, end = channel.quiet_start, channel.quiet_end
    quiet = (start, end) if start is not None and end is not None else None
    return alerting.Rules(quiet, channel.per_hour, channel.retry_at)


def _take_back(session: Session, channel_id: int, now: datetime) -> None:
    """What somebody claimed and never settled waits again; a test, which a person looked at, does not."""
    gone = (Notification.channel_id == channel_id) & _vanished(now)
    test = Notification.alert_kind == AlertKind.TEST
    for which, status, error in (
        (test, NotificationStatus.GIVEN_UP, NOT_KNOWN), (~test, NotificationStatus.PENDING, NOT_KNOWN),
    ):  # fmt: skip
        session.execute(update(Notification).where(gone, which).values(status=status, deadline=None, error=error))


def _on_its_way(session: Session, channel_id: int) -> bool:
    query = select(Notification.id).where(
        Notification.channel_id == channel_id, Notification.status == NotificationStatus.SENDING,
        Notification.alert_kind != AlertKind.TEST,
    )  # fmt: skip
    return session.scalar(query.limit(1)) is not None


def _waiting(session: Session, channel_id: int) -> list[alerting.Waiting]:
    critical = Notification.severity == Severity.CRITICAL
    query = (
        select(Notification.id, Notification.severity, Notification.created_at)
        .where(Notification.channel_id == channel_id, Notification.status == NotificationStatus.PENDING)
        .order_by(critical.desc(), Notification.id)
        .limit(LOOKED_AT)
    )
    return [alerting.Waiting(*row) for row in session.execute(query)]


def _sent(session: Session, channel_id: int, now: datetime) -> list[datetime]:
    """When this channel's messages of the last hour left; tests do not count."""
    query = select(func.max(Notification.sent_at)).where(
        Notification.channel_id == channel_id, Notification.sent_at > now - alerting.RATE_SPAN,
        Notification.alert_kind != AlertKind.TEST,
    )  # fmt: skip
    return list(session.scalars(query.group_by(Notification.message)))


def _taken(session: Session, channel: Channel, ids: Sequence[int], now: datetime) -> Batch:
    found = {row.id: row for row in session.scalars(select(Notification).where(Notification.id.in_(ids)))}
    rows = [found[one] for one in ids]
    message = str(uuid4())
    for row in rows:
        row.status, row.message, row.deadline, row.tries = (
            NotificationStatus.SENDING,
            message,
            now + SENDING,
            row.tries + 1,
        )
    title, body = alerts.compose(rows, zone())
    return Batch(channel.id, channel.name, message, target_of(channel), title, body)


def target_of(channel: Channel) -> str | None:
    """Its address; None when none of the keys opens it."""
    try:
        return channel.target
    except KeyringError:
        return None


def attempt(send: Send, batch: Batch) -> Failure | None:
    """Send it; why it failed, or None. Touches no database. An unknown error's text may hold the address: not told."""
    if batch.target is None:
        return Failure(LOST_KEY)
    try:
        send(batch.target, batch.title, batch.body)
    except notify.DeliveryFailed as failed:
        return Failure(failed.message, failed.answer)
    except notify.BadAddress as bad:
        return Failure(bad.message)
    except Exception as error:
        return Failure(OUR_FAULT, type(error).__name__)
    return None


def settle(batch: Batch, failure: Failure | None, now: datetime) -> bool:
    """Write down what came of a message; True when it was taken."""
    with transaction() as session:
        channel = locked(session, batch.channel_id)
        rows = _of_message(session, batch, failure)
        if channel is None or not rows:
            log.warning("event=alert_settled_late channel=%s message=%s", batch.channel, batch.message)
        elif failure is None:
            mark_sent(session, channel, rows, now)
        else:
            _mark_failed(channel, rows, failure, now)
    outcome = "sent" if failure is None else "failed"
    log.info(
        "event=alert_%s channel=%s alerts=%d error=%s", outcome, batch.channel, len(rows), failure and failure.error
    )
    return failure is None


def _of_message(session: Session, batch: Batch, failure: Failure | None) -> list[Notification]:
    """Its rows. What was taken back, but not sent by another yet, still counts as sent: better than twice."""
    ours = [NotificationStatus.SENDING] if failure else [NotificationStatus.SENDING, NotificationStatus.PENDING]
    query = select(Notification).where(
        Notification.channel_id == batch.channel_id,
        Notification.status.in_(ours),
        Notification.message == batch.message,
    )
    return list(session.scalars(query.order_by(Notification.id)))


def mark_sent(session: Session, channel: Channel, rows: Sequence[Notification], now: datetime) -> None:
    """They arrived. The first alert of a violation that arrives makes it notified, in the same transaction."""
    channel.failures, channel.retry_at = 0, None
    channel.last_sent_at, channel.last_error, channel.last_answer = now, "", ""
    for row in rows:
        row.status, row.sent_at, row.deadline, row.error, row.answer = NotificationStatus.SENT, now, None, "", ""
    told = [row.violation_id for row in rows if row.violation_id is not None]
    if told:
        session.execute(
            update(QuotaViolation)
            .where(QuotaViolation.id.in_(told), QuotaViolation.notified.is_(False))
            .values(notified=True, notified_at=now)
        )


def note_failure(channel: Channel, failure: Failure) -> None:
    """Its last try failed, and why."""
    channel.last_error, channel.last_answer = str(failure.error), failure.answer


def _mark_failed(channel: Channel, rows: Sequence[Notification], failure: Failure, now: datetime) -> None:
    """They wait for the next try. Not for a channel that was switched off meanwhile: that may be on again in weeks."""
    channel.failures += 1
    channel.retry_at = now + alerting.gap(channel.failures)
    note_failure(channel, failure)
    for row in rows:
        over = not channel.enabled or alerting.is_over(row.queued_at, now)
        row.status = NotificationStatus.GIVEN_UP if over else NotificationStatus.PENDING
        row.deadline, row.error, row.answer = None, str(failure.error), failure.answer
