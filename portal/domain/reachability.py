"""When an OLT that does not answer is asked again (ADR 0013). Pure; `now` is always an argument."""

from datetime import datetime, timedelta

FIRST_PROBE = timedelta(seconds=30)
LONGEST_GAP = timedelta(minutes=15)
SHARE = 12  # a gap is this part of the outage, so the time without a look is bounded in proportion to it


def next_probe(unreachable_since: datetime, now: datetime) -> datetime:
    """30 s, 60 s, … after the OLT was found dead; the gap grows with the outage, from 30 s to 15 min.

    Away for 10 min: found within 50 s of its return and the 5 s of a round. Away for days: one datagram in 15 min.
    A clock that was set back counts as an outage that has just begun.
    """
    gap = (now - unreachable_since) / SHARE
    return now + min(max(gap, FIRST_PROBE), LONGEST_GAP)
