"""Alerts for people: channels with what waits for them and how they fare, and what went through them. Reads only."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from sqlalchemy import func, select

from portal.domain import alerting
from portal.domain.messages import unpacked
from portal.domain.statuses import AlertKind, NotificationStatus, Severity
from portal.extensions import KeyringError, db
from portal.queries import keyset
from portal.tables import Channel, Notification


@dataclass(frozen=True)
class ChannelRow:
    """A channel as pages see it: of its address only the scheme and, where that is no secret, the host.

    `last_hour`: messages that left in the last hour. `verdict`: what holds what waits, and until when.
    `error`, `answer`: of its last try, "" when that succeeded.
    """

    id: int
    name: str
    kind: str
    host: str
    enabled: bool
    readable: bool
    alert_kinds: tuple[AlertKind, ...]
    min_severity: Severity
    quiet_start: int | None
    quiet_end: int | None
    per_hour: int
    failures: int
    waiting: int
    last_hour: int
    last_sent_at: datetime | None
    verdict: alerting.Verdict
    error: str
    answer: str

    @property
    def address(self) -> str:
        """mailto://smtp.example.net, or tgram://… where the host is a secret."""
        return f"{self.kind}://{self.host or '…'}"

    @property
    def fails(self) -> bool:
        """Whether nothing gets through it at the moment."""
        return self.enabled and (self.failures > 0 or not self.readable)


@dataclass(frozen=True)
class AlertRow:
    """One alert on its way through one channel. `subject` and `body` are Messages where they were raised as such."""

    id: int
    channel_id: int
    channel: str
    channel_enabled: bool
    kind: AlertKind
    severity: Severity
    subject: str
    body: str
    olt_id: int | None
    status: NotificationStatus
    tries: int
    created_at: datetime
    sent_at: datetime | None
    error: str
    answer: str


@dataclass(frozen=True)
class Filter:
    """What the URL asks for; None = everything."""

    channel_id: int | None = None
    status: NotificationStatus | None = None


def channels(now: datetime, zone: ZoneInfo) -> list[ChannelRow]:
    """All channels by name: three SQL statements, however many there are."""
    found = db.session.scalars(select(Channel).order_by(func.lower(Channel.name), Channel.id)).all()
    waiting, sent = _waiting(), _sent(now)
    return [_channel(one, waiting[one.id], sent[one.id], now, zone) for one in found]


def channel(channel_id: int) -> Channel | None:
    """One channel, for its form. Nothing there reads its address."""
    return db.session.get(Channel, channel_id)


def _waiting() -> dict[int, Counter[tuple[Severity, datetime]]]:
    """channel → how many wait, by severity (with the oldest's moment)."""
    query = (
        select(Notification.channel_id, Notification.severity, func.min(Notification.created_at), func.count())
        .where(Notification.status == NotificationStatus.PENDING)
        .group_by(Notification.channel_id, Notification.severity)
    )
    found: dict[int, Counter[tuple[Severity, datetime]]] = defaultdict(Counter)
    for channel_id, severity, oldest, count in db.session.execute(query):
        found[channel_id][severity, oldest] = count
    return found


def _sent(now: datetime) -> dict[int, list[datetime]]:
    """channel → when its messages of the last hour left, tests apart."""
    query = (
        select(Notification.channel_id, func.max(Notification.sent_at))
        .where(Notification.sent_at > now - alerting.RATE_SPAN, Notification.alert_kind != AlertKind.TEST)
        .group_by(Notification.channel_id, Notification.message)
    )
    found: dict[int, list[datetime]] = defaultdict(list)
    for channel_id, moment in db.session.execute(query):
        found[channel_id].append(moment)
    return found


def _channel(
    one: Channel, waiting: Counter[tuple[Severity, datetime]], sent: list[datetime], now: datetime,
    zone: ZoneInfo,
) -> ChannelRow:  # fmt: skip
    quiet = None if one.quiet_start is None or one.quiet_end is None else (one.quiet_start, one.quiet_end)
    rules = alerting.Rules(quiet, one.per_hour, one.retry_at)
    kinds = [alerting.Waiting(n, severity, oldest) for n, (severity, oldest) in enumerate(waiting)]
    return ChannelRow(
        id=one.id, name=one.name, kind=one.kind, host=one.host, enabled=one.enabled, readable=_opens(one),
        alert_kinds=tuple(map(AlertKind, one.alert_kinds)), min_severity=one.min_severity,
        quiet_start=one.quiet_start, quiet_end=one.quiet_end, per_hour=one.per_hour, failures=one.failures,
        waiting=waiting.total(), last_hour=len(sent), last_sent_at=one.last_sent_at,
        verdict=alerting.decide(rules, kinds, sent, now, zone), error=one.last_error, answer=one.last_answer,
    )  # fmt: skip


def _opens(one: Channel) -> bool:
    try:
        return one.target is not None
    except KeyringError:
        return False


def page(wanted: Filter, cursor: str = "", size: int = keyset.PAGE_SIZE) -> keyset.Page[AlertRow]:
    """One page of alerts, newest first: one SQL statement."""
    query = select(Notification, Channel.name, Channel.enabled).join(Channel, Channel.id == Notification.channel_id)
    if wanted.channel_id:
        query = query.where(Notification.channel_id == wanted.channel_id)
    if wanted.status:
        query = query.where(Notification.status == wanted.status)
    order = keyset.Order((Notification.id,), descending=True)
    return keyset.fetch(query, order, cursor, size).map(lambda found: _alert(*found))


def _alert(one: Notification, channel: str, enabled: bool) -> AlertRow:
    return AlertRow(
        id=one.id, channel_id=one.channel_id, channel=channel, channel_enabled=enabled, kind=one.alert_kind,
        severity=one.severity, subject=unpacked(one.messages.get("subject"), one.subject),
        body=unpacked(one.messages.get("body"), one.body), olt_id=one.olt_id, status=one.status, tries=one.tries,
        created_at=one.created_at, sent_at=one.sent_at, error=one.error, answer=one.answer,
    )  # fmt: skip
