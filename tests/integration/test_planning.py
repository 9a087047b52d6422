"""Plans, forecasts, phase advice and feasibility on both databases."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from typing import Any

import pytest
from flask import current_app
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from portal import masters
from portal.domain import intervals, quota
from portal.domain import pace as domain_pace
from portal.domain import plans as domain_plans
from portal.domain.feasibility import Verdict
from portal.domain.statuses import ExecutionStatus, LossCause, NodeKind, OltState, PlanStatus, QuotaStatus
from portal.extensions import db, transaction
from portal.queries import feasibility, pool_advice
from portal.queries import phases as phase_queries
from portal.services import retention
from portal.services.coordinating import forecasts, phases, plans
from portal.services.dispatch import clock
from portal.services.errors import Conflict
from portal.services.network import workflows
from portal.tables import AuditLog, Execution, ExecutionPlan, NodePace, Olt, QuotaLoss, QuotaTracker, WorkflowNode
from testing.builders import make_node, make_olt, make_pool, make_tracker
from testing.cast import ACTOR, MINUTE, NOW, TEN
from testing.rows import set_rows
from testing.statements import statements_of


def set_pace(node: WorkflowNode, seconds: float, durations: list[int] | None = None) -> None:
    ms = round(seconds * 1000)
    with transaction() as session:
        session.merge(NodePace(node_id=node.id, durations=durations or [ms] * 25, p50_ms=ms, p95_ms=ms, updated_at=NOW))


def rx(olt: Olt, key: str = "rx", interval: str = "5m", seconds: float = 10, **more: Any) -> WorkflowNode:
    made = make_node(olt, key, kind="get", oid="huawei.onu_description", interval=interval, **more)
    set_pace(made, seconds)
    return made


def planned() -> Olt:
    """An OLT with rx each five minutes, its hour planned at ten."""
    olt = make_olt()
    rx(olt)
    make([olt.id], NOW)
    return olt


def make(olt_ids: Iterable[int], now: datetime, why: str = "") -> int:
    with transaction() as session:
        return plans.make(session, list(olt_ids), quota.hour_at(now), now, why)


def stored(session: Session, status: PlanStatus = PlanStatus.ACTIVE) -> list[ExecutionPlan]:
    session.rollback()
    return list(session.scalars(select(ExecutionPlan).where(ExecutionPlan.status == status).order_by(ExecutionPlan.id)))


def tracker(olt_id: int, task_type: str, **counts: int) -> None:
    make_tracker(olt_id, task_type, TEN, quota.Counts(**counts))


def told(session: Session) -> dict[str, tuple[int | None, dict[str, Any] | None]]:
    session.rollback()
    session.expire_all()
    return {row.task_type: (row.forecast, row.forecast_details) for row in session.scalars(select(QuotaTracker))}


def test_the_plan_of_an_hour_holds_its_slots_with_start_and_duration(session: Session) -> None:
    olt = make_olt()
    node = rx(olt, seconds=20)
    assert make([olt.id], NOW, "hour") == 1
    (plan,) = stored(session)
    slots = domain_plans.from_json(plan.plan_data, plan.period_start).slots
    assert [f"{slot.scheduled_for:%H:%M}" for slot in slots] == [f"10:{minute:02}" for minute in range(1, 60, 5)]
    assert {(slot.node_id, slot.p50_ms, slot.wait_ms) for slot in slots} == {(node.id, 20_000, 0)}
    assert (plan.total_tasks, plan.period_start, plan.plan_data["why"]) == (12, TEN, "hour")


def test_a_new_plan_supersedes_the_old_one_and_keeps_its_past(session: Session) -> None:
    olt = planned()
    workflows.set_node_enabled(olt.workflow.nodes[0].id, False, ACTOR, NOW + 30 * MINUTE)
    make([olt.id], NOW + 30 * MINUTE, "task_removed")
    (plan,) = stored(session)
    assert (plan.total_tasks, plan.plan_data["why"]) == (6, "task_removed")
    assert [old.total_tasks for old in stored(session, PlanStatus.SUPERSEDED)] == [12]


def test_an_olt_that_has_nothing_to_do_gets_no_plan(session: Session) -> None:
    assert make([make_olt().id], NOW) == 0
    assert not stored(session)


def test_what_runs_and_waits_is_in_the_plan(session: Session) -> None:
    olt = make_olt()
    first, second = rx(olt, "first", seconds=60), rx(olt, "second", seconds=10)
    base = {"olt_id": olt.id, "device_key": "d", "priority": 40, "node_name": "x", "scheduled_for": NOW + MINUTE}
    with transaction() as writing:
        writing.add(Execution(**base, node_id=first.id, status=ExecutionStatus.RUNNING, started_at=NOW + MINUTE))
        writing.add(Execution(**base, node_id=second.id))
        for node in (first, second):
            writing.get_one(WorkflowNode, node.id).next_run_at = NOW + 6 * MINUTE
    now = NOW + MINUTE + timedelta(seconds=5)
    make([olt.id], now)
    slots = domain_plans.from_json(stored(session)[0].plan_data, TEN).slots
    assert (slots[0].node_id, slots[0].expected_start) == (second.id, NOW + 2 * MINUTE)


def test_the_close_completes_plans_with_what_their_trackers_counted(session: Session) -> None:
    tracker(planned().id, "get_rx", completed=9, failed=2, skipped=1)
    with transaction() as writing:
        assert plans.complete(writing, TEN, NOW) == 1
    (plan,) = stored(session, PlanStatus.COMPLETED)
    assert (plan.completed_tasks, plan.failed_tasks, plan.total_tasks) == (9, 2, 12)


def test_a_disabled_olt_aborts_its_plans_only(session: Session) -> None:
    olts = [make_olt("OLT-A"), make_olt("OLT-B")]
    for olt in olts:
        rx(olt)
    make([olt.id for olt in olts], NOW)
    with transaction() as writing:
        assert plans.abort(writing, [olts[0].id], NOW) == 1
    assert [plan.olt_id for plan in stored(session)] == [olts[1].id]


def test_old_plans_go(session: Session) -> None:
    planned()
    retention.clean_up(NOW + timedelta(days=2, hours=23), 14, 30)
    assert len(stored(session)) == 1
    retention.clean_up(NOW + timedelta(days=3, hours=1), 14, 30)
    assert not stored(session)


def test_a_new_node_is_planned_at_the_pace_of_its_like(session: Session) -> None:
    rx(make_olt("OLT-A"), seconds=40)
    olt = make_olt("OLT-B")
    make_node(olt, "rx", kind="get", oid="huawei.onu_description", interval="5m")
    found = masters.load(session, NOW, [olt.id])[olt.id]
    assert (found[0].node.pace.p50_ms, found[0].node.pace.known) == (40_000, False)


def test_a_cron_line_is_planned_by_its_firings(session: Session) -> None:
    olt = make_olt()
    make_node(olt, "nightly", kind="get", oid="huawei.onu_description", cron="*/20 * * * *")
    make([olt.id], NOW)
    slots = domain_plans.from_json(stored(session)[0].plan_data, TEN).slots
    assert [f"{slot.scheduled_for:%H:%M}" for slot in slots] == ["10:20", "10:40", "11:00"]


def test_a_forecast_says_how_the_hour_will_end(session: Session) -> None:
    olt = make_olt()
    rx(olt)
    tracker(olt.id, "get_rx", completed=6, pending=6)
    assert forecasts.forecast_hour(NOW + 30 * MINUTE) == 1
    assert told(session) == {"get_rx": (12, {"cause": None, "node": "", "seconds": 0})}
    assert forecasts.forecast_hour(NOW + 30 * MINUTE) == 0


def test_a_slower_discovery_is_named_with_the_seconds_above_its_usual(session: Session) -> None:
    olt = make_olt()
    set_pace(make_node(olt, interval="5m"), 290, [250_000] * 20 + [290_000] * 5)
    rx(olt, interval="60s", seconds=20)
    tracker(olt.id, "get_rx", completed=30, pending=30)
    forecasts.forecast_hour(NOW + 30 * MINUTE)
    completed, details = told(session)["get_rx"]
    assert completed < 50 and (details["node"], details["seconds"]) == ("discovery", 40)


def test_losses_so_far_and_a_pause_are_its_cause(session: Session) -> None:
    lost, paused = make_olt("OLT-A"), make_olt("OLT-B")
    for olt in (lost, paused):
        rx(olt)
    tracker(lost.id, "get_rx", completed=4, skipped=2, pending=6)
    tracker(paused.id, "get_other", completed=6, pending=6)
    with transaction() as writing:
        loss = {"olt_id": lost.id, "task_type": "get_rx", "period_start": TEN, "cause": LossCause.RESTART}
        writing.add(QuotaLoss(**loss, skipped=2))
        writing.get_one(Olt, paused.id).state = OltState.PAUSED
    forecasts.forecast_hour(NOW + 30 * MINUTE)
    found = told(session)
    assert found["get_rx"] == (10, {"cause": "restart", "node": "", "seconds": 0})
    assert found["get_other"] == (6, {"cause": "paused", "node": "", "seconds": 0})


def test_what_is_judged_is_not_forecast_any_more(session: Session) -> None:
    olt = make_olt()
    rx(olt)
    tracker(olt.id, "get_rx", completed=6, pending=6)
    set_rows(QuotaTracker, status=QuotaStatus.PARTIAL)
    assert forecasts.forecast_hour(NOW + 30 * MINUTE) == 0


def test_phase_advice_sets_masters_apart_with_one_audit_row(session: Session) -> None:
    olt = make_olt()
    nodes = [rx(olt, f"n{number}", seconds=20) for number in range(4)]
    assert phases.apply(ACTOR, NOW) == 3
    session.rollback()
    session.expire_all()
    firsts = sorted(session.get_one(WorkflowNode, node.id).next_run_at or NOW for node in nodes)
    assert firsts[0] == NOW + MINUTE
    assert all((later - sooner).total_seconds() >= 20 for sooner, later in zip(firsts, firsts[1:], strict=False))
    assert all(node.anchor_at == node.next_run_at for node in session.scalars(select(WorkflowNode)))
    row = session.scalars(select(AuditLog).where(AuditLog.action == "phases.apply")).one()
    assert (row.actor, row.changes["moved"], row.changes["meeting_seconds"]) == (ACTOR, 3, [240, 0])
    waits = {str(node.id): round((node.next_run_at - NOW - MINUTE).total_seconds()) for node in nodes}
    assert row.changes["seconds"] == {ident: seconds for ident, seconds in waits.items() if seconds}
    assert not stored(session)  # the coordinator plans anew what was wound; two writers would leave two plans
    assert phases.apply(ACTOR, NOW) == 0


def test_phase_advice_for_one_olt_leaves_the_others_alone(session: Session) -> None:
    first, second = make_olt("OLT-A"), make_olt("OLT-B")
    for olt in (first, second):
        for number in range(2):
            rx(olt, f"n{number}", seconds=20)
    assert phases.apply(ACTOR, NOW, [first.id], first.name) > 0
    session.rollback()
    session.expire_all()
    kept = [node.next_run_at for node in session.scalars(select(WorkflowNode)) if node.workflow.olt_id == second.id]
    assert kept == [NOW + MINUTE] * 2


def test_what_the_job_reckoned_is_what_the_page_shows_until_it_is_applied(session: Session) -> None:
    olts = [make_olt("OLT-B"), make_olt("OLT-A")]
    for olt in olts:
        for number in range(2):
            rx(olt, f"n{number}", seconds=20)
    reckoned = phase_queries.fresh(NOW)
    assert phases.reckon(NOW) == len(reckoned.advice.shifts) > 0
    seen = phase_queries.preview(NOW + MINUTE)
    assert (seen.advice, seen.moves, seen.reckoned_at) == (reckoned.advice, reckoned.moves, NOW)
    assert [move.olt_name for move in seen.moves] == sorted(move.olt_name for move in seen.moves)
    assert phases.reckon(NOW + MINUTE) > 0  # there is one row, the newest
    own, alone = (read(NOW, [olts[0].id]) for read in (phase_queries.preview, phase_queries.fresh))
    assert (own.advice, own.moves) == (alone.advice, alone.moves)
    phases.apply(ACTOR, NOW)
    assert not phase_queries.preview(NOW).advice.helps  # type: ignore[union-attr]


def test_a_clock_is_not_shifted_out_of_its_hour_nor_one_that_stopped(session: Session) -> None:
    olt = make_olt()
    near, stopped, free = (rx(olt, key) for key in ("near", "stopped", "free"))
    workflows.set_node_enabled(stopped.id, False, ACTOR, NOW)
    set_rows(WorkflowNode, WorkflowNode.id == near.id, next_run_at=TEN + timedelta(minutes=59, seconds=50))
    with transaction() as writing:
        moved = clock.shift(writing, {near.id: 20, stopped.id: 20, free.id: 20}, NOW)
    assert moved == {free.id: 20}
    session.expire_all()
    assert session.get_one(WorkflowNode, free.id).next_run_at == NOW + timedelta(seconds=80)


def test_clocks_from_the_end_of_a_run_have_no_phase(session: Session) -> None:
    current_app.config["NEXTCHECK_MODE"] = "from_end"
    with pytest.raises(Conflict):
        phases.apply(ACTOR, NOW)


def test_an_olt_that_asks_for_more_than_it_has_is_impossible_and_its_node_named(session: Session) -> None:
    olt = make_olt()
    rx(olt, "rx", seconds=200)
    rx(olt, "names", seconds=110)
    found = feasibility.of_olt(olt.id, NOW)
    assert (found.verdict, found.blame.key if found.blame else "") == (Verdict.IMPOSSIBLE, "rx")


def test_what_if_tells_before_a_node_is_saved(session: Session) -> None:
    olt = make_olt()
    rx(olt, seconds=100)
    found = feasibility.what_if(olt.id, NOW, [feasibility.Edit("descriptions", NodeKind.GET, 40, 60)])
    assert found.share > feasibility.of_olt(olt.id, NOW).share
    assert {load.key for load in found.nodes} == {"rx", "descriptions"}
    assert found.verdict is Verdict.IMPOSSIBLE
    assert db.session.scalars(select(WorkflowNode.key)).all() == ["rx"]


def test_what_if_a_node_is_changed_disabled_or_removed(session: Session) -> None:
    olt = make_olt()
    node = rx(olt, seconds=100)
    edit = feasibility.Edit("rx", NodeKind.GET, 40, 600, node_id=node.id)
    assert feasibility.what_if(olt.id, NOW, [edit]).share == pytest.approx(600 / 3600)
    off = feasibility.Edit("rx", NodeKind.GET, 40, 600, node_id=node.id, enabled=False)
    assert feasibility.what_if(olt.id, NOW, [off]).share == 0
    assert feasibility.what_if(olt.id, NOW, removed=[node.id]).share == 0


def stagger(session: Session, olt: Olt) -> dict[str, WorkflowNode]:
    """Four masters of an OLT with clocks of their own, `off` without one; by key."""
    clocks = {"a": ("5m", 40), "b": ("5m", 25), "c": ("10m", 90), "off": ("15m", 70)}
    nodes = {key: rx(olt, key, *clock) for key, clock in clocks.items()}
    workflows.set_node_enabled(nodes["off"].id, False, ACTOR, NOW)
    with transaction() as writing:
        for number, key in enumerate("abc"):
            node = writing.get_one(WorkflowNode, nodes[key].id)
            node.next_run_at = node.anchor_at = NOW + timedelta(seconds=50 + 37 * number)
    session.expire_all()
    return nodes


@pytest.mark.parametrize("mode", ["fixed", "from_end"])
@pytest.mark.parametrize(
    ("key", "fields"),
    [
        ("a", {"interval": "3m"}), ("a", {"interval": "20s"}), ("b", {"interval": "1h"}), ("c", {"priority": 90}),
        ("c", {"interval": None, "cron": "*/7 * * * *"}), ("c", {"interval": None, "cron": "30 4 * * *"}),
        ("off", {"enabled": True}), ("off", {"enabled": True, "interval": "4m"}), ("a", {"enabled": False}),
    ],
)  # fmt: skip
def test_what_if_tells_exactly_what_will_be_after_the_save_delays_included(
    session: Session, key: str, fields: dict[str, Any], mode: str
) -> None:
    current_app.config["NEXTCHECK_MODE"] = mode
    node = stagger(session, make_olt())[key]
    olt_id, later = node.workflow.olt_id, NOW + timedelta(seconds=7, microseconds=250_000)
    interval = intervals.parse(fields["interval"]) if fields.get("interval") else None
    keeps = None if fields.get("cron") else node.interval_seconds
    edit = feasibility.Edit(key, node.kind, fields.get("priority", node.priority), interval or keeps,
                            fields.get("cron"), node.id, fields.get("enabled", node.enabled))  # fmt: skip
    told = feasibility.what_if(olt_id, later, [edit])
    workflows.update_node(node.id, fields | {"override_reason": "as short as that"}, ACTOR, later)
    found = feasibility.of_olt(olt_id, later)
    assert {load.key: load for load in told.nodes} == {load.key: load for load in found.nodes}
    assert (told.share, set(told.failing), told.verdict) == (found.share, set(found.failing), found.verdict)


def test_what_if_of_a_new_master_is_what_will_be_after_the_save(session: Session) -> None:
    olt = session.get_one(Olt, stagger(session, make_olt())["a"].workflow.olt_id)
    told = feasibility.what_if(olt.id, NOW, [feasibility.Edit("new", NodeKind.GET, 40, 300)])
    make_node(olt, "new", kind="get", oid="huawei.onu_description", interval="5m", now=NOW)
    found = feasibility.of_olt(olt.id, NOW)
    before, after = ({load.key: (load.delay_ms, load.lost, load.pace) for load in one.nodes} for one in (told, found))
    assert before == after


def test_what_if_for_many_olts_costs_as_many_statements_as_for_one(session: Session) -> None:
    olts = [make_olt(f"OLT-{number}").id for number in range(4)]
    for olt_id in olts:
        rx(session.get_one(Olt, olt_id), seconds=100)
    change = feasibility.Changes((feasibility.Edit("new", NodeKind.GET, 40, 60),))
    found = feasibility.what_if_many(NOW, dict.fromkeys(olts, change))
    alone = {olt: feasibility.what_if(olt, NOW, change.edits).share for olt in olts}
    assert {olt: fit.share for olt, fit in found.items()} == alone
    wanted = [dict.fromkeys(some, change) for some in (olts[:1], olts)]
    one, all_of_them = (statements_of(partial(feasibility.what_if_many, NOW, changes)) for changes in wanted)
    assert one == all_of_them


def test_an_olt_that_has_time_enough_but_loses_a_quota_is_found_among_all(session: Session) -> None:
    rx(make_olt("OLT-A"), seconds=200)
    blocked = make_olt("OLT-B")
    set_pace(make_node(blocked, interval="1h"), 1000)
    rx(blocked, interval="60s", seconds=3)
    found = feasibility.of_olts(NOW)
    assert [(one.name, one.fit.keeps, one.detailed) for one in found] == [("OLT-B", False, True), ("OLT-A", True, True)]
    assert found[0].fit.failing == ("get_rx",)
    assert [one.detailed for one in feasibility.of_olts(NOW, detailed=0)] == [True, False]


def test_a_pause_that_ends_within_the_hour_costs_the_slots_until_then(session: Session) -> None:
    olt = make_olt()
    rx(olt)
    tracker(olt.id, "get_rx", completed=6, pending=6)
    set_rows(Olt, state=OltState.PAUSED, paused_until=TEN + 46 * MINUTE)
    set_rows(WorkflowNode, next_run_at=TEN + 31 * MINUTE)
    forecasts.forecast_hour(TEN + 30 * MINUTE)
    assert told(session)["get_rx"] == (9, {"cause": "paused", "node": "", "seconds": 0})
    make([olt.id], TEN + 30 * MINUTE)
    (plan,) = stored(session)
    slots = domain_plans.from_json(plan.plan_data, TEN).slots
    found = [(slot.scheduled_for.minute, slot.lost) for slot in slots]
    assert found == [*((minute, LossCause.PAUSED) for minute in (31, 36, 41)), (46, None), (51, None), (56, None)]


def test_the_plan_of_an_olt_that_was_away_keeps_what_it_did_before(session: Session) -> None:
    olt = planned()
    with transaction() as writing:
        assert plans.abort(writing, [olt.id], NOW + 20 * MINUTE) == 1
    make([olt.id], NOW + 40 * MINUTE, "olt_enabled")
    (plan,) = stored(session)
    minutes = [slot.scheduled_for.minute for slot in domain_plans.from_json(plan.plan_data, TEN).slots]
    assert minutes == [1, 6, 11, 16, 36, 41, 46, 51, 56]


def test_an_hour_of_an_olt_cannot_have_two_plans_that_hold(session: Session) -> None:
    olt = planned()
    with pytest.raises(IntegrityError), transaction() as writing:
        row = writing.scalars(select(ExecutionPlan)).one()
        writing.add(ExecutionPlan(olt_id=olt.id, period_start=row.period_start, period_end=row.period_end,
                                   plan_data=row.plan_data, created_at=NOW, updated_at=NOW))  # fmt: skip


def test_what_a_node_took_while_it_read_something_else_is_no_pace_of_it(session: Session) -> None:
    node = rx(make_olt(), seconds=100)
    set_rows(NodePace, NodePace.node_id == node.id, reads=domain_pace.reads(node.kind, node.oid))
    assert masters.load(session, NOW)[node.workflow.olt_id][0].node.pace.known
    workflows.update_node(node.id, {"oid": "huawei.onu_state"}, ACTOR, NOW)
    session.expire_all()
    assert not masters.load(session, NOW)[node.workflow.olt_id][0].node.pace.known


def test_a_run_is_not_expected_to_take_longer_than_it_may(session: Session) -> None:
    node = rx(make_olt(), seconds=100)
    set_rows(NodePace, NodePace.node_id == node.id, p95_ms=900_000)
    (found,) = masters.load(session, NOW)[node.workflow.olt_id]
    assert (found.node.pace.p50_ms, found.node.pace.p95_ms) == (100_000, 132_000)


def test_all_olts_the_busiest_first(session: Session) -> None:
    for name, seconds in (("OLT-A", 10), ("OLT-B", 290)):
        rx(make_olt(name), seconds=seconds)
    found = feasibility.of_olts(NOW)
    assert [(one.name, one.fit.verdict) for one in found] == [("OLT-B", Verdict.TIGHT), ("OLT-A", Verdict.FITS)]


def all_run(olts: list[int], minutes: Iterable[int]) -> None:
    """For a minute, each so many minutes ago."""
    with transaction() as session:
        for number, (ago, olt) in enumerate(product(minutes, olts)):
            start = NOW - ago * MINUTE
            session.add(Execution(node_name="x", olt_id=olt, device_key=str(number), priority=40, attempt=1,
                                  status=ExecutionStatus.SUCCESS, scheduled_for=start, started_at=start,
                                  finished_at=start + MINUTE))  # fmt: skip


def test_the_pool_that_the_last_hour_needed_is_told(session: Session) -> None:
    assert pool_advice.last_hour(NOW) == []
    all_run([make_olt(f"OLT-{number}").id for number in range(5)], [10, 20, 30, 40])
    (found,) = pool_advice.last_hour(NOW)
    assert (found.advice.needed, found.advice.arrivals, found.seconds) == (5, 20, 3600)
    assert (found.advice.present_p95_ms, found.site) == (None, None)


def test_a_site_with_pollers_of_its_own_is_advised_apart(session: Session) -> None:
    sites = ["cusco"] * 3 + ["lima"] * 2 + [""] * 2
    olts = [make_olt(f"OLT-{number}", site=site).id for number, site in enumerate(sites)]
    for site in (None, "cusco"):
        make_pool(name=f"pool-{site}", site=site)
    all_run(olts, range(10, 30, 2))
    found = {view.site: (view.advice.needed, view.advice.arrivals) for view in pool_advice.last_hour(NOW)}
    assert found == {None: (4, 40), "cusco": (3, 30)}


def test_how_well_the_prediction_did_is_told_with_it(session: Session) -> None:
    node = rx(make_olt())
    assert feasibility.of_olt(node.workflow.olt_id, NOW).nodes[0].pace.held is None
    set_rows(NodePace, predicted=20, covered=19, error_ms=8_000)
    known = feasibility.of_olt(node.workflow.olt_id, NOW).nodes[0].pace
    assert (known.held, known.off_by_ms) == (0.95, 400)
