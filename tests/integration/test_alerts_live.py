"""A violation's alert by the real processes: the scheduler's leader asks, the alerts' worker sends, over real Redis."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from portal.domain import alerting
from portal.domain.statuses import AlertKind, NotificationStatus, Severity
from portal.extensions import db, transaction
from portal.services.alerting import alerts, channels
from portal.tables import Notification, Olt, QuotaViolation
from testing.cast import ACTOR
from testing.live import Live
from testing.receiver import receiver

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


def test_a_violation_reaches_a_webhook_that_fails_twice_exactly_once(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting, "GAPS", (1, 1))  # the processes are forked from this one
    olt_id = live.olt("OLT-LIMA", 20161)
    assert db.session.get(Olt, olt_id) is not None
    with receiver() as hook:
        hook.answers.extend((500, 500))
        channels.save({"name": "noc", "target": hook.url}, ACTOR, live.now)
        with transaction() as session:
            row = QuotaViolation(
                olt_id=olt_id, task_type="discovery", period_start=live.now - timedelta(hours=1), period_end=live.now,
                report={}, severity=Severity.HIGH, created_at=live.now,
            )  # fmt: skip
            session.add(row)
            session.flush()
            alerts.raise_alert(session, AlertKind.QUOTA_VIOLATION, "Quota not met", "2 of 4", datetime.now(UTC),
                               severity=Severity.HIGH, olt_id=olt_id, violation_id=row.id)  # fmt: skip
            violation_id = row.id
        live.start("scheduler", "alerts")

        def sent() -> bool:
            db.session.rollback()
            return db.session.scalars(select(Notification.status)).all() == [NotificationStatus.SENT]

        live.stack.wait_until(sent, "the alert to be sent")
        told = db.session.get_one(QuotaViolation, violation_id)
        assert (hook.refused, hook.titles, told.notified) == (2, ["Quota not met"], True)
        assert told.notified_at == db.session.scalars(select(Notification.sent_at)).one()
