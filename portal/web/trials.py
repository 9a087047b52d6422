"""Tests of a node or an OID, and an ONU read now: asked for on their pages; the answer is polled. Nothing is stored."""

from collections.abc import Callable

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from flask_babel import LazyString
from flask_babel import lazy_gettext as _l
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import Role
from portal.extensions import htmx
from portal.queries import olts, onus, trials, workflows
from portal.services.errors import Invalid, ServiceError
from portal.services.trying import trials as service
from portal.tables import TrialMode
from portal.web import live, metrics
from portal.web.access import requires
from portal.web.formatting import now
from portal.web.forms import refusal

bp = Blueprint("trials", __name__, url_prefix="/trials")

TEMPLATE = "trials/detail.html"
MODES: dict[TrialMode, LazyString] = {
    TrialMode.WALK: _l("Walk: all rows under it"),
    TrialMode.GET: _l("GET: one value of each known ONU"),
    TrialMode.EXACT: _l("GET: exactly this OID"),
}


@bp.post("/nodes/<int:node_id>")
@requires(Role.OPERATOR)
def of_node(node_id: int) -> BaseResponse:
    """Ask for a test of a stored node, alone."""
    found = workflows.node(node_id) or abort(404)
    return _ask(lambda: service.of_node(node_id, current_user.username, now()), found[1].id)


@bp.post("/olts/<int:olt_id>")
@requires(Role.OPERATOR)
def of_olt(olt_id: int) -> BaseResponse:
    """Ask for a test of what is typed: fields `oid` and `mode` (walk, get, exact)."""
    olts.get(olt_id) or abort(404)
    oid, mode = request.form.get("oid", "").replace("\x00", ""), _mode(request.form.get("mode", ""))
    return _ask(lambda: service.of_oid(olt_id, oid, mode, current_user.username, now()), olt_id)


@bp.post("/onus/<int:onu_id>")
@requires(Role.OPERATOR)
def of_onu(onu_id: int) -> BaseResponse:
    """Ask for one GET of all that the workflow reads of an ONU."""
    row = onus.get(onu_id) or abort(404)
    return _ask(lambda: service.of_onu(onu_id, current_user.username, now()), row.onu.olt_id)


def _mode(text: str) -> TrialMode:
    return TrialMode(text) if text in {mode.value for mode in TrialMode} else TrialMode.WALK


@bp.get("/<int:trial_id>")
@requires(Role.OPERATOR)
def detail(trial_id: int) -> Response:
    """The test's state or answer; the fragment asks again by itself until there is an answer."""
    view = trials.get(trial_id) or abort(404)
    return live.render(TEMPLATE, view=view, stalled=view.stalled(now()), problem="", metrics=metrics)


def _ask(request_it: Callable[[], int], olt_id: int) -> BaseResponse:
    """Ask for the test, then show it."""
    try:
        trial_id = request_it()
    except Invalid as refused:
        return _refused(refused, olt_id)
    return detail(trial_id) if htmx else redirect(url_for("trials.detail", trial_id=trial_id), 303)


def _refused(error: ServiceError, olt_id: int) -> BaseResponse:
    """What keeps the test from being made. A fragment is 200, so that it is shown where the answer would be."""
    given = {"view": None, "stalled": False, "problem": refusal(error), "olt_id": olt_id}
    if htmx:
        return live.render(TEMPLATE, **given)
    return Response(render_template(TEMPLATE, **given), 422)
