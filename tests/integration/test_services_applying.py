"""Templates applied to OLTs: what is previewed is what is done; what an OLT has otherwise or for itself stays."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from portal.domain.statuses import EventType, ExecutionStatus
from portal.extensions import Base
from portal.models.account import AuditLog
from portal.services.errors import Conflict, NotFound
from portal.services.importing import inventory
from portal.services.network import applying, standing, template_nodes, templates, workflows
from portal.services.network.many import Effect
from portal.services.network.standing import Stand
from portal.tables import Olt, TemplateNode, Workflow, WorkflowNode, WorkflowRevision, WorkflowTemplate
from testing.builders import make_execution, make_node, make_olt, make_zte
from testing.cast import ACTOR, NOW
from testing.refusals import errors_of
from testing.rows import logged

DISCOVERY = {"name": "Discovery", "kind": "discovery", "oid": "huawei.onu_state", "interval": "15m"}
DESCRIPTION = {"name": "Description", "kind": "get", "oid": "huawei.onu_description"}
RX = {"name": "Rx", "kind": "get", "oid": "huawei.onu_rx_power", "interval": "10m"}


@pytest.fixture
def basic(session: Session) -> int:
    """Template basic, made on its pages: a discovery with its chain, and power. No OLT has it; OLT-A to OLT-C exist."""
    for letter in "ABC":
        make_olt(f"OLT-{letter}")
    template = templates.create({"name": "basic"}, ACTOR, NOW)
    master = template_nodes.add_node(template, DISCOVERY, ACTOR, NOW)
    template_nodes.add_node(template, DESCRIPTION | {"master_id": master}, ACTOR, NOW)
    template_nodes.add_node(template, RX, ACTOR, NOW)
    return template


def make_other() -> int:
    """Another template, of one node with a key of its own."""
    other = templates.create({"name": "other"}, ACTOR, NOW)
    template_nodes.add_node(other, DISCOVERY | {"name": "State", "interval": "30m"}, ACTOR, NOW)
    return other


def ids(session: Session, *names: str) -> list[int]:
    found = {row.name: row.id for row in session.execute(select(Olt.id, Olt.name))}
    return [found[name] for name in names or sorted(found)]


def node(session: Session, olt: str, key: str) -> WorkflowNode:
    query = select(WorkflowNode).join(WorkflowNode.workflow).join(Workflow.olt).where(Olt.name == olt)
    return session.scalars(query.where(WorkflowNode.key == key)).one()


def keys(session: Session, olt: str) -> list[str]:
    query = select(WorkflowNode.key).join(WorkflowNode.workflow).join(Workflow.olt).where(Olt.name == olt)
    return sorted(session.scalars(query))


def template_node(session: Session, key: str) -> TemplateNode:
    return session.scalars(select(TemplateNode).where(TemplateNode.key == key)).one()


def count(session: Session, table: type[Base]) -> int:
    return session.scalar(select(func.count()).select_from(table)) or 0


def applied(session: Session, template: int, *olts: str, now: datetime = NOW) -> list[Effect]:
    return applying.apply(template, ids(session, *olts), ACTOR, now)


def told(effects: list[Effect]) -> dict[str, tuple[list[str], list[str], list[str]]]:
    """OLT → added, changed and removed keys."""
    return {
        one.name: (sorted(one.difference.added), sorted(one.difference.changed), sorted(one.difference.removed))
        for one in effects
    }


def test_applying_gives_each_olt_the_nodes_with_their_first_runs_spread(session: Session, basic: int) -> None:
    applied(session, basic)
    for olt in ("OLT-A", "OLT-B", "OLT-C"):
        assert keys(session, olt) == ["description", "discovery", "rx"]
        assert node(session, olt, "description").master is node(session, olt, "discovery")
    firsts = [node(session, olt, key).next_run_at for olt in ("OLT-A", "OLT-B", "OLT-C") for key in ("discovery", "rx")]
    minute = NOW.replace(microsecond=0) + timedelta(seconds=60)
    assert all(first is not None and minute <= first < minute + timedelta(seconds=60) for first in firsts)
    assert len(set(firsts)) == 6


def test_a_preview_says_what_applying_does_and_writes_nothing(session: Session, basic: int) -> None:
    make_node(session.get_one(Olt, ids(session, "OLT-B")[0]), "own")
    rows = [count(session, table) for table in (WorkflowNode, WorkflowRevision, Workflow, AuditLog)]
    seen = applying.preview(basic, ids(session), NOW)
    assert [count(session, table) for table in (WorkflowNode, WorkflowRevision, Workflow, AuditLog)] == rows
    assert told(seen) == told(applied(session, basic))
    assert told(seen)["OLT-B"] == (["description", "discovery", "rx"], [], [])
    assert all(one.fit.share > one.share_before for one in seen)


def test_applying_again_changes_nothing_and_leaves_no_trace(session: Session, basic: int) -> None:
    applied(session, basic)
    clock = node(session, "OLT-A", "rx").next_run_at
    rows = [count(session, table) for table in (AuditLog, WorkflowRevision)]
    assert not any(one.changes for one in applied(session, basic, now=NOW + timedelta(minutes=5)))
    assert node(session, "OLT-A", "rx").next_run_at == clock
    assert [count(session, table) for table in (AuditLog, WorkflowRevision)] == rows


def test_each_olt_gets_one_revision_and_one_audit_row(session: Session, basic: int) -> None:
    applied(session, basic, "OLT-A", "OLT-B")
    made = session.scalars(select(WorkflowRevision).order_by(WorkflowRevision.id)).all()
    assert [(one.number, one.action, one.actor, one.before) for one in made] == [(1, "template.apply", ACTOR, [])] * 2
    audited = session.scalars(select(AuditLog.subject_name).where(AuditLog.action == "template.apply")).all()
    assert sorted(audited) == ["OLT-A", "OLT-B"]


def test_a_change_of_the_template_waits_until_it_is_applied(session: Session, basic: int) -> None:
    applied(session, basic)
    template_nodes.update_node(template_node(session, "rx").id, {"interval": "20m"}, ACTOR, NOW)
    template_nodes.add_node(basic, DESCRIPTION | {"name": "Names", "kind": "walk", "interval": "1h"}, ACTOR, NOW)
    template_nodes.delete_node(template_node(session, "description").id, ACTOR, NOW)
    assert node(session, "OLT-A", "rx").interval_seconds == 600
    assert keys(session, "OLT-A") == ["description", "discovery", "rx"]
    stand = standing.of_template(basic)
    assert (stand.waiting, len(stand.behind)) == (3, 3)
    seen = told(applying.preview(basic, ids(session), NOW))
    assert list(seen.values()) == [(["names"], ["rx"], ["description"])] * 3
    applied(session, basic)
    assert keys(session, "OLT-C") == ["discovery", "names", "rx"]
    assert node(session, "OLT-C", "rx").interval_seconds == 1200
    assert (standing.of_template(basic).waiting, standing.of_template(basic).behind) == (0, [])


def test_a_deleted_node_is_forgotten_once_no_olt_has_it(session: Session, basic: int) -> None:
    applied(session, basic)
    template_nodes.delete_node(template_node(session, "discovery").id, ACTOR, NOW)
    applied(session, basic, "OLT-A")
    assert count(session, TemplateNode) == 3
    assert [olt.name for olt in standing.of_template(basic).behind] == ["OLT-B", "OLT-C"]
    applied(session, basic)
    assert [one.key for one in session.scalars(select(TemplateNode))] == ["rx"]
    assert keys(session, "OLT-B") == ["rx"]


def test_a_node_nobody_has_is_deleted_at_once_and_its_key_is_free(session: Session, basic: int) -> None:
    template_nodes.delete_node(template_node(session, "discovery").id, ACTOR, NOW)
    assert [one.key for one in session.scalars(select(TemplateNode))] == ["rx"]
    assert template_nodes.add_node(basic, DISCOVERY, ACTOR, NOW)


def test_what_an_olt_has_otherwise_stays_and_is_told(session: Session, basic: int) -> None:
    applied(session, basic)
    workflows.update_node(node(session, "OLT-B", "rx").id, {"interval": "1h"}, ACTOR, NOW)
    stand = {olt.name: olt.stand for olt in standing.of_template(basic).olts}
    assert stand == {"OLT-A": Stand.IN_STEP, "OLT-B": Stand.DIFFERS, "OLT-C": Stand.IN_STEP}
    template_nodes.update_node(template_node(session, "rx").id, {"interval": "20m", "priority": "70"}, ACTOR, NOW)
    effects = {one.name: one for one in applied(session, basic)}
    assert effects["OLT-B"].kept == ("rx",)
    assert not effects["OLT-B"].changes
    assert node(session, "OLT-B", "rx").interval_seconds == 3600
    assert (node(session, "OLT-A", "rx").interval_seconds, node(session, "OLT-A", "rx").priority) == (1200, 70)


def test_an_own_node_with_the_same_key_leaves_its_olt_out_by_name(session: Session, basic: int) -> None:
    own = make_node(session.get_one(Olt, ids(session, "OLT-B")[0]), "rx", **RX | {"interval": "30m"})
    for effects in (applying.preview(basic, ids(session), NOW), applied(session, basic)):
        assert {one.name: bool(one.problems) for one in effects} == {"OLT-A": False, "OLT-B": True, "OLT-C": False}
        assert "rx of its own" in effects[1].problems[0]
    session.refresh(own)
    assert (own.interval_seconds, own.template_node_id, keys(session, "OLT-B")) == (1800, None, ["rx"])
    assert own.workflow.template is None


def test_an_own_node_that_is_just_the_same_becomes_the_templates(session: Session, basic: int) -> None:
    own = make_node(session.get_one(Olt, ids(session, "OLT-B")[0]), "rx", **RX)
    clock = own.next_run_at
    applied(session, basic)
    session.refresh(own)
    assert (own.template_node_id, own.next_run_at) == (template_node(session, "rx").id, clock)


def test_an_olt_whose_brand_lacks_an_oid_is_left_out_by_name(session: Session, basic: int) -> None:
    make_zte("OLT-Z")
    effects = {one.name: one for one in applied(session, basic)}
    assert not effects["OLT-Z"].changes
    assert "huawei.onu_state is not for this OLT" in effects["OLT-Z"].problems[0]
    assert effects["OLT-A"].changes
    assert session.scalars(select(Olt).where(Olt.name == "OLT-Z")).one().workflow is None


def test_an_olt_that_is_gone_is_named_and_the_others_go_on(session: Session, basic: int) -> None:
    effects = applying.apply(basic, [999, *ids(session, "OLT-A")], ACTOR, NOW)
    assert [(one.name, one.changes) for one in effects] == [("#999", False), ("OLT-A", True)]


def test_another_template_is_left_with_its_nodes_and_own_ones_stay(session: Session, basic: int) -> None:
    applied(session, basic, "OLT-A")
    make_node(session.get_one(Olt, ids(session, "OLT-A")[0]), "own")
    workflows.update_node(node(session, "OLT-A", "rx").id, {"interval": "1h"}, ACTOR, NOW)
    effect = applied(session, make_other(), "OLT-A")[0]
    assert (effect.left, sorted(effect.difference.removed)) == ("basic", ["description", "discovery"])
    assert keys(session, "OLT-A") == ["own", "rx", "state"]
    assert node(session, "OLT-A", "rx").template_node_id is None


def test_what_waits_of_a_removed_node_is_stopped(session: Session, basic: int) -> None:
    applied(session, basic)
    waits = make_execution(node(session, "OLT-A", "rx"))
    template_nodes.delete_node(template_node(session, "rx").id, ACTOR, NOW)
    applying.preview(basic, ids(session), NOW)
    session.refresh(waits)
    assert waits.status is ExecutionStatus.PENDING
    applied(session, basic)
    session.refresh(waits)
    assert waits.status is ExecutionStatus.INTERRUPTED


def test_a_disabled_template_gives_nodes_without_a_clock(session: Session, basic: int) -> None:
    templates.set_enabled(basic, False, ACTOR, NOW)
    applied(session, basic, "OLT-A")
    assert node(session, "OLT-A", "rx").next_run_at is None
    templates.set_enabled(basic, True, ACTOR, NOW)
    assert node(session, "OLT-A", "rx").next_run_at == NOW.replace(microsecond=0) + timedelta(minutes=10)


def test_a_template_that_was_changed_after_the_preview_is_not_applied(session: Session, basic: int) -> None:
    seen = session.get_one(WorkflowTemplate, basic).revision
    template_nodes.update_node(template_node(session, "rx").id, {"interval": "20m"}, ACTOR, NOW)
    with pytest.raises(Conflict):
        applying.apply(basic, ids(session), ACTOR, NOW, seen)
    assert keys(session, "OLT-A") == []
    with pytest.raises(NotFound):
        applying.apply(basic + 9, ids(session), ACTOR, NOW)


def test_a_short_interval_is_logged_with_who_applied_it(session: Session, basic: int) -> None:
    rx = template_node(session, "rx").id
    assert set(errors_of(template_nodes.update_node, rx, {"interval": "60s"}, ACTOR, NOW)) == {"override_reason"}
    template_nodes.update_node(rx, {"interval": "60s", "override_reason": "a test of a week"}, ACTOR, NOW)
    applying.apply(basic, ids(session, "OLT-A"), "marta", NOW)
    (row,) = logged(EventType.INTERVAL_OVERRIDDEN)
    assert (row.details["actor"], row.details["reason"]) == ("marta", "a test of a week")


def test_two_tabs_on_one_template_are_told_apart(session: Session, basic: int) -> None:
    seen = session.get_one(WorkflowTemplate, basic).revision
    rx = template_node(session, "rx").id
    template_nodes.update_node(rx, {"interval": "20m"}, ACTOR, NOW, seen)
    for late in (
        lambda: template_nodes.update_node(rx, {"interval": "30m"}, ACTOR, NOW, seen),
        lambda: template_nodes.delete_node(rx, ACTOR, NOW, seen),
        lambda: template_nodes.move_node(rx, "up", ACTOR, NOW, seen),
        lambda: templates.update(basic, {"name": "x"}, ACTOR, NOW, seen),
    ):
        with pytest.raises(Conflict):
            late()
    assert template_node(session, "rx").interval_seconds == 1200


def test_a_key_of_a_template_stays_and_is_used_once(session: Session, basic: int) -> None:
    errors = errors_of(template_nodes.update_node, template_node(session, "rx").id, {"key": "power"}, ACTOR, NOW)
    assert set(errors) == {"key"}
    assert set(errors_of(template_nodes.add_node, basic, RX, ACTOR, NOW)) == {"key"}


def test_moving_nodes_of_a_template_moves_them_on_the_olts(session: Session, basic: int) -> None:
    master = template_node(session, "discovery").id
    model = template_nodes.add_node(basic, DESCRIPTION | {"name": "Model", "master_id": master}, ACTOR, NOW)
    applied(session, basic, "OLT-A")
    template_nodes.move_node(model, "up", ACTOR, NOW)
    assert standing.of_template(basic).waiting == 1
    applied(session, basic, "OLT-A")
    assert [one.key for one in node(session, "OLT-A", "discovery").chained] == ["model", "description"]
    assert standing.of_template(basic).waiting == 0


def test_a_deleted_template_leaves_its_nodes_to_the_olts(session: Session, basic: int) -> None:
    applied(session, basic)
    clock = node(session, "OLT-A", "rx").next_run_at
    assert templates.delete(basic, ACTOR, NOW) == 3
    session.expire_all()
    rx = node(session, "OLT-A", "rx")
    assert (rx.template_node_id, rx.workflow.template_id, rx.enabled, rx.next_run_at) == (None, None, True, clock)
    assert session.scalars(select(TemplateNode)).all() == []


def test_a_disabled_template_that_is_deleted_starts_nothing(session: Session, basic: int) -> None:
    applied(session, basic)
    templates.set_enabled(basic, False, ACTOR, NOW)
    templates.delete(basic, ACTOR, NOW)
    session.expire_all()
    rx = node(session, "OLT-A", "rx")
    assert (rx.enabled, rx.next_run_at) == (False, None)


def test_names_of_templates_are_checked(session: Session, basic: int) -> None:
    for name in ("", "basic", "x" * 81):
        assert set(errors_of(templates.create, {"name": name}, ACTOR, NOW)) == {"name"}
    templates.update(basic, {"name": "better", "description": "for homes"}, ACTOR, NOW)
    row = session.get_one(WorkflowTemplate, basic)
    assert (row.name, row.description) == ("better", "for homes")


def test_an_import_after_a_node_was_deleted_here_brings_all_in_step(session: Session, basic: int) -> None:
    applied(session, basic)
    template_nodes.delete_node(template_node(session, "discovery").id, ACTOR, NOW)
    assert "discovery" not in inventory.dump().split("olts:")[0]
    inventory.load("templates: [{name: basic, description: new}]", dry_run=False, actor=ACTOR, now=NOW)
    assert keys(session, "OLT-B") == ["rx"]
    assert standing.of_template(basic).behind == []
    assert count(session, WorkflowRevision) == 6


def test_an_import_raises_the_revisions_of_what_it_changes(session: Session, basic: int) -> None:
    applied(session, basic, "OLT-A")
    before, text = session.get_one(WorkflowTemplate, basic).revision, inventory.dump()
    inventory.load(text, dry_run=False, actor=ACTOR, now=NOW)
    assert session.get_one(WorkflowTemplate, basic).revision == before
    inventory.load(text.replace("10m", "20m"), dry_run=False, actor=ACTOR, now=NOW)
    assert session.get_one(WorkflowTemplate, basic).revision == before + 1
    last = session.scalars(select(WorkflowRevision).order_by(WorkflowRevision.id.desc())).first()
    assert (last.number, last.action) == (2, "workflow.import")
    assert {row["columns"]["interval_seconds"] for row in last.before} == {900, 600}
