"""Lost slots by cause: of some trackers, of one hour, of an OLT in one hour. Reads only."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select

from portal.domain.statuses import LossCause
from portal.extensions import db
from portal.tables import QuotaLoss

Lost = tuple[tuple[LossCause, int], ...]  # most first


def of_trackers(trackers: Sequence[tuple[int, str, datetime]]) -> dict[tuple[int, str, datetime], Lost]:
    """(OLT id, task type, hour) → lost slots by cause, most first. One SQL statement, none for no tracker."""
    if not trackers:
        return {}
    query = select(
        QuotaLoss.olt_id, QuotaLoss.task_type, QuotaLoss.period_start, QuotaLoss.cause,
        QuotaLoss.failed + QuotaLoss.skipped,
    ).where(
        QuotaLoss.olt_id.in_({olt_id for olt_id, _task, _hour in trackers}),
        QuotaLoss.task_type.in_({task for _olt, task, _hour in trackers}),
        QuotaLoss.period_start.in_({hour for _olt, _task, hour in trackers}),
    )  # fmt: skip
    found: dict[tuple[int, str, datetime], list[tuple[LossCause, int]]] = defaultdict(list)
    for olt_id, task_type, hour, cause, slots in db.session.execute(query):
        if slots:
            found[olt_id, task_type, hour].append((cause, slots))
    return {key: tuple(sorted(lost, key=lambda one: (-one[1], one[0].value))) for key, lost in found.items()}


def of_hour(hour: datetime) -> dict[tuple[int, str], Lost]:
    """(OLT id, task type) → lost slots by cause, most first. One SQL statement."""
    slots = QuotaLoss.failed + QuotaLoss.skipped
    query = select(QuotaLoss.olt_id, QuotaLoss.task_type, QuotaLoss.cause, slots).where(QuotaLoss.period_start == hour)
    found: dict[tuple[int, str], Lost] = defaultdict(tuple)
    for olt_id, task_type, cause, count in db.session.execute(
        query.where(slots > 0).order_by(slots.desc(), QuotaLoss.cause)
    ):
        found[olt_id, task_type] += ((cause, count),)
    return found


def of_olt(olt_id: int, hour: datetime) -> dict[str, Lost]:
    """Task type → lost slots by cause in one hour of an OLT. One SQL statement."""
    query = select(QuotaLoss.task_type, QuotaLoss.cause, QuotaLoss.failed + QuotaLoss.skipped).where(
        QuotaLoss.olt_id == olt_id, QuotaLoss.period_start == hour
    )
    found: dict[str, list[tuple[LossCause, int]]] = defaultdict(list)
    for task_type, cause, slots in db.session.execute(query):
        found[task_type].append((cause, slots))
    return {task: tuple(sorted(lost, key=lambda one: (-one[1], one[0].value))) for task, lost in found.items()}
