"""Forms of a workflow's nodes, alone or beside the board: add, edit (also by two at once), delete, reset.

They belong to the blueprint of web/workflows.py.
"""

import json
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from flask import Response, abort, flash, render_template, request
from flask_babel import gettext as _
from flask_login import current_user

from portal.domain.statuses import NodeKind, Role
from portal.queries import catalogue, workflows
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.network import editing, resetting
from portal.services.network import workflows as service
from portal.services.network.editing import EditConflict, Opened
from portal.services.network.trees import columns_of
from portal.tables import Olt, WorkflowNode
from portal.web import args, live
from portal.web.access import requires
from portal.web.formatting import now
from portal.web.forms import ActionForm, ChainedNodeForm, NodeForm, refusal
from portal.web.workflow_answers import Page, asked, in_panel, node_or_404, olt_or_404, saying, to_board
from portal.web.workflow_words import listed
from portal.web.workflows import bp

__all__ = ["bp"]

TEMPLATE = "workflows/form.html"
_LONGEST = 20_000  # of what a form says that it began with


class _Shown(NamedTuple):
    """A form with what stands around it. `node` None: of a new one; `master`: what it runs after."""

    form: NodeForm
    olt: Olt
    master: WorkflowNode | None
    node: WorkflowNode | None = None
    opened: Opened | None = None
    conflict: EditConflict | None = None


def _page(shown: _Shown, **headers: str) -> Response:
    """The form, as a page or in the panel beside the board; there refusals are 200, so that they are shown."""
    opened = shown.opened
    columns = json.dumps({**opened.columns, "kind": opened.columns["kind"].value}) if opened else ""
    response = live.render(
        TEMPLATE, **shown._asdict(), panel=in_panel(), columns=columns,
        choices=catalogue.oid_choices(shown.olt.brand_id),
        theirs=_typed(shown.conflict.now_stored.columns) if shown.conflict else {},
        yours=_typed(shown.conflict.merge.values) if shown.conflict else {},
    )  # fmt: skip
    if response.status_code == 200 and not in_panel():
        response.status_code = 409 if shown.conflict else 422 if shown.form.errors else 200
    response.headers.extend(headers)
    return response


@bp.route("/olts/<int:olt_id>/workflow/nodes/new", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def add_node(olt_id: int) -> Page:
    """Form of a new node: a master, or with ?master=<id> one that runs after it."""
    olt, master = olt_or_404(olt_id), _master(olt_id)
    first = not master and not workflows.masters_of(olt_id)
    form = ChainedNodeForm() if master else NodeForm(kind=NodeKind.DISCOVERY if first else NodeKind.GET)
    if not form.validate_on_submit():
        return _page(_Shown(form, olt, master))
    try:
        fields = form.fields(master.id if master else None)
        node_id = service.add_node(olt_id, fields, current_user.username, now())
    except Invalid as refused:
        form.refuse(refused.errors)
        return _page(_Shown(form, olt, master))
    return _saved(node_id, _("Node %(name)s was added.", name=form.name.data))


def _master(olt_id: int) -> WorkflowNode | None:
    """The master in the URL, if the OLT has it."""
    if "master" not in request.args:
        return None
    wanted = args.number("master")
    master: WorkflowNode = next((n for n in workflows.masters_of(olt_id) if n.id == wanted), None) or abort(404)
    return master


@bp.route("/workflow-nodes/<int:node_id>/edit", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def edit_node(node_id: int) -> Page:
    """Form of a stored node. ?own=1: of a chained one that is to have a clock of its own."""
    found = workflows.node(node_id)
    if found is None:
        return _gone()
    node, olt = found
    opened = _opened() or _now_stored(node)
    shown = _Shown(_form_of(node), olt, node.master, node, opened)
    if not shown.form.validate_on_submit():
        return _page(shown)
    try:
        merge = editing.save_node(node_id, opened, _fields(shown.form), current_user.username, now())
    except NotFound:
        return _gone()
    except EditConflict as conflict:
        return _page(_conflicting(node_id, conflict))
    except Invalid as refused:
        shown.form.refuse(refused.errors)
        return _page(shown)
    text = _("Node %(name)s was saved.", name=merge.values["name"])
    if merge.came_in:
        text += " " + _("Changed by others meanwhile: %(fields)s.", fields=listed(merge.came_in))
    return _saved(node_id, text)


def _form_of(node: WorkflowNode) -> NodeForm:
    """As posted, whatever the node is by now; else as it is stored."""
    own = "interval" in request.form if request.method == "POST" else node.is_master or "own" in request.args
    kind = NodeForm if own else ChainedNodeForm
    return kind(data=kind.stored(node))


def _fields(form: NodeForm) -> dict[str, Any]:
    """What is to be saved; where the node runs, a form says only when it gives it a clock of its own."""
    fields = form.fields()
    if "own" not in request.args:
        del fields["master_id"]
    return fields


def _now_stored(node: WorkflowNode) -> Opened:
    return Opened(node.workflow.revision, columns_of(node))


def _opened() -> Opened | None:
    """What the posted form began with; None when it does not say."""
    revision, given = asked("revision"), request.form.get("opened", "")[:_LONGEST]
    try:
        columns = editing.read_columns(json.loads(given))
    except ValueError:
        return None
    return Opened(revision, columns) if revision is not None and columns is not None else None


def _typed(columns: Any) -> dict[str, Any]:
    """Columns as a form shows them."""
    return NodeForm.stored(cast(WorkflowNode, SimpleNamespace(**columns)))


def _conflicting(node_id: int, conflict: EditConflict) -> _Shown:
    """The form again: what both changed is as typed, what only others changed has come in."""
    node, olt = node_or_404(node_id)
    kind = NodeForm if node.is_master or "own" in request.args else ChainedNodeForm
    form = kind(formdata=None, data=_typed(conflict.merge.values))
    return _Shown(form, olt, node.master, node, conflict.now_stored, conflict)


def _saved(node_id: int, text: str) -> Page:
    """On to the board; in the panel the form of the node as it is stored now, and the board is told to look again."""
    node, olt = node_or_404(node_id)
    if not in_panel():
        flash(text, "success")
        return to_board(olt.id, node_id)
    kind = NodeForm if node.is_master else ChainedNodeForm
    shown = _Shown(kind(formdata=None, data=kind.stored(node)), olt, node.master, node, _now_stored(node))
    return _page(shown, **{"HX-Trigger": saying(text, wake={}, chosen={"node": node_id})})


def _gone() -> Page:
    """The node was deleted while its form was open: what was typed, and where to go on. Without a form: 404."""
    olt = olt_or_404(asked("olt") or 0)
    opened = _opened()
    name = str(opened.columns["name"]) if opened else request.form.get("name", "")
    change = workflows.deletion(olt.id, name, opened.revision if opened else 0)
    form = NodeForm()
    typed = [(field.label.text, field.data) for field in form if field.name in request.form and field.data]
    response = live.render("workflows/gone.html", olt=olt, node_name=name, change=change, typed=typed, panel=in_panel())
    response.status_code = 200 if in_panel() else 409
    return response


@bp.route("/workflow-nodes/<int:node_id>/delete", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def delete_node(node_id: int) -> Page:
    """Ask, then delete a node, and with a master its chain. Its executions stay."""
    node, olt = node_or_404(node_id)
    olt_id, name, form = olt.id, node.name, ActionForm()
    if not form.validate_on_submit():
        chained = workflows.chain_length(node_id)
        return render_template("workflows/delete.html", node=node, olt=olt, chained=chained, form=form)
    service.delete_node(node_id, current_user.username, now())
    flash(_("Node %(name)s was deleted.", name=name), "success")
    return to_board(olt_id)


@bp.route("/workflow-nodes/<int:node_id>/reset", methods=["GET", "POST"])
@requires(Role.OPERATOR)
def reset_node(node_id: int) -> Page:
    """Ask, then make a node as its template has it: what is now, and what it will be."""
    node, olt = node_or_404(node_id)
    olt_id, name, form = olt.id, node.name, ActionForm()
    if not form.validate_on_submit():
        wanted = workflows.template_node(node) or abort(404)
        differs = resetting.differences(node, wanted)
        return render_template("workflows/reset.html", node=node, olt=olt, differs=differs, form=form)
    try:
        resetting.reset_node(node_id, asked("revision") or 0, current_user.username, now())
        flash(_("Node %(name)s is as in its template again.", name=name), "success")
    except (Invalid, Conflict) as refused:
        flash(refusal(refused), "error")
    return to_board(olt_id, node_id)
