"""Rules about the pool of pollers: what busy and saturated mean. Pure."""

from collections.abc import Sequence
from datetime import timedelta

UNSEEN_AFTER = timedelta(seconds=30)  # a poller writes its row at least every 10 s
SATURATED_ABOVE = 75.0  # percent of the last minute that the pollers were busy


WINDOW = 60.0  # seconds over which "busy lately" is counted

Samples = Sequence[Sequence[float]]  # (moment, seconds busy up to then), oldest first; seconds


def busy_lately(samples: Samples, now: float, busy: float) -> float:
    """Seconds of the last minute that a poller was busy: `busy` up to now, less what it was a minute ago.

    Between two samples it is taken to have been evenly busy; before the first nothing is known, and counts as free.
    """
    since = now - WINDOW
    before = next((one for one in reversed(samples) if one[0] <= since), None)
    after = next(one for one in (*samples, (now, busy)) if one[0] > since)
    then = after[1]
    if before is not None:
        then = before[1] + (after[1] - before[1]) * (since - before[0]) / (after[0] - before[0])
    return min(WINDOW, max(0.0, busy - then))


def sampled(samples: Samples, now: float, busy: float) -> list[list[float]]:
    """The samples with one of now; without those that nobody asks for again, or that a clock ahead has left."""
    known = [list(one) for one in samples if one[0] < now]
    old = sum(one[0] <= now - WINDOW for one in known)
    return [*known[max(0, old - 1) :], [now, busy]]
