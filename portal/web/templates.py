"""The page of workflow templates: what hangs on each, and switching one on or off on all its OLTs."""

from flask import Blueprint, Response, abort, flash, redirect, request, url_for
from flask_babel import gettext as _
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import Role
from portal.queries import templates
from portal.services.errors import NotFound
from portal.services.network import templates as service
from portal.web import live
from portal.web.access import requires
from portal.web.formatting import now

bp = Blueprint("templates", __name__, url_prefix="/workflows/templates")


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """All templates. Live."""
    return live.render("templates/index.html", rows=templates.rows())


@bp.post("/<int:template_id>/enabled")
@requires(Role.OPERATOR)
def set_enabled(template_id: int) -> BaseResponse:
    """Enable or disable on all OLTs: field `enabled` is 1 or 0."""
    enabled = request.form.get("enabled") == "1"
    try:
        service.set_enabled(template_id, enabled, current_user.username, now())
    except NotFound:
        abort(404)
    flash(_("The template is enabled.") if enabled else _("The template is disabled."), "success")
    return redirect(url_for("templates.index"), 303)
