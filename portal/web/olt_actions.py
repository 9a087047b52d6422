"""What is done to several OLTs at once, or to one by the same way: enable, disable, pause, resume."""

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_babel import ngettext
from flask_login import current_user
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import Role
from portal.queries import olts
from portal.services.errors import Invalid, ServiceError
from portal.services.network import mending
from portal.services.network import olts as service
from portal.services.trying import stops
from portal.web import olt_picks
from portal.web.access import requires, safe_next
from portal.web.formatting import now, number, zone
from portal.web.forms import ActionForm, PauseForm, pause_ends, refusal, said

bp = Blueprint("olt_actions", __name__, url_prefix="/olts")

Page = str | BaseResponse | tuple[str, int]

ASKED = ("pause", "disable")  # these have a page of their own, with a question


def _back(values: "MultiDict[str, str]") -> str:
    return safe_next(values.get("next"), default=url_for("olts.index"))


@bp.post("/bulk")
@requires(Role.OPERATOR)
def bulk() -> BaseResponse:
    """Fields `olt` (several), `action` (enable, resume, pause, disable, template) and `next`: where to return to."""
    ids, action, back = olt_picks.chosen(request.form), request.form.get("action"), _back(request.form)
    if not ids:
        flash(_("Choose at least one OLT."), "error")
        return redirect(back, 303)
    if action in ASKED:
        return redirect(url_for(f"olt_actions.{action}", olts=olt_picks.packed(ids), next=back), 303)
    if action == "template":
        return redirect(url_for("templates.apply", olts=olt_picks.packed(ids), next=back), 303)
    if action not in ("enable", "resume"):
        abort(400)
    try:
        flash(_enable(ids) if action == "enable" else _resume(ids), "success")
    except ServiceError as refused:
        flash(refusal(refused), "error")
    return redirect(back, 303)


def _enable(ids: list[int]) -> str:
    count = service.set_enabled_many(ids, True, current_user.username, now())
    if not count:
        return _("Nothing to do: enabled already.")
    return ngettext("%(n)s OLT is enabled.", "%(n)s OLTs are enabled.", count, n=number(count))


def _resume(ids: list[int]) -> str:
    count = service.resume(ids, current_user.username, now())
    if not count:
        return _("Nothing to do: neither paused nor unreachable.")
    return ngettext(
        "%(n)s OLT goes on. One that did not answer is asked at once.",
        "%(n)s OLTs go on. Those that did not answer are asked at once.", count, n=number(count),
    )  # fmt: skip


@bp.route("/pause", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def pause() -> Page:
    """Ask why and until when, then pause the OLTs in ?olt= or, packed, in ?olts=."""
    found, back, form = olts.names(olt_picks.chosen(request.args)), _back(request.args), PauseForm()
    if not found:
        return redirect(back, 303)
    if form.validate_on_submit():
        try:
            count = service.pause(list(found), form.reason.data, form.end(), current_user.username, now())
        except Invalid as refused:
            form.refuse(refused.errors)
        else:
            message = ngettext("%(n)s OLT is paused.", "%(n)s OLTs are paused.", count, n=number(count))
            flash(message if count else _("Nothing to do: paused like this already."), "success")
            return redirect(back, 303)
    html = render_template(
        "olts/pause.html", names=found, back=back, form=form, ends=pause_ends(), zone=zone().key
    )  # fmt: skip
    return html, 422 if form.errors else 200


@bp.route("/disable", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def disable() -> Page:
    """Ask, then disable the OLTs in ?olt= or, packed, in ?olts=."""
    found, back, form = olts.names(olt_picks.chosen(request.args)), _back(request.args), ActionForm()
    if not found:
        return redirect(back, 303)
    if not form.validate_on_submit():
        return render_template("olts/disable.html", names=found, back=back)
    try:
        count = service.set_enabled_many(list(found), False, current_user.username, now())
    except ServiceError as refused:
        flash(refusal(refused), "error")
    else:
        message = ngettext("%(n)s OLT is disabled.", "%(n)s OLTs are disabled.", count, n=number(count))
        flash(message if count else _("Nothing to do: disabled already."), "success")
    return redirect(back, 303)


@bp.post("/<int:olt_id>/device")
@requires(Role.OPERATOR)
def accept_device(olt_id: int) -> BaseResponse:
    """The other device that answers is the OLT's own from now on."""
    try:
        service.accept_device(olt_id, current_user.username, now())
    except ServiceError as refused:
        flash(refusal(refused), "error")
    else:
        flash(_("What answers is this OLT from now on; its next runs read it."), "success")
    return redirect(url_for("olts.detail", olt_id=olt_id), 303)


@bp.post("/<int:olt_id>/model")
@requires(Role.OPERATOR)
def use_model(olt_id: int) -> BaseResponse:
    """Fields `brand`, `model`: the OLT is that, and its nodes read by its columns."""
    given = {name: request.form.get(name, "") for name in ("brand", "model")}
    try:
        mending.use_model(olt_id, **given, actor=current_user.username, now=now())
    except Invalid as refused:
        flash(" ".join(said(text) for text in refused.errors.values()), "error")
    except ServiceError as refused:
        flash(refusal(refused), "error")
    else:
        flash(_("Brand and model are set right; its next runs read by them."), "success")
    return redirect(url_for("olts.detail", olt_id=olt_id), 303)


@bp.post("/<int:olt_id>/break")
@requires(Role.OPERATOR)
def break_hold(olt_id: int) -> BaseResponse:
    """Field `token`: who holds the OLT by that lease stops before its next request."""
    back = url_for("olts.detail", olt_id=olt_id)
    try:
        stops.ask(olt_id, request.form.get("token", 0, type=int), current_user.username, now())
    except ServiceError as refused:
        flash(refusal(refused), "error")
    else:
        flash(_("It was asked to stop: it does so before its next request to the OLT."), "success")
    return redirect(back, 303)
