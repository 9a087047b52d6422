"""The present. The product reads it here and nowhere else, so a test that replaces `clock.now` sets it for all.

Call it as `clock.now()`: a name imported from here would keep the real clock. Rules get their moment as an argument.
"""

from datetime import UTC, datetime


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC)  # noqa: TID251
