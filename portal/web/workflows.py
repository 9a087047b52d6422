"""Pages of workflows: the board of one OLT, forms of its nodes, and the buttons on them. Rules live in the services."""

from flask import Blueprint, Response, abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext as _
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import NodeKind, Role
from portal.extensions import htmx
from portal.models import Olt, WorkflowNode
from portal.queries import catalogue, keyset, olts, templates, workflows
from portal.services.dispatch import run_requests
from portal.services.errors import Invalid, ServiceError
from portal.services.network import workflows as service
from portal.web import args, live
from portal.web.access import requires
from portal.web.formatting import now
from portal.web.forms import ActionForm, ChainedNodeForm, NodeForm, refusal

bp = Blueprint("workflows", __name__)

Page = str | BaseResponse | tuple[str, int]


def _olt(olt_id: int) -> Olt:
    olt: Olt = olts.get(olt_id) or abort(404)
    return olt


def _node(node_id: int) -> tuple[WorkflowNode, Olt]:
    found: tuple[WorkflowNode, Olt] = workflows.node(node_id) or abort(404)
    return found


@bp.get("/workflows/")
@requires(Role.VIEWER)
def index() -> Response:
    """Every OLT with the sums of its workflow: ?q= and ?template= narrow it. Live."""
    q, template_id = args.text("q"), args.number("template")
    names = {row.id: row.name for row in templates.rows()}
    return live.render(
        "workflows/index.html",
        q=q,
        template=template_id,
        templates=list(names.items()),
        chips=[("template", _("Template: %(name)s", name=names[template_id]))] if template_id in names else [],
        page=workflows.page(q, template_id, keyset.cursor(request.args)),
    )


@bp.get("/olts/<int:olt_id>/workflow")
@requires(Role.VIEWER)
def detail(olt_id: int) -> Response:
    """The board: a column per master, its chain beneath, last results. Live."""
    return _board(_olt(olt_id))


def _board(olt: Olt) -> Response:
    return live.render(
        "workflows/detail.html",
        olt=olt,
        view=workflows.of_olt(olt),
        running=olts.running_now([olt.id]).get(olt.id),
        action=ActionForm(),
    )


def _to_board(olt_id: int, node_id: int | None = None) -> BaseResponse:
    anchor = f"node-{node_id}" if node_id else None
    return redirect(url_for("workflows.detail", olt_id=olt_id, _anchor=anchor), 303)


@bp.route("/olts/<int:olt_id>/workflow/nodes/new", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def add_node(olt_id: int) -> Page:
    """Form of a new node: a master, or with ?master=<id> one that runs after it."""
    olt, master = _olt(olt_id), _master(olt_id)
    form = ChainedNodeForm() if master else NodeForm(kind=NodeKind.DISCOVERY if _is_first(olt_id) else NodeKind.GET)
    if not form.validate_on_submit():
        return _form(form, olt, master)
    try:
        fields = form.fields(master.id if master else None)
        node_id = service.add_node(olt_id, fields, current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _form(form, olt, master)
    flash(_("Node %(name)s was added.", name=form.name.data), "success")
    return _to_board(olt_id, node_id)


def _master(olt_id: int) -> WorkflowNode | None:
    """The master in the URL, if the OLT has it."""
    if "master" not in request.args:
        return None
    wanted = args.number("master")
    master: WorkflowNode = next((n for n in workflows.masters_of(olt_id) if n.id == wanted), None) or abort(404)
    return master


def _is_first(olt_id: int) -> bool:
    return not workflows.masters_of(olt_id)


@bp.route("/workflow-nodes/<int:node_id>/edit", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def edit_node(node_id: int) -> Page:
    """Form of a stored node."""
    node, olt = _node(node_id)
    kind = NodeForm if node.is_master else ChainedNodeForm
    form, olt_id, master = kind(data=kind.stored(node)), olt.id, node.master
    if not form.validate_on_submit():
        return _form(form, olt, master, node)
    try:
        service.update_node(node_id, form.fields(node.master_id), current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _form(form, olt, master, node)
    flash(_("Node %(name)s was saved.", name=form.name.data), "success")
    return _to_board(olt_id, node_id)


def _form(form: NodeForm, olt: Olt, master: WorkflowNode | None, node: WorkflowNode | None = None) -> tuple[str, int]:
    choices = catalogue.oid_choices(olt.brand_id)
    html = render_template("workflows/form.html", form=form, olt=olt, master=master, node=node, choices=choices)
    return html, 422 if form.errors else 200


@bp.post("/workflow-nodes/<int:node_id>/move")
@requires(Role.OPERATOR)
def move_node(node_id: int) -> BaseResponse:
    """One place up or down: field `direction`."""
    _found, olt = _node(node_id)
    olt_id, direction = olt.id, "up" if request.form.get("direction") == "up" else "down"
    service.move_node(node_id, direction, current_user.username, now())
    return _after(olt_id, node_id)


@bp.post("/workflow-nodes/<int:node_id>/enabled")
@requires(Role.OPERATOR)
def set_node_enabled(node_id: int) -> BaseResponse:
    """Enable or disable a node: field `enabled` is 1 or 0."""
    _found, olt = _node(node_id)
    olt_id = olt.id
    service.set_node_enabled(node_id, request.form.get("enabled") == "1", current_user.username, now())
    return _after(olt_id, node_id)


@bp.post("/olts/<int:olt_id>/workflow/enabled")
@requires(Role.OPERATOR)
def set_enabled(olt_id: int) -> BaseResponse:
    """Enable or disable the whole workflow: field `enabled` is 1 or 0."""
    _olt(olt_id)
    service.set_workflow_enabled(olt_id, request.form.get("enabled") == "1", current_user.username, now())
    return _after(olt_id)


@bp.post("/workflow-nodes/<int:node_id>/run")
@requires(Role.OPERATOR)
def run_node(node_id: int) -> BaseResponse:
    """Run a node now: a master with its chain, a chained node alone. A second click gives the same execution."""
    _found, olt = _node(node_id)
    olt_id = olt.id
    try:
        execution_id, created = run_requests.run_now(node_id, current_user.username, now())
    except ServiceError as refused:
        flash(refusal(refused), "error")
        return Response(headers={"HX-Refresh": "true"}) if htmx else _to_board(olt_id, node_id)
    if htmx:
        return _after(olt_id, node_id, 202)
    message = _("Queued as execution %(id)s.", id=execution_id)
    flash(message if created else _("Execution %(id)s is already on its way.", id=execution_id), "success")
    return redirect(url_for("executions.detail", execution_id=execution_id), 303)


def _after(olt_id: int, node_id: int | None = None, code: int = 200) -> BaseResponse:
    """After a button: the board (or the OLT's page) as the fragment it was pressed in, or back to the board."""
    if not htmx:
        return _to_board(olt_id, node_id)
    if htmx.target == "olt_live":  # htmx follows, and asks that page for the same fragment
        return redirect(url_for("olts.detail", olt_id=olt_id), 303)
    response = _board(_olt(olt_id))
    response.status_code = code if response.status_code == 200 else response.status_code
    return response


@bp.route("/workflow-nodes/<int:node_id>/delete", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def delete_node(node_id: int) -> Page:
    """Ask, then delete a node, and with a master its chain. Its executions stay."""
    node, olt = _node(node_id)
    olt_id, name, form = olt.id, node.name, ActionForm()
    if not form.validate_on_submit():
        chained = workflows.chain_length(node_id)
        return render_template("workflows/delete.html", node=node, olt=olt, chained=chained, form=form)
    service.delete_node(node_id, current_user.username, now())
    flash(_("Node %(name)s was deleted.", name=name), "success")
    return _to_board(olt_id)
