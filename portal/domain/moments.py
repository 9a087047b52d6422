"""Moments that people and programs give: text → aware UTC. Pure."""

from datetime import UTC, datetime, tzinfo

FIRST, LAST = datetime(1971, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def parse(text: str, zone: tzinfo | None = None) -> datetime:
    """ISO 8601 as UTC; where it names no zone, `zone` is meant. ValueError when it is no moment, has none of both, or

    lies so far away that reckoning with it would leave the calendar.
    """
    found = datetime.fromisoformat(text)
    if found.tzinfo is None and zone is None:
        raise ValueError("no zone")
    try:
        moment = (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(str(error)) from None
    if not FIRST <= moment <= LAST:
        raise ValueError(f"not between {FIRST:%Y} and {LAST:%Y}")
    return moment
