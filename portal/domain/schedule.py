"""Rules of time: when a node runs first, next, and after a change. Pure; `now` is always an argument."""

import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from portal.domain.statuses import OltState, SkipReason

FIRST_RUN_DELAY = timedelta(seconds=60)
FIRST_RUN_SPREAD_SECONDS = 60
DELAYED_AFTER = timedelta(seconds=2)
MINIMUM_INTERVAL = 30
# A tick comes each second, on a machine out of breath a few seconds late: what passed longer ago passed unseen.
UNSEEN_AFTER = timedelta(seconds=5)
# No rule sets a slot further ahead than an interval and the delay and spread of a first run.
FURTHEST_AHEAD = FIRST_RUN_DELAY + timedelta(seconds=FIRST_RUN_SPREAD_SECONDS + 30)
HELD_AFTER = 2  # slots of a node in a row that ended all their workers
FIRST_HOLD, LONGEST_HOLD = timedelta(hours=1), timedelta(days=1)
SPREAD_ABOVE = 20  # late composites at once
SPREAD_OVER = timedelta(seconds=65)  # a little more than the 60 s promised: the first may start late, the last on time


def whole_second(moment: datetime) -> datetime:
    """`moment` without its fraction: slots are whole seconds, so that equal slots compare equal everywhere."""
    return moment.replace(microsecond=0)


def spread(olt_id: int, node_key: str) -> timedelta:
    """A fixed share of FIRST_RUN_SPREAD_SECONDS for this (OLT, node): the same each time, even across OLTs."""
    return timedelta(seconds=_share(olt_id, node_key, FIRST_RUN_SPREAD_SECONDS))


def _share(olt_id: int, node_key: str, seconds: int) -> int:
    digest = hashlib.sha256(f"{olt_id}:{node_key}".encode()).digest()
    return int.from_bytes(digest[:4]) % seconds


def first_run(now: datetime, olt_id: int, node_key: str, *, many_olts: bool) -> datetime:
    """Rule 1: a new node runs at now + 60 s, plus a fixed spread when more than one OLT is touched at once.

    Created 10:00 with an interval of 10 min: 10:01, 10:11, 10:21. That first run is the anchor.
    """
    offset = spread(olt_id, node_key) if many_olts else timedelta()
    return whole_second(now) + FIRST_RUN_DELAY + offset


def after_enabling(now: datetime, interval_seconds: int) -> datetime:
    """Rule 2: a re-enabled node runs after a full interval. Enabled 10:50, 10 min: 11:00, 11:10."""
    return whole_second(now) + timedelta(seconds=interval_seconds)


def after_enabling_many(
    now: datetime, anchor: datetime | None, interval_seconds: int, olt_id: int, node_key: str
) -> datetime:
    """Rule 2 for many OLTs at once: within an interval from now, where its clock was; a new one at a place of its own.

    The places are fixed shares of the interval, so that not all of them strike together ever after.
    """
    if anchor is None:
        anchor = whole_second(now) + timedelta(seconds=_share(olt_id, node_key, interval_seconds))
    ahead = max(0, int((anchor - now).total_seconds()) // interval_seconds) * interval_seconds
    return next_on_grid(anchor - timedelta(seconds=ahead), interval_seconds, now)


def next_on_grid(anchor: datetime, interval_seconds: int, now: datetime) -> datetime:
    """Rule 3: the first anchor + k·interval strictly after `now` (the anchor itself when that is still ahead)."""
    if now < anchor:
        return anchor
    passed = int((now - anchor).total_seconds() // interval_seconds)
    return anchor + timedelta(seconds=(passed + 1) * interval_seconds)


def latest_on_grid(anchor: datetime, interval_seconds: int, now: datetime) -> datetime:
    """The last slot at or before `now`; the anchor when none has come yet."""
    return max(anchor, next_on_grid(anchor, interval_seconds, now) - timedelta(seconds=interval_seconds))


def after_end(ended_at: datetime, interval_seconds: int) -> datetime:
    """Rule 3 with NEXTCHECK_MODE=from_end: the end of the run + interval. Ended 10:03:20, 10 min: 10:13:20."""
    return whole_second(ended_at) + timedelta(seconds=interval_seconds)


def after_interval_change(now: datetime, old_next: datetime | None, interval_seconds: int) -> datetime:
    """Rule 4: at now + the new interval, or at the old time if that is sooner. The result is the new anchor.

    The old time may be this very second: its tick is still to come.
    """
    fresh = whole_second(now) + timedelta(seconds=interval_seconds)
    return min(fresh, old_next) if old_next is not None and not passed_unseen(old_next, now) else fresh


def after_set_back(now: datetime, next_run: datetime, interval_seconds: int, taken: Collection[datetime]) -> datetime:
    """Where a slot goes that a clock which has been set back left too far ahead: to its grid's first slot after `now`.

    `taken`: the node's slots after `now` that were used while the clock was ahead. A slot is used once, so where the
    grid was used it moves on by the fewest seconds that make it a new one.
    """
    ahead = next_run - now - timedelta(microseconds=1)
    first = next_run - timedelta(seconds=int(ahead.total_seconds()) // interval_seconds * interval_seconds)
    used = {int(slot.timestamp()) % interval_seconds for slot in taken}
    shifts = (
        shift for shift in range(interval_seconds) if int(first.timestamp() + shift) % interval_seconds not in used
    )
    return first + timedelta(seconds=next(shifts, 0))


def is_delayed(scheduled_for: datetime, started_at: datetime) -> bool:
    """Rule 7: started more than 2 s after its slot."""
    return started_at - scheduled_for > DELAYED_AFTER


def delay_ms(scheduled_for: datetime, started_at: datetime) -> int:
    """Milliseconds between slot and start; never negative (a clock may step back)."""
    return max(0, round((started_at - scheduled_for) / timedelta(milliseconds=1)))


def next_try(
    now: datetime, retry_delay: int, failures: int, max_retries: int, next_slot: datetime | None
) -> datetime | None:
    """Rule 9: when a device that failed for the `failures`-th time is tried again; None = it is not.

    Failed 10:00:10 with a delay of 120 s and 2 retries: 10:02:10, and once more. Never at or after the next slot.
    """
    again = now + timedelta(seconds=retry_delay)
    too_late = next_slot is not None and again >= next_slot
    return None if failures > max_retries or too_late else again


def blocked(
    state: OltState, paused_until: datetime | None, now: datetime, held_until: datetime | None = None
) -> SkipReason | None:
    """Rule 10: why no slot of this OLT runs now, or of its node that is held; None when they run.

    A pause without an end lasts until it is ended.
    """
    if state is OltState.UNREACHABLE:
        return SkipReason.OLT_UNREACHABLE
    if state is OltState.PAUSED and (paused_until is None or paused_until > now):
        return SkipReason.OLT_PAUSED
    return SkipReason.NODE_HELD if held_until is not None and held_until > now else None


def hold(poisoned: int) -> timedelta | None:
    """For how long no slot of a node runs once so many in a row ended all their workers: 1 h, 2 h, 4 h, … one day."""
    if poisoned < HELD_AFTER:
        return None
    doubled: int = 2 ** min(poisoned - HELD_AFTER, 10)
    return min(FIRST_HOLD * doubled, LONGEST_HOLD)


def passed_unseen(slot: datetime, now: datetime) -> bool:
    """Rule 11: whether the slot passed while nothing ticked."""
    return now - slot > UNSEEN_AFTER


def still_worth_running(slot: datetime, interval_seconds: int, now: datetime) -> bool:
    """Rule 11: a slot passed while nothing ticked still runs if less than half its interval has gone by."""
    return (now - slot).total_seconds() < interval_seconds / 2


def spread_starts(now: datetime, next_slots: Sequence[datetime]) -> list[datetime | None]:
    """Rule 11: starts for so many late runs, evenly over a minute; whose next slot comes soonest goes first.

    None = its turn would come at or after its next slot, so it does not run. Its turn is not given away: the
    others would come closer together. Up to SPREAD_ABOVE runs all start now.
    """
    if len(next_slots) <= SPREAD_ABOVE:
        return [now] * len(next_slots)
    step = SPREAD_OVER / (len(next_slots) - 1)
    starts: list[datetime | None] = [None] * len(next_slots)
    for turn, index in enumerate(sorted(range(len(next_slots)), key=next_slots.__getitem__)):
        start = now + turn * step
        starts[index] = start if start < next_slots[index] else None
    return starts
