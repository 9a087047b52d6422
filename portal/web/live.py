"""One URL, page or fragment: which part of a template answers a request, and whether it changed. No queries."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from flask import Response, current_app, g, make_response, render_template
from jinja2 import Template

from portal.domain.statuses import Role
from portal.extensions import htmx
from portal.web.access import note_asked
from portal.web.audience import publish, wants_fragment

# What differs from second to second although nothing happened: ticking times, which live.js keeps fresh.
_VOLATILE = re.compile(r'(<time [^>]*data-tick="[^"]*"[^>]*>)[^<]*')


class Faceless:
    """Instead of a person, for a template that is rendered for many: the role and nothing else."""

    def __init__(self, person: Any) -> None:
        self.is_authenticated, self._role = person.is_authenticated, getattr(person, "role", None)

    @property
    def role(self) -> Role | None:
        """Whoever looks at it shows what only those of the same role may see."""
        note_asked(*Role)
        return self._role


def digest(html: str) -> str:
    """Short fingerprint of what a person would see change."""
    return hashlib.sha256(_VOLATILE.sub(r"\1", html).encode()).hexdigest()[:16]


def render_block(template: Template, block: str, context: dict[str, Any]) -> str:
    """One {% block %} of a template, with what Flask gives to every template but what belongs to one person: the name,

    the token of forms, messages. What the template sets or imports outside of the block is not there.
    """
    current_app.update_template_context(context)
    context["current_user"] = Faceless(context["current_user"])
    context["get_flashed_messages"] = lambda **_: []
    g.in_fragment = True
    try:
        return "".join(template.blocks[block](template.new_context(context)))
    finally:
        g.in_fragment = False


def wanted_block(template: Template) -> str | None:
    """The block named like the element that htmx will replace (HX-Target), or None: the whole page is wanted."""
    return htmx.target if wants_fragment() and htmx.target in template.blocks else None


def render(name: str, headers: Mapping[str, str] | None = None, /, **context: Any) -> Response:
    """The page; or, for an htmx request whose target's id is the name of a block, that block alone.

    The response of a block carries its digest; a client that sends the same one back gets 204 and changes nothing.
    `headers` go with it to all who get it.
    """
    template = current_app.jinja_env.get_or_select_template(name)
    block = wanted_block(template)
    if block is None:
        return make_response(render_template(name, **context), headers or {})
    html = render_block(template, block, context)
    return publish(html, digest(html), headers or {})
