"""The CSRF token as pages show it: masked anew for each answer, and absent from fragments, which are for many."""

import secrets

from flask import Flask, g
from flask_wtf.csrf import generate_csrf

from portal.domain.masking import MASK_BYTES, masked


def csrf_token() -> str:
    """For templates: this session's token. "" in a fragment, where live.js puts in the page's own."""
    if g.get("in_fragment"):
        return ""
    if "masked_token" not in g:
        g.masked_token = masked(generate_csrf(), secrets.token_bytes(MASK_BYTES))
    return str(g.masked_token)


def init_tokens(app: Flask) -> None:
    """Instead of Flask-WTF's own `csrf_token`, in templates and in the macros that they import."""
    app.jinja_env.globals["csrf_token"] = csrf_token
    app.context_processor(lambda: {"csrf_token": csrf_token})
