"""What changes of nodes and their effects on OLTs are called. Texts only."""

from collections.abc import Iterable, Sequence
from typing import Any

from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext

from portal.domain.statuses import NodeKind
from portal.services.network.many import Effect
from portal.services.network.standing import Stand, TemplateStand
from portal.services.network.trees import Difference
from portal.web.formatting import MISSING, interval, number
from portal.web.forms import said
from portal.web.words import Face, face

STANDS = {
    Stand.BEHIND: Face(_l("Behind"), "amber", "hourglass"),
    Stand.DIFFERS: Face(_l("Differs on purpose"), "quiet", "pencil"),
    Stand.IN_STEP: Face(_l("In step"), "quiet", "check"),
}

FIELDS = {
    "name": _l("Name"),
    "kind": _l("Kind"),
    "oid": _l("OID"),
    "interval_seconds": _l("Every"),
    "cron": _l("Cron"),
    "enabled": _l("Node enabled"),
    "priority": _l("Priority"),
    "max_retries": _l("Retries"),
    "retry_delay": _l("Retry after"),
    "time_limit": _l("Time limit"),
    "stop_on_failure": _l("Stop the chain if this fails"),
    "override_reason": _l("Reason for a short interval"),
    "master": _l("Runs after"),
    "position": _l("Order"),
    "from template": _l("Of the template"),
}
SPANS = ("interval_seconds", "retry_delay", "time_limit")
MOST_NAMED = 5

Line = tuple[str, str, str]  # sign, key of the node, what becomes of it


def value(name: str, found: Any) -> str:
    """The value of a node's field as it is shown."""
    if found is None or found == "":
        return MISSING
    if isinstance(found, bool):
        return _("yes") if found else _("no")
    if isinstance(found, NodeKind):
        return str(face(found).label)
    return interval(found) if name in SPANS else str(found)


def lines(made: Difference) -> list[Line]:
    """What becomes of each node, the added first."""
    changed = [("~", key, _fields(fields)) for key, fields in sorted(made.changed.items())]
    return [
        *(("+", key, _("added")) for key in made.added), *changed, *(("−", key, _("removed")) for key in made.removed),
    ]  # fmt: skip


def _fields(changes: dict[str, list[Any]]) -> str:
    shown = {name: pair for name, pair in changes.items() if name != "position"}
    if not shown:
        return _("another place in the order")
    return ", ".join(f"{FIELDS[name]}: {value(name, old)} → {value(name, new)}" for name, (old, new) in shown.items())


def sums(effects: Sequence[Effect]) -> list[str]:
    """What applying does as a headline: OLTs that change, nodes, what is kept, who is in step, who is left out."""
    changing = [one for one in effects if one.changes]
    nodes = {
        key for one in changing for key in (*one.difference.added, *one.difference.changed, *one.difference.removed)
    }
    kept = sum(len(one.kept) for one in effects if not one.problems)
    out = sum(bool(one.problems) for one in effects)
    still = len(effects) - len(changing) - out
    told = [(len(changing), olts_change(len(changing)))] if changing or not still else []
    told += [(len(nodes), ngettext("%(n)s node changes", "%(n)s nodes change", len(nodes), n=number(len(nodes))))]
    told += [(kept, ngettext("%(n)s override kept", "%(n)s overrides kept", kept, n=number(kept)))]
    told += [(still, ngettext("%(n)s in step already", "%(n)s in step already", still, n=number(still)))]
    told += [(out, ngettext("%(n)s left out", "%(n)s left out", out, n=number(out)))]
    return [text for count, text in told if count] or [_("Nothing changes")]


def olts_change(count: int) -> str:
    """12 OLTs change."""
    return ngettext("%(n)s OLT changes", "%(n)s OLTs change", count, n=number(count))


def waits(stand: TemplateStand) -> str:
    """3 changes wait for 12 OLTs; "" when nothing does."""
    behind = len(stand.behind)
    if not behind:
        return ""
    changes = ngettext("%(n)s change waits", "%(n)s changes wait", stand.waiting, n=number(stand.waiting))
    return ngettext("%(changes)s for %(n)s OLT", "%(changes)s for %(n)s OLTs", behind, changes=changes,
                    n=number(behind))  # fmt: skip


def why_not(effect: Effect) -> str:
    """Why an OLT is left out."""
    return " ".join(f"{said(problem)}." for problem in effect.problems)


def left_out(effects: Iterable[Effect]) -> str:
    """The OLTs that were left out with their reasons, the first of them; "" when there are none."""
    found = [one for one in effects if one.problems]
    if not found:
        return ""
    named = " ".join(f"{one.name}: {why_not(one)}" for one in found[:MOST_NAMED])
    more = len(found) - MOST_NAMED
    tail = " " + ngettext("And %(n)s more.", "And %(n)s more.", more, n=number(more)) if more > 0 else ""
    head = ngettext("%(n)s OLT was left out.", "%(n)s OLTs were left out.", len(found), n=number(len(found)))
    return f"{head} {named}{tail}"
