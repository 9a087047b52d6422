"""What a person does with alerts: try a channel and see the true answer, send again what was given up."""

from datetime import datetime
from uuid import uuid4

from sqlalchemy.orm import Session

from portal.domain.messages import N_
from portal.domain.statuses import AlertKind, NotificationStatus, Severity
from portal.extensions import transaction
from portal.services import audit
from portal.services.alerting import alerts, channels, delivery
from portal.services.errors import Conflict, NotFound
from portal.tables import Channel, Notification


def test(channel_id: int, actor: str, now: datetime, send: delivery.Send) -> delivery.Failure | None:
    """Send a test message through a channel at once, disabled or quiet as it may be; why it was not taken, or None.

    Waits for the answer (portal.notify.TOTAL_SECONDS at most). It is not tried again.
    """
    batch = _begin(channel_id, actor, now)
    failure = delivery.attempt(send, batch)
    with transaction() as session:
        channel = delivery.locked(session, channel_id)
        row = session.query(Notification).filter_by(message=batch.message).one_or_none()
        if channel is not None and row is not None:
            _end(session, channel, row, failure, now)
    return failure


def _begin(channel_id: int, actor: str, now: datetime) -> delivery.Batch:
    with transaction() as session:
        channel = channels.existing(session, channel_id)
        subject = N_("Test of the channel %(name)s", name=channel.name)
        body = N_("Sent by %(name)s. Whoever reads this would be told what goes wrong.", name=actor)
        row = alerts.row(channel_id, AlertKind.TEST, subject, body, now, Severity.LOW)
        row.status, row.message, row.tries = NotificationStatus.SENDING, str(uuid4()), 1
        row.deadline = now + delivery.SENDING
        session.add(row)
        audit.record(session, actor=actor, action="channel.test", subject=channel, changes=None, now=now)
        title, text = alerts.compose([row], delivery.zone())
        return delivery.Batch(channel.id, channel.name, row.message, delivery.target_of(channel), title, text)


def _end(
    session: Session, channel: Channel, row: Notification, failure: delivery.Failure | None, now: datetime
) -> None:
    """A test that arrived shows that the channel works: what waits for it need not wait longer."""
    if failure is None:
        delivery.mark_sent(session, channel, [row], now)
        return
    delivery.note_failure(channel, failure)
    row.status, row.deadline = NotificationStatus.GIVEN_UP, None
    row.error, row.answer = str(failure.error), failure.answer


def resend(notification_id: int, actor: str, now: datetime) -> None:
    """Let an alert that was given up be sent again, at once and then for as long as a new one. Conflict for others."""
    with transaction() as session:
        row = session.get(Notification, notification_id, with_for_update={"key_share": True})
        if row is None:
            raise NotFound(N_("the alert does not exist any more"))
        if row.status is not NotificationStatus.GIVEN_UP or row.alert_kind is AlertKind.TEST:
            raise Conflict(N_("only an alert that was given up can be sent again"))
        if not row.channel.enabled:
            raise Conflict(N_("the channel is disabled: enable it first"))
        row.status, row.queued_at, row.error, row.answer = NotificationStatus.PENDING, now, "", ""
        row.channel.retry_at = None
        subject = audit.Subject(type="notification", name=row.subject, id=row.id)
        audit.record(session, actor=actor, action="notification.resend", subject=subject,
                     changes={"channel": row.channel.name}, now=now)  # fmt: skip
