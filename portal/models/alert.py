"""Alerts on their way out: channels, and the outbox of what goes through them."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from portal.domain.statuses import AlertKind, NotificationStatus, Severity
from portal.extensions import Base
from portal.models.types import BigId, SealedText, Secret, UTCDateTime, Word, one_of

SUBJECT_LENGTH = 255
ERROR_LENGTH = 255


class Channel(Base):
    """Where alerts go, which, and when.

    `target` is the address as Apprise writes it (a URL with passwords and tokens): encrypted, and decrypted only when
    it is read. `kind` (its scheme) and `host` ("" where the host is a secret too) are all that people are shown of it.
    """

    __tablename__ = "channels"
    __table_args__ = (
        one_of("min_severity", Severity, "min_severity"),
        CheckConstraint("(quiet_start IS NULL) = (quiet_end IS NULL)", name="quiet"),
        CheckConstraint("quiet_start BETWEEN 0 AND 1439 AND quiet_end BETWEEN 0 AND 1439", name="quiet_minutes"),
        CheckConstraint("per_hour >= 1", name="per_hour"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)
    kind: Mapped[str] = mapped_column(String(20))
    host: Mapped[str] = mapped_column(String(255), default="")
    sealed_target: Mapped[bytes | None] = mapped_column("target", SealedText)
    enabled: Mapped[bool] = mapped_column(default=True)
    alert_kinds: Mapped[list[str]] = mapped_column(JSON, default=list)
    min_severity: Mapped[Severity] = mapped_column(Word(Severity, 10), default=Severity.LOW)
    # Minutes since midnight in the portal's zone, [start, end); the end may lie on the next day.
    quiet_start: Mapped[int | None]
    quiet_end: Mapped[int | None]
    per_hour: Mapped[int] = mapped_column(default=30)
    # Tries in a row that failed, and until when it is left alone since.
    failures: Mapped[int] = mapped_column(default=0)
    retry_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    # When something last got through, and what came of the last try: "" when that succeeded (as in Notification).
    last_sent_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    last_error: Mapped[str] = mapped_column(String(ERROR_LENGTH), default="", server_default="")
    last_answer: Mapped[str] = mapped_column(String(ERROR_LENGTH), default="", server_default="")

    target = Secret("sealed_target")

    def __repr__(self) -> str:
        return f"<Channel {self.name}>"


class Notification(Base):
    """One alert for one channel: the row is the outbox. Several may leave in one message.

    `message` names the try that has (or had last) this row: who lost it meanwhile can write nothing.
    """

    __tablename__ = "notifications"
    __table_args__ = (
        Index("ix_notifications_channel_id_status", "channel_id", "status"),
        Index("ix_notifications_channel_id_sent_at", "channel_id", "sent_at"),
        Index("ix_notifications_created_at", "created_at"),
        one_of("alert_kind", AlertKind, "alert_kind"),
        one_of("severity", Severity, "severity"),
        one_of("status", NotificationStatus, "status"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    channel_id: Mapped[int] = mapped_column(ForeignKey("channels.id", ondelete="CASCADE"))
    alert_kind: Mapped[AlertKind] = mapped_column(Word(AlertKind))
    severity: Mapped[Severity] = mapped_column(Word(Severity, 10))
    subject: Mapped[str] = mapped_column(String(SUBJECT_LENGTH))
    body: Mapped[str] = mapped_column(Text, default="")
    # The same as messages that can be said in another language ({"subject": …, "body": …}; None: plain text).
    messages: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    olt_id: Mapped[int | None] = mapped_column(ForeignKey("olts.id", ondelete="SET NULL"), index=True)
    violation_id: Mapped[int | None] = mapped_column(ForeignKey("quota_violations.id", ondelete="SET NULL"), index=True)
    status: Mapped[NotificationStatus] = mapped_column(Word(NotificationStatus, 10), default=NotificationStatus.PENDING)
    tries: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    queued_at: Mapped[datetime] = mapped_column(UTCDateTime)  # later than created_at when a person sends it again
    message: Mapped[str] = mapped_column(String(36), default="")
    deadline: Mapped[datetime | None] = mapped_column(UTCDateTime)  # while SENDING
    sent_at: Mapped[datetime | None] = mapped_column(UTCDateTime)
    error: Mapped[str] = mapped_column(String(ERROR_LENGTH), default="")  # one of our sentences
    answer: Mapped[str] = mapped_column(String(ERROR_LENGTH), default="")  # what the receiver or the system said
    channel: Mapped[Channel] = relationship()
