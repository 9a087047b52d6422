"""How numbers, durations and moments are written in the reader's language. Pure text: no queries, no templates."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from babel import Locale
from flask import current_app, g
from flask_babel import get_locale, gettext
from markupsafe import Markup, escape

from portal import clock as wall_clock

MISSING = "–"
THIN = "\u202f"  # narrow no-break space: between thousands, and before a unit
MINUS = "\u2212"

COUNTDOWN = timedelta(minutes=10)


def now() -> datetime:
    """The moment of this request: one for the whole page, so that its ages agree."""
    moment: datetime | None = g.get("now")
    if moment is None:
        moment = g.now = wall_clock.now()
    return moment


def language() -> str:
    """Two letters: the language of this request."""
    locale = get_locale()
    return locale.language if locale else "en"


def zone() -> ZoneInfo:
    """The portal's zone (setting TIMEZONE)."""
    return ZoneInfo(current_app.config["TIMEZONE"])


def number(value: float | None, digits: int = 0) -> str:
    """1 240 and −21,4 in Spanish, 1,240 and −21.4 in English; "–" when there is no value."""
    if value is None:
        return MISSING
    text = f"{abs(value):,.{digits}f}"
    if not text.isdecimal() and language() == "es":
        text = text.replace(",", THIN).replace(".", ",")
    negative = value < 0 and text.strip("0.,") != ""
    return f"{MINUS}{text}" if negative else text


def exact(value: float | None) -> str:
    """A number with as many decimals as it has, at most eight: −22,88; 0,002; 1 240."""
    if value is None:
        return MISSING
    decimals = f"{value:.8f}".rstrip("0").partition(".")[2]
    return number(value, len(decimals))


def percent(value: float | None, digits: int = 0) -> str:
    """`value` is already in percent: 61 → 61 %."""
    return MISSING if value is None else f"{number(value, digits)}{THIN}%"


def dbm(value: float | None) -> str:
    """Optical power with one decimal and its unit: −21,4 dBm."""
    return MISSING if value is None else f"{number(value, 1)}{THIN}dBm"


def _units(*parts: tuple[int, str]) -> str:
    return " ".join(f"{number(amount)}{THIN}{unit}" for amount, unit in parts if amount)


def duration_s(seconds: float | None) -> str:
    """340 ms, 1,2 s, 12 s, 2 min 40 s, 3 h 5 min, 4 d 2 h; "–" when there is no value."""
    return MISSING if seconds is None else duration_ms(seconds * 1000)


def duration_ms(milliseconds: float | None) -> str:
    """As duration_s, from milliseconds."""
    if milliseconds is None:
        return MISSING
    if milliseconds < 1000:
        return f"{number(milliseconds)}{THIN}ms"
    if milliseconds < 9950:
        return f"{number(milliseconds / 1000, 1)}{THIN}s"
    seconds = round(milliseconds / 1000)
    if seconds < 60:
        return _units((seconds, "s"))
    if seconds < 3600:
        return _units((seconds // 60, "min"), (seconds % 60, "s"))
    minutes = seconds // 60
    if minutes < 48 * 60:
        return _units((minutes // 60, "h"), (minutes % 60, "min"))
    hours = minutes // 60
    return _units((hours // 24, "d"), (hours % 24, "h"))


def interval(seconds: int | None) -> str:
    """A node's interval in its largest whole units: 60 → 1 min, 5400 → 1 h 30 min, 86400 → 1 d."""
    if seconds is None:
        return MISSING
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    return _units((days, "d"), (hours, "h"), (rest // 60, "min"), (rest % 60, "s"))


def coarse(seconds: float) -> str:
    """A span in the units of an age: 40 s, 3 min, 2 h 10 min, 4 d. live.js says the same."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}{THIN}s"
    if whole < 3600:
        return _units((whole // 60, "min"))
    if whole < 48 * 3600:
        return _units((whole // 3600, "h"), (whole % 3600 // 60, "min"))
    return _units((whole // 86400, "d"))


def age_words(moment: datetime, at: datetime) -> str:
    """hace 40 s; ahora; en 40 s for what is still to come."""
    seconds = (at - moment).total_seconds()
    if -1 < seconds < 1:
        return gettext("now")
    if seconds < 0:
        return gettext("in %(time)s", time=coarse(-seconds))
    return gettext("%(time)s ago", time=coarse(seconds))


def clock(moment: datetime | None, *, seconds: bool = True) -> str:
    """Time of day in the portal's zone, with the date when it is not today's: 10:41:20, 12 mar 10:41."""
    if moment is None:
        return MISSING
    local, today = moment.astimezone(zone()), now().astimezone(zone())
    time = local.strftime("%H:%M:%S" if seconds else "%H:%M")
    if local.date() == today.date():
        return time
    year = f" {local.year}" if local.year != today.year else ""
    return f"{day(moment)}{year} {local:%H:%M}"


def moment(at: datetime) -> str:
    """To the second, with the date when it is not today's: 10:41:20, 12 mar 10:41:20. Slots are told apart by it."""
    local, today = at.astimezone(zone()), now().astimezone(zone())
    if local.date() == today.date():
        return f"{local:%H:%M:%S}"
    year = f" {local.year}" if local.year != today.year else ""
    return f"{day(at)}{year} {local:%H:%M:%S}"


def day(moment: datetime) -> str:
    """12 mar, in the portal's zone."""
    local = moment.astimezone(zone())
    return f"{local.day} {_month(local.month)}"


def plain_day(local: date | None) -> str:
    """12 mar 2026, of a day that is one of the portal's zone already."""
    return f"{local.day} {_month(local.month)} {local.year}" if local else MISSING


def hour(moment: datetime) -> str:
    """10:41, in the portal's zone, of whatever day."""
    return f"{moment.astimezone(zone()):%H:%M}"


def hour_span(start: datetime) -> str:
    """The hour from `start` on: 10:00–11:00, with the day when it is not today's."""
    here = zone()
    local, end = start.astimezone(here), (start + timedelta(hours=1)).astimezone(here)
    text = f"{local:%H:%M}–{end:%H:%M}"
    return text if local.date() == now().astimezone(here).date() else f"{day(start)}, {text}"


def _month(number_: int) -> str:
    return _months(language())[number_]


@cache
def _months(language_: str) -> dict[int, str]:
    names = Locale.parse(language_).months["format"]["abbreviated"]
    return {number_: str(name).rstrip(".") for number_, name in names.items()}


def absolute(moment: datetime) -> str:
    """Unmistakable: 2026-03-12 10:41:20 America/Lima."""
    local = moment.astimezone(zone())
    return f"{local:%Y-%m-%d %H:%M:%S} {zone().key}"


def _time_tag(moment: datetime, text: str, tick: str = "") -> Markup:
    mark = f' data-tick="{tick}"' if tick else ""
    iso = moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup(f'<time datetime="{iso}" title="{absolute(moment)}"{mark}>{escape(text)}</time>')  # noqa: S704


def age(moment: datetime | None) -> Markup:
    """<time> in words (hace 40 s) that live.js keeps fresh; the absolute time on hover."""
    return escape(MISSING) if moment is None else _time_tag(moment, age_words(moment, now()), "age")


def elapsed(moment: datetime | None) -> Markup:
    """<time> that counts up since `moment`, without "ago": for what is still going on."""
    if moment is None:
        return escape(MISSING)
    return _time_tag(moment, coarse((now() - moment).total_seconds()), "elapsed")


def countdown(moment: datetime | None) -> Markup:
    """<time>: en 40 s when less than ten minutes away, else the time of day."""
    if moment is None:
        return escape(MISSING)
    near = moment - now() < COUNTDOWN
    return _time_tag(moment, age_words(moment, now()), "age") if near else at(moment, seconds=False)


def at(moment: datetime | None, *, seconds: bool = True) -> Markup:
    """<time> with the time of day in the portal's zone; date, seconds and zone on hover."""
    return escape(MISSING) if moment is None else _time_tag(moment, clock(moment, seconds=seconds))


FILTERS: dict[str, Callable[..., Any]] = {
    "number": number,
    "exact": exact,
    "percent": percent,
    "dbm": dbm,
    "duration_s": duration_s,
    "duration_ms": duration_ms,
    "interval": interval,
    "age": age,
    "elapsed": elapsed,
    "countdown": countdown,
    "at": at,
    "hour": hour,
    "plain_day": plain_day,
    "absolute": absolute,
    "hour_span": hour_span,
}
