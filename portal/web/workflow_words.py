"""Words of the workflow editor: fields of a node, their values, and what a change did. Texts only."""

from collections.abc import Mapping
from typing import Any

from flask_babel import LazyString
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from markupsafe import Markup, escape

from portal.domain.statuses import NodeKind
from portal.queries.workflows import ORDER, Change
from portal.services.network.undoing import REDO, UNDO
from portal.web.formatting import MISSING, age, interval, number
from portal.web.words import FACES

FIELDS: Mapping[str, LazyString] = {
    "name": _l("Name"),
    "key": _l("Key"),
    "kind": _l("Kind"),
    "oid": _l("OID"),
    "interval_seconds": _l("Every"),
    "cron": _l("Cron"),
    "master": _l("Runs after"),
    "priority": _l("Priority"),
    "enabled": _l("Node enabled"),
    "max_retries": _l("Retries"),
    "retry_delay": _l("Retry after (s)"),
    "time_limit": _l("Time limit (s)"),
    "stop_on_failure": _l("Stop the chain if this fails"),
    "override_reason": _l("Reason for a short interval"),
    ORDER: _l("Order"),
}


def field(name: str) -> str:
    """The label of a column of a node."""
    return str(FIELDS.get(name, name))


def shown(name: str, value: Any) -> str:
    """A column's value as people read it; "–" for none."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return _("Yes") if value else _("No")
    if isinstance(value, NodeKind):
        return str(FACES[NodeKind][value].label)
    if name == "interval_seconds":
        return interval(value)
    return number(value) if isinstance(value, int) else str(value)


def listed(changes: Mapping[str, Any]) -> str:
    """field → [before, now] as one line."""
    return " · ".join(f"{field(name)}: {shown(name, old)} → {shown(name, new)}" for name, (old, new) in changes.items())


def undo_words(change: Change) -> str:
    """What pressing Undo takes back, with the verb: "Undo: node X was moved"."""
    done = {
        "node.create": _("node %(name)s was added", name=change.subject),
        "node.update": _("node %(name)s was changed", name=change.subject),
        "node.move": _("node %(name)s was moved", name=change.subject),
        "node.enable": _("node %(name)s was enabled", name=change.subject),
        "node.disable": _("node %(name)s was disabled", name=change.subject),
        "node.delete": _("node %(name)s was deleted", name=change.subject),
        "node.reset": _("node %(name)s was reset to its template", name=change.subject),
        "workflow.enable": _("the workflow was enabled"),
        "workflow.disable": _("the workflow was disabled"),
        UNDO: _("the change of %(name)s was undone", name=change.subject),
        REDO: _("the change of %(name)s was done again", name=change.subject),
    }.get(change.action, change.action)
    verb = _("Redo") if change.action == UNDO else _("Undo")
    return f"{verb}: {done}"


def who_and_when(change: Change) -> Markup:
    """ana, 2 min ago."""
    return Markup("{}, {}").format(escape(change.actor), age(change.made_at))
