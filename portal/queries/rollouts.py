"""What a template did to the OLT that it was tried on: its runs and promises before and since. Reads only."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from sqlalchemy import case, func, select

from portal.domain import quota
from portal.domain.quota import HOUR
from portal.domain.statuses import TERMINAL, ExecutionStatus, Trigger
from portal.extensions import db
from portal.tables import Execution, ExecutionAttempt, ExecutionStep, QuotaTracker, TemplateRollout

LONGEST = timedelta(hours=24)  # of either side


@dataclass(frozen=True)
class Side:
    """One composite on one side. `required` and `completed`: of the promises of whole hours."""

    runs: int = 0
    failed: int = 0
    p50_ms: int | None = None
    values: int = 0
    required: int = 0
    completed: int = 0

    @property
    def kept(self) -> float | None:
        """Completed of the promised runs in percent; None before the first whole hour."""
        return self.completed * 100 / self.required if self.required else None


@dataclass(frozen=True)
class Comparison:
    """Both sides, each of its `span` long. `tasks`: task type → before, since. `busy`: share of the time in percent."""

    before: timedelta
    since: timedelta
    tasks: dict[str, tuple[Side, Side]]
    busy: tuple[float, float]

    @property
    def early(self) -> bool:
        """True while little can be said: nothing has run since."""
        return not any(since.runs for _before, since in self.tasks.values())


def compare(row: TemplateRollout, now: datetime) -> Comparison:
    """The canary's hours before the template, as many as there were since and at least one. Three SQL statements."""
    end = row.ended_at or now
    since = min(end - row.started_at, LONGEST)
    before = max(since, HOUR)
    runs = _runs(row, row.started_at - before, row.started_at + since)
    values = _values(row, row.started_at - before, row.started_at + since)
    promised = _promised(row, row.started_at - before, row.started_at + since)
    names = sorted({key for key, _late in (*runs, *promised)})
    tasks = {
        name: (_side(name, False, runs, values, promised), _side(name, True, runs, values, promised)) for name in names
    }
    busy = [sum(sum(found) for (_name, late), (_count, _failed, found) in runs.items() if late is side)
            for side in (False, True)]  # fmt: skip
    return Comparison(before, since, tasks, (_share(busy[0], before), _share(busy[1], since)))


def _share(milliseconds: int, span: timedelta) -> float:
    return milliseconds / 10 / span.total_seconds() if span else 0.0


Key = tuple[str, bool]


def _side(
    name: str, late: bool, runs: dict[Key, tuple[int, int, list[int]]], values: dict[Key, int],
    promised: dict[Key, tuple[int, int]],
) -> Side:  # fmt: skip
    count, failed, durations = runs.get((name, late), (0, 0, []))
    required, completed = promised.get((name, late), (0, 0))
    usual = round(median(durations)) if durations else None
    return Side(count, failed, usual, values.get((name, late), 0), required, completed)


def _runs(row: TemplateRollout, start: datetime, end: datetime) -> dict[Key, tuple[int, int, list[int]]]:
    """(task type, since) → ended runs of the schedule, those that failed, durations in ms."""
    query = select(Execution.task_type, Execution.scheduled_for, Execution.status, Execution.duration_ms).where(
        Execution.olt_id == row.canary_olt_id, Execution.trigger == Trigger.SCHEDULE, Execution.status.in_(TERMINAL),
        Execution.scheduled_for >= start, Execution.scheduled_for < end, Execution.task_type != "",
    )  # fmt: skip
    found: dict[Key, list[Any]] = defaultdict(list)
    for task, moment, status, duration in db.session.execute(query):
        found[(task, moment >= row.started_at)].append((status, duration))
    return {
        key: (len(ended), sum(status is ExecutionStatus.FAILED for status, _ in ended), [ms for _, ms in ended if ms])
        for key, ended in found.items()
    }


def _values(row: TemplateRollout, start: datetime, end: datetime) -> dict[Key, int]:
    late = case((Execution.scheduled_for >= row.started_at, 1), else_=0)
    query = (
        select(Execution.task_type, late, func.sum(ExecutionStep.values_read))
        .join(ExecutionAttempt, ExecutionAttempt.execution_id == Execution.id)
        .join(ExecutionStep, ExecutionStep.attempt_id == ExecutionAttempt.id)
        .where(
            Execution.olt_id == row.canary_olt_id, Execution.trigger == Trigger.SCHEDULE,
            Execution.scheduled_for >= start, Execution.scheduled_for < end,
        )
        .group_by(Execution.task_type, late)
    )  # fmt: skip
    return {(task, bool(since)): int(total or 0) for task, since, total in db.session.execute(query)}


def _promised(row: TemplateRollout, start: datetime, end: datetime) -> dict[Key, tuple[int, int]]:
    """(task type, since) → promised and completed runs of the whole hours on each side."""
    hour = quota.hour_at(row.started_at)
    query = select(QuotaTracker).where(
        QuotaTracker.olt_id == row.canary_olt_id, QuotaTracker.period_start >= start - HOUR,
        QuotaTracker.period_end <= end, QuotaTracker.period_start != hour,
    )  # fmt: skip
    found: dict[Key, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for one in db.session.scalars(query):
        key = (one.task_type, one.period_start > hour)
        required, completed = found[key]
        found[key] = (required + one.quota_required, completed + one.quota_completed)
    return dict(found)
