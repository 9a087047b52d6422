"""Changes of a workflow by several hands: revisions, two forms at once, undo, places of nodes, back to the template."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from portal.domain.statuses import ExecutionStatus
from portal.models.account import AuditLog
from portal.services import retention
from portal.services.errors import Conflict, Invalid, NotFound
from portal.services.network import editing, placing, resetting, revisions, undoing, workflows
from portal.services.network.editing import EditConflict, Opened
from portal.services.network.node_trees import write_template
from portal.services.network.placing import Place
from portal.services.network.trees import columns_of, tree_of
from portal.tables import Execution, NodeDay, Oid, Olt, Workflow, WorkflowNode, WorkflowRevision, WorkflowTemplate
from testing.builders import make_chained, make_execution, make_node, make_olt, make_zte
from testing.cast import ACTOR, HOUR, MINUTE, NOW
from testing.threads import at_once

OTHER = "ana"


def revision(node: WorkflowNode) -> int:
    return node.workflow.revision


def opened(node: WorkflowNode) -> Opened:
    """As a form keeps it."""
    return Opened(revision(node), columns_of(node))


def form(node: WorkflowNode, **typed: Any) -> dict[str, Any]:
    """What the form of a node sends."""
    fields = {name: value for name, value in columns_of(node).items() if name != "interval_seconds"}
    if node.is_master:
        return fields | {"interval": node.interval_seconds, "cron": node.cron or ""} | typed
    fields.pop("cron")
    return fields | typed


def shape(workflow: Workflow) -> list[tuple[str, list[str]]]:
    """Masters by their place, each with the keys of its chain in order."""
    return [(master.key, [chained.key for chained in master.chain]) for master in tree_of(workflow.nodes)]


def by_key(workflow: Workflow) -> dict[str, WorkflowNode]:
    return {node.key: node for node in workflow.nodes}


def last(session: Session) -> WorkflowRevision:
    return session.scalars(select(WorkflowRevision).order_by(WorkflowRevision.number.desc())).first()  # type: ignore[return-value]


def waits(session: Session, execution: int) -> bool:
    return session.get_one(Execution, execution).status is ExecutionStatus.PENDING


# ----------------------------------------------------------------------------------------------------------- revisions


def test_each_change_is_a_revision_that_keeps_what_was_before(session: Session) -> None:
    olt = make_olt()
    node = make_node(olt)
    workflows.update_node(node.id, {"name": "ONUs"}, OTHER, NOW)
    kept = last(session)
    assert (kept.number, kept.action, kept.subject, kept.actor, kept.made_at) == (2, "node.update", "ONUs", OTHER, NOW)
    assert revisions.to_tree(kept.before)[0].columns["name"] == "discovery"
    chained = make_chained(node)
    workflows.set_node_enabled(chained.id, False, ACTOR, NOW)
    workflows.set_workflow_enabled(olt.id, False, ACTOR, NOW)
    workflows.delete_node(chained.id, ACTOR, NOW)
    actions = session.scalars(select(WorkflowRevision.action).order_by(WorkflowRevision.number)).all()
    query = select(AuditLog.action).where(AuditLog.subject_type.in_(("node", "olt"))).order_by(AuditLog.id)
    assert actions == ["node.create", "node.update", "node.create", "node.disable", "workflow.disable", "node.delete"]
    assert [one for one in session.scalars(query) if one != "olt.create"] == actions
    assert olt.workflow.revision == 6


def test_what_changes_nothing_is_no_revision(session: Session) -> None:
    node = make_node(make_olt())
    workflows.update_node(node.id, form(node), ACTOR, NOW)
    workflows.set_node_enabled(node.id, True, ACTOR, NOW)
    workflows.set_workflow_enabled(node.workflow.olt_id, True, ACTOR, NOW)
    placing.move_node(node.id, "up", ACTOR, NOW)
    placing.place_node(node.id, Place(None), 1, ACTOR, NOW)
    with pytest.raises(Invalid):
        workflows.update_node(node.id, {"oid": "nothing"}, ACTOR, NOW)
    assert (revision(node), len(session.scalars(select(WorkflowRevision)).all())) == (1, 1)


# ---------------------------------------------------------------------------------------------------- two forms at once


def test_two_forms_that_change_different_fields_both_win(session: Session) -> None:
    node = make_node(make_olt())
    mine, others = opened(node), opened(node)
    typed, theirs = form(node, name="ONUs"), form(node, interval="30m", max_retries=1)
    assert editing.save_node(node.id, others, theirs, OTHER, NOW).came_in == {}
    merge = editing.save_node(node.id, mine, typed, ACTOR, NOW)
    assert (node.name, node.interval_seconds, node.max_retries) == ("ONUs", 1800, 1)
    assert merge.came_in == {"interval_seconds": [900, 1800], "max_retries": [2, 1]}


def test_the_second_form_that_changes_the_same_field_writes_nothing_and_is_told(session: Session) -> None:
    node = make_node(make_olt())
    mine, typed = opened(node), form(node, name="Mine", interval="20m", priority=80)
    editing.save_node(node.id, opened(node), form(node, name="Theirs", max_retries=1), OTHER, NOW)
    with pytest.raises(EditConflict) as caught:
        editing.save_node(node.id, mine, typed, ACTOR, NOW + timedelta(seconds=9))
    told = caught.value
    assert (told.merge.conflicts, told.merge.came_in) == ({"name": ["Theirs", "Mine"]}, {"max_retries": [2, 1]})
    assert (told.actor, told.made_at, told.now_stored.revision) == (OTHER, NOW, 2)
    assert (node.name, node.interval_seconds, node.priority, revision(node)) == ("Theirs", 900, 90, 2)
    again = typed | {"max_retries": told.merge.values["max_retries"]}
    editing.save_node(node.id, told.now_stored, again, ACTOR, NOW)
    assert (node.name, node.interval_seconds, node.priority, node.max_retries) == ("Mine", 1200, 80, 1)


def test_the_same_change_twice_is_no_conflict(session: Session) -> None:
    node = make_node(make_olt())
    mine = opened(node)
    workflows.update_node(node.id, {"name": "ONUs"}, OTHER, NOW)
    editing.save_node(node.id, mine, form(node, name="ONUs"), ACTOR, NOW)
    assert (node.name, revision(node)) == ("ONUs", 2)


def test_a_change_of_another_node_is_no_conflict(session: Session) -> None:
    olt = make_olt()
    node, other = make_node(olt), make_node(olt, "other")
    mine = opened(node)
    workflows.update_node(other.id, {"name": "Otro"}, OTHER, NOW)
    assert editing.save_node(node.id, mine, form(node, name="ONUs"), ACTOR, NOW).came_in == {}
    assert node.name == "ONUs"


def test_interval_and_cron_line_are_one_choice(session: Session) -> None:
    node = make_node(make_olt())
    mine, typed = opened(node), form(node, interval="20m")
    workflows.update_node(node.id, {"interval": "", "cron": "0 6 * * *"}, OTHER, NOW)
    with pytest.raises(EditConflict) as caught:
        editing.save_node(node.id, mine, typed, ACTOR, NOW)
    assert caught.value.merge.conflicts.keys() == {"interval_seconds", "cron"}
    assert (node.interval_seconds, node.cron) == (None, "0 6 * * *")
    editing.save_node(node.id, caught.value.now_stored, typed | {"cron": ""}, ACTOR, NOW)
    assert (node.interval_seconds, node.cron) == (1200, None)


def test_a_form_survives_that_its_node_was_chained_meanwhile(session: Session) -> None:
    olt = make_olt()
    master, node = make_node(olt), make_node(olt, "node")
    mine, typed = opened(node), form(node, name="Otro")
    placing.place_node(node.id, Place(master.id), revision(node), OTHER, NOW)
    editing.save_node(node.id, mine, typed, ACTOR, NOW)
    assert (node.name, node.master_id, node.interval_seconds, node.next_run_at) == ("Otro", master.id, None, None)


def test_a_chained_node_is_given_a_clock_in_its_form(session: Session) -> None:
    node = make_chained(make_node(make_olt()))
    typed = form(node) | {"master_id": None, "interval": "10m", "cron": ""}
    editing.save_node(node.id, opened(node), typed, ACTOR, NOW)
    assert (node.master_id, node.next_run_at) == (None, NOW + timedelta(seconds=60))


def test_a_node_that_was_deleted_meanwhile_is_not_found(session: Session) -> None:
    node = make_node(make_olt())
    mine, typed, ident = opened(node), form(node), node.id
    workflows.delete_node(ident, OTHER, NOW)
    with pytest.raises(NotFound):
        editing.save_node(ident, mine, typed, ACTOR, NOW)


def test_what_a_form_brings_back_is_read_only_when_it_is_whole(session: Session) -> None:
    columns = columns_of(make_node(make_olt()))
    plain = columns | {"kind": columns["kind"].value}
    assert editing.read_columns(plain) == columns
    broken: Any
    for broken in (None, [], "x", {}, plain | {"kind": "x"}, plain | {"kind": []}, {"kind": "get"}):
        assert editing.read_columns(broken) is None


def outcome(work: Callable[[], Any]) -> str:
    """What became of it: "done" or the name of its refusal."""
    try:
        work()
    except Exception as error:
        return type(error).__name__
    return "done"


def test_of_forms_saved_in_the_same_moment_one_wins_and_the_others_are_told(app: Flask, session: Session) -> None:
    node = make_node(make_olt())
    mine, ident = opened(node), node.id
    typed = [form(node, name=name) for name in "ABC"]
    session.commit()
    works = [partial(editing.save_node, ident, mine, one, one["name"], NOW) for one in typed]
    assert sorted(at_once(app, [partial(outcome, work) for work in works])) == ["EditConflict", "EditConflict", "done"]
    session.expire_all()
    assert (last(session).actor, revision(node)) == (node.name, 2)


def test_of_undos_pressed_in_the_same_moment_one_is_done(app: Flask, session: Session) -> None:
    node = make_node(make_olt())
    workflows.update_node(node.id, {"name": "A"}, OTHER, NOW)
    olt_id = node.workflow.olt_id
    session.commit()
    undo = partial(undoing.undo, olt_id, 2, ACTOR, NOW)
    assert sorted(at_once(app, [partial(outcome, undo)] * 3)) == ["Conflict", "Conflict", "done"]
    session.expire_all()
    assert (node.name, revision(node)) == ("discovery", 3)


# ---------------------------------------------------------------------------------------------------------------- undo


def built() -> tuple[Olt, dict[str, WorkflowNode]]:
    """discovery, rx (description and serial chained to it), hourly by a cron line."""
    olt = make_olt()
    make_node(olt)
    rx = make_node(olt, "rx", kind="get", oid="huawei.onu_rx_power", priority=90)
    make_chained(rx)
    make_chained(rx, "serial")
    make_node(olt, "hourly", cron="0 * * * *")
    return olt, by_key(rx.workflow)


Change = Callable[[dict[str, WorkflowNode], datetime], None]
CHANGES: dict[str, Change] = {
    "add": lambda nodes, _now: None if make_chained(nodes["rx"], "new") else None,
    "change": lambda nodes, now: workflows.update_node(
        nodes["rx"].id, {"name": "Potencia", "interval": "1h", "priority": 7}, OTHER, now),
    "a clock": lambda nodes, now: workflows.update_node(
        nodes["hourly"].id, {"interval": "10m", "cron": ""}, OTHER, now),
    "a key": lambda nodes, now: workflows.update_node(nodes["rx"].id, {"key": "power"}, OTHER, now),
    "move": lambda nodes, now: placing.move_node(nodes["serial"].id, "up", OTHER, now),
    "to another chain": lambda nodes, now: placing.place_node(
        nodes["serial"].id, Place(nodes["discovery"].id), revision(nodes["rx"]), OTHER, now),
    "into a chain": lambda nodes, now: placing.place_node(
        nodes["hourly"].id, Place(nodes["rx"].id, before=nodes["serial"].id), revision(nodes["rx"]), OTHER, now),
    "disable": lambda nodes, now: workflows.set_node_enabled(nodes["rx"].id, False, OTHER, now),
    "disable the workflow": lambda nodes, now: workflows.set_workflow_enabled(
        nodes["rx"].workflow.olt_id, False, OTHER, now),
    "delete one of a chain": lambda nodes, now: workflows.delete_node(nodes["description"].id, OTHER, now),
    "delete with its chain": lambda nodes, now: workflows.delete_node(nodes["rx"].id, OTHER, now),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_undo_restores_what_was_before_and_undo_of_undo_does_it_again(session: Session, name: str) -> None:
    olt, nodes = built()
    workflow = nodes["rx"].workflow

    def state() -> tuple[Any, ...]:
        clocks = {node.key: node.next_run_at is not None for node in workflow.nodes}
        return revisions.to_rows(tree_of(workflow.nodes)), clocks, workflow.enabled

    before = state()
    CHANGES[name](nodes, NOW)
    changed = state()
    assert changed != before
    for minute, wanted in ((1, before), (2, changed), (3, before)):
        undoing.undo(olt.id, workflow.revision, ACTOR, NOW + minute * MINUTE)
        assert state() == wanted
    assert workflow.revision == 9


def test_a_deleted_master_comes_back_with_its_chain_as_a_new_node_that_runs_in_a_minute(session: Session) -> None:
    olt, nodes = built()
    waiting, old = make_execution(nodes["rx"], NOW).id, nodes["rx"].id
    workflows.delete_node(old, OTHER, NOW)
    later = NOW + 5 * MINUTE
    undoing.undo(olt.id, 6, ACTOR, later)
    back = by_key(olt.workflow)["rx"]
    assert (back.id != old, back.next_run_at) == (True, later + timedelta(seconds=60))
    assert [node.key for node in back.chained] == ["description", "serial"]
    assert not waits(session, waiting)


def test_undo_of_an_added_node_aborts_what_waits_of_it(session: Session) -> None:
    olt = make_olt()
    make_node(olt)
    waiting = make_execution(make_node(olt, "added"), NOW).id
    undoing.undo(olt.id, 2, ACTOR, NOW)
    assert (waits(session, waiting), [node.key for node in olt.workflow.nodes]) == (False, ["discovery"])  # type: ignore[union-attr]


def test_a_changed_interval_comes_back_by_the_rules_of_time(session: Session) -> None:
    node = make_node(make_olt(), interval="10m")  # next at 10:01
    workflows.update_node(node.id, {"interval": "1h"}, ACTOR, NOW + 2 * MINUTE)
    node.next_run_at = NOW + 62 * MINUTE
    session.commit()
    undoing.undo(node.workflow.olt_id, 2, ACTOR, NOW + 5 * MINUTE)
    assert node.next_run_at == NOW + 15 * MINUTE


def test_what_did_not_change_keeps_its_clock_and_its_history(session: Session) -> None:
    olt, nodes = built()
    session.add(NodeDay(node_id=nodes["rx"].id, olt_id=olt.id, day=NOW, runs=3))
    session.commit()
    was = {key: (node.id, node.next_run_at) for key, node in nodes.items()}
    workflows.update_node(nodes["rx"].id, {"key": "power"}, OTHER, NOW)
    undoing.undo(olt.id, 6, ACTOR, NOW + HOUR)
    assert {key: (node.id, node.next_run_at) for key, node in by_key(olt.workflow).items()} == was
    assert session.scalars(select(NodeDay.runs)).all() == [3]


def test_undo_is_refused_when_somebody_changed_something_meanwhile(session: Session) -> None:
    olt, nodes = built()
    workflows.update_node(nodes["rx"].id, {"name": "A"}, OTHER, NOW)
    with pytest.raises(Conflict, match="not its last change any more"):
        undoing.undo(olt.id, 5, ACTOR, NOW)
    assert nodes["rx"].name == "A"


def test_there_is_nothing_to_undo_on_a_new_olt_nor_after_the_revision_was_cleaned_up(session: Session) -> None:
    olt = make_olt()
    with pytest.raises(Conflict, match="nothing to undo"):
        undoing.undo(olt.id, 0, ACTOR, NOW)
    make_node(olt)
    session.query(WorkflowRevision).delete()
    session.commit()
    with pytest.raises(Conflict, match="nothing to undo"):
        undoing.undo(olt.id, 1, ACTOR, NOW)


def test_what_a_template_did_is_not_undone_here(session: Session) -> None:
    node = make_node(make_olt())
    revisions.finish(session, revisions.begin(session, node.workflow), "template.apply", "", OTHER, NOW)
    session.commit()
    with pytest.raises(Conflict, match="taken back there"):
        undoing.undo(node.workflow.olt_id, 2, ACTOR, NOW)


def test_undo_is_refused_where_the_catalogue_does_not_allow_it_any_more(session: Session) -> None:
    olt = make_olt()
    node = make_node(olt)
    workflows.update_node(node.id, {"oid": "huawei.onu_description"}, ACTOR, NOW)
    session.execute(delete(Oid).where(Oid.name == "onu_state"))
    session.commit()
    with pytest.raises(Conflict, match=r"cannot be undone any more: discovery"):
        undoing.undo(olt.id, 2, ACTOR, NOW)
    assert node.oid == "huawei.onu_description"


# -------------------------------------------------------------------------------------------------------------- places


def place(node: WorkflowNode, where: Place) -> None:
    placing.place_node(node.id, where, revision(node), ACTOR, NOW)


def test_a_chained_node_is_put_before_and_after_others_of_its_chain(session: Session) -> None:
    master = make_node(make_olt())
    for key in ("a", "b", "c"):
        make_chained(master, key)
    a, c = (by_key(master.workflow)[key] for key in "ac")
    for node, where, chain in ((c, {"before": a.id}, "cab"), (c, {"after": a.id}, "acb"), (a, {}, "cba")):
        place(node, Place(master.id, **where))
        assert shape(master.workflow) == [("discovery", list(chain))]


def test_a_chained_node_goes_to_another_master_at_its_place(session: Session) -> None:
    olt, nodes = built()
    place(nodes["serial"], Place(nodes["discovery"].id))
    place(nodes["description"], Place(nodes["discovery"].id, before=nodes["serial"].id))
    assert shape(nodes["rx"].workflow)[:2] == [("discovery", ["description", "serial"]), ("rx", [])]
    query = select(AuditLog.changes).where(AuditLog.action == "node.move").order_by(AuditLog.id)
    assert session.scalars(query).all()[0]["master"] == ["rx", "discovery"]


def test_a_master_that_goes_into_a_chain_loses_its_clock_and_what_waits(session: Session) -> None:
    _olt, nodes = built()
    waiting = make_execution(nodes["hourly"], NOW).id
    place(nodes["hourly"], Place(nodes["rx"].id, after=nodes["description"].id))
    hourly = nodes["hourly"]
    assert hourly.master is nodes["rx"]
    assert {hourly.cron, hourly.interval_seconds, hourly.next_run_at, hourly.anchor_at} == {None}
    assert shape(hourly.workflow)[1] == ("rx", ["description", "hourly", "serial"])
    assert not waits(session, waiting)


def test_a_chained_node_that_changes_its_master_keeps_what_waits_of_it(session: Session) -> None:
    _olt, nodes = built()
    waiting = make_execution(nodes["serial"], NOW).id
    place(nodes["serial"], Place(nodes["discovery"].id))
    assert waits(session, waiting)


def test_masters_change_places_among_those_of_their_priority(session: Session) -> None:
    _olt, nodes = built()  # discovery and rx have 90, hourly too
    place(nodes["hourly"], Place(None, before=nodes["discovery"].id))
    assert [key for key, _chain in shape(nodes["rx"].workflow)] == ["hourly", "discovery", "rx"]


def refused(node: WorkflowNode, where: Place) -> str:
    was = shape(node.workflow), revision(node)
    with pytest.raises((Invalid, Conflict)) as caught:
        place(node, where)
    assert (shape(node.workflow), revision(node)) == was
    return str(caught.value)


def test_what_has_no_place_there_is_refused_with_the_reason(session: Session) -> None:
    olt, nodes = built()
    low, stranger = make_node(olt, "low", priority=3), make_node(make_olt("OLT-TACNA"))
    rx, serial, discovery = nodes["rx"], nodes["serial"], nodes["discovery"]
    assert "needs a clock" in refused(serial, Place(None))
    assert "chain of its own" in refused(rx, Place(discovery.id))
    assert "chains have one level" in refused(discovery, Place(serial.id))
    assert "its own master" in refused(discovery, Place(discovery.id))
    assert "no node of this workflow" in refused(serial, Place(stranger.id))
    assert "change its priority" in refused(low, Place(None, before=discovery.id))
    assert "not there any more" in refused(serial, Place(rx.id, before=stranger.id))
    assert "not there any more" in refused(serial, Place(discovery.id, after=nodes["description"].id))


def test_an_oid_is_not_dropped_where_it_would_be_read_more_often_than_is_safe(session: Session) -> None:
    olt = make_zte()
    slow, fast = make_node(olt, "slow", interval="1h"), make_node(olt, "fast", interval="15m")
    power = make_node(olt, "rx", kind="get", oid="zte.onu_rx_power", master_id=slow.id)
    assert "every 15m with its master" in refused(power, Place(fast.id))
    workflows.update_node(fast.id, {"override_reason": "laboratory"}, ACTOR, NOW)
    place(power, Place(fast.id))
    assert power.master is fast


def test_a_place_on_a_board_that_is_not_the_last_one_is_refused(session: Session) -> None:
    _olt, nodes = built()
    seen = revision(nodes["rx"])
    workflows.update_node(nodes["rx"].id, {"name": "A"}, OTHER, NOW)
    with pytest.raises(Conflict, match="changed by somebody else"):
        placing.place_node(nodes["serial"].id, Place(nodes["discovery"].id), seen, ACTOR, NOW)


# ----------------------------------------------------------------------------------------------------------- templates


@pytest.fixture
def from_template(session: Session) -> dict[str, WorkflowNode]:
    """The nodes of `built`, all from a template that has them so."""
    _olt, nodes = built()
    workflow = nodes["rx"].workflow
    workflow.template = WorkflowTemplate(name="Huawei")
    session.add(workflow.template)
    session.flush()
    write_template(session, workflow.template, tree_of(workflow.nodes))
    for template_node in workflow.template.nodes:
        nodes[template_node.key].template_node_id = template_node.id
    session.commit()
    return nodes


def reset(node: WorkflowNode) -> None:
    resetting.reset_node(node.id, revision(node), ACTOR, NOW)


def test_a_changed_node_is_made_as_in_its_template(from_template: dict[str, WorkflowNode], session: Session) -> None:
    rx = from_template["rx"]
    workflows.update_node(rx.id, {"interval": "1h", "name": "Otra"}, OTHER, NOW)
    node = next(one for one in rx.workflow.template.nodes if one.key == "rx")  # type: ignore[union-attr]
    assert rx.overridden
    assert resetting.differences(rx, node) == {"name": ["Otra", "rx"], "interval_seconds": [3600, 900]}
    rx.next_run_at = NOW + HOUR
    session.commit()
    reset(rx)
    assert (rx.name, rx.interval_seconds, rx.overridden) == ("rx", 900, False)
    assert rx.next_run_at == NOW + 15 * MINUTE  # the sooner of the old one and a full new interval
    assert (last(session).action, resetting.differences(rx, node)) == ("node.reset", {})
    undoing.undo(rx.workflow.olt_id, revision(rx), ACTOR, NOW)
    assert (rx.name, rx.interval_seconds, rx.overridden) == ("Otra", 3600, True)


def test_a_node_that_was_moved_goes_back_to_its_chain_and_place(from_template: dict[str, WorkflowNode]) -> None:
    nodes, was = from_template, shape(from_template["rx"].workflow)
    place(nodes["description"], Place(nodes["discovery"].id))
    assert nodes["description"].overridden
    reset(nodes["description"])
    assert (shape(nodes["rx"].workflow), nodes["description"].overridden) == (was, False)
    place(nodes["serial"], Place(nodes["rx"].id, before=nodes["description"].id))
    assert nodes["serial"].overridden
    reset(nodes["serial"])
    assert (shape(nodes["rx"].workflow), nodes["serial"].overridden) == (was, False)
    hourly = nodes["hourly"]
    place(hourly, Place(nodes["rx"].id))
    reset(hourly)
    assert (shape(nodes["rx"].workflow), hourly.cron, bool(hourly.next_run_at)) == (was, "0 * * * *", True)


def test_reset_is_refused_without_a_template_or_without_its_master(from_template: dict[str, WorkflowNode]) -> None:
    nodes = from_template
    own = make_chained(nodes["rx"], "own")
    with pytest.raises(Conflict, match="does not come from a template"):
        reset(own)
    place(nodes["serial"], Place(nodes["discovery"].id))
    workflows.delete_node(nodes["rx"].id, OTHER, NOW)
    with pytest.raises(Conflict, match="no master of this workflow"):
        reset(nodes["serial"])
    with pytest.raises(Conflict, match="changed by somebody else"):
        resetting.reset_node(nodes["serial"].id, 1, ACTOR, NOW)


# ----------------------------------------------------------------------------------------------------------- retention


def test_old_revisions_go_except_the_newest_twenty_of_each_workflow(session: Session) -> None:
    busy, quiet = make_node(make_olt()), make_node(make_olt("OLT-TACNA"))
    for number in range(24):
        workflows.update_node(busy.id, {"name": f"N{number}"}, ACTOR, NOW)
    workflows.update_node(busy.id, {"name": "new"}, ACTOR, NOW + timedelta(days=31))

    def kept(node: WorkflowNode) -> list[int]:
        query = select(WorkflowRevision.number).where(WorkflowRevision.workflow_id == node.workflow_id)
        return list(session.scalars(query.order_by(WorkflowRevision.number)))

    retention.clean_up(NOW + timedelta(days=29), 14, 30)
    assert len(kept(busy)) == 26
    retention.clean_up(NOW + timedelta(days=31), 14, 30)
    assert (kept(busy), kept(quiet)) == (list(range(7, 27)), [1])
    undoing.undo(busy.workflow.olt_id, 26, ACTOR, NOW)
    assert busy.name == "N23"
