"""Plans, and whether OLTs can keep what they promise. Parse, query, answer."""

from datetime import datetime

from portal import clock
from portal.api import args, planning_bodies
from portal.api.errors import ApiError, invalid
from portal.api.operations import Reply, operation
from portal.domain.statuses import Role
from portal.queries import feasibility, olts, plans
from portal.queries.feasibility import OltFit
from portal.queries.plans import PlanView

TAG = "Planning"
LARGEST_PAGE = 200

PLAN_ARGS = (
    args.whole("olt", "The OLT with this id."),
    args.moment("hour", "Only the plans of the hour that begins at this time."),
    args.whole("limit", "How many plans.", 1, 50, 10),
)


@operation(
    "GET", "/plans/", Role.VIEWER, "Execution plans of an OLT", {200: ("Plans.", planning_bodies.PlanList)},
    tag=TAG, args=PLAN_ARGS, errors=(404,),
)  # fmt: skip
def list_plans(olt: int | None, hour: datetime | None, limit: int) -> Reply:
    """What the OLT was expected to do, hour by hour: each slot with its expected start and duration."""
    if olt is None:
        raise invalid({"olt": "is missing: say which OLT"})
    _existing(olt)
    return Reply(planning_bodies.PlanList([_plan(view) for view in plans.of_olt(olt, hour, limit)]))


def _existing(olt_id: int) -> str:
    found = olts.get(olt_id)
    if found is None:
        raise ApiError(404, f"There is no OLT {olt_id}.")
    return str(found.name)


def _plan(view: PlanView) -> planning_bodies.ExecutionPlan:
    slots = [
        planning_bodies.PlannedRun(
            slot.node_id, *view.plan.keys[slot.node_id], slot.scheduled_for, slot.expected_start, slot.p50_ms,
            slot.p95_ms, slot.lost,
        )
        for slot in view.plan.slots
    ]  # fmt: skip
    return planning_bodies.ExecutionPlan(
        view.id, view.status, view.period_start, view.period_end, view.plan.why, view.total_tasks,
        view.completed_tasks, view.failed_tasks, view.created_at, slots,
    )  # fmt: skip


FIT_ARGS = (
    args.whole("olt", "Only the OLT with this id."),
    args.whole("template", "Only the OLTs of the template with this id."),
    args.whole("limit", "How many OLTs.", 1, LARGEST_PAGE, 50),
)


@operation(
    "GET", "/feasibility/", Role.VIEWER, "Whether OLTs can keep their promises",
    {200: ("OLTs.", planning_bodies.FeasibilityList)}, tag=TAG, args=FIT_ARGS, errors=(404,),
)  # fmt: skip
def show_feasibility(olt: int | None, template: int | None, limit: int) -> Reply:
    """How busy the planned runs keep each OLT, by how long they take: what will wait, and which quotas will fail."""
    now = clock.now()
    if olt is not None:
        found = [OltFit(olt, _existing(olt), feasibility.of_olt(olt, now))]
    else:
        found = feasibility.of_olts(now, template, limit)
    return Reply(planning_bodies.FeasibilityList([_fit(one) for one in found[:limit]], len(found)))


def _fit(one: OltFit) -> planning_bodies.Feasibility:
    fit = one.fit
    nodes = [
        planning_bodies.NodeLoad(
            node_id=load.node_id, node_key=load.key, task_type=load.task_type,
            runs_per_hour=round(load.runs_per_hour, 3), p50_ms=load.p50_ms, p95_ms=load.p95_ms,
            guessed=not load.known, predicted_runs=load.pace.judged, error_ms=load.pace.off_by_ms,
            covered_percentage=None if load.pace.held is None else round(100 * load.pace.held, 1),
            busy_percentage=round(100 * load.share, 2), delay_ms=load.delay_ms,
            longest_delay_ms=load.longest_delay_ms, lost_per_hour=load.lost,
        )
        for load in fit.nodes
    ]  # fmt: skip
    return planning_bodies.Feasibility(
        olt_id=one.olt_id, olt_name=one.name, busy_percentage=round(100 * fit.share, 2), verdict=fit.verdict,
        failing=list(fit.failing), endangered=list(fit.endangered), blame=fit.blame.key if fit.blame else None,
        nodes=nodes, detailed=one.detailed,
    )  # fmt: skip
