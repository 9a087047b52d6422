"""Sets the clock of a master by the rules of time, and reads cron lines in the portal's zone."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from flask import current_app

from portal.domain import schedule
from portal.domain.fields import FieldError
from portal.domain.messages import N_
from portal.models import WorkflowNode

CRON_SAMPLE = 40  # firings looked at to find how close together a cron line's runs come

FirstRun = Callable[[int, str], datetime]


def portal_zone() -> ZoneInfo:
    """The zone in which cron lines are read."""
    return ZoneInfo(current_app.config["TIMEZONE"])


def cron_times(cron: str, after: datetime, zone: ZoneInfo) -> Iterable[datetime]:
    """The firings of `cron` strictly after `after`, as aware UTC. FieldError when the line cannot be read."""
    try:
        times = CronSim(cron, after.astimezone(zone))
    except CronSimError as error:
        raise FieldError(
            N_("%(cron)s is no cron line (%(reason)s): five fields, such as 0 */6 * * *", cron=cron, reason=str(error))
        ) from None
    return (moment.astimezone(UTC) for moment in times)


def next_cron(cron: str, after: datetime, zone: ZoneInfo) -> datetime | None:
    """The first firing strictly after `after`; None when the line never fires (30 February)."""
    return next(iter(cron_times(cron, after, zone)), None)


def shortest_gap(cron: str, now: datetime, zone: ZoneInfo) -> int:
    """Seconds between the two closest of the next firings. FieldError when the line is wrong or never fires."""
    times = list(islice(cron_times(cron, now, zone), CRON_SAMPLE))
    if not times:
        raise FieldError(N_("%(cron)s never fires: check day and month", cron=cron))
    gaps = (int((later - sooner).total_seconds()) for sooner, later in pairwise(times))
    return min(gaps, default=366 * 86_400)


def first_runs(now: datetime, *, many_olts: bool, seconds: int | None = None) -> FirstRun:
    """Rule 1 as a function of (OLT id, node key). `seconds` moves the first run of demo nodes nearer."""
    if seconds is not None:
        return lambda _olt_id, _key: schedule.whole_second(now) + timedelta(seconds=seconds)
    return lambda olt_id, key: schedule.first_run(now, olt_id, key, many_olts=many_olts)


def _anchor(node: WorkflowNode, moment: datetime | None) -> None:
    node.next_run_at = node.anchor_at = moment


def stop(node: WorkflowNode) -> None:
    """A chained node has no clock."""
    _anchor(node, None)


def start_new(node: WorkflowNode, olt_id: int, now: datetime, first_run: FirstRun) -> None:
    """Rule 1 (a cron line simply fires when it says)."""
    if node.cron:
        _anchor(node, next_cron(node.cron, now, portal_zone()))
    else:
        _anchor(node, first_run(olt_id, node.key))


def restart(node: WorkflowNode, now: datetime) -> None:
    """Rule 2: after enabling the node, its workflow or its OLT."""
    if node.cron:
        _anchor(node, next_cron(node.cron, now, portal_zone()))
    elif node.interval_seconds:
        _anchor(node, schedule.after_enabling(now, node.interval_seconds))


def follow_change(node: WorkflowNode, now: datetime) -> None:
    """Rule 4: after its interval or cron line changed."""
    if node.cron:
        _anchor(node, next_cron(node.cron, now, portal_zone()))
    elif node.interval_seconds:
        _anchor(node, schedule.after_interval_change(now, node.next_run_at, node.interval_seconds))
