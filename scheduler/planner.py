"""From due masters to executions and skipped slots. Pure: no database, no Redis, `now` is an argument."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import cache

from portal.domain import schedule
from portal.domain.slots import (
    DueMaster,
    NewExecution,
    NextCron,
    Passed,
    Plan,
    SkippedSlots,
    passed_of_line,
    passed_on_grid,
)
from portal.domain.statuses import SkipReason


def plan(due: Iterable[DueMaster], now: datetime, next_cron: NextCron, *, from_end: bool = False) -> Plan:
    """Decide each due slot: run, run late, or skip with a cause; and move every clock along its grid.

    Of the slots that passed while nothing ticked, the latest still runs if less than half its interval has
    gone by, many such runs one after the other (rule 11). A slot that finds its node ACTIVE is skipped; what
    only waits for a retry is superseded. Nothing of a blocked OLT runs (rule 10). With `from_end` the clock of
    an interval stops while its node runs, until the end of the run; a cron line goes on.

    Of a cron line that missed very many firings the first FIRINGS are decided: its clock stays due, and goes on from
    there with the next tick.
    """
    passed_of = cache(lambda line, first: passed_of_line(line, first, now, next_cron))  # many masters share a line
    new: list[NewExecution] = []
    skipped: list[SkippedSlots] = []
    next_runs: dict[int, datetime | None] = {}
    for master in due:
        passed = passed_on_grid(master, now) if master.cron is None else passed_of(master.cron, master.next_run_at)
        taken, missed = _decide(master, passed, now)
        skipped.extend(missed)
        if taken is not None:
            new.append(taken)
        next_runs[master.node_id] = passed.following
    new, missed = _spread(new, now)
    skipped.extend(missed)
    if from_end:
        next_runs |= {taken.master.node_id: None for taken in new if taken.master.interval_seconds is not None}
    return Plan(tuple(new), tuple(skipped), next_runs)


def _decide(master: DueMaster, passed: Passed, now: datetime) -> tuple[NewExecution | None, list[SkippedSlots]]:
    down = SkipReason.SCHEDULER_DOWN
    waiting = master.active_id if master.active_waits_to_retry else None
    none_runs = master.blocked or (None if _worth_running(passed, now) else down)
    if none_runs is not None:
        count = passed.earlier + 1
        hours = passed.with_latest()
        return None, [SkippedSlots(master, none_runs, master.next_run_at, passed.latest, count, waiting, hours)]
    skipped = []
    if passed.earlier:
        first, last, hours = master.next_run_at, passed.before_latest, passed.hours
        skipped.append(SkippedSlots(master, down, first, last, passed.earlier, hours=hours))
    if master.active_id is None or master.active_waits_to_retry:
        return NewExecution(master, passed.latest, passed.following, supersedes=waiting), skipped
    return None, [*skipped, SkippedSlots(master, SkipReason.STILL_ACTIVE, passed.latest, passed.latest)]


def _worth_running(passed: Passed, now: datetime) -> bool:
    if not schedule.passed_unseen(passed.latest, now):
        return True
    interval = int((passed.following - passed.latest).total_seconds())
    return schedule.still_worth_running(passed.latest, interval, now)


def _spread(new: list[NewExecution], now: datetime) -> tuple[list[NewExecution], list[SkippedSlots]]:
    """Give late runs their turns. What came on time starts now, however much it is."""
    late = [taken for taken in new if schedule.passed_unseen(taken.scheduled_for, now)]
    starts = schedule.spread_starts(now, [taken.overdue_at for taken in late])
    kept = [taken for taken in new if not schedule.passed_unseen(taken.scheduled_for, now)]
    skipped = []
    for taken, start in zip(late, starts, strict=True):
        if start is not None:
            kept.append(taken if start <= now else replace(taken, not_before=start))
        else:
            slot, down = taken.scheduled_for, SkipReason.SCHEDULER_DOWN
            skipped.append(SkippedSlots(taken.master, down, slot, slot, supersedes=taken.supersedes))
    return kept, skipped
