"""The one shape of errors under /api: which exception becomes which status, word and advice."""

import logging
import secrets
from collections.abc import Mapping

from flask import Blueprint, Response, request
from flask_wtf.csrf import CSRFError
from sqlalchemy.exc import OperationalError
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from portal.api.answers import answer
from portal.api.bodies import Error, ErrorBody
from portal.extensions import db
from portal.services import errors as service

log = logging.getLogger(__name__)

ROOT = "/api"
DOCUMENT = f"{ROOT}/v1/openapi.json"

CODES: Mapping[int, tuple[str, str]] = {
    400: ("bad_request", "The request cannot be understood."),
    401: (
        "unauthenticated",
        "Send the header `Authorization: Bearer TOKEN` (`flask token add NAME` makes a token), or log in.",
    ),
    403: ("forbidden", "The role of this user or token does not allow that. Nothing was changed."),
    404: ("not_found", f"There is nothing here. GET {DOCUMENT} lists all addresses."),
    405: ("method_not_allowed", "This address does not take this method; the header Allow names those it takes."),
    409: ("conflict", "This cannot be done now. Nothing was changed."),
    413: ("too_large", "The body is larger than 64 KiB. Nothing was changed."),
    415: ("unsupported_media_type", "Send no body, or JSON with the header `Content-Type: application/json`."),
    429: ("rate_limited", "Too many requests: wait for as many seconds as the header Retry-After says."),
    500: ("internal", "This is a fault of the program; the log holds details. Nothing was saved."),
    503: ("database_unavailable", "The database cannot be used right now. Nothing was saved; try again in a while."),
}
CSRF_CODE = "csrf"
CSRF_ADVICE = (
    "A logged-in browser session must send the header X-CSRFToken with what changes something"
    " (the page's meta element csrf-token holds it). Requests with a token need none."
)


class ApiError(Exception):
    """A request that is refused. `fields`: argument → what is wrong with it."""

    def __init__(
        self, status: int, message: str = "", *, code: str = "", fields: Mapping[str, str] | None = None
    ) -> None:
        word, advice = CODES[status]
        self.status, self.code, self.message = status, code or word, message or advice
        self.fields = dict(fields or {})
        super().__init__(self.message)


def refused(error: ApiError) -> Response:
    """The error as an answer."""
    made = answer(ErrorBody(Error(error.code, error.message, error.fields)), error.status)
    if error.status == 401:
        made.headers["WWW-Authenticate"] = 'Bearer realm="Facho Deluxe API"'
    return made


def invalid(fields: Mapping[str, str]) -> ApiError:
    """400 that names each wrong argument or field."""
    told = "; ".join(f"{name}: {text}" for name, text in fields.items())
    return ApiError(400, told, code="invalid", fields=fields)


def _http(error: HTTPException) -> Response:
    status = error.code or 500
    known = status if status in CODES else 400 if status < 500 else 500
    made = refused(ApiError(known))
    made.status_code = status
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        made.headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return made


def _csrf(_: CSRFError) -> Response:
    return refused(ApiError(400, CSRF_ADVICE, code=CSRF_CODE))


def _service(error: service.ServiceError) -> Response:
    """NotFound 404; Invalid 400 where it names fields; what the state of things does not allow 409."""
    if isinstance(error, service.NotFound):
        return refused(ApiError(404, str(error)))
    told = error.errors if isinstance(error, service.Invalid) else {}
    named = {name: str(text) for name, text in told.items() if name}
    return refused(invalid(named) if named else ApiError(409, told.get("", str(error))))


def _database(error: OperationalError) -> Response:
    reference = secrets.token_hex(4)
    log.error("event=database_error reference=%s path=%s error=%s", reference, request.path, error.orig)
    db.session.remove()
    made = refused(ApiError(503, f"{CODES[503][1]} Reference in the log: {reference}."))
    made.headers["Retry-After"] = "5"
    return made


def _crash(error: Exception) -> Response:
    reference = secrets.token_hex(4)
    log.exception("event=api_error reference=%s method=%s path=%s", reference, request.method, request.path,
                  exc_info=error)  # fmt: skip
    return refused(ApiError(500, f"{CODES[500][1]} Reference in the log: {reference}."))


def unrouted() -> Response | None:
    """Before each request: an address or method under /api that does not exist. No blueprint sees those."""
    error = request.routing_exception
    if isinstance(error, NotFound | MethodNotAllowed) and (request.path + "/").startswith(ROOT + "/"):
        return _http(error)
    return None


def register_errors(blueprint: Blueprint) -> None:
    """Give `blueprint` the one shape of errors."""
    blueprint.register_error_handler(ApiError, refused)
    blueprint.register_error_handler(CSRFError, _csrf)
    blueprint.register_error_handler(HTTPException, _http)
    blueprint.register_error_handler(service.ServiceError, _service)
    blueprint.register_error_handler(OperationalError, _database)
    blueprint.register_error_handler(Exception, _crash)
