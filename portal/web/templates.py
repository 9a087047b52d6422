"""Templates: the list, switching one on or off on all its OLTs, and applying one with a preview of what it does."""

from flask import Blueprint, Response, abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_babel import ngettext
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import Role
from portal.queries import olt_choices, templates
from portal.queries.remembered import changes, remembered
from portal.services.errors import NotFound, ServiceError
from portal.services.network import applying, rollouts, standing
from portal.services.network import templates as service
from portal.services.network.many import Effect
from portal.web import args, live, olt_picks
from portal.web.access import requires, safe_next
from portal.web.formatting import now, number
from portal.web.forms import refusal
from portal.web.template_words import left_out, lines, sums, waits, why_not

bp = Blueprint("templates", __name__, url_prefix="/workflows/templates")

Page = str | BaseResponse | tuple[str, int]

WHOM = ("chosen", "all", "behind")
SHOWN = 200  # OLTs of a preview in the table; the sums are of all


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """All templates. Live."""
    stands = remembered("standing of all templates", now(), standing.of_templates, changes)
    return live.render(
        "templates/index.html", rows=templates.rows(), tried=templates.tried(),
        waits={ident: waits(stand) for ident, stand in stands.items()},
    )  # fmt: skip


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
    back = "template_pages.detail" if request.form.get("next") == "detail" else "templates.index"
    return redirect(url_for(back, template_id=template_id if back != "templates.index" else None), 303)


@bp.route("/apply", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def apply() -> Page:
    """Choose (?template=, ?olt= several), see what it does (field step=preview), do it (step=apply or step=try)."""
    values, step = request.values, request.form.get("step", "")
    template_id = values.get("template", type=args.whole)
    ids = olt_picks.chosen(values)
    if step not in ("preview", "apply", "try"):
        return _choose(template_id, ids)
    if template_id is None or templates.get(template_id) is None:
        return _choose(None, ids, template=_("Choose a template."))
    ids = _whom(template_id, ids) if step == "preview" else ids
    if not ids:
        return _choose(template_id, ids, olt=_("Choose at least one OLT."))
    if step == "preview":
        return _preview(template_id, ids)
    return _apply(template_id, ids) if step == "apply" else _try(template_id, ids)


def _whom(template_id: int, ids: list[int]) -> list[int]:
    """The OLTs that are meant: those chosen, all that have the template, or those that are behind it."""
    whom = request.form.get("whom", "chosen")
    if whom not in ("all", "behind"):
        return ids
    stand = standing.of_template(template_id)
    return [olt.olt_id for olt in (stand.olts if whom == "all" else stand.behind)]


def _choose(template_id: int | None, ids: list[int], **errors: str) -> Page:
    rows = templates.rows()
    html = render_template(
        "templates/apply.html", rows=rows, options=[(row.id, row.name) for row in rows], template_id=template_id,
        errors=errors, chosen=set(ids),
        whom=request.values.get("whom") if request.values.get("whom") in WHOM else "chosen",
        choices=olt_choices.choices(), back=safe_next(request.values.get("next"), url_for("templates.index")),
    )  # fmt: skip
    return html, 422 if errors else 200


def _preview(template_id: int, ids: list[int], error: str = "") -> Page:
    effects = applying.preview(template_id, ids, now())
    template = templates.get(template_id) or abort(404)
    order = sorted(effects, key=lambda one: (not one.problems, not one.breaks, not one.changes))
    html = render_template(
        "templates/preview.html", template=template, effects=order[:SHOWN], total=len(effects),
        ids=[one.olt_id for one in effects], changing=[one for one in effects if one.changes], sums=sums(effects),
        breaking=[one for one in effects if one.breaks], lines=lines, why_not=why_not, error=error,
        tried=templates.tried(template_id).get(template_id),
    )  # fmt: skip
    return html, 409 if error else 200


def _apply(template_id: int, ids: list[int]) -> Page:
    try:
        effects = applying.apply(template_id, ids, current_user.username, now(), _revision())
    except ServiceError as refused:
        return _preview(template_id, ids, refusal(refused))
    tell(effects)
    return redirect(url_for("template_pages.detail", template_id=template_id), 303)


def _try(template_id: int, ids: list[int]) -> Page:
    canary = request.form.get("canary", type=args.whole) or ids[0]
    try:
        rollout = rollouts.start(template_id, canary, ids, current_user.username, now(), _revision())
    except ServiceError as refused:
        return _preview(template_id, ids, refusal(refused))
    flash(_("The template is being tried on one OLT; the rest waits."), "success")
    return redirect(url_for("rollouts.detail", rollout_id=rollout), 303)


def _revision() -> int | None:
    return request.form.get("revision", type=args.whole)


def tell(effects: list[Effect]) -> None:
    """Say above the next page what became of the OLTs, and name those that were left out."""
    changed = sum(one.changes for one in effects)
    if changed:
        flash(ngettext("Applied to %(n)s OLT.", "Applied to %(n)s OLTs.", changed, n=number(changed)), "success")
    elif not any(one.problems for one in effects):
        flash(_("Nothing to do: all of them were in step already."), "success")
    told = left_out(effects)
    if told:
        flash(told, "error")
