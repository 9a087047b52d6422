"""A channel of alerts and what it was sent, for pages that are looked at."""

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from portal.domain.statuses import AlertKind, NotificationStatus, Severity
from portal.tables import Channel, Notification, Olt


def fill(session: Session, now: datetime, count: int = 6) -> None:
    """One channel; its latest alert waits, the others were sent."""
    channel = Channel(name="NOC", kind="json", host="alertas.example", target="jsons://alertas.example/secret",
                      alert_kinds=list(AlertKind))  # fmt: skip
    channel.last_sent_at = now - timedelta(minutes=18) if count > 1 else None
    olt = session.query(Olt).first()
    session.add(channel)
    session.flush()
    for number in reversed(range(count)):
        moment = now - timedelta(minutes=17 * number + 1)
        sent = number > 0
        session.add(Notification(
            channel=channel, alert_kind=AlertKind.OLT_UNREACHABLE, severity=Severity.HIGH,
            subject=f"{olt.name if olt else 'OLT'} does not answer", body="3 runs in a row ended without any answer.",
            olt_id=olt.id if olt else None, created_at=moment, queued_at=moment, tries=int(sent),
            status=NotificationStatus.SENT if sent else NotificationStatus.PENDING,
            sent_at=moment + timedelta(seconds=4) if sent else None,
        ))  # fmt: skip
