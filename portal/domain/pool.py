"""Rules about the pool of pollers: what busy and saturated mean. Pure."""

from datetime import datetime, timedelta

UNSEEN_AFTER = timedelta(seconds=30)  # a poller writes its row at least every 10 s
SATURATED_ABOVE = 75.0  # percent of the last minute that the pollers were busy


def busy_seconds(start: datetime, end: datetime, since: datetime, until: datetime) -> float:
    """Seconds of [start, end] that lie in [since, until]; never negative."""
    return max(0.0, (min(end, until) - max(start, since)).total_seconds())
