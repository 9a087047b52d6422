"""What happened to an OLT, as a sentence, with an icon and a tone. No queries."""

from typing import Any, NamedTuple

from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l

from portal.domain.statuses import EventType, OltState
from portal.queries.olt_events import OltEvent
from portal.web.words import face, level_face, told

ACTIONS = {
    "olt.create": ("plus", _l("OLT added")),
    "olt.update": ("pencil", _l("OLT changed")),
    "olt.enable": ("power", _l("OLT enabled")),
    "olt.disable": ("ban", _l("OLT disabled by hand")),
    "olt.delete": ("trash", _l("OLT deleted")),
    "olt.restore": ("arrow-back-up", _l("OLT restored")),
    "olt.break": ("player-stop", _l("Who held it was asked to stop")),
}
FIELDS = {
    "name": _l("Name"), "address": _l("Address"), "port": _l("UDP port"), "brand": _l("Brand"), "model": _l("Model"),
    "credential": _l("Credential"), "site": _l("Site"), "enabled": _l("Enabled"), "timeout": _l("Timeout (s)"),
    "retries": _l("Retries"), "max_repetitions": _l("Rows per GETBULK"), "max_varbinds": _l("Values per GET"),
    "max_inflight": _l("Requests at once"), "text_encoding": _l("Encoding of texts"),
}  # fmt: skip
STATES = {
    OltState.UP.value: ("circle-check", "quiet"),
    OltState.UNREACHABLE.value: ("plug-connected-x", "red"),
    OltState.PAUSED.value: ("player-pause", "amber"),
}


class Told(NamedTuple):
    """One line of the card."""

    icon: str
    tone: str
    text: str
    actor: str


def words(event: OltEvent) -> Told:
    """The event for people."""
    if event.action:
        icon, did = ACTIONS[event.action]
        changes = _changes(event.details) if event.action in ("olt.update", "olt.restore") else ""
        return Told(icon, "quiet", f"{did}: {changes}" if changes else str(did), event.actor)
    level = level_face(event.level)
    icon, tone = str(face(event.event).icon) if event.event else "history", level.tone
    if event.event is EventType.OLT_STATE_CHANGED:
        icon, tone = STATES.get(str(event.details.get("after")), (icon, tone))
    return Told(icon, tone, told(event.message), str(event.details.get("actor") or ""))


def _changes(found: dict[str, Any]) -> str:
    """Address: 10.0.0.1 → 10.0.0.2, Site: – → Lima."""
    pairs = ((name, pair) for name, pair in found.items() if isinstance(pair, list) and len(pair) == 2)  # noqa: PLR2004
    return ", ".join(f"{FIELDS.get(name, name)}: {_shown(old)} → {_shown(new)}" for name, (old, new) in pairs)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return "–" if value in (None, "") else str(value)
