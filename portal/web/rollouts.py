"""A template tried on one OLT: before and since, then applied to the rest, taken back, or left there."""

from collections.abc import Callable

from flask import Blueprint, Response, abort, flash, redirect, url_for
from flask_babel import gettext as _
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import Role, RolloutStatus
from portal.queries import olts, rollouts, templates
from portal.services.errors import ServiceError
from portal.services.network import rollouts as service
from portal.tables import TemplateRollout
from portal.web import live
from portal.web.access import requires
from portal.web.formatting import now
from portal.web.forms import refusal
from portal.web.templates import tell

bp = Blueprint("rollouts", __name__, url_prefix="/workflows/templates/tries")


def _row(rollout_id: int) -> TemplateRollout:
    row: TemplateRollout = service.get(rollout_id) or abort(404)
    return row


@bp.get("/<int:rollout_id>")
@requires(Role.VIEWER)
def detail(rollout_id: int) -> Response:
    """The canary's hours before and since, and what can be done now. Live."""
    row = _row(rollout_id)
    is_open = row.status is RolloutStatus.CANARY
    state = service.state_of(row) if is_open else None
    names = olts.names([row.canary_olt_id, *row.olt_ids])
    canary = names.pop(row.canary_olt_id, "")
    return live.render(
        "templates/rollout.html", row=row, template=templates.get(row.template_id), canary=canary,
        compared=rollouts.compare(row, now()), is_open=is_open, state=state, rest=names,
    )  # fmt: skip


@bp.post("/<int:rollout_id>/rest")
@requires(Role.OPERATOR)
def apply_rest(rollout_id: int) -> BaseResponse:
    """Apply the template to the rest."""
    return _end(rollout_id, lambda: tell(service.apply_rest(rollout_id, current_user.username, now())))


@bp.post("/<int:rollout_id>/back")
@requires(Role.OPERATOR)
def take_back(rollout_id: int) -> BaseResponse:
    """Give the canary back what it had."""
    done = _("Taken back: the OLT has the nodes that it had before.")
    return _end(rollout_id, lambda: service.take_back(rollout_id, current_user.username, now()), done)


@bp.post("/<int:rollout_id>/keep")
@requires(Role.OPERATOR)
def keep(rollout_id: int) -> BaseResponse:
    """End the try; the OLT keeps what it has, the rest gets nothing."""
    done = _("The try is over; the OLT keeps what it has.")
    return _end(rollout_id, lambda: service.keep(rollout_id, current_user.username, now()), done)


def _end(rollout_id: int, verb: Callable[[], object], done: str = "") -> BaseResponse:
    """Do it and go to the template's page, saying `done`; back to the try when it is refused."""
    template_id = _row(rollout_id).template_id
    try:
        verb()
    except ServiceError as refused:
        flash(refusal(refused), "error")
        return redirect(url_for("rollouts.detail", rollout_id=rollout_id), 303)
    if done:
        flash(done, "success")
    return redirect(url_for("template_pages.detail", template_id=template_id), 303)
