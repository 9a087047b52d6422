"""A template tried on one OLT and what is compared of it; a task given to many OLTs, or to a new template."""

from datetime import timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.quota import Counts
from portal.domain.statuses import ExecutionStatus, RolloutStatus, Trigger
from portal.queries import rollouts as comparisons
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.network import applying, rollouts, tasks, template_nodes, templates, workflows
from portal.tables import AuditLog, Execution, Olt, TemplateRollout, WorkflowRevision, WorkflowTemplate
from testing.builders import make_node, make_olt, make_tracker, make_zte
from testing.cast import ACTOR, NOW, at
from testing.refusals import errors_of
from tests.integration.test_services_applying import RX, basic, ids, keys, make_other, node, template_node

__all__ = ["basic"]  # the fixture


@pytest.fixture
def tried(session: Session, basic: int) -> int:
    """OLT-A to OLT-C have the template; since then its power is read every 20 min, which is tried on OLT-B."""
    applying.apply(basic, ids(session), ACTOR, NOW)
    make_node(session.get_one(Olt, ids(session, "OLT-B")[0]), "own")
    template_nodes.update_node(template_node(session, "rx").id, {"interval": "20m"}, ACTOR, NOW)
    return rollouts.start(basic, ids(session, "OLT-B")[0], ids(session), ACTOR, NOW)


def intervals(session: Session) -> list[int | None]:
    session.expire_all()
    return [node(session, olt, "rx").interval_seconds for olt in ("OLT-A", "OLT-B", "OLT-C")]


def status(session: Session, rollout: int) -> RolloutStatus:
    return session.get_one(TemplateRollout, rollout, populate_existing=True).status


def test_only_the_canary_gets_it_and_the_rest_is_remembered(session: Session, tried: int) -> None:
    assert intervals(session) == [600, 1200, 600]
    row = session.get_one(TemplateRollout, tried)
    assert row.olt_ids == ids(session, "OLT-A", "OLT-C")
    assert (row.status, row.actor, row.started_at) == (RolloutStatus.CANARY, ACTOR, NOW)


def test_the_rest_gets_it_and_the_try_is_over(session: Session, tried: int) -> None:
    effects = rollouts.apply_rest(tried, ACTOR, NOW)
    assert [(one.name, one.changes) for one in effects] == [("OLT-A", True), ("OLT-C", True)]
    assert intervals(session) == [1200] * 3
    assert status(session, tried) is RolloutStatus.DONE
    for late in (rollouts.apply_rest, rollouts.take_back, rollouts.keep):
        with pytest.raises(Conflict):
            late(tried, ACTOR, NOW)


def test_taken_back_the_canary_has_what_it_had(session: Session, tried: int) -> None:
    rollouts.take_back(tried, ACTOR, NOW + timedelta(minutes=3))
    assert intervals(session) == [600] * 3
    assert keys(session, "OLT-B") == ["description", "discovery", "own", "rx"]
    rx = node(session, "OLT-B", "rx")
    assert (rx.template_node_id, rx.overridden) == (template_node(session, "rx").id, False)
    assert status(session, tried) is RolloutStatus.TAKEN_BACK
    actions = session.scalars(select(WorkflowRevision.action).order_by(WorkflowRevision.id)).all()
    assert actions[-1] == "template.take_back"
    audited = select(AuditLog.subject_name).where(AuditLog.action == "template.take_back")
    assert session.scalars(audited).one() == "OLT-B"


def test_taken_back_from_an_olt_that_had_nothing(session: Session, basic: int) -> None:
    rollout = rollouts.start(basic, ids(session, "OLT-A")[0], [], ACTOR, NOW)
    assert keys(session, "OLT-A") == ["description", "discovery", "rx"]
    rollouts.take_back(rollout, ACTOR, NOW)
    assert keys(session, "OLT-A") == []
    assert session.get_one(Olt, ids(session, "OLT-A")[0]).workflow.template is None  # type: ignore[union-attr]


def test_taken_back_the_canary_has_the_template_that_it_had(session: Session, tried: int) -> None:
    rollouts.keep(tried, ACTOR, NOW)
    rollout = rollouts.start(make_other(), ids(session, "OLT-B")[0], [], ACTOR, NOW + timedelta(minutes=1))
    assert keys(session, "OLT-B") == ["own", "state"]
    rollouts.take_back(rollout, ACTOR, NOW + timedelta(minutes=2))
    session.expire_all()
    assert keys(session, "OLT-B") == ["description", "discovery", "own", "rx"]
    assert node(session, "OLT-B", "rx").workflow.template.name == "basic"  # type: ignore[union-attr]
    assert node(session, "OLT-B", "rx").template_node_id is not None


def test_a_template_that_is_gone_meanwhile_leaves_nodes_to_the_olt(session: Session, tried: int, basic: int) -> None:
    rollouts.keep(tried, ACTOR, NOW)
    rollout = rollouts.start(make_other(), ids(session, "OLT-B")[0], [], ACTOR, NOW + timedelta(minutes=1))
    templates.delete(basic, ACTOR, NOW)
    rollouts.take_back(rollout, ACTOR, NOW + timedelta(minutes=2))
    session.expire_all()
    assert keys(session, "OLT-B") == ["description", "discovery", "own", "rx"]
    assert [one.template_node_id for one in node(session, "OLT-B", "rx").workflow.nodes] == [None] * 4


def test_a_canary_that_was_changed_by_hand_is_not_taken_back(session: Session, tried: int) -> None:
    workflows.update_node(node(session, "OLT-B", "own").id, {"interval": "1h"}, ACTOR, NOW)
    with pytest.raises(Conflict, match="by hand"):
        rollouts.take_back(tried, ACTOR, NOW)
    assert intervals(session) == [600, 1200, 600]
    assert status(session, tried) is RolloutStatus.CANARY
    assert rollouts.apply_rest(tried, ACTOR, NOW)


def test_a_template_that_was_changed_since_does_not_go_to_the_rest(session: Session, tried: int, basic: int) -> None:
    template_nodes.update_node(template_node(session, "rx").id, {"interval": "30m"}, ACTOR, NOW)
    with pytest.raises(Conflict, match="not what was tried"):
        rollouts.apply_rest(tried, ACTOR, NOW)
    assert intervals(session) == [600, 1200, 600]
    rollouts.take_back(tried, ACTOR, NOW)
    assert rollouts.start(basic, ids(session, "OLT-B")[0], ids(session), ACTOR, NOW + timedelta(minutes=1))


def test_one_try_of_a_template_at_a_time(session: Session, tried: int, basic: int) -> None:
    with pytest.raises(Conflict, match="already"):
        rollouts.start(basic, ids(session, "OLT-A")[0], [], ACTOR, NOW)
    with pytest.raises(Conflict):
        templates.delete(basic, ACTOR, NOW)
    rollouts.keep(tried, ACTOR, NOW)
    assert intervals(session) == [600, 1200, 600]
    assert rollouts.start(basic, ids(session, "OLT-A")[0], [], ACTOR, NOW + timedelta(minutes=1))


def test_an_olt_that_cannot_have_it_or_has_it_is_no_canary(session: Session, tried: int, basic: int) -> None:
    canary = ids(session, "OLT-B")[0]
    rollouts.apply_rest(tried, ACTOR, NOW)
    for olt, word in ((canary, "in step already"), (make_zte("OLT-Z").id, "not for this OLT")):
        with pytest.raises(Invalid, match=word):
            rollouts.start(basic, olt, [], ACTOR, NOW)
    with pytest.raises(NotFound):
        rollouts.take_back(99, ACTOR, NOW)


START = at("10:20")
LATER = START + timedelta(hours=2)


@pytest.fixture
def on_trial(session: Session) -> TemplateRollout:
    """Template basic on OLT-LIMA since 10:20; it is 12:20."""
    olt, template = make_olt().id, templates.create({"name": "basic"}, ACTOR, START)
    template_nodes.add_node(template, RX, ACTOR, START)
    return session.get_one(TemplateRollout, rollouts.start(template, olt, [], ACTOR, START))


def ran(session: Session, minutes: int, ms: int, status: str = "SUCCESS", trigger: str = "schedule") -> None:
    """A run so many minutes after the start."""
    slot = START + timedelta(minutes=minutes)
    session.add(Execution(node_name="Rx", olt_id=1, device_key="a", priority=40, scheduled_for=slot,
                          status=ExecutionStatus(status), trigger=Trigger(trigger), task_type="get_rx",
                          duration_ms=ms))  # fmt: skip
    session.commit()


def test_the_same_span_before_and_since_is_compared(session: Session, on_trial: TemplateRollout) -> None:
    for minutes, ms in ((-121, 90_000), (-60, 2_000), (-30, 4_000), (-10, 3_000), (5, 9_000), (15, 7_000)):
        ran(session, minutes, ms)
    ran(session, 25, 8_000, "FAILED")
    ran(session, 26, 8_000, trigger="manual")
    ran(session, 27, 0, "PENDING")
    found = comparisons.compare(on_trial, LATER)
    before, since = found.tasks["get_rx"]
    assert (before.runs, before.failed, before.p50_ms) == (3, 0, 3_000)
    assert (since.runs, since.failed, since.p50_ms) == (3, 1, 8_000)
    assert found.before == found.since == timedelta(hours=2)
    assert [round(share, 3) for share in found.busy] == [0.125, 0.333]
    assert not found.early


def test_only_whole_hours_of_promises_count_and_the_hour_of_the_start_does_not(on_trial: TemplateRollout) -> None:
    for hour, completed in ((9, 6), (10, 1), (11, 3), (12, 0)):
        make_tracker(1, "get_rx", at(f"{hour:02}:00"), Counts(completed=completed, pending=6 - completed))
    before, since = comparisons.compare(on_trial, LATER).tasks["get_rx"]
    assert (before.required, before.completed, before.kept) == (6, 6, 100)
    assert (since.required, since.completed, since.kept) == (6, 3, 50)


def test_right_after_the_start_nothing_can_be_said(session: Session, on_trial: TemplateRollout) -> None:
    ran(session, -30, 4_000)
    found = comparisons.compare(on_trial, START + timedelta(seconds=5))
    assert found.early
    assert (found.before, found.tasks["get_rx"][0].runs, found.busy[1]) == (timedelta(hours=1), 1, 0)


TASK = RX | {"name": "Power", "max_retries": "1"}


def test_each_olt_gets_a_node_of_its_own_behind_those_it_has(session: Session, basic: int) -> None:
    applying.apply(basic, ids(session, "OLT-A"), ACTOR, NOW)
    effects = tasks.create(TASK, ids(session, "OLT-A", "OLT-B"), ACTOR, NOW)
    assert [one.name for one in effects] == ["OLT-A", "OLT-B"]
    assert [(one.difference.added, one.problems) for one in effects] == [(["power"], ())] * 2
    made = node(session, "OLT-A", "power")
    assert (made.template_node_id, made.max_retries, made.interval_seconds) == (None, 1, 600)
    assert made.workflow.template.name == "basic"
    assert keys(session, "OLT-A") == ["description", "discovery", "power", "rx"]
    minute = NOW.replace(microsecond=0) + timedelta(seconds=60)
    assert minute <= made.next_run_at < minute + timedelta(seconds=60)


def test_an_olt_that_has_the_key_or_not_the_oid_is_left_out_by_name(session: Session, basic: int) -> None:
    make_node(session.get_one(Olt, ids(session, "OLT-B")[0]), "power")
    wanted = [*ids(session, "OLT-A", "OLT-B"), make_zte("OLT-Z").id]
    seen = tasks.preview(TASK, wanted, NOW)
    assert keys(session, "OLT-A") == []
    made = tasks.create(TASK, wanted, ACTOR, NOW)
    for effects in (seen, made):
        left_out = {one.name: bool(one.problems) for one in effects}
        assert left_out == {"OLT-A": False, "OLT-B": True, "OLT-Z": True}
    assert (keys(session, "OLT-A"), keys(session, "OLT-B"), keys(session, "OLT-Z")) == (["power"], ["power"], [])
    assert seen[0].fit.share > seen[0].share_before


def test_as_a_template_it_is_made_once_and_olts_with_another_are_left_out(session: Session, basic: int) -> None:
    applying.apply(basic, ids(session, "OLT-B"), ACTOR, NOW)
    seen = tasks.preview(TASK, ids(session), NOW, in_template=True)
    template_id, effects = tasks.create_template("power", TASK, ids(session), ACTOR, NOW)
    for found in (seen, effects):
        left_out = {one.name: bool(one.problems) for one in found}
        assert left_out == {"OLT-A": False, "OLT-B": True, "OLT-C": False}
    assert "template basic" in effects[1].problems[0]
    made = node(session, "OLT-A", "power")
    assert made.template_node_id is not None and made.workflow.template_id == template_id
    assert keys(session, "OLT-B") == ["description", "discovery", "rx"]


def test_what_cannot_be_read_makes_nothing(session: Session, basic: int) -> None:
    wrong: list[tuple[dict[str, str], str]] = [
        ({"interval": "1m"}, "override_reason"), ({"interval": "x"}, "interval"), ({"oid": "huawei.nothing"}, "oid"),
        ({"cron": "0 * * * *"}, "cron"), ({"max_retries": "99"}, "max_retries"),
    ]  # fmt: skip
    for change, field in wrong:
        assert field in errors_of(tasks.create_template, "power", TASK | change, ids(session), ACTOR, NOW)
    for name in ("", "basic"):
        assert set(errors_of(tasks.create_template, name, TASK, ids(session), ACTOR, NOW)) == {"template_name"}
    assert [row.name for row in session.scalars(select(WorkflowTemplate))] == ["basic"]
    assert templates.by_name("basic") == basic
