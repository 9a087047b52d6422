"""What surrounds every page: language, zone, navigation, template helpers, security headers. No page's own facts."""

import hashlib
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import Flask, Response, current_app, request, session, url_for
from flask_babel import LazyString
from flask_babel import lazy_gettext as _l
from flask_login import current_user
from jinja2 import Environment
from markupsafe import Markup
from werkzeug.routing import IntegerConverter

from portal.extensions import babel
from portal.queries.olts import expected
from portal.queries.pulse import read as read_pulse
from portal.web import formatting, metrics, words
from portal.web.access import can
from portal.web.texts import init_texts

LANGUAGES = ("es", "en")

CSP = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",  # Tabler's form controls draw their marks as data: images
        "font-src 'self'",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)

HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # not no-referrer: the CSRF check compares the referrer over HTTPS
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

STANDING = frozenset({*HEADERS, "Strict-Transport-Security", "Cache-Control", "Vary"})  # what `harden` sets on all

MACRO_FILES = ("state", "page", "table", "form")


class Page(NamedTuple):
    """One entry of the rail. `key` is the letter that follows g; `below`: other blueprints whose pages belong to it.

    `thumb`: it has a place of its own on a phone, where the others are behind "More".
    """

    endpoint: str
    label: LazyString
    icon: str
    key: str
    below: tuple[str, ...] = ()
    thumb: bool = False

    @property
    def here(self) -> bool:
        """True on this page and on the pages below it."""
        return request.blueprint in (self.endpoint.partition(".")[0], *self.below)


PAGES = (
    Page("dashboard.index", _l("Home"), "home", "i", thumb=True),
    Page(
        "olts.index", _l("OLTs"), "router", "o",
        ("olt_actions", "olt_deleted", "olt_panels", "olt_parts", "timeline", "credentials", "probes", "trials",
         "ledger"),
        thumb=True,
    ),
    Page(
        "workflows.index", _l("Workflows"), "sitemap", "w",
        ("templates", "template_pages", "template_nodes", "rollouts", "wizard", "planning"),
    ),
    Page("executions.index", _l("Executions"), "list-check", "e"),
    Page("pollers.index", _l("Pollers"), "cpu", "p"),
    Page("queue.index", _l("Queue"), "stack-2", "q"),
    Page("quotas.index", _l("Quotas"), "progress", "k", thumb=True),
    Page("violations.index", _l("Violations"), "trending-down", "v"),
    Page("log.index", _l("Decision log"), "history", "l", ("explain",)),
    Page("onus.index", _l("ONUs"), "access-point", "u", thumb=True),
    Page("catalogue.index", _l("Catalogue"), "tag", "c", ("formulas",)),
    Page("alerts.index", _l("Alerts"), "bell", "a"),
    Page("account.index", _l("Settings"), "settings", "s", ("people", "api_tokens", "installation", "audit")),
)  # fmt: skip


class Macros:
    """`ui` in templates: the macros of all files in templates/macros, also where a block is rendered alone."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.icon = icon

    def __getattr__(self, name: str) -> Any:
        for file in MACRO_FILES:
            module = self._environment.get_template(f"macros/{file}.html").module
            if hasattr(module, name):
                macro = getattr(module, name)
                if not self._environment.auto_reload:  # found once: a page asks for hundreds
                    self.__dict__[name] = macro
                return macro
        raise AttributeError(f"no macro ui.{name} in templates/macros")


class Number(IntegerConverter):
    """<int:…> in a URL, no larger than a column can hold: beyond that there is nothing, rather than an error."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"max": 2**63 - 1, **options})


def choose_language() -> str:
    """Session, then user, then browser, then the setting."""
    chosen = session.get("language") or (current_user.language if current_user.is_authenticated else "")
    if chosen in LANGUAGES:
        return str(chosen)
    return request.accept_languages.best_match(LANGUAGES) or str(current_app.config["PORTAL_LANGUAGE"])


def choose_zone() -> str:
    """The portal has one zone for everybody (setting TIMEZONE)."""
    return str(current_app.config["TIMEZONE"])


def here() -> str:
    """This page with its arguments, as a path."""
    return request.full_path.rstrip("?")


def has_endpoint(name: str) -> bool:
    """True when the page exists in this version."""
    return name in current_app.view_functions


def navigation() -> list[Page]:
    """The rail: only pages that exist."""
    return [page for page in PAGES if has_endpoint(page.endpoint)]


def with_args(**changes: Any) -> str:
    """This URL with arguments changed; None takes one out.

    Arguments never reach url_for: there `_method` or `olt_id` of an address would mean something else.
    """
    kept = {**dict(request.args.lists()), **changes}
    query = urlencode([(key, value) for key, value in kept.items() if value is not None], doseq=True)
    path = url_for(str(request.endpoint), **(request.view_args or {}))
    return f"{path}?{query}" if query else path


def other_args(own: Collection[str]) -> list[tuple[str, str]]:
    """This URL's arguments that are not `own`, for a form that shall keep them; the place in a list is left."""
    left = {*own, "before", "after"}
    return [(key, value) for key, value in request.args.items(multi=True) if key not in left and value]


def static_url(filename: str) -> str:
    """URL of a static file that changes with the file, so that browsers may keep it for good."""
    urls: dict[tuple[str, str], str] = current_app.extensions.setdefault("static_urls", {})
    key = (request.script_root, filename)
    if key not in urls or current_app.debug:
        content = (Path(str(current_app.static_folder)) / filename).read_bytes()
        urls[key] = url_for("static", filename=filename, v=hashlib.sha256(content).hexdigest()[:10])
    return urls[key]


def icon(name: str, css: str = "") -> Markup:
    """A mark of Tabler's set, for the eye only; `css`: more classes."""
    return _icon(static_url("vendor/tabler-icons/icons.svg"), name, css)


@lru_cache(maxsize=1000)
def _icon(sheet: str, name: str, css: str) -> Markup:
    return Markup(
        '<svg class="icon{}" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>'
    ).format(f" {css}" if css else "", sheet, name)  # fmt: skip


def harden(response: Response) -> Response:
    """Security headers on everything; pages are never stored, versioned static files are."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if current_app.config["COOKIE_SECURE"]:
        response.headers.setdefault("Strict-Transport-Security", "max-age=31536000")
    response.vary.add("HX-Request")
    if request.endpoint != "static":
        response.headers["Cache-Control"] = "no-store"
    elif request.args.get("v"):
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    elif request.path.endswith(".woff2"):  # named by the style sheet, without a version
        response.headers["Cache-Control"] = "public, max-age=2592000"
    return response


def init_frame(app: Flask) -> None:
    """Languages, template helpers and headers."""
    babel.init_app(app, locale_selector=choose_language, timezone_selector=choose_zone)
    init_texts(app)
    app.after_request(harden)
    app.url_map.converters["int"] = Number
    app.jinja_env.filters.update(formatting.FILTERS | words.FILTERS | metrics.FILTERS)
    app.jinja_env.globals.update(
        ui=Macros(app.jinja_env),
        now=formatting.now,
        language=formatting.language,
        onu_face=words.onu_face,
        quota_face=words.quota_face,
        lane_word=words.lane_word,
        expected_run=expected,
        can=can,
        here=here,
        here_path=lambda: request.script_root + request.path,
        has_endpoint=has_endpoint,
        navigation=navigation,
        with_args=with_args,
        other_args=other_args,
        static_url=static_url,
        icon=icon,
        pulse=lambda: read_pulse(formatting.now()),
    )
