"""Front door: builds the Flask app from the rooms. Imported by nobody; the flask command and gunicorn load it."""

from flask import Flask

from config import Settings, flask_config, load_settings
from portal import models  # noqa: F401  (tables must be known to the metadata before Alembic looks)
from portal.extensions import init_extensions


def create_app(settings: Settings | None = None) -> Flask:
    """The whole product as a Flask app; `settings` default to the environment's."""
    settings = settings or load_settings()
    app = Flask(__name__, root_path=None, template_folder="portal/templates", static_folder="portal/static")
    app.config.update(flask_config(settings))
    init_extensions(app)
    return app
