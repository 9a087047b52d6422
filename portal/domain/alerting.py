"""Which alerts of a channel are sent now, in one message: quiet hours, rate, retries and their end. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from portal.domain.statuses import AlertKind, Severity

RANK = {severity: rank for rank, severity in enumerate(Severity)}
MINUTES_A_DAY = 24 * 60
RATE_SPAN = timedelta(hours=1)
LISTED = 20  # alerts told one by one in a message; of the others it says how many there are
LONGEST_BODY = 3_000  # characters: services cut or refuse more (Telegram: 4,096)

# After so many tries in a row that failed, a channel is left alone for so long; the last gap is for all that follow.
GAPS = (15, 30, 60, 120, 300, 600, 1_200, 1_800)
LIFE = timedelta(hours=24)  # an alert that could not be sent for so long is given up


class Hold(StrEnum):
    """Why what waits for a channel is not sent now."""

    RETRY = "retry"  # the last try failed
    QUIET = "quiet"
    RATE = "rate"


@dataclass(frozen=True)
class Rules:
    """What a channel asks for. `quiet`: [start, end) in minutes since midnight, None = never quiet."""

    quiet: tuple[int, int] | None
    per_hour: int
    retry_at: datetime | None


@dataclass(frozen=True)
class Waiting:
    """An alert that is to be sent through a channel."""

    id: int
    severity: Severity
    created_at: datetime


@dataclass(frozen=True)
class Verdict:
    """`send`: ids of what leaves now, in one message, the worst first. `until`: when what is held may leave."""

    send: tuple[int, ...] = ()
    hold: Hold | None = None
    until: datetime | None = None


def wants(kinds: Collection[str], least: Severity, kind: AlertKind, severity: Severity) -> bool:
    """Whether a channel that chose these kinds and this severity gets the alert."""
    return kind.value in kinds and RANK[severity] >= RANK[least]


def decide(
    rules: Rules, waiting: Sequence[Waiting], sent: Sequence[datetime], now: datetime, zone: ZoneInfo
) -> Verdict:
    """What leaves at `now`. `sent`: when this channel's messages of the last hour left.

    A failed try holds everything. Quiet hours hold what is not CRITICAL. The rate counts messages, not alerts, and
    keeps the last one of an hour for what is CRITICAL. Everything that may leave does so in one message.
    """
    if rules.retry_at is not None and now < rules.retry_at <= now + gap(len(GAPS)):  # later: the clock was set back
        return Verdict(hold=Hold.RETRY, until=rules.retry_at)
    quiet = quiet_until(now, rules.quiet, zone)
    worst = [one for one in waiting if one.severity is Severity.CRITICAL]
    free = worst if quiet else list(waiting)
    if not free:
        return Verdict(hold=Hold.QUIET if waiting else None, until=quiet if waiting else None)
    until = rate_until(sent, allowance(rules.per_hour, critical=bool(worst)), now)
    if until is not None:
        return Verdict(hold=Hold.RATE, until=until)
    held = len(free) < len(waiting)
    return Verdict(tuple(one.id for one in in_order(free)), Hold.QUIET if held else None, quiet if held else None)


def in_order(waiting: Sequence[Waiting]) -> list[Waiting]:
    """The worst first, then the older."""
    return sorted(waiting, key=lambda one: (-RANK[one.severity], one.created_at, one.id))


def allowance(per_hour: int, *, critical: bool) -> int:
    """Messages that may leave in an hour."""
    return per_hour if critical else max(1, per_hour - 1)


def rate_until(sent: Sequence[datetime], allowed: int, now: datetime) -> datetime | None:
    """When the next message may leave; None = now."""
    recent = sorted(moment for moment in sent if now - RATE_SPAN < moment <= now)
    return recent[-allowed] + RATE_SPAN if len(recent) >= allowed else None


def is_quiet(moment: datetime, quiet: tuple[int, int] | None, zone: ZoneInfo) -> bool:
    """Whether the wall clock stands within the quiet hours; they may cross midnight."""
    if quiet is None:
        return False
    start, end = quiet
    local = moment.astimezone(zone)
    minute = local.hour * 60 + local.minute
    return start <= minute < end if start < end else minute >= start or minute < end


def quiet_until(now: datetime, quiet: tuple[int, int] | None, zone: ZoneInfo) -> datetime | None:
    """The first moment after `now` at which it is no longer quiet; None when it is not quiet now.

    Minute by minute, as the wall clock shows them: in the nights of a clock change an hour is missing or comes twice.
    """
    if not is_quiet(now, quiet, zone):
        return None
    minute = now.astimezone(UTC).replace(second=0, microsecond=0)
    for _ in range(2 * MINUTES_A_DAY):
        minute += timedelta(minutes=1)
        if not is_quiet(minute, quiet, zone):
            return minute
    return None


def gap(failures: int) -> timedelta:
    """How long a channel is left alone after its `failures`-th failed try in a row; from 1."""
    return timedelta(seconds=GAPS[min(failures, len(GAPS)) - 1])


def is_over(queued_at: datetime, now: datetime) -> bool:
    """Whether an alert whose try has just failed is given up."""
    return now - queued_at >= LIFE


def cut(text: str, longest: int) -> str:
    """`text`, or its beginning with an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
