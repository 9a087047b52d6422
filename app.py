"""Front door: builds the Flask app from the rooms. Imported by nobody; the flask command and gunicorn load it."""

import logging

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from config import Settings, flask_config, load_settings
from jobs.cli import COMMANDS as JOB_COMMANDS
from portal import tables  # noqa: F401  (tables must be known to the metadata before Alembic looks)
from portal.api.blueprint import init_api
from portal.cli.commands import COMMANDS as PORTAL_COMMANDS
from portal.extensions import init_extensions
from portal.web.blueprints import init_web
from scheduler.cli import COMMANDS as SCHEDULER_COMMANDS

COMMANDS = (*PORTAL_COMMANDS, *JOB_COMMANDS, *SCHEDULER_COMMANDS)


def create_app(settings: Settings | None = None) -> Flask:
    """The whole product as a Flask app; `settings` default to the environment's."""
    settings = settings or load_settings()
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    app = Flask(__name__, root_path=None, template_folder="portal/templates", static_folder="portal/static")
    app.config.update(flask_config(settings))
    init_extensions(app)
    init_web(app)
    init_api(app)
    if settings.proxies:
        # Without it all people behind a proxy share its address, and with it the tries at the login. Outermost: what
        # web.polls takes for the same person must be.
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]
            app.wsgi_app, x_for=settings.proxies, x_proto=settings.proxies, x_host=settings.proxies
        )
    for command in COMMANDS:
        app.cli.add_command(command)
    return app
