"""The list of executions, one execution, running its node again and cancelling it. Parse, query or service, render."""

from collections.abc import Iterator
from enum import StrEnum
from typing import TypeVar

from flask import Blueprint, Response, abort, flash, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext as _l
from flask_login import current_user

from portal import clock
from portal.domain.statuses import ACTIVE, ErrorKind, ExecutionStatus, Role, Trigger
from portal.queries import executions, keyset, mismatches
from portal.services.dispatch import run_requests as service
from portal.services.errors import NotFound, ServiceError
from portal.tables import Execution
from portal.web import live
from portal.web.access import requires
from portal.web.export import MOST, Cell, csv_file
from portal.web.formatting import now
from portal.web.forms import refusal
from portal.web.words import error_words, face, labels, skip_words

bp = Blueprint("executions", __name__, url_prefix="/executions")

HEAD = (
    _l("Number"), _l("Node"), _l("OLT"), _l("Result"), _l("Scheduled for"), _l("Started"), _l("Ended"),
    _l("Delay (ms)"), _l("Duration (ms)"), _l("Trigger"), _l("Asked for by"), _l("Tries"), _l("Why"), _l("Message"),
)  # fmt: skip

Choice = TypeVar("Choice", bound=StrEnum)


def _choice(words: type[Choice], text: str) -> Choice | None:
    return words(text) if text in {word.value for word in words} else None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _wanted() -> executions.Filter:
    return executions.Filter(
        status=_choice(ExecutionStatus, request.args.get("status", "")),
        olt_id=_number(request.args.get("olt", "")),
        trigger=_choice(Trigger, request.args.get("trigger", "")),
    )


def _chips(wanted: executions.Filter, names: dict[int, str]) -> list[tuple[str, str]]:
    on = (
        ("status", wanted.status and _("Result: %(value)s", value=face(wanted.status).label)),
        ("olt", wanted.olt_id and _("OLT: %(value)s", value=names.get(wanted.olt_id, wanted.olt_id))),
        ("trigger", wanted.trigger and _("Trigger: %(value)s", value=face(wanted.trigger).label)),
    )
    return [(name, text) for name, text in on if text]


def _filters(wanted: executions.Filter, names: dict[int, str]) -> list[dict[str, object]]:
    statuses = [(word.value, face(word).label) for word in ExecutionStatus]
    triggers = [(word.value, face(word).label) for word in Trigger]
    return [
        {"name": "status", "label": _("Result"), "value": wanted.status or "", "options": statuses},
        {"name": "olt", "label": _("OLT"), "value": wanted.olt_id or "", "options": list(names.items())},
        {"name": "trigger", "label": _("Trigger"), "value": wanted.trigger or "", "options": triggers},
    ]


@bp.get("/")
@requires(Role.VIEWER)
def index() -> Response:
    """Newest first, with filters in the URL; the first page is live."""
    wanted, names, cursor = _wanted(), dict(executions.olt_names()), keyset.cursor(request.args)
    return live.render(
        "executions/index.html",
        title=_("Executions"),
        page=executions.page(wanted, cursor),
        filters=_filters(wanted, names),
        chips=_chips(wanted, names),
        first=not cursor,
        most=MOST,
    )


@bp.get("/export.csv")
@requires(Role.VIEWER)
def export() -> Response:
    """The newest MOST of the list with the same arguments."""
    rows = executions.newest(_wanted(), MOST + 1)
    return csv_file(f"executions-{now():%Y-%m-%d}.csv", HEAD, _lines(rows), MOST)


def _lines(rows: Iterator[executions.Row]) -> Iterator[list[Cell]]:
    words = labels(ExecutionStatus, Trigger)
    for row in rows:
        why = error_words(row.error_kind) or skip_words(row.skip_reason)
        yield [
            row.id, row.node_name, row.olt_name, words[row.status], row.scheduled_for, row.started_at,
            row.finished_at, row.delay_ms, row.duration_ms, words[row.trigger], row.requested_by, row.attempt, why,
            row.error_message,
        ]  # fmt: skip


def _title(one: Execution) -> str:
    return _("%(node)s on %(olt)s", node=one.node_name, olt=one.olt.name)


@bp.get("/<int:execution_id>")
@requires(Role.VIEWER)
def detail(execution_id: int) -> Response:
    """One execution with its attempts and steps; live while it is pending or running."""
    one = executions.get(execution_id) or abort(404)
    mismatch = mismatches.of_olt(one.olt_id) if one.error_kind is ErrorKind.NO_SUCH_OBJECT else None
    return live.render(
        "executions/detail.html", title=_title(one), one=one, active=one.status in ACTIVE, mismatch=mismatch
    )


@bp.post("/<int:execution_id>/again")
@requires(Role.OPERATOR)
def again(execution_id: int) -> ResponseReturnValue:
    """Run the node of this execution now; goes to the new execution."""
    one = executions.get(execution_id) or abort(404)
    if one.node_id is None:
        abort(404)
    try:
        created_id, created = service.run_now(one.node_id, current_user.username, clock.now())
    except ServiceError as error:
        flash(refusal(error), "error")
        return redirect(url_for("executions.detail", execution_id=execution_id), 303)
    flash(_("The run is queued.") if created else _("This node is already waiting or running."), "success")
    return redirect(url_for("executions.detail", execution_id=created_id), 303)


@bp.post("/<int:execution_id>/cancel")
@requires(Role.OPERATOR)
def cancel(execution_id: int) -> ResponseReturnValue:
    """End one that waits, or ask the poller that has it to stop; says so when it has ended meanwhile."""
    try:
        status = service.cancel(execution_id, current_user.username, clock.now())
    except NotFound:
        abort(404)
    except ServiceError as error:
        flash(refusal(error), "error")
    else:
        waits = status is ExecutionStatus.RUNNING
        flash(_("Its poller was asked to stop.") if waits else _("The execution is cancelled."), "success")
    return redirect(url_for("executions.detail", execution_id=execution_id), 303)
