"""What an audit row changed, as lines: label, before, after. Texts only; secrets came masked."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from flask_babel import LazyString
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import lazy_pgettext as pgettext  # under the name that pybabel looks for

from portal.domain import moments
from portal.domain.statuses import AlertKind, NodeKind, OltState, Role, Severity
from portal.services.audit import MASK
from portal.web.formatting import MISSING, interval, moment, number
from portal.web.people_words import LANGUAGE_NAMES
from portal.web.words import face

LABELS: Mapping[str, LazyString] = {
    "name": _l("Name"), "key": _l("Key"), "kind": _l("Kind"), "enabled": pgettext("change", "Enabled"),
    "description": _l("Description"),
    "address": _l("Address"), "port": _l("UDP port"), "brand": _l("Brand"), "model": _l("Model"), "site": _l("Site"),
    "credential": _l("Credential"), "timeout": _l("Timeout (s)"), "retries": _l("Retries"),
    "max_repetitions": _l("Rows per GETBULK"), "max_varbinds": _l("Values per GET"),
    "max_inflight": _l("Requests at once"), "text_encoding": _l("Encoding of texts"),
    "state": _l("State"), "reason": _l("Reason"), "until": _l("Until"),
    "version": _l("SNMP version"), "username": _l("User"), "community": _l("Community"),
    "auth_protocol": _l("Authentication"), "auth_password": _l("Authentication password"),
    "priv_protocol": _l("Encryption"), "priv_password": _l("Encryption password"),
    "networks": _l("Networks it may be sent to"),
    "oid": _l("OID"), "interval_seconds": _l("Every"), "cron": _l("Cron"), "priority": _l("Priority"),
    "override_reason": _l("Reason for a short interval"), "max_retries": _l("Retries"),
    "retry_delay": _l("Retry after (s)"), "time_limit": _l("Time limit (s)"),
    "stop_on_failure": _l("Stop the chain if this fails"), "master": _l("Master"), "place": _l("Place"),
    "chain": _l("Chain"), "direction": _l("Direction"), "node": _l("Node"), "template": _l("Template"),
    "workflow enabled": _l("Workflow enabled"), "of": _l("What was undone"), "added": pgettext("change", "Added"),
    "removed": pgettext("change", "Removed"), "changed": pgettext("change", "Changed"), "olts": _l("OLTs"),
    "target": _l("Address of the channel"), "host": _l("Host"), "alert_kinds": _l("Tells of"),
    "min_severity": _l("From severity"), "quiet_start": _l("Quiet from"), "quiet_end": _l("Quiet until"),
    "per_hour": _l("Messages per hour"), "channel": _l("Channel"), "note": _l("Note"),
    "acknowledged_by": _l("Acknowledged by"), "role": _l("Role"), "active": pgettext("change", "Active"),
    "language": _l("Language"),
    "expires_at": _l("Expires"), "size": _l("Pollers"), "values": _l("Secrets"),
    "moved": _l("Nodes moved"), "meeting_seconds": _l("Seconds of waiting"), "peak": _l("At once, at most"),
    "seconds": _l("Seconds moved, by node"), "created": pgettext("change", "Created"),
    "updated": pgettext("change", "Updated"),
    "unchanged": pgettext("change", "Unchanged"), "kept": pgettext("change", "Kept"),
    "deleted": pgettext("change", "Deleted"),
    "models": _l("Models"), "shape": _l("What a row is"), "value_type": _l("Type"), "scale": _l("Scale"),
    "offset": _l("Offset"), "unit": _l("Unit"), "signed_bits": _l("Signed bits"), "sentinels": _l("Means no value"),
    "minimum": _l("Lowest possible"), "maximum": _l("Highest possible"), "dead_band": _l("Dead band"),
    "safe_interval": _l("Safe interval"), "variant": _l("Variant"), "metric": _l("Kept as"),
    "access": _l("May be read by"), "source": _l("Source"), "confidence": _l("Confidence"),
    "definition": _l("Definition"), "states": _l("States"), "state_map_id": _l("State map"),
    "formula_id": _l("Formula"),
}  # fmt: skip

# Lists that are no pair of before and after, though they may hold two.
_LISTS = frozenset({"added", "removed", "of", "chain"})
_WORDS: Mapping[str, type[StrEnum]] = {
    "role": Role, "state": OltState, "min_severity": Severity, "alert_kinds": AlertKind,
}  # fmt: skip
_TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*")
_LONGEST = 300


class Line(NamedTuple):
    """One thing that changed; `before` is None where only what came of it is known."""

    label: str
    before: str | None
    after: str


def lines(changes: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[Line]:
    """What `changes` of an audit row say, in the reader's words."""
    for name, value in changes.items():
        if name == "changed" and isinstance(value, Mapping):
            for node, fields in value.items():
                yield from lines(fields if isinstance(fields, Mapping) else {"node": fields}, (*path, str(node)))
        elif isinstance(value, list | tuple) and not value and name in _LISTS:
            continue
        elif isinstance(value, list | tuple) and len(value) == 2 and name not in _LISTS:  # noqa: PLR2004
            before, after = value
            yield Line(_label(name, path), shown(name, before), _after(name, before, after))
        else:
            yield Line(_label(name, path), None, shown(name, value))


def _label(name: str, path: tuple[str, ...]) -> str:
    return " · ".join((*path, str(LABELS.get(name, name.replace("_", " ")))))


def _after(name: str, before: object, after: object) -> str:
    """A secret that was replaced would read as if nothing had happened."""
    return _("another one, not shown") if before == after == MASK else shown(name, after)


def shown(name: str, value: object) -> str:
    """A value for people."""
    text = _shown(name, value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _shown(name: str, value: object) -> str:
    if value is None or value == "" or value == []:
        return MISSING
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list | tuple):
        return ", ".join(_shown(name, one) for one in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_shown(str(key), one)}" for key, one in value.items())
    if isinstance(value, int | float):
        return _number(name, value)
    return _text(name, str(value))


def _number(name: str, value: float) -> str:
    if name == "interval_seconds" or name == "safe_interval":
        return interval(int(value))
    if name in ("quiet_start", "quiet_end"):
        return f"{int(value) // 60:02d}:{int(value) % 60:02d}"
    return number(value) if isinstance(value, int) and name != "port" else str(value)


def _text(name: str, text: str) -> str:
    if text == MASK:
        return _("(not shown)")
    if name == "language":
        return LANGUAGE_NAMES.get(text, text)
    words = _WORDS.get(name) or (NodeKind if name == "kind" and text in set(NodeKind) else None)
    if words is not None and text in set(words):
        return str(face(words(text)).label)
    if _TIMES.fullmatch(text):
        return _moment(text)
    return text


def _moment(text: str) -> str:
    try:
        return moment(moments.parse(text))
    except ValueError:
        return text
