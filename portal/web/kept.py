"""Parts of a live list that stay as they are while the rest of it changes are made once: `kept` in templates.

    {% call kept("olt-menu", olt.id, olt.name, olt.enabled) %}…{% endcall %}

Everything that the part shows must be named, but for the reader's language and role and whatever is the same for all.
Nothing that tells the time, nor what belongs to one person or one address, can be in it. Only fragments are served
from here: a whole page holds its reader's token.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from flask import g, request
from flask_login import current_user
from markupsafe import Markup

from portal.domain.statuses import Role
from portal.web.access import note_asked
from portal.web.formatting import language

MOST = 4000


class Part(NamedTuple):
    """A part, and what it asked of its reader's rights."""

    html: Markup
    asked: frozenset[Role]


class Kept:
    """The parts of one process."""

    def __init__(self) -> None:
        self._parts: dict[Hashable, Part] = {}

    def __call__(self, *shown: Hashable, caller: Callable[[], Markup]) -> Markup:
        """The part, made by `caller` unless it is there. `shown`: its name and all that it shows."""
        if not g.get("in_fragment"):
            return caller()
        key = (language(), current_user.role, request.script_root, *shown)
        part = self._parts.get(key)
        if part is None:
            part = self._make(key, caller)
        note_asked(*part.asked)
        return part.html

    def _make(self, key: Hashable, caller: Callable[[], Markup]) -> Part:
        outside = g.get("asked")
        g.asked = asked = set[Role]()
        try:
            html = caller()
        finally:
            g.asked = outside
        if len(self._parts) >= MOST:
            self._parts.clear()
        self._parts[key] = part = Part(html, frozenset(asked))
        return part
