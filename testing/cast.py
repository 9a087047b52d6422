"""The cast of the tests: one moment, one hour, people and their passwords. Needs no app."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LIMA, SANTIAGO = ZoneInfo("America/Lima"), ZoneInfo("America/Santiago")

NOW = TEN = datetime(2026, 11, 27, 10, 0, tzinfo=UTC)
"""The moment at which all tests take place; TEN where it is the begin of an hour."""

FAR_AWAY = datetime(2100, 1, 1, tzinfo=UTC)

ACTOR = "rosa"
PASSWORD = "planted password"
COMMUNITY = "planted-community"

TEMPO = 5
"""Five seconds of the product are one of a test with its processes; more, and a loaded machine would be late."""


def at(text: str) -> datetime:
    """That time of day ("10:05" or "10:05:30") on the day of NOW."""
    return datetime.combine(NOW, time.fromisoformat(text), UTC)


def password_of(username: str) -> str:
    """Password of a seeded user."""
    return f"facho-{username}-2026"
