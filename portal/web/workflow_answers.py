"""What a workflow's buttons and forms answer: the board again, a sentence above it, or the page to go to."""

import json
from typing import Any

from flask import Response, abort, flash, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from portal.extensions import htmx
from portal.queries import olts, workflows
from portal.services.network.undoing import UNDOABLE
from portal.tables import Olt, WorkflowNode
from portal.web import live
from portal.web.formatting import now
from portal.web.forms import ActionForm

Page = str | BaseResponse | tuple[str, int]

PANEL, BOARD = "panel", "board"


def olt_or_404(olt_id: int) -> Olt:
    """The OLT of an address."""
    olt: Olt = olts.get(olt_id) or abort(404)
    return olt


def node_or_404(node_id: int) -> tuple[WorkflowNode, Olt]:
    """The node of an address, and its OLT."""
    found: tuple[WorkflowNode, Olt] = workflows.node(node_id) or abort(404)
    return found


def board(olt: Olt) -> Response:
    """The board: the page, or the fragment of it that htmx asks for."""
    view = workflows.of_olt(olt, now())
    return live.render(
        "workflows/detail.html",
        olt=olt,
        view=view,
        running=olts.running_now([olt.id]).get(olt.id),
        action=ActionForm(),
        undoable=view.last_change is not None and view.last_change.action in UNDOABLE,
    )


def to_board(olt_id: int, node_id: int | None = None) -> BaseResponse:
    """On to the board, at a node."""
    anchor = f"node-{node_id}" if node_id else None
    return redirect(url_for("workflows.detail", olt_id=olt_id, _anchor=anchor), 303)


def after(olt_id: int, node_id: int | None = None, code: int = 200, *, text: str = "", tone: str = "") -> BaseResponse:
    """After a button: the board (or the OLT's page) as the fragment it was pressed in, or back to the board.

    `text` is said above the board; `tone`: success or error.
    """
    if not htmx:
        if text:
            flash(text, tone)
        return to_board(olt_id, node_id)
    if htmx.target == "olt_live":  # htmx follows, and asks that page for the same fragment
        return redirect(url_for("olts.detail", olt_id=olt_id), 303)
    response = board(olt_or_404(olt_id))
    response.status_code = code if response.status_code == 200 else response.status_code
    if text:
        response.headers["HX-Trigger"] = saying(text, tone)
    return response


def saying(text: str, tone: str = "success", **events: Any) -> str:
    """The header with which board.js is told what to say, and live fragments what else there is."""
    return json.dumps({"said": {"text": text, "tone": {"success": "green", "error": "red"}[tone]}, **events})


def in_panel() -> bool:
    """Whether the form beside the board was asked for, and not the page of it."""
    return bool(htmx and request.headers.get("HX-Target") == PANEL)


def asked(name: str) -> int | None:
    """A node id or a revision in the posted form; None when it is none."""
    value = request.form.get(name, type=int)
    return value if value is not None and 0 <= value < 2**31 else None
