"""From due masters to executions and skipped slots. Pure: no database, no Redis, `now` is an argument."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from portal.domain import schedule
from portal.domain.slots import DueMaster, NewExecution, Plan, SkippedSlots
from portal.domain.statuses import SkipReason

NextCron = Callable[[str, datetime], datetime]  # cron line, moment → first time strictly after it


@dataclass(frozen=True)
class _Passed:
    """The slots of one master up to now: the latest, how many came before it, and the one that follows."""

    latest: datetime
    earlier: int
    before_latest: datetime
    following: datetime


def plan(due: Iterable[DueMaster], now: datetime, next_cron: NextCron, *, from_end: bool = False) -> Plan:
    """Decide each due slot: run, run late, or skip with a cause; and move every clock along its grid.

    Of the slots that passed while nothing ticked, the latest still runs if less than half its interval has
    gone by (design §5.11). A slot that finds its node ACTIVE is skipped; one that only waits for a retry is
    superseded (§5.9). With `from_end` the clock of a node that runs stops until the end of the run (§5.3).
    """
    new: list[NewExecution] = []
    skipped: list[SkippedSlots] = []
    next_runs: dict[int, datetime | None] = {}
    for master in due:
        passed = _passed(master, now, next_cron)
        taken, missed = _decide(master, passed, now)
        skipped.extend(missed)
        if taken is not None:
            new.append(taken)
        next_runs[master.node_id] = None if from_end and taken is not None else passed.following
    return Plan(tuple(new), tuple(skipped), next_runs)


def _passed(master: DueMaster, now: datetime, next_cron: NextCron) -> _Passed:
    first = master.next_run_at
    if master.interval_seconds is not None:
        step = timedelta(seconds=master.interval_seconds)
        latest = schedule.latest_on_grid(first, master.interval_seconds, now)
        return _Passed(latest, round((latest - first) / step), latest - step, latest + step)
    assert master.cron is not None  # noqa: S101  (the table's one_clock check)
    latest = before = first
    earlier = 0
    while (candidate := next_cron(master.cron, latest)) <= now:
        before, latest, earlier = latest, candidate, earlier + 1
    return _Passed(latest, earlier, before, candidate)


def _decide(master: DueMaster, passed: _Passed, now: datetime) -> tuple[NewExecution | None, list[SkippedSlots]]:
    interval = int((passed.following - passed.latest).total_seconds())
    down = SkipReason.SCHEDULER_DOWN
    if not schedule.still_worth_running(passed.latest, interval, now):
        return None, [SkippedSlots(master, down, master.next_run_at, passed.latest, passed.earlier + 1)]
    skipped = []
    if passed.earlier:
        skipped.append(SkippedSlots(master, down, master.next_run_at, passed.before_latest, passed.earlier))
    if master.active_id is None or master.active_waits_to_retry:
        return NewExecution(master, passed.latest, passed.following, master.active_id), skipped
    return None, [*skipped, SkippedSlots(master, SkipReason.STILL_ACTIVE, passed.latest, passed.latest)]
