"""Executions: the list, one with its tries, cancelling one, and running a node now. Parse, service or query, answer."""

from typing import Any

from flask import request, url_for

from portal import clock
from portal.api import access, args, bodies
from portal.api.errors import ApiError
from portal.api.operations import Reply, operation
from portal.domain.statuses import ExecutionStatus, Role, Trigger
from portal.queries import api as query
from portal.queries import executions
from portal.services.dispatch import run_requests as service
from portal.tables import Execution, ExecutionAttempt, ExecutionStep

TAG = "Executions"
PAGE = 50
LARGEST_PAGE = 200

_SUMMARY = tuple(bodies.Execution.__dataclass_fields__)


LIST_ARGS = (
    args.word("status", "Only those in this state.", ExecutionStatus),
    args.whole("olt", "Only those of the OLT with this id."),
    args.whole("node", "Only those of the node with this id."),
    args.word("trigger", "Only those of the schedule, or those that somebody asked for.", Trigger),
    args.moment("since", "Only slots at this time or later."),
    args.moment("until", "Only slots before this time."),
    args.whole("limit", "Length of a page.", 1, LARGEST_PAGE, PAGE),
    args.CURSOR,
)


@operation(
    "GET", "/executions/", Role.VIEWER, "List executions", {200: ("One page.", bodies.ExecutionList)},
    tag=TAG, args=LIST_ARGS,
)  # fmt: skip
def list_executions(limit: int, cursor: str | None, **given: Any) -> Reply:
    """Newest first; with since or until: the latest slot first. A page begins after a row, so that rows which come
    meanwhile neither repeat nor hide others.
    """
    wanted = query.Filter(**given)
    page = query.executions(wanted, args.begin(cursor, wanted.order), limit)
    items = [bodies.Execution(**vars(row)) for row in page.rows]
    return Reply(bodies.ExecutionList(items, _following(page.next) if page.next else None))


def _following(cursor: str) -> str:
    same: dict[str, Any] = {**request.args, "cursor": cursor}
    return url_for("api.list_executions", **same)


@operation(
    "GET", "/executions/<int:execution_id>/", Role.VIEWER, "One execution",
    {200: ("The execution with its tries and their steps.", bodies.ExecutionDetail)},
    tag=TAG, errors=(404,),
)  # fmt: skip
def show_execution(execution_id: int) -> Reply:
    """The execution, its tries in their order, and the steps of each."""
    return Reply(bodies.ExecutionDetail(**_detail(execution_id)))


@operation(
    "POST", "/executions/<int:execution_id>/cancel/", Role.OPERATOR, "Cancel an execution",
    {
        200: ("It waited and has ended: INTERRUPTED.", bodies.ExecutionDetail),
        202: ("It runs and was asked to stop; it stops before its next request to the OLT.", bodies.ExecutionDetail),
    },
    tag=TAG, errors=(404, 409),
)  # fmt: skip
def cancel_execution(execution_id: int) -> Reply:
    """One that waits ends at once; one that runs stops soon; one that has ended stays as it is (409)."""
    status = service.cancel(execution_id, access.actor(), clock.now())
    code = 202 if status is ExecutionStatus.RUNNING else 200
    return Reply(bodies.ExecutionDetail(**_detail(execution_id)), code)


@operation(
    "POST", "/pollers/nodes/<int(max=2147483647):node_id>/run/", Role.OPERATOR, "Run a node now",
    {202: ("It waits or runs; Location names the execution.", bodies.Run)},
    tag="Pollers", errors=(404, 409),
)  # fmt: skip
def run_node(node_id: int) -> Reply:
    """Ask for one run: first on its OLT, without moving the node's schedule. Of a master its whole chain runs, of a
    chained node that node alone. While one of the node waits or runs, that one is the answer and nothing is created.
    409 when the OLT is disabled.
    """
    execution_id, created = service.run_now(node_id, access.actor(), clock.now())
    place = {"Location": url_for("api.show_execution", execution_id=execution_id)}
    return Reply(bodies.Run(**_detail(execution_id), created=created), 202, place)


def _detail(execution_id: int) -> dict[str, Any]:
    one = executions.get(execution_id)
    if one is None:
        raise ApiError(404, f"There is no execution {execution_id}: it never was, or it was old and cleaned up.")
    return _summary(one) | {"result": one.result, "attempts": [_attempt(row) for row in one.attempts]}


def _summary(one: Execution) -> dict[str, Any]:
    return {name: one.olt.name if name == "olt_name" else getattr(one, name) for name in _SUMMARY}


def _attempt(row: ExecutionAttempt) -> bodies.Attempt:
    return bodies.Attempt(
        number=row.number, status=row.status, worker=row.worker, started_at=row.started_at,
        finished_at=row.finished_at, duration_ms=row.duration_ms, error_kind=row.error_kind,
        error_message=row.error_message, steps=[_step(step) for step in row.steps],
    )  # fmt: skip


def _step(row: ExecutionStep) -> bodies.Step:
    names = bodies.Step.__dataclass_fields__
    return bodies.Step(**{name: getattr(row, name) for name in names})
