"""The settings of a channel as a form or a command gives them, and the rules among them. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from portal.domain import fields
from portal.domain.fields import FieldError, Reader
from portal.domain.messages import N_, Message
from portal.domain.statuses import AlertKind, Severity

LONGEST_TARGET = 1_000
MOST_PER_HOUR = 1_000
CHOOSABLE = tuple(kind for kind in AlertKind if kind is not AlertKind.TEST)
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])", re.ASCII)


def _severity(value: object) -> Severity:
    try:
        return Severity(str(value).strip().upper())
    except ValueError:
        listed = ", ".join(Severity)
        raise FieldError(
            N_("must be one of %(accepted)s, not %(given)s", accepted=listed, given=fields.shown(value))
        ) from None


def _kinds(value: object) -> list[str]:
    """Kinds in the order in which they are declared; a text with commas is a list too."""
    given = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    words = [str(word).strip().lower() for word in given if str(word).strip()]
    wrong = next((word for word in words if word not in CHOOSABLE), None)
    if wrong is not None:
        raise FieldError(fields.unknown(wrong, CHOOSABLE))
    return [kind.value for kind in CHOOSABLE if kind.value in words]


def minutes(value: object) -> int:
    """ "22:30" as minutes since midnight."""
    found = _CLOCK.fullmatch(str(value).strip())
    if found is None:
        raise FieldError(N_("must be a time of day such as 22:30, not %(given)s", given=fields.shown(value)))
    return int(found[1]) * 60 + int(found[2])


def clock(minute: int | None) -> str:
    """Minutes since midnight as "22:30"; "" for None."""
    return "" if minute is None else f"{minute // 60:02d}:{minute % 60:02d}"


CHANNEL_FIELDS: Mapping[str, Reader] = {
    "name": fields.one_line(80, required=True),
    "target": fields.secret(LONGEST_TARGET),
    "enabled": fields.flag,
    "alert_kinds": _kinds,
    "min_severity": _severity,
    "quiet_start": fields.optional(minutes),
    "quiet_end": fields.optional(minutes),
    "per_hour": fields.whole(1, MOST_PER_HOUR),
}
CHANNEL_DEFAULTS: Mapping[str, Any] = {
    "enabled": True,
    "alert_kinds": [kind.value for kind in CHOOSABLE],
    "min_severity": Severity.LOW,
    "quiet_start": None,
    "quiet_end": None,
    "per_hour": 30,
}


def check_channel(values: Mapping[str, Any]) -> dict[str, Message]:
    """Errors of a whole channel."""
    errors: dict[str, Message] = {}
    if not values.get("name"):
        errors["name"] = N_("is missing")
    if not values["alert_kinds"]:
        errors["alert_kinds"] = N_("is missing: a channel without any kind of alert would never say anything")
    start, end = values["quiet_start"], values["quiet_end"]
    if (start is None) != (end is None):
        errors["quiet_end" if end is None else "quiet_start"] = N_("is missing: quiet hours have a start and an end")
    elif start is not None and start == end:
        errors["quiet_end"] = N_("is the start too: quiet hours must end before they begin again")
    return errors
