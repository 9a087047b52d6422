"""The settings of a node as a form or a file gives them, the defaults, and the rules among them. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from portal.domain import fields, oid_text
from portal.domain.catalogue_data import is_secret
from portal.domain.fields import FieldError, Reader
from portal.domain.messages import N_, Message
from portal.domain.statuses import DEFAULT_PRIORITY, NodeKind

LONGEST_INTERVAL = 31 * 86_400
LONGEST_OID = 255

_CATALOGUE_KEY = re.compile(r"[a-z][a-z0-9_]{0,39}\.[a-z][a-z0-9_]{0,59}", re.ASCII)


def is_dotted(oid: str) -> bool:
    """True for 1.3.6.1…, False for a catalogue key such as huawei.onu_state."""
    return oid[:1].isdigit()


def read_oid(value: object) -> str:
    """Catalogue keys as they are, dotted OIDs in their normal form; several of them with commas between.

    Whether a key exists is asked elsewhere.
    """
    parts = [part.strip() for part in str(value or "").split(",")]
    if not any(parts):
        raise FieldError(N_("is missing: give a catalogue key such as huawei.onu_state, or a dotted OID"))
    text = ",".join(_read_one(part) for part in parts)
    if len(text) > LONGEST_OID:
        raise FieldError(N_("is longer than %(longest)d characters", longest=LONGEST_OID))
    return text


def parts_of(oid: str) -> list[str]:
    """The single keys and dotted OIDs of a node's `oid`."""
    return oid.split(",")


def _read_one(text: str) -> str:
    if _CATALOGUE_KEY.fullmatch(text):
        return text
    if not text.lstrip(".")[:1].isdigit():
        raise FieldError(
            N_("must be a catalogue key such as huawei.onu_state or a dotted OID such as 1.3.6.1.2.1.1.3.0, not"
               " %(given)s", given=fields.shown(text or "nothing"))
        )  # fmt: skip
    return _dotted(text)


def _dotted(text: str) -> str:
    try:
        oid = oid_text.normalise(text)
    except ValueError as error:
        raise FieldError(error.args[0]) from None
    if is_secret(oid):
        raise FieldError(N_("%(oid)s is or contains a column of customers' passwords, which is never read", oid=oid))
    return oid


READERS: Mapping[str, Reader] = {
    "key": fields.key,
    "name": fields.one_line(120),
    "kind": fields.choice(NodeKind),
    "oid": read_oid,
    "interval": fields.optional(fields.duration(1, LONGEST_INTERVAL)),
    "cron": fields.optional(fields.one_line(120)),
    "priority": fields.optional(fields.whole(1, 100)),
    "enabled": fields.flag,
    "max_retries": fields.whole(0, 10),
    "retry_delay": fields.duration(0, 86_400),
    "time_limit": fields.duration(1, 3_600),
    "stop_on_failure": fields.flag,
    "override_reason": fields.one_line(255),
}
DEFAULTS: Mapping[str, Any] = {
    "interval_seconds": None,
    "cron": None,
    "enabled": True,
    "max_retries": 2,
    "retry_delay": 120,
    "time_limit": 120,
    "stop_on_failure": False,
    "override_reason": "",
}
COLUMNS = ("key", "name", "kind", "oid", "priority", *DEFAULTS)


def complete(
    values: Mapping[str, Any], base: Mapping[str, Any] | None, *, chained: bool
) -> tuple[dict[str, Any], dict[str, Message]]:
    """All columns of a node from the `values` given (as READERS return them) and the stored ones in `base`.

    What is not given stays as in `base`, or gets its default when there is none. Returns (columns, field → error).
    """
    columns = {**DEFAULTS, **(base or {}), **{name: value for name, value in values.items() if name in COLUMNS}}
    errors = {name: N_("is missing") for name in ("key", "kind", "oid") if not columns.get(name)}
    errors |= _set_clock(columns, values, chained=chained)
    columns["name"] = columns.get("name") or columns.get("key", "")
    if "kind" not in errors:
        columns["priority"] = _priority(columns, values, base)
    return columns, errors


def _priority(columns: Mapping[str, Any], values: Mapping[str, Any], base: Mapping[str, Any] | None) -> int:
    given = values.get("priority")
    if given is not None:
        return int(given)
    by_default = base is None or "priority" in values or base["priority"] == DEFAULT_PRIORITY[base["kind"]]
    return DEFAULT_PRIORITY[columns["kind"]] if by_default else int(columns["priority"])


def _set_clock(columns: dict[str, Any], values: Mapping[str, Any], *, chained: bool) -> dict[str, Message]:
    """A master has an interval or a cron line, never both; a chained node has neither."""
    interval, cron = values.get("interval"), values.get("cron")
    if chained:
        columns["interval_seconds"] = columns["cron"] = None
        named = "interval" if interval else "cron"
        return {named: N_("a chained node has no clock, it runs after its master: leave it out")} if (
            interval or cron
        ) else {}  # fmt: skip
    if interval and cron:
        return {"cron": N_("an interval is given too: keep one of the two")}
    if interval or cron:
        columns["interval_seconds"], columns["cron"] = interval, cron
    elif {"interval", "cron"} <= values.keys():
        columns["interval_seconds"] = columns["cron"] = None
    if not columns["interval_seconds"] and not columns["cron"]:
        return {"interval": N_("is missing: say how often, such as 15m, or give a cron line")}
    return {}
