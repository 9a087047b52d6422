"""Forms and buttons of a template's nodes. Nothing here touches an OLT; rules live in the services."""

from typing import Any

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse
from wtforms import IntegerField
from wtforms.validators import Optional
from wtforms.widgets import HiddenInput

from portal.domain.statuses import NodeKind, Role
from portal.queries import templates
from portal.services.errors import Conflict, Invalid
from portal.services.network import template_nodes as service
from portal.tables import TemplateNode, WorkflowTemplate
from portal.web import args
from portal.web.access import requires
from portal.web.formatting import now
from portal.web.forms import ActionForm, ChainedNodeForm, NodeForm, refusal
from portal.web.template_pages import template_or_404

bp = Blueprint("template_nodes", __name__, url_prefix="/workflows")

Page = str | BaseResponse | tuple[str, int]


class MasterForm(NodeForm):
    """A master of a template, as of the revision that the person saw."""

    revision = IntegerField(validators=[Optional()], widget=HiddenInput())

    def fields(self, master_id: int | None = None) -> dict[str, Any]:
        """What services.network.template_nodes takes."""
        return {name: value for name, value in super().fields(master_id).items() if name != "revision"}


class ChainForm(ChainedNodeForm):
    """A node chained to one, as of the revision that the person saw."""

    revision = IntegerField(validators=[Optional()], widget=HiddenInput())

    def fields(self, master_id: int | None = None) -> dict[str, Any]:
        """What services.network.template_nodes takes."""
        return {name: value for name, value in super().fields(master_id).items() if name != "revision"}


Form = MasterForm | ChainForm


def _node(node_id: int) -> tuple[TemplateNode, WorkflowTemplate]:
    found: tuple[TemplateNode, WorkflowTemplate] = templates.node(node_id) or abort(404)
    return found


@bp.route("/templates/<int:template_id>/nodes/new", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def add(template_id: int) -> Page:
    """Form of a new node: a master, or with ?master=<id> one that runs after it."""
    template, masters = template_or_404(template_id), templates.nodes(template_id)
    master = _master(masters)
    start = {"revision": template.revision, "kind": NodeKind.GET if masters else NodeKind.DISCOVERY}
    form: Form = ChainForm(data=start) if master else MasterForm(data=start)
    if not form.validate_on_submit():
        return _form(form, template, master)
    try:
        fields = form.fields(master.id if master else None)
        node_id = service.add_node(template_id, fields, current_user.username, now(), form.revision.data)
    except (Invalid, Conflict) as refused:
        return _refused(form, refused, template_id, master)
    flash(_("Node %(name)s was added. OLTs get it when the template is applied.", name=form.name.data), "success")
    return _to_template(template_id, node_id)


def _master(masters: list[templates.NodeView]) -> TemplateNode | None:
    """The master in the URL, if the template has it."""
    if "master" not in request.args:
        return None
    wanted = args.number("master")
    return next((view.node for view in masters if view.node.id == wanted), None) or abort(404)


@bp.route("/template-nodes/<int:node_id>/edit", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def edit(node_id: int) -> Page:
    """Form of a stored node."""
    node, template = _node(node_id)
    kind: type[Form] = MasterForm if node.master_id is None else ChainForm
    form: Form = kind(data=kind.stored(node) | {"revision": template.revision})
    master, template_id = node.master, template.id
    if not form.validate_on_submit():
        return _form(form, template, master, node)
    try:
        fields = form.fields(node.master_id)
        service.update_node(node_id, fields, current_user.username, now(), form.revision.data)
    except (Invalid, Conflict) as refused:
        return _refused(form, refused, template_id, master, node_id)
    flash(_("Node %(name)s was saved. OLTs get it when the template is applied.", name=form.name.data), "success")
    return _to_template(template_id, node_id)


def _refused(
    form: Form, refused: Invalid | Conflict, template_id: int, master: TemplateNode | None, node_id: int | None = None
) -> Page:
    """The form as typed; after a change by somebody else with what is stored now, to be saved on top of that."""
    template = template_or_404(template_id)
    node = _node(node_id)[0] if node_id is not None else None
    if isinstance(refused, Invalid):
        form.refuse(refused.errors)
        return _form(form, template, master, node)
    stored = form.stored(node) if node is not None else {}
    newer = {name: value for name, value in stored.items() if name in form and _differs(form[name].data, value)}
    form.revision.raw_data, form.revision.data = None, template.revision
    return _form(form, template, master, node, newer), 409


def _differs(typed: Any, stored: Any) -> bool:
    return str(typed if typed is not None else "") != str(stored if stored is not None else "")


def _form(
    form: Form, template: WorkflowTemplate, master: TemplateNode | None, node: TemplateNode | None = None,
    newer: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    html = render_template(
        "templates/node_form.html", form=form, template=template, master=master, node=node, newer=newer,
        offers=templates.offers(),
    )  # fmt: skip
    return html if newer is not None else (html, 422 if form.errors else 200)


@bp.post("/template-nodes/<int:node_id>/move")
@requires(Role.OPERATOR)
def move(node_id: int) -> BaseResponse:
    """One place up or down: field `direction`."""
    _found, template = _node(node_id)
    template_id, direction = template.id, "up" if request.form.get("direction") == "up" else "down"
    service.move_node(node_id, direction, current_user.username, now())
    return _to_template(template_id, node_id)


@bp.route("/template-nodes/<int:node_id>/delete", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def delete(node_id: int) -> Page:
    """Ask, then delete a node, and with a master its chain. OLTs have it until the template is applied."""
    node, template = _node(node_id)
    name, template_id, revision, form = node.name, template.id, template.revision, ActionForm()
    if not form.validate_on_submit():
        return render_template("templates/delete_node.html", node=node, template=template, revision=revision)
    try:
        service.delete_node(node_id, current_user.username, now(), request.form.get("revision", type=args.whole))
        flash(_("Node %(name)s was deleted from the template.", name=name), "success")
    except Conflict as refused:
        flash(refusal(refused), "error")
    return _to_template(template_id)


def _to_template(template_id: int, node_id: int | None = None) -> BaseResponse:
    anchor = f"node-{node_id}" if node_id else None
    return redirect(url_for("template_pages.detail", template_id=template_id, _anchor=anchor), 303)
