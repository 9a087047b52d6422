"""What a person sees when a request fails: what happened, what was kept, what to do, a reference for the log."""

import logging
import secrets
from typing import NamedTuple

from flask import Flask, render_template, request
from flask.typing import ResponseReturnValue
from flask_babel import LazyString
from flask_babel import lazy_gettext as _l
from flask_login import current_user
from flask_wtf.csrf import CSRFError
from markupsafe import escape
from sqlalchemy.exc import DBAPIError, OperationalError
from werkzeug.exceptions import HTTPException

from portal.extensions import KeyringError, db, htmx
from portal.services.errors import NotFound, ServiceError
from portal.web.forms import refusal

log = logging.getLogger(__name__)


class Words(NamedTuple):
    """Title and what to do."""

    title: LazyString
    advice: LazyString | str
    icon: str


WORDS = {
    400: Words(_l("This request cannot be understood"), _l("Go back and try again."), "alert-triangle"),
    403: Words(
        _l("Not allowed"),
        _l("Your account may not do this. Nothing was changed. An administrator can give the account another role."),
        "lock",
    ),
    404: Words(
        _l("There is nothing here"),
        _l("The address is mistyped, or what it showed has been deleted or was old enough to be cleaned up."),
        "question-mark",
    ),
    405: Words(_l("This address does not work that way"), _l("Go back and use the buttons of the page."), "ban"),
    413: Words(_l("Too large"), _l("What was sent is larger than allowed. Nothing was saved."), "alert-triangle"),
    429: Words(_l("Too many attempts"), _l("Wait a minute, then try again."), "clock-exclamation"),
    500: Words(
        _l("Something broke here"),
        _l("This is a fault of the program. Nothing of what was sent was saved. Polling goes on without the portal."),
        "alert-triangle",
    ),
}
DATABASE = Words(
    _l("The database cannot be used right now"),
    _l(
        "Nothing of what was sent was saved. Its disk may be full or read-only, or its server is down; the log says"
        " which. Reading the OLTs waits and goes on by itself."
    ),
    "plug-connected-x",
)
KEYRING = Words(
    _l("A stored SNMP secret cannot be read"),
    _l(
        "Nothing was saved. None of FERNET_KEYS fits it: restore instance/fernet_keys, or enter the secrets of the"
        " credential again."
    ),
    "key",
)
EXPIRED = Words(
    _l("The form had expired"),
    _l("Nothing was saved. Go back, reload the page and send it again."),
    "clock-exclamation",
)


def _answer(code: int, words: Words, reference: str = "") -> ResponseReturnValue:
    if htmx:
        return str(words.title), code
    framed = code < 500 and current_user.is_authenticated
    page = render_template(
        "errors/error.html",
        layout="base.html" if framed else "plain.html",
        words=words,
        code=code,
        reference=reference,
    )
    return page, code


def http_error(error: HTTPException) -> ResponseReturnValue:
    """Errors with a status code: 404 and its like."""
    code = error.code or 500
    if error.response is not None or code < 400:
        return error
    return _answer(code, WORDS.get(code, WORDS[400] if code < 500 else WORDS[500]))


def csrf_error(_: CSRFError) -> ResponseReturnValue:
    """A form without a valid token: as a rule, the session ended while it was open."""
    return _answer(400, EXPIRED)


def not_found(_: NotFound) -> ResponseReturnValue:
    """A service was asked for something that does not exist."""
    return _answer(404, WORDS[404])


def conflict(error: ServiceError) -> ResponseReturnValue:
    """A service refused and no page made it its own: the sentence of the service is what there is to say."""
    words = Words(_l("This cannot be done now"), refusal(error), "alert-triangle")
    return (escape(words.advice), 409) if htmx else _answer(409, words)


def database_error(error: DBAPIError) -> ResponseReturnValue:
    """The database refuses or does not answer: no fault of the program, and it passes."""
    reference = secrets.token_hex(4)
    log.error("event=database_error reference=%s path=%s error=%s", reference, request.path, error.orig)
    db.session.remove()
    return _answer(503, DATABASE, reference)


def keyring_error(error: KeyringError) -> ResponseReturnValue:
    """A key is lost: no fault of the program, and a person can mend it."""
    log.error("event=keyring_error method=%s path=%s error=%s", request.method, request.path, error)
    return _answer(503, KEYRING)


def crash(error: Exception) -> ResponseReturnValue:
    """Anything unforeseen: logged with the reference that the page shows."""
    reference = secrets.token_hex(4)
    log.exception("web_error reference=%s method=%s path=%s", reference, request.method, request.path, exc_info=error)
    return _answer(500, WORDS[500], reference)


def init_errors(app: Flask) -> None:
    """Register the error pages."""
    app.register_error_handler(CSRFError, csrf_error)
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(NotFound, not_found)
    app.register_error_handler(ServiceError, conflict)
    app.register_error_handler(OperationalError, database_error)
    app.register_error_handler(KeyringError, keyring_error)
    app.register_error_handler(Exception, crash)
