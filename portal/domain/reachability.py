"""When an OLT that does not answer counts as dead, and when it is asked again (ADR 0013, 0033).

Pure; `now` is always an argument.
"""

from datetime import datetime, timedelta

LOOK = timedelta(seconds=15)  # between the questions that tell a dead OLT from one that missed a request
FIRST_PROBE = timedelta(seconds=30)
LONGEST_GAP = timedelta(minutes=15)
FIRST_REFUSED = timedelta(minutes=2)
SHARE = 12  # a gap is this part of the outage, so the time without a look is bounded in proportion to it


STALE_AFTER = 3  # intervals without a reading of its ONUs' states …
SHORTEST_STALE = timedelta(minutes=15)  # … and no less than this, after which an OLT's ONUs count no longer


def stale_at(read_at: datetime, interval: timedelta | None) -> datetime:
    """When states that were read at `read_at`, and are to be read each `interval`, are no longer of now."""
    return read_at + max(SHORTEST_STALE, STALE_AFTER * (interval or SHORTEST_STALE))


def next_probe(unreachable_since: datetime, now: datetime, *, refused: bool = False) -> datetime:
    """30 s, 60 s, … after the OLT was found dead; the gap grows with the outage, from 30 s to 15 min.

    Away for 10 min: found within 50 s of its return and the 5 s of a round. Away for days: one datagram in 15 min.
    A clock that was set back counts as an outage that has just begun. One that refuses its credential (`refused`) says
    so again until somebody changes something: 2 min, and twice as long each time, to the same 15 min.
    """
    if refused:
        return now + min(max(now - unreachable_since, FIRST_REFUSED), LONGEST_GAP)
    gap = (now - unreachable_since) / SHARE
    return now + min(max(gap, FIRST_PROBE), LONGEST_GAP)
