"""Pages of workflows: the list, the board of one OLT and the buttons on it. Forms of nodes: web/workflow_nodes.py."""

from flask import Blueprint, Response, flash, redirect, request, url_for
from flask_babel import gettext as _
from flask_login import current_user
from werkzeug.wrappers import Response as BaseResponse

from portal.domain.statuses import Role
from portal.extensions import htmx
from portal.queries import keyset, templates, workflows
from portal.services.dispatch import run_requests
from portal.services.errors import NotFound, ServiceError
from portal.services.network import placing, undoing
from portal.services.network import workflows as service
from portal.services.network.placing import Place
from portal.web import args, live, workflow_words
from portal.web.access import requires
from portal.web.formatting import now
from portal.web.forms import refusal
from portal.web.workflow_answers import after, asked, board, node_or_404, olt_or_404, to_board

bp = Blueprint("workflows", __name__)


@bp.app_context_processor
def _words() -> dict[str, object]:
    return {"node_value": workflow_words.shown, "undo_words": workflow_words.undo_words,
            "who_and_when": workflow_words.who_and_when}  # fmt: skip


@bp.app_template_filter("node_field")
def _field(name: str) -> str:
    """The label of a column of a node, for `map`."""
    return workflow_words.field(name)


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
    return board(olt_or_404(olt_id))


@bp.post("/workflow-nodes/<int:node_id>/move")
@requires(Role.OPERATOR)
def move_node(node_id: int) -> BaseResponse:
    """One place up or down: field `direction`."""
    _found, olt = node_or_404(node_id)
    olt_id, direction = olt.id, "up" if request.form.get("direction") == "up" else "down"
    placing.move_node(node_id, direction, current_user.username, now())
    return after(olt_id, node_id)


@bp.post("/workflow-nodes/<int:node_id>/place")
@requires(Role.OPERATOR)
def place_node(node_id: int) -> BaseResponse:
    """Where a card was dropped: fields `master` (empty: among the masters), `before` or `after`, `revision`.

    Answers with the board, also when it refuses: then as it is, with the reason said above it.
    """
    _found, olt = node_or_404(node_id)
    olt_id, place = olt.id, Place(asked("master"), asked("before"), asked("after"))
    try:
        placing.place_node(node_id, place, asked("revision") or 0, current_user.username, now())
    except NotFound:
        return after(olt_id, text=_("The node was deleted meanwhile."), tone="error")
    except ServiceError as refused:
        return after(olt_id, node_id, text=refusal(refused), tone="error")
    return after(olt_id, node_id)


@bp.post("/olts/<int:olt_id>/workflow/undo")
@requires(Role.OPERATOR)
def undo(olt_id: int) -> BaseResponse:
    """Take back the last change, the one that made `revision`."""
    olt_or_404(olt_id)
    try:
        back = undoing.undo(olt_id, asked("revision") or 0, current_user.username, now())
    except ServiceError as refused:
        return after(olt_id, text=refusal(refused), tone="error")
    text = _("The change was undone.")
    if back:
        text = _("%(names)s came back as new nodes: what ran of the deleted ones stays with them.",
                 names=", ".join(back))  # fmt: skip
    return after(olt_id, text=text, tone="success")


@bp.post("/workflow-nodes/<int:node_id>/enabled")
@requires(Role.OPERATOR)
def set_node_enabled(node_id: int) -> BaseResponse:
    """Enable or disable a node: field `enabled` is 1 or 0."""
    _found, olt = node_or_404(node_id)
    olt_id = olt.id
    service.set_node_enabled(node_id, request.form.get("enabled") == "1", current_user.username, now())
    return after(olt_id, node_id)


@bp.post("/olts/<int:olt_id>/workflow/enabled")
@requires(Role.OPERATOR)
def set_enabled(olt_id: int) -> BaseResponse:
    """Enable or disable the whole workflow: field `enabled` is 1 or 0."""
    olt_or_404(olt_id)
    service.set_workflow_enabled(olt_id, request.form.get("enabled") == "1", current_user.username, now())
    return after(olt_id)


@bp.post("/workflow-nodes/<int:node_id>/run")
@requires(Role.OPERATOR)
def run_node(node_id: int) -> BaseResponse:
    """Run a node now: a master with its chain, a chained node alone. A second click gives the same execution."""
    _found, olt = node_or_404(node_id)
    olt_id = olt.id
    try:
        execution_id, created = run_requests.run_now(node_id, current_user.username, now())
    except ServiceError as refused:
        flash(refusal(refused), "error")
        return Response(headers={"HX-Refresh": "true"}) if htmx else to_board(olt_id, node_id)
    if htmx:
        return after(olt_id, node_id, 202)
    message = _("Queued as execution %(id)s.", id=execution_id)
    flash(message if created else _("Execution %(id)s is already on its way.", id=execution_id), "success")
    return redirect(url_for("executions.detail", execution_id=execution_id), 303)
