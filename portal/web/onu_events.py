"""What happened to an ONU, as a sentence, with an icon and a tone; and for how long it was dark. No queries."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from flask_babel import gettext as _

from portal.domain import serials
from portal.domain.statuses import OnuEventKind, Presence
from portal.tables import OnuEvent
from portal.web.formatting import coarse
from portal.web.state_words import state_word

DARK, LIT = "dark", "lit"
_FACES = {DARK: ("antenna-bars-off", "red"), LIT: ("antenna-bars-5", "quiet")}


class Told(NamedTuple):
    """One line of the card. `note`: more of it, or ""."""

    at: datetime
    icon: str
    tone: str
    text: str
    note: str = ""


def look(kind: OnuEventKind, after: str) -> str:
    """DARK or LIT where the event says that the ONU went or came back, else ""."""
    if kind is OnuEventKind.STATE:
        return {"online": LIT, "offline": DARK}.get(after, "")
    if kind is OnuEventKind.PRESENCE:
        return {Presence.ENABLED.value: LIT, Presence.DISABLED.value: DARK}.get(after, "")
    return ""


def short(kind: OnuEventKind, after: str) -> str:
    """The event in two or three words, for a mark of the chart."""
    if kind is OnuEventKind.PRESENCE:
        return _("The OLT lists it again") if after == Presence.ENABLED.value else _("No longer listed")
    if kind is OnuEventKind.STATE:
        known = {"online": _("Came back"), "offline": _("Went dark")}
        return known.get(after) or _("State: %(state)s", state=state_word(after) or "–")
    return ""


def told(events: Sequence[OnuEvent]) -> list[Told]:
    """The events for people, in their order (newest first)."""
    lines: list[Told] = []
    since: dict[OnuEventKind, datetime] = {}
    for event in reversed(events):
        lines.append(_line(event, since.pop(event.kind, None)))
        if look(event.kind, event.after) == DARK:
            since[event.kind] = event.happened_at
    return lines[::-1]


def _line(event: OnuEvent, dark_since: datetime | None) -> Told:
    at, before, after = event.happened_at, event.before or "–", event.after or "–"
    if event.kind in (OnuEventKind.STATE, OnuEventKind.PRESENCE):
        seen = look(event.kind, event.after)
        icon, tone = {DARK: ("antenna-bars-off", "red"), LIT: ("antenna-bars-5", "quiet")}.get(
            seen, ("history", "quiet")
        )
        if event.kind is OnuEventKind.PRESENCE and seen == DARK:
            icon, tone = "circle-x", "amber"
        note = ""
        if seen == LIT and dark_since is not None:
            note = _("after %(time)s", time=coarse((at - dark_since).total_seconds()))
        return Told(at, icon, tone, short(event.kind, event.after), note)
    if event.kind is OnuEventKind.MOVED:
        return Told(at, "switch-horizontal", "quiet", _("Moved"), f"{before} → {after}")
    if event.kind is OnuEventKind.REPLACED:
        return Told(at, "repeat", "amber", _("Another ONU took its place"), f"{_label(before)} → {_label(after)}")
    places = _("%(first)s and %(second)s", first=before, second=after)
    return Told(at, "alert-triangle", "amber", _("Its serial stands at two places"), places)


def _label(serial: str) -> str:
    """A serial as it is printed; what is none, as it came."""
    known = serials.canonical(serial) or serials.mac(serial)
    return serials.printed(known) if known else serial
