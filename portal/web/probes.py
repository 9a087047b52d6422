"""Connection tests: asked for from an OLT's page or from its form before it is saved; the answer is polled."""

from collections.abc import Callable

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import Role
from portal.extensions import htmx
from portal.queries import olts, probes
from portal.services.errors import Invalid, ServiceError
from portal.services.network.olts import check_address
from portal.services.trying import probes as service
from portal.web import live
from portal.web.access import can, requires
from portal.web.formatting import now
from portal.web.forms import ProbeForm, refusal, said

bp = Blueprint("probes", __name__, url_prefix="/probes")

TEMPLATE = "olts/probe.html"


@bp.post("/")
@requires(Role.OPERATOR)
def create() -> BaseResponse:
    """Ask for a test of the address, port and credential in the form; the OLT need not exist yet."""
    if request.form.get("community"):
        return _refused([_("A test needs a stored credential: save the OLT with its community, then test it.")])
    form = ProbeForm()
    if not form.validate_on_submit():
        return _refused(form.errors_in_words())
    wrong = check_address({"address": form.address.data})
    if wrong:
        return _refused([said(text) for text in wrong.values()])
    person = {"actor": current_user.username, "by_admin": can(Role.ADMIN)}
    return _ask(lambda: service.request(**form.fields(), **person, now=now()))


@bp.post("/olts/<int:olt_id>")
@requires(Role.OPERATOR)
def of_olt(olt_id: int) -> BaseResponse:
    """Ask for a test of an OLT with its stored settings."""
    olt = olts.get(olt_id) or abort(404)
    return _ask(lambda: service.of_olt(olt.id, current_user.username, now()))


@bp.get("/<int:probe_id>")
@requires(Role.OPERATOR)
def detail(probe_id: int) -> Response:
    """The test's state or answer; the fragment asks again by itself until there is an answer."""
    view = probes.get(probe_id) or abort(404)
    return live.render(TEMPLATE, view=view, stalled=view.stalled(now()), problems=[])


def _ask(request_it: Callable[[], int]) -> BaseResponse:
    """Ask for the test, then show it."""
    try:
        probe_id = request_it()
    except Invalid as refused:
        return _refused([said(text) for text in refused.errors.values()])
    except ServiceError as refused:
        return _refused([refusal(refused)])
    return detail(probe_id) if htmx else redirect(url_for("probes.detail", probe_id=probe_id), 303)


def _refused(problems: list[str]) -> BaseResponse:
    """What keeps the test from being made. A fragment is 200: htmx does not show other codes."""
    if htmx:
        return live.render(TEMPLATE, view=None, stalled=False, problems=problems)
    return Response(render_template(TEMPLATE, view=None, stalled=False, problems=problems), 422)
