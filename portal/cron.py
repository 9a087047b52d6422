"""When cron lines fire, in the portal's zone. Reads nothing but the setting; knows no nodes."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from flask import current_app

from portal.domain.fields import FieldError
from portal.domain.messages import N_


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


def firings(cron: str, after: datetime, until: datetime) -> tuple[datetime, ...]:
    """Those in (after, until]; none of a line that cannot be read: it was refused on entry, and never fires."""
    try:
        return tuple(takewhile(lambda at: at <= until, cron_times(cron, after, portal_zone())))
    except FieldError:
        return ()
