"""What happened to an OLT, as a sentence, with an icon and a tone. No queries."""

from typing import Any, NamedTuple

from flask_babel import gettext as _

from portal.domain.statuses import EventType, OltState
from portal.queries.olt_events import OltEvent
from portal.web.audit_changes import LABELS
from portal.web.audit_words import action_words
from portal.web.words import face, level_face, told

ICONS = {
    "olt.create": "plus",
    "olt.update": "pencil",
    "olt.accept_device": "check",
    "olt.enable": "power",
    "olt.disable": "ban",
    "olt.delete": "trash",
    "olt.restore": "arrow-back-up",
    "olt.break": "player-stop",
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
        did = action_words(event.action)
        changes = _changes(event.details) if event.action in ("olt.update", "olt.restore") else ""
        return Told(ICONS[event.action], "quiet", f"{did}: {changes}" if changes else did, event.actor)
    level = level_face(event.level)
    icon, tone = str(face(event.event).icon) if event.event else "history", level.tone
    if event.event is EventType.OLT_STATE_CHANGED:
        _label, tone, icon = face(OltState(event.details["after"]))
    return Told(icon, tone, told(event.message), str(event.details.get("actor") or ""))


def _changes(found: dict[str, Any]) -> str:
    """Address: 10.0.0.1 → 10.0.0.2, Site: – → Lima."""
    pairs = ((name, pair) for name, pair in found.items() if isinstance(pair, list) and len(pair) == 2)  # noqa: PLR2004
    return ", ".join(f"{LABELS.get(name, name)}: {_shown(old)} → {_shown(new)}" for name, (old, new) in pairs)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return "–" if value in (None, "") else str(value)
