"""Templates applied to OLTs: what is previewed is what is done; what an OLT has otherwise or for itself stays."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from portal.domain.statuses import EventType, ExecutionStatus
from portal.extensions import Base
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.importing import inventory
from portal.services.network import applying, standing, template_nodes, templates, workflows
from portal.services.network.many import Effect
from portal.services.network.standing import Stand
from portal.tables import (
    AuditLog,
    CoordinatorLog,
    Olt,
    TemplateNode,
    Workflow,
    WorkflowNode,
    WorkflowRevision,
    WorkflowTemplate,
)
from testing.builders import make_execution, make_node, make_olt, make_zte
from testing.cast import ACTOR


@pytest.fixture
def basic(session: Session, now: datetime) -> int:
    """Template basic, made on its pages: a discovery with its chain, and power. No OLT has it; OLT-A to OLT-C exist."""
    for letter in "ABC":
        make_olt(f"OLT-{letter}")
    template = templates.create({"name": "basic"}, ACTOR, now)
    master = template_nodes.add_node(
        template, {"name": "Discovery", "kind": "discovery", "oid": "huawei.onu_state", "interval": "15m"}, ACTOR, now
    )
    given = {"name": "Description", "kind": "get", "oid": "huawei.onu_description", "master_id": master}
    template_nodes.add_node(template, given, ACTOR, now)
    template_nodes.add_node(
        template, {"name": "Rx", "kind": "get", "oid": "huawei.onu_rx_power", "interval": "10m"}, ACTOR, now
    )
    return template


def ids(session: Session, *names: str) -> list[int]:
    found = {row.name: row.id for row in session.execute(select(Olt.id, Olt.name))}
    return [found[name] for name in names or sorted(found)]


def node(session: Session, olt: str, key: str) -> WorkflowNode:
    return session.scalars(
        select(WorkflowNode).join(WorkflowNode.workflow).join(Workflow.olt)
        .where(Olt.name == olt, WorkflowNode.key == key)
    ).one()  # fmt: skip


def keys(session: Session, olt: str) -> list[str]:
    query = select(WorkflowNode.key).join(WorkflowNode.workflow).join(Workflow.olt).where(Olt.name == olt)
    return sorted(session.scalars(query))


def template_node(session: Session, key: str) -> TemplateNode:
    return session.scalars(select(TemplateNode).where(TemplateNode.key == key)).one()


def count(session: Session, table: type[Base]) -> int:
    return session.scalar(select(func.count()).select_from(table)) or 0


def applied(session: Session, template: int, now: datetime, *olts: str) -> list[Effect]:
    return applying.apply(template, ids(session, *olts), ACTOR, now)


def told(effects: list[Effect]) -> dict[str, tuple[list[str], list[str], list[str]]]:
    """OLT → added, changed and removed keys."""
    return {
        one.name: (sorted(one.difference.added), sorted(one.difference.changed), sorted(one.difference.removed))
        for one in effects
    }


def test_applying_gives_each_olt_the_nodes_with_their_first_runs_spread(
    session: Session, basic: int, now: datetime
) -> None:
    applied(session, basic, now)
    for olt in ("OLT-A", "OLT-B", "OLT-C"):
        assert keys(session, olt) == ["description", "discovery", "rx"]
        assert node(session, olt, "description").master is node(session, olt, "discovery")
    firsts = [node(session, olt, key).next_run_at for olt in ("OLT-A", "OLT-B", "OLT-C") for key in ("discovery", "rx")]
    minute = now.replace(microsecond=0) + timedelta(seconds=60)
    assert all(first is not None and minute <= first < minute + timedelta(seconds=60) for first in firsts)
    assert len(set(firsts)) == 6


def test_a_preview_says_what_applying_does_and_writes_nothing(session: Session, basic: int, now: datetime) -> None:
    make_node(session.get_one(Olt, ids(session, "OLT-B")[0]), "own")
    rows = [count(session, table) for table in (WorkflowNode, WorkflowRevision, Workflow, AuditLog)]
    seen = applying.preview(basic, ids(session), now)
    assert [count(session, table) for table in (WorkflowNode, WorkflowRevision, Workflow, AuditLog)] == rows
    assert told(seen) == told(applied(session, basic, now))
    assert told(seen)["OLT-B"] == (["description", "discovery", "rx"], [], [])
    assert all(one.fit.share > one.share_before for one in seen)


def test_applying_again_changes_nothing_and_leaves_no_trace(session: Session, basic: int, now: datetime) -> None:
    applied(session, basic, now)
    clock = node(session, "OLT-A", "rx").next_run_at
    rows = [count(session, table) for table in (AuditLog, WorkflowRevision)]
    effects = applied(session, basic, now + timedelta(minutes=5))
    assert not any(one.changes for one in effects)
    assert node(session, "OLT-A", "rx").next_run_at == clock
    assert [count(session, table) for table in (AuditLog, WorkflowRevision)] == rows


def test_each_olt_gets_one_revision_and_one_audit_row(session: Session, basic: int, now: datetime) -> None:
    applied(session, basic, now, "OLT-A", "OLT-B")
    made = session.scalars(select(WorkflowRevision).order_by(WorkflowRevision.id)).all()
    assert [(one.number, one.action, one.actor, one.before) for one in made] == [(1, "template.apply", ACTOR, [])] * 2
    audited = session.scalars(select(AuditLog.subject_name).where(AuditLog.action == "template.apply")).all()
    assert sorted(audited) == ["OLT-A", "OLT-B"]


def test_a_change_of_the_template_waits_until_it_is_applied(session: Session, basic: int, now: datetime) -> None:
    applied(session, basic, now)
    template_nodes.update_node(template_node(session, "rx").id, {"interval": "20m"}, ACTOR, now)
    given = {"name": "Names", "kind": "walk", "oid": "huawei.onu_description", "interval": "1h"}
    template_nodes.add_node(basic, given, ACTOR, now)
    template_nodes.delete_node(template_node(session, "description").id, ACTOR, now)
    assert node(session, "OLT-A", "rx").interval_seconds == 600
    assert keys(session, "OLT-A") == ["description", "discovery", "rx"]
    stand = standing.of_template(basic)
    assert (stand.waiting, len(stand.behind)) == (3, 3)
    seen = told(applying.preview(basic, ids(session), now))
    assert list(seen.values()) == [(["names"], ["rx"], ["description"])] * 3
    applied(session, basic, now)
    assert keys(session, "OLT-C") == ["discovery", "names", "rx"]
    assert node(session, "OLT-C", "rx").interval_seconds == 1200
    assert (standing.of_template(basic).waiting, standing.of_template(basic).behind) == (0, [])


def test_a_deleted_node_is_forgotten_once_no_olt_has_it(session: Session, basic: int, now: datetime) -> None:
    applied(session, basic, now)
    template_nodes.delete_node(template_node(session, "discovery").id, ACTOR, now)
    applied(session, basic, now, "OLT-A")
    assert count(session, TemplateNode) == 3
    assert [olt.name for olt in standing.of_template(basic).behind] == ["OLT-B", "OLT-C"]
    applied(session, basic, now)
    assert [one.key for one in session.scalars(select(TemplateNode))] == ["rx"]
    assert keys(session, "OLT-B") == ["rx"]


def test_a_node_nobody_has_is_deleted_at_once_and_its_key_is_free(session: Session, basic: int, now: datetime) -> None:
    template_nodes.delete_node(template_node(session, "discovery").id, ACTOR, now)
    assert [one.key for one in session.scalars(select(TemplateNode))] == ["rx"]
    given = {"name": "Discovery", "kind": "discovery", "oid": "huawei.onu_state", "interval": "15m"}
    assert template_nodes.add_node(basic, given, ACTOR, now)


def test_what_an_olt_has_otherwise_stays_and_is_told(session: Session, basic: int, now: datetime) -> None:
    applied(session, basic, now)
    workflows.update_node(node(session, "OLT-B", "rx").id, {"interval": "1h"}, ACTOR, now)
    stand = {olt.name: olt.stand for olt in standing.of_template(basic).olts}
    assert stand == {"OLT-A": Stand.IN_STEP, "OLT-B": Stand.DIFFERS, "OLT-C": Stand.IN_STEP}
    template_nodes.update_node(template_node(session, "rx").id, {"interval": "20m", "priority": "70"}, ACTOR, now)
    effects = {one.name: one for one in applied(session, basic, now)}
    assert effects["OLT-B"].kept == ("rx",)
    assert not effects["OLT-B"].changes
    assert node(session, "OLT-B", "rx").interval_seconds == 3600
    assert (node(session, "OLT-A", "rx").interval_seconds, node(session, "OLT-A", "rx").priority) == (1200, 70)


def test_an_own_node_with_the_same_key_leaves_its_olt_out_by_name(session: Session, basic: int, now: datetime) -> None:
    own = make_node(session.get_one(Olt, ids(session, "OLT-B")[0]), "rx", kind="get", oid="huawei.onu_rx_power",
                    interval="30m")  # fmt: skip
    for effects in (applying.preview(basic, ids(session), now), applied(session, basic, now)):
        assert {one.name: bool(one.problems) for one in effects} == {"OLT-A": False, "OLT-B": True, "OLT-C": False}
        assert "rx of its own" in effects[1].problems[0]
    session.refresh(own)
    assert (own.interval_seconds, own.template_node_id, keys(session, "OLT-B")) == (1800, None, ["rx"])
    assert own.workflow.template is None


def test_an_own_node_that_is_just_the_same_becomes_the_templates(session: Session, basic: int, now: datetime) -> None:
    own = make_node(session.get_one(Olt, ids(session, "OLT-B")[0]), "rx", name="Rx", kind="get",
                    oid="huawei.onu_rx_power", interval="10m")  # fmt: skip
    clock = own.next_run_at
    applied(session, basic, now)
    session.refresh(own)
    assert (own.template_node_id, own.next_run_at) == (template_node(session, "rx").id, clock)


def test_an_olt_whose_brand_lacks_an_oid_is_left_out_by_name(session: Session, basic: int, now: datetime) -> None:
    make_zte("OLT-Z")
    effects = {one.name: one for one in applied(session, basic, now)}
    assert not effects["OLT-Z"].changes
    assert "huawei.onu_state is not for this OLT" in effects["OLT-Z"].problems[0]
    assert effects["OLT-A"].changes
    olt = session.scalars(select(Olt).where(Olt.name == "OLT-Z")).one()
    assert olt.workflow is None


def test_an_olt_that_is_gone_is_named_and_the_others_go_on(session: Session, basic: int, now: datetime) -> None:
    effects = applying.apply(basic, [999, *ids(session, "OLT-A")], ACTOR, now)
    assert [(one.name, one.changes) for one in effects] == [("#999", False), ("OLT-A", True)]


def test_another_template_is_left_with_its_nodes_and_own_ones_stay(session: Session, basic: int, now: datetime) -> None:
    applied(session, basic, now, "OLT-A")
    make_node(session.get_one(Olt, ids(session, "OLT-A")[0]), "own")
    workflows.update_node(node(session, "OLT-A", "rx").id, {"interval": "1h"}, ACTOR, now)
    other = templates.create({"name": "other"}, ACTOR, now)
    template_nodes.add_node(
        other, {"name": "State", "kind": "discovery", "oid": "huawei.onu_state", "interval": "30m"}, ACTOR, now
    )
    effect = applied(session, other, now, "OLT-A")[0]
    assert (effect.left, sorted(effect.difference.removed)) == ("basic", ["description", "discovery"])
    assert keys(session, "OLT-A") == ["own", "rx", "state"]
    assert node(session, "OLT-A", "rx").template_node_id is None


def test_what_waits_of_a_removed_node_is_stopped(session: Session, basic: int, now: datetime) -> None:
    applied(session, basic, now)
    rx = node(session, "OLT-A", "rx")
    waits = make_execution(rx, now)
    template_nodes.delete_node(template_node(session, "rx").id, ACTOR, now)
    applying.preview(basic, ids(session), now)
    session.refresh(waits)
    assert waits.status is ExecutionStatus.PENDING
    applied(session, basic, now)
    session.refresh(waits)
    assert waits.status is ExecutionStatus.INTERRUPTED


def test_a_disabled_template_gives_nodes_without_a_clock(session: Session, basic: int, now: datetime) -> None:
    templates.set_enabled(basic, False, ACTOR, now)
    applied(session, basic, now, "OLT-A")
    assert node(session, "OLT-A", "rx").next_run_at is None
    templates.set_enabled(basic, True, ACTOR, now)
    assert node(session, "OLT-A", "rx").next_run_at == now.replace(microsecond=0) + timedelta(minutes=10)


def test_a_template_that_was_changed_after_the_preview_is_not_applied(
    session: Session, basic: int, now: datetime
) -> None:
    seen = session.get_one(WorkflowTemplate, basic).revision
    template_nodes.update_node(template_node(session, "rx").id, {"interval": "20m"}, ACTOR, now)
    with pytest.raises(Conflict):
        applying.apply(basic, ids(session), ACTOR, now, seen)
    assert keys(session, "OLT-A") == []
    with pytest.raises(NotFound):
        applying.apply(basic + 9, ids(session), ACTOR, now)


def test_a_short_interval_is_logged_with_who_applied_it(session: Session, basic: int, now: datetime) -> None:
    rx = template_node(session, "rx").id
    with pytest.raises(Invalid) as refused:
        template_nodes.update_node(rx, {"interval": "60s"}, ACTOR, now)
    assert set(refused.value.errors) == {"override_reason"}
    template_nodes.update_node(rx, {"interval": "60s", "override_reason": "a test of a week"}, ACTOR, now)
    applying.apply(basic, ids(session, "OLT-A"), "marta", now)
    logged = session.scalars(
        select(CoordinatorLog).where(CoordinatorLog.event_type == EventType.INTERVAL_OVERRIDDEN)
    ).one()
    assert (logged.details["actor"], logged.details["reason"]) == ("marta", "a test of a week")


def test_two_tabs_on_one_template_are_told_apart(session: Session, basic: int, now: datetime) -> None:
    seen = session.get_one(WorkflowTemplate, basic).revision
    rx = template_node(session, "rx").id
    template_nodes.update_node(rx, {"interval": "20m"}, ACTOR, now, seen)
    for late in (
        lambda: template_nodes.update_node(rx, {"interval": "30m"}, ACTOR, now, seen),
        lambda: template_nodes.delete_node(rx, ACTOR, now, seen),
        lambda: template_nodes.move_node(rx, "up", ACTOR, now, seen),
        lambda: templates.update(basic, {"name": "x"}, ACTOR, now, seen),
    ):
        with pytest.raises(Conflict):
            late()
    assert template_node(session, "rx").interval_seconds == 1200


def test_a_key_of_a_template_stays_and_is_used_once(session: Session, basic: int, now: datetime) -> None:
    with pytest.raises(Invalid) as refused:
        template_nodes.update_node(template_node(session, "rx").id, {"key": "power"}, ACTOR, now)
    assert set(refused.value.errors) == {"key"}
    given = {"name": "Rx", "kind": "get", "oid": "huawei.onu_rx_power", "interval": "10m"}
    with pytest.raises(Invalid) as refused:
        template_nodes.add_node(basic, given, ACTOR, now)
    assert set(refused.value.errors) == {"key"}


def test_moving_nodes_of_a_template_moves_them_on_the_olts(session: Session, basic: int, now: datetime) -> None:
    master = template_node(session, "discovery").id
    given = {"name": "Model", "kind": "get", "oid": "huawei.onu_description", "master_id": master}
    model = template_nodes.add_node(basic, given, ACTOR, now)
    applied(session, basic, now, "OLT-A")
    template_nodes.move_node(model, "up", ACTOR, now)
    assert standing.of_template(basic).waiting == 1
    applied(session, basic, now, "OLT-A")
    chain = node(session, "OLT-A", "discovery").chained
    assert [one.key for one in chain] == ["model", "description"]
    assert standing.of_template(basic).waiting == 0


def test_a_deleted_template_leaves_its_nodes_to_the_olts(session: Session, basic: int, now: datetime) -> None:
    applied(session, basic, now)
    clock = node(session, "OLT-A", "rx").next_run_at
    assert templates.delete(basic, ACTOR, now) == 3
    session.expire_all()
    rx = node(session, "OLT-A", "rx")
    assert (rx.template_node_id, rx.workflow.template_id, rx.enabled, rx.next_run_at) == (None, None, True, clock)
    assert session.scalars(select(TemplateNode)).all() == []


def test_a_disabled_template_that_is_deleted_starts_nothing(session: Session, basic: int, now: datetime) -> None:
    applied(session, basic, now)
    templates.set_enabled(basic, False, ACTOR, now)
    templates.delete(basic, ACTOR, now)
    session.expire_all()
    rx = node(session, "OLT-A", "rx")
    assert (rx.enabled, rx.next_run_at) == (False, None)


def test_names_of_templates_are_checked(session: Session, basic: int, now: datetime) -> None:
    for name in ("", "basic", "x" * 81):
        with pytest.raises(Invalid) as refused:
            templates.create({"name": name}, ACTOR, now)
        assert set(refused.value.errors) == {"name"}
    templates.update(basic, {"name": "better", "description": "for homes"}, ACTOR, now)
    row = session.get_one(WorkflowTemplate, basic)
    assert (row.name, row.description) == ("better", "for homes")


def test_an_import_after_a_node_was_deleted_here_brings_all_in_step(
    session: Session, basic: int, now: datetime
) -> None:
    applied(session, basic, now)
    template_nodes.delete_node(template_node(session, "discovery").id, ACTOR, now)
    assert "discovery" not in inventory.dump().split("olts:")[0]
    inventory.load("templates: [{name: basic, description: new}]", dry_run=False, actor=ACTOR, now=now)
    assert keys(session, "OLT-B") == ["rx"]
    assert standing.of_template(basic).behind == []
    assert count(session, WorkflowRevision) == 6


def test_an_import_raises_the_revisions_of_what_it_changes(session: Session, basic: int, now: datetime) -> None:
    applied(session, basic, now, "OLT-A")
    before = session.get_one(WorkflowTemplate, basic).revision
    text = inventory.dump()
    inventory.load(text, dry_run=False, actor=ACTOR, now=now)
    assert session.get_one(WorkflowTemplate, basic).revision == before
    inventory.load(text.replace("10m", "20m"), dry_run=False, actor=ACTOR, now=now)
    assert session.get_one(WorkflowTemplate, basic).revision == before + 1
    last = session.scalars(select(WorkflowRevision).order_by(WorkflowRevision.id.desc())).first()
    assert last is not None
    assert (last.number, last.action) == (2, "workflow.import")
    assert {row["columns"]["interval_seconds"] for row in last.before} == {900, 600}
