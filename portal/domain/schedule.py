"""Rules of time (design §5): when a node runs first, next, and after a change. Pure; `now` is always an argument."""

import hashlib
from datetime import datetime, timedelta

FIRST_RUN_DELAY = timedelta(seconds=60)
FIRST_RUN_SPREAD_SECONDS = 60
DELAYED_AFTER = timedelta(seconds=2)
MINIMUM_INTERVAL = 30


def whole_second(moment: datetime) -> datetime:
    """`moment` without its fraction: slots are whole seconds, so that equal slots compare equal everywhere."""
    return moment.replace(microsecond=0)


def spread(olt_id: int, node_key: str) -> timedelta:
    """A fixed share of FIRST_RUN_SPREAD_SECONDS for this (OLT, node): the same each time, even across OLTs."""
    digest = hashlib.sha256(f"{olt_id}:{node_key}".encode()).digest()
    return timedelta(seconds=int.from_bytes(digest[:4]) % FIRST_RUN_SPREAD_SECONDS)


def first_run(now: datetime, olt_id: int, node_key: str, *, many_olts: bool) -> datetime:
    """Rule 1: a new node runs at now + 60 s, plus a fixed spread when more than one OLT is touched at once.

    Created 10:00 with an interval of 10 min: 10:01, 10:11, 10:21. That first run is the anchor.
    """
    offset = spread(olt_id, node_key) if many_olts else timedelta()
    return whole_second(now) + FIRST_RUN_DELAY + offset


def after_enabling(now: datetime, interval_seconds: int) -> datetime:
    """Rule 2: a re-enabled node runs after a full interval. Enabled 10:50, 10 min: 11:00, 11:10."""
    return whole_second(now) + timedelta(seconds=interval_seconds)


def next_on_grid(anchor: datetime, interval_seconds: int, now: datetime) -> datetime:
    """Rule 3: the first anchor + k·interval strictly after `now` (the anchor itself when that is still ahead)."""
    if now < anchor:
        return anchor
    passed = int((now - anchor).total_seconds() // interval_seconds)
    return anchor + timedelta(seconds=(passed + 1) * interval_seconds)


def latest_on_grid(anchor: datetime, interval_seconds: int, now: datetime) -> datetime:
    """The last slot at or before `now`; the anchor when none has come yet."""
    return max(anchor, next_on_grid(anchor, interval_seconds, now) - timedelta(seconds=interval_seconds))


def after_interval_change(now: datetime, old_next: datetime | None, interval_seconds: int) -> datetime:
    """Rule 4: at now + the new interval, or at the old time if that is sooner. The result is the new anchor."""
    fresh = whole_second(now) + timedelta(seconds=interval_seconds)
    return min(fresh, old_next) if old_next is not None and old_next > now else fresh


def still_worth_running(slot: datetime, interval_seconds: int, now: datetime) -> bool:
    """Rule 11: a slot passed while nothing ticked still runs if less than half its interval has gone by."""
    return (now - slot).total_seconds() < interval_seconds / 2


def is_delayed(scheduled_for: datetime, started_at: datetime) -> bool:
    """Rule 7: started more than 2 s after its slot."""
    return started_at - scheduled_for > DELAYED_AFTER


def delay_ms(scheduled_for: datetime, started_at: datetime) -> int:
    """Milliseconds between slot and start; never negative (a clock may step back)."""
    return max(0, round((started_at - scheduled_for) / timedelta(milliseconds=1)))
