"""When cron lines fire, in the portal's zone. Reads nothing but the setting; knows no nodes."""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from flask import current_app

from portal.domain.fields import FieldError
from portal.domain.messages import N_

log = logging.getLogger(__name__)


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
    # In the hour that the end of summer time repeats, the line's first firing may be one that has passed.
    return (moment for moment in (local.astimezone(UTC) for local in times) if moment > after)


def latest_firing(cron: str, at: datetime) -> datetime | None:
    """The last firing at or before `at`; None of a line that cannot be read, or that has not fired for years."""
    zone = portal_zone()
    try:
        earlier = CronSim(cron, (at + timedelta(minutes=1)).astimezone(zone), reverse=True)
        found = next((moment for local in earlier if (moment := local.astimezone(UTC)) <= at), None)
    except CronSimError:
        return None
    if found is None:
        return None
    # Going back, the hour that the end of summer time repeats is passed over: the law is that of going forward.
    return max(firings(cron, found, at), default=found)


def firings(cron: str, after: datetime, until: datetime) -> tuple[datetime, ...]:
    """Those in (after, until]; none of a line that cannot be read: it was refused on entry, and never fires."""
    try:
        return tuple(takewhile(lambda at: at <= until, cron_times(cron, after, portal_zone())))
    except FieldError:
        return ()


def following(line: str, moment: datetime) -> datetime:
    """The first firing strictly after `moment` of a line that is stored, in the portal's zone.

    A line that never fires or cannot be read is refused on entry. If one is there all the same it is due in a year,
    and does not stop the clock of all others.
    """
    try:
        return next(iter(cron_times(line, moment, portal_zone())))
    except (StopIteration, FieldError):
        log.error("event=cron_never_fires line=%r", line)
        return moment + timedelta(days=365)
