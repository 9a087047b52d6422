"""Everything of the portal's pages that an app needs: blueprints, frame, access, errors. app.py calls init_web."""

from flask import Flask

from portal.extensions import login_manager
from portal.web import (
    account,
    alerts,
    api_tokens,
    audit,
    auth,
    catalogue,
    credentials,
    dashboard,
    executions,
    explain,
    formulas,
    installation,
    ledger,
    log,
    olt_actions,
    olt_deleted,
    olt_import,
    olt_panels,
    olt_parts,
    onu_parts,
    palette,
    people,
    planning,
    pollers,
    probes,
    queue,
    quotas,
    rollouts,
    template_nodes,
    template_pages,
    templates,
    timeline,
    trials,
    violations,
    wizard,
    workflow_nodes,
)
from portal.web.access import guard
from portal.web.audience import init_audience
from portal.web.errors import init_errors
from portal.web.frame import init_frame
from portal.web.tokens import init_tokens
from portal.web.weight import init_weight

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
    olt_import.bp,  # it is that of portal.web.olts: one blueprint in two modules
    olt_actions.bp,
    olt_deleted.bp,
    olt_panels.bp,
    olt_parts.bp,
    timeline.bp,
    workflow_nodes.bp,  # and web/workflows.py, whose blueprint it is
    planning.bp,
    templates.bp,
    template_pages.bp,
    template_nodes.bp,
    rollouts.bp,
    wizard.bp,
    onu_parts.bp,  # and web/onus.py, whose blueprint it is
    palette.bp,
    credentials.bp,
    probes.bp,
    trials.bp,
    catalogue.bp,
    formulas.bp,
    account.bp,
    people.bp,
    api_tokens.bp,
    installation.bp,
    audit.bp,
)


def init_web(app: Flask) -> None:
    """Make the app serve pages."""
    login_manager.session_protection = "strong"
    init_weight(app)
    init_frame(app)
    init_tokens(app)
    init_errors(app)
    init_audience(app)
    app.before_request(guard)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
