"""Intervals and cron lines in words, in the reader's language. A line too odd for words is shown as it is."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice

from babel.lists import format_list
from flask_babel import get_locale, ngettext
from flask_babel import gettext as _

from portal import cron
from portal.domain import schedule
from portal.web.formatting import interval, number

MOST_TIMES = 8  # of a day, named one by one
_MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
_DAYS = "SUN MON TUE WED THU FRI SAT".split()


def of_interval(seconds: int) -> str:
    """Every 15 min: 4 runs an hour."""
    if seconds > 3600:
        return _("Every %(time)s", time=interval(seconds))
    runs = 3600 / seconds
    shown = number(runs, 0 if runs == int(runs) else 1)
    return ngettext("Every %(time)s: %(n)s run an hour", "Every %(time)s: %(n)s runs an hour", 1 if runs == 1 else 2,
                    time=interval(seconds), n=shown)  # fmt: skip


def of_cron(line: str) -> str:
    """Each day at 06:00 and 18:00. The line must have been read already."""
    fields = line.split()
    if len(fields) != 5:
        return _("By the cron line %(line)s", line=line)
    minute, hour, day, month, weekday = fields
    try:
        return ", ".join(part for part in (_times(minute, hour), _days(day, month, weekday)) if part)
    except ValueError:
        return _("By the cron line %(line)s", line=line)


def next_runs(seconds: int | None, line: str | None, now: datetime, count: int = 5) -> list[datetime]:
    """The next runs of a master that would be made now. FieldError when the line cannot be read."""
    if line:
        return list(islice(cron.cron_times(line, now, cron.portal_zone()), count))
    first = schedule.whole_second(now) + schedule.FIRST_RUN_DELAY
    return [first + timedelta(seconds=(seconds or 0) * step) for step in range(count)]


def _times(minute: str, hour: str) -> str:
    if hour == "*" and minute == "*":
        return _("Every minute")
    if hour == "*" and minute.startswith("*/"):
        return _("Every %(time)s", time=interval(60 * int(minute[2:])))
    minutes, hours = _numbers(minute, 0, 59), _numbers(hour, 0, 23)
    if hour == "*":
        return _("Each hour at minute %(minutes)s", minutes=_listed([str(one) for one in minutes]))
    if len(minutes) * len(hours) <= MOST_TIMES:
        times = [f"{at:02d}:{past:02d}" for at in hours for past in minutes]
        return _("At %(times)s", times=_listed(times))
    return _("At minute %(minutes)s of the hours %(hours)s", minutes=_listed([str(one) for one in minutes]),
             hours=_listed([str(one) for one in hours]))  # fmt: skip


def _days(day: str, month: str, weekday: str) -> str:
    said = []
    if day != "*":
        said.append(_("on day %(days)s of the month", days=_listed([str(one) for one in _numbers(day, 1, 31)])))
    if weekday != "*":
        days = sorted({(one % 7 + 6) % 7 for one in _numbers(weekday, 0, 7, _DAYS)})  # Monday is 0 there
        names = get_locale().days["format"]["wide"]
        on = _("on %(days)s", days=_listed([str(names[one]) for one in days]))
        said.append(_("and also %(days)s", days=on) if said else on)  # cron takes the one or the other
    if month != "*":
        months = get_locale().months["format"]["wide"]
        said.append(_("in %(months)s", months=_listed([str(months[one]) for one in _numbers(month, 1, 12, _MONTHS)])))
    return ", ".join(said) or _("each day")


def _listed(words: Sequence[str]) -> str:
    return str(format_list(list(words), locale=get_locale() or "en"))


def _numbers(field: str, low: int, high: int, names: Sequence[str] = ()) -> list[int]:
    """The values of one field. ValueError when it says more than numbers, ranges, steps and names."""
    found: set[int] = set()
    for part in field.split(","):
        span, _slash, step = part.partition("/")
        first, _dash, last = ("", "", "") if span == "*" else span.partition("-")
        start = _number(first, names, low) if first else low
        end = _number(last, names, low) if last else high if span == "*" or step else start
        found |= set(range(start, end + 1, int(step or 1)))
    return sorted(found)


def _number(word: str, names: Sequence[str], low: int) -> int:
    upper = word.upper()
    return names.index(upper) + low if upper in names else int(word)
