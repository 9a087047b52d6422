"""All of the API for an app. app.py calls init_api."""

from flask import Flask

from portal.api import (  # noqa: F401  (they declare their views)
    decisions,
    executions,
    ledger,
    openapi,
    planning,
    pollers,
    quotas,
)
from portal.api.errors import unrouted
from portal.api.operations import bp


def init_api(app: Flask) -> None:
    """Make the app serve the API."""
    app.before_request(unrouted)
    app.register_blueprint(bp)
