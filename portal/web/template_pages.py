"""The page of one template: its nodes, who has it and how far in step; making, renaming and deleting one."""

from functools import partial

from flask import Blueprint, Response, abort, flash, redirect, render_template, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_babel import ngettext
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse
from wtforms import IntegerField, StringField
from wtforms.validators import DataRequired, Length, Optional
from wtforms.widgets import HiddenInput

from portal.domain.statuses import Role
from portal.queries import olts, templates
from portal.queries.remembered import changes, remembered
from portal.services.errors import Conflict, Invalid
from portal.services.network import standing
from portal.services.network import templates as service
from portal.services.network.standing import OltStand, Stand, TemplateStand
from portal.tables import WorkflowTemplate
from portal.web import args, live
from portal.web.access import requires
from portal.web.formatting import now, number
from portal.web.forms import ActionForm, ErrorForm, refusal
from portal.web.template_words import STANDS, lines, waits

bp = Blueprint("template_pages", __name__, url_prefix="/workflows/templates")

Page = str | BaseResponse | tuple[str, int]

SHOWN = 100  # OLTs in the table; the search finds the others


class TemplateForm(ErrorForm):
    """Name and description."""

    name = StringField(_l("Name"), validators=[DataRequired(), Length(max=80)])
    description = StringField(
        _l("Description"), validators=[Length(max=255)], description=_l("Optional: for which OLTs it is meant.")
    )
    revision = IntegerField(validators=[Optional()], widget=HiddenInput())

    def fields(self) -> dict[str, str]:
        """What services.network.templates takes."""
        return {"name": self.name.data or "", "description": self.description.data or ""}


def template_or_404(template_id: int) -> WorkflowTemplate:
    """The template of this id."""
    found: WorkflowTemplate = templates.get(template_id) or abort(404)
    return found


def stand_of(template_id: int) -> TemplateStand:
    """How its OLTs stand: compared anew when anybody has changed anything, for hundreds of OLTs it takes 0.1 s."""
    ask = partial(standing.of_template, template_id)
    return remembered(("standing of a template", template_id), now(), ask, changes)


@bp.get("/<int:template_id>")
@requires(Role.VIEWER)
def detail(template_id: int) -> Response:
    """Nodes as chains; OLTs by how they stand: ?stand= and ?q= narrow them. Live."""
    template, q = template_or_404(template_id), args.text("q")
    stand, wanted = stand_of(template_id), args.word("stand", [one.value for one in Stand])
    rows = [olt for olt in stand.olts if _matches(olt, q, wanted)]
    tried = templates.tried(template_id).get(template_id)
    return live.render(
        "templates/detail.html", template=template, masters=templates.nodes(template_id), stand=stand,
        waits=waits(stand), rows=rows[:SHOWN], total=len(rows), q=q, wanted=wanted, stands=STANDS, lines=lines,
        stand_options=[(one.value, face.label) for one, face in STANDS.items()], tried=tried,
        canary=olts.get(tried.canary_olt_id) if tried else None,
        chips=[("stand", str(STANDS[Stand(wanted)].label))] if wanted else [],
    )  # fmt: skip


def _matches(olt: OltStand, q: str, wanted: str) -> bool:
    return q.lower() in olt.name.lower() and wanted in ("", olt.stand.value)


@bp.route("/new", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def new() -> Page:
    """Form of a new template."""
    form = TemplateForm()
    if form.validate_on_submit():
        try:
            made = service.create(form.fields(), current_user.username, now())
        except Invalid as refused:
            form.refuse(refused.errors)
        else:
            flash(_("Template %(name)s was made. Now add what it reads.", name=form.name.data), "success")
            return redirect(url_for("template_pages.detail", template_id=made), 303)
    return render_template("templates/form.html", form=form, template=None), 422 if form.errors else 200


@bp.route("/<int:template_id>/edit", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def edit(template_id: int) -> Page:
    """Form of a stored template: name and description."""
    template = template_or_404(template_id)
    form, newer = TemplateForm(obj=template), False
    if form.validate_on_submit():
        try:
            service.update(template_id, form.fields(), current_user.username, now(), form.revision.data)
            flash(_("Template %(name)s was saved.", name=form.name.data), "success")
            return redirect(url_for("template_pages.detail", template_id=template_id), 303)
        except Conflict:
            template, newer = template_or_404(template_id), True
            form.revision.raw_data, form.revision.data = None, template.revision
        except Invalid as refused:
            form.refuse(refused.errors)
    html = render_template("templates/form.html", form=form, template=template, newer=newer)
    return html, 409 if newer else 422 if form.errors else 200


@bp.route("/<int:template_id>/delete", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def delete(template_id: int) -> Page:
    """Ask, saying what becomes of the OLTs' nodes, then delete a template."""
    template, form = template_or_404(template_id), ActionForm()
    name, stand, error = template.name, stand_of(template_id), ""
    if form.validate_on_submit():
        try:
            count = service.delete(template_id, current_user.username, now())
            told = ngettext("%(n)s OLT keeps its nodes.", "%(n)s OLTs keep its nodes.", count, n=number(count))
            flash(" ".join([_("Template %(name)s was deleted.", name=name), told if count else ""]), "success")
            return redirect(url_for("templates.index"), 303)
        except Conflict as refused:
            error = refusal(refused)
    html = render_template("templates/delete.html", template=template, stand=stand, error=error)
    return html, 409 if error else 200
