"""One URL, page or fragment: which part of a template answers a request, and whether it changed. No queries."""

import hashlib
import re
from typing import Any

from flask import Response, current_app, make_response, render_template, request
from jinja2 import Template

from portal.extensions import htmx

DIGEST_HEADER = "X-Digest"

# What differs from second to second although nothing happened: ticking times (live.js keeps them fresh) and
# the signature in a form's token.
_VOLATILE = re.compile(r'(<time [^>]*data-tick="[^"]*"[^>]*>)[^<]*|(name="csrf_token" value=")[^"]*')


def digest(html: str) -> str:
    """Short fingerprint of what a person would see change."""
    stable = _VOLATILE.sub(lambda found: found[1] or found[2], html)
    return hashlib.sha256(stable.encode()).hexdigest()[:16]


def render_block(template: Template, block: str, context: dict[str, Any]) -> str:
    """One {% block %} of a template, with what Flask gives to every template. What the template sets or imports
    outside of the block is not there."""
    current_app.update_template_context(context)
    return "".join(template.blocks[block](template.new_context(context)))


def wanted_block(template: Template) -> str | None:
    """The block named like the element that htmx will replace (HX-Target), or None: the whole page is wanted."""
    if not htmx or htmx.boosted or htmx.history_restore_request:
        return None
    return htmx.target if htmx.target in template.blocks else None


def render(name: str, **context: Any) -> Response:
    """The page; or, for an htmx request whose target's id is the name of a block, that block alone.

    The response of a block carries its digest; a client that sends the same one back gets 204 and changes nothing.
    """
    template = current_app.jinja_env.get_or_select_template(name)
    block = wanted_block(template)
    if block is None:
        return make_response(render_template(name, **context))
    html = render_block(template, block, context)
    mark = digest(html)
    if request.headers.get(DIGEST_HEADER) == mark:
        return Response(status=204)
    return Response(html, headers={DIGEST_HEADER: mark})
