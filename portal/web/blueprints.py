"""Everything of the portal's pages that an app needs: blueprints, frame, access, errors. app.py calls init_web."""

from flask import Flask

from portal.extensions import login_manager
from portal.web import (
    alerts,
    auth,
    catalogue,
    credentials,
    dashboard,
    executions,
    explain,
    formulas,
    ledger,
    log,
    olt_actions,
    olts,
    onus,
    planning,
    pollers,
    probes,
    queue,
    quotas,
    templates,
    timeline,
    trials,
    violations,
    workflows,
)
from portal.web.access import guard
from portal.web.errors import init_errors
from portal.web.frame import init_frame

BLUEPRINTS = (
    alerts.bp,
    auth.bp,
    dashboard.bp,
    executions.bp,
    pollers.bp,
    queue.bp,
    quotas.bp,
    violations.bp,
    log.bp,
    explain.bp,
    ledger.bp,
    olts.bp,
    olt_actions.bp,
    timeline.bp,
    workflows.bp,
    planning.bp,
    templates.bp,
    onus.bp,
    credentials.bp,
    probes.bp,
    trials.bp,
    catalogue.bp,
    formulas.bp,
)


def init_web(app: Flask) -> None:
    """Make the app serve pages."""
    login_manager.session_protection = "strong"
    init_frame(app)
    init_errors(app)
    app.before_request(guard)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
