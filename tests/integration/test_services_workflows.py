"""Nodes of a workflow: keys, chains, clocks by the rules of time, overrides."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.statuses import EventType, ExecutionStatus, NodeKind
from portal.services.dispatch import clock
from portal.services.errors import Invalid, NotFound
from portal.services.network import placing, workflows
from portal.tables import AuditLog, Execution, Olt, WorkflowNode
from testing.builders import make_chained, make_execution, make_node, make_olt, make_zte
from testing.cast import ACTOR, NOW, at
from testing.refusals import errors_of
from testing.rows import logged

RX: dict[str, Any] = {"key": "rx", "kind": "get", "oid": "huawei.onu_rx_power", "interval": "5m"}


def refused(olt: Olt, fields: dict[str, Any]) -> dict[str, str]:
    return errors_of(workflows.add_node, olt.id, fields, ACTOR, NOW)


def test_a_node_created_at_ten_runs_first_at_one_past_ten(session: Session) -> None:
    node = make_node(make_olt(), interval="10m")
    assert node.next_run_at == node.anchor_at == NOW + timedelta(seconds=60)
    assert (node.kind, node.priority, node.name) == (NodeKind.DISCOVERY, 90, "discovery")


def test_a_chained_node_has_no_clock_and_takes_the_next_place(session: Session) -> None:
    master = make_node(make_olt())
    first, second = make_chained(master, "description"), make_chained(master, "again")
    assert (first.next_run_at, first.interval_seconds, first.position, second.position) == (None, None, 0, 1)
    assert "no clock" in refused(master.workflow.olt, RX | {"master_id": master.id})["interval"]


def test_a_key_is_unique_in_its_workflow_and_made_from_the_name_when_left_out(session: Session) -> None:
    olt = make_olt()
    make_node(olt, "rx", oid="huawei.onu_state")
    assert refused(olt, RX) == {"key": workflows.KEY_TAKEN}
    assert make_node(olt, "", name="Potencia óptica (dBm)").key == "potencia_ptica_dbm"


def test_when_two_add_one_key_at_once_the_second_is_told_so(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    olt = make_olt()
    make_node(olt, "rx")
    monkeypatch.setattr(workflows, "_check_key", lambda *_: None)
    assert refused(olt, RX) == {"key": workflows.KEY_TAKEN}


def test_every_wrong_field_is_told_at_once(session: Session) -> None:
    errors = refused(make_olt(), {"key": "a b", "kind": "x", "oid": "y", "interval": "soon", "priority": 0})
    assert errors.keys() == {"key", "kind", "oid", "interval", "priority"}


def test_an_oid_must_exist_for_the_brand_and_model(session: Session) -> None:
    olt = make_olt()
    assert "did you mean huawei.onu_rx_power" in refused(olt, RX | {"oid": "huawei.onu_rx_pover"})["oid"]
    assert "brand is huawei" in refused(olt, RX | {"oid": "zte.onu_rx_power"})["oid"]
    assert "C320, C600" in refused(make_zte("OLT-TACNA", model=""), RX | {"oid": "zte.onu_state"})["oid"]
    assert make_node(make_zte(), "ok", oid="zte.onu_state").oid == "zte.onu_state"
    assert make_node(olt, "uptime", kind="get", oid="huawei.sysuptime").id
    assert make_node(olt, "raw", kind="table", oid=".1.3.6.1.2.1.2.2.1.8").oid == "1.3.6.1.2.1.2.2.1.8"


def test_a_table_node_reads_no_column_of_onus(session: Session) -> None:
    olt, table = make_olt(), {"key": "light", "kind": "table", "interval": "1h"}
    for oid in ("huawei.onu_rx_power", "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4", "huawei.if_name,huawei.onu_rx_power"):
        assert "is a column of ONUs: read it by walk, GET" in refused(olt, table | {"oid": oid})["kind"], oid
    assert make_node(olt, "ports", kind="table", oid="huawei.if_name").kind is NodeKind.TABLE


def test_a_short_interval_needs_a_reason_which_is_logged_with_its_giver(session: Session) -> None:
    olt = make_olt()
    assert "5m" in refused(olt, RX | {"interval": "60s"})["override_reason"]
    assert "30s" in refused(olt, RX | {"oid": "huawei.onu_state", "interval": 20})["override_reason"]
    assert logged(EventType.INTERVAL_OVERRIDDEN) == []
    node = make_node(olt, **RX | {"interval": "60s", "override_reason": "laboratory"})
    (row,) = logged(EventType.INTERVAL_OVERRIDDEN)
    assert (row.node_id, row.olt_id, row.level, row.details["actor"]) == (node.id, olt.id, "WARNING", ACTOR)
    assert (row.details["reason"], row.details["interval"], row.details["limit"]) == ("laboratory", 60, 300)
    workflows.update_node(node.id, {"max_retries": 0}, ACTOR, NOW)
    assert len(logged(EventType.INTERVAL_OVERRIDDEN)) == 1


def test_a_dotted_oid_below_the_safe_interval_is_allowed_but_logged(session: Session) -> None:
    make_node(make_olt(), **RX | {"oid": "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4", "interval": "60s"})
    (row,) = logged(EventType.INTERVAL_OVERRIDDEN)
    assert "no reason given" in row.message


def test_a_chained_node_is_read_as_often_as_its_master(session: Session) -> None:
    olt = make_zte()
    master = make_node(olt, interval="15m")
    power = {"key": "rx", "kind": "get", "oid": "zte.onu_rx_power", "master_id": master.id}
    assert "every 15m with its master" in refused(olt, power)["oid"]
    workflows.update_node(master.id, {"interval": "1h"}, ACTOR, NOW)
    assert make_node(olt, **power).id
    errors = errors_of(workflows.update_node, master.id, {"interval": "15m"}, ACTOR, NOW)
    assert errors["override_reason"].startswith("rx: ")
    workflows.update_node(master.id, {"interval": "15m", "override_reason": "new line cards"}, ACTOR, NOW)
    assert master.interval_seconds == 900


def test_a_cron_line_is_read_in_the_portals_zone(session: Session) -> None:
    olt = make_olt()
    assert make_node(olt, cron="0 6 * * *").next_run_at == at("11:00")  # America/Lima is UTC-5
    assert "no cron line" in refused(olt, RX | {"interval": "", "cron": "0 6 *"})["cron"]
    assert "no cron line" in refused(olt, RX | {"interval": "", "cron": "0 6 30 2 *"})["cron"]
    assert "override_reason" in refused(olt, RX | {"interval": "", "cron": "*/2 * * * *"})


def test_a_changed_interval_comes_at_the_sooner_of_old_and_new(session: Session) -> None:
    node = make_node(make_olt(), interval="10m")  # next at 10:01
    workflows.update_node(node.id, {"interval": "30m"}, ACTOR, NOW)
    assert node.next_run_at == node.anchor_at == NOW + timedelta(minutes=1)
    later = NOW + timedelta(minutes=2)
    workflows.update_node(node.id, {"interval": "5m"}, ACTOR, later)
    assert node.next_run_at == later + timedelta(minutes=5)


def test_a_change_of_something_else_leaves_the_clock_alone(session: Session) -> None:
    node = make_node(make_olt())
    was = node.next_run_at
    workflows.update_node(node.id, {"name": "ONUs", "priority": "", "interval": "15m"}, ACTOR, NOW + timedelta(hours=1))
    assert (node.next_run_at, node.name, node.priority) == (was, "ONUs", 90)


def test_reenabling_restarts_after_a_full_interval_and_disabling_aborts_what_waits(session: Session) -> None:
    node = make_node(make_olt(), interval="10m")
    waiting = make_execution(node)
    workflows.set_node_enabled(node.id, False, ACTOR, NOW)
    assert waiting.status is ExecutionStatus.INTERRUPTED
    later = NOW + timedelta(minutes=50)
    workflows.set_node_enabled(node.id, True, ACTOR, later)
    assert node.next_run_at == later + timedelta(minutes=10)
    workflows.update_node(node.id, {"enabled": False}, ACTOR, later)
    workflows.update_node(node.id, {"enabled": True}, ACTOR, later + timedelta(hours=1))
    assert node.next_run_at == later + timedelta(hours=1, minutes=10)


def test_a_disabled_workflow_stops_all_its_nodes(session: Session) -> None:
    master = make_node(make_olt(), interval="10m")
    make_chained(master)
    waiting = make_execution(master)
    workflows.set_workflow_enabled(master.workflow.olt_id, False, ACTOR, NOW)
    assert waiting.status is ExecutionStatus.INTERRUPTED
    workflows.set_workflow_enabled(master.workflow.olt_id, True, ACTOR, NOW + timedelta(hours=1))
    assert master.next_run_at == NOW + timedelta(hours=1, minutes=10)


def test_what_is_added_to_a_disabled_workflow_has_no_clock_until_it_is_enabled(session: Session) -> None:
    olt = make_olt()
    first = make_node(olt, "first")
    workflows.set_workflow_enabled(olt.id, False, ACTOR, NOW)
    assert first.next_run_at is None
    added = make_node(olt, "added", interval="10m")
    workflows.update_node(first.id, {"interval": "30m"}, ACTOR, NOW)
    workflows.set_node_enabled(first.id, False, ACTOR, NOW)
    workflows.set_node_enabled(first.id, True, ACTOR, NOW)
    assert (first.next_run_at, added.next_run_at) == (None, None)
    workflows.set_workflow_enabled(olt.id, True, ACTOR, NOW)
    assert first.next_run_at == NOW + timedelta(minutes=30)
    assert added.next_run_at == added.anchor_at == NOW + timedelta(minutes=10)


def test_a_cron_node_that_is_enabled_again_fires_when_its_line_says(session: Session) -> None:
    node = make_node(make_olt(), cron="0 6 * * *")  # America/Lima is UTC-5
    workflows.set_node_enabled(node.id, False, ACTOR, NOW)
    workflows.set_node_enabled(node.id, True, ACTOR, NOW + timedelta(hours=2))
    assert node.next_run_at == datetime(2026, 11, 28, 11, 0, tzinfo=UTC)


def test_a_disabled_workflow_does_not_restart_a_node_that_a_person_disabled(session: Session) -> None:
    node = make_node(make_olt())
    workflows.set_node_enabled(node.id, False, ACTOR, NOW)
    workflows.set_workflow_enabled(node.workflow.olt_id, False, ACTOR, NOW)
    workflows.set_workflow_enabled(node.workflow.olt_id, True, ACTOR, NOW)
    assert node.next_run_at is None


def test_in_the_mode_from_end_a_running_node_gets_its_clock_at_its_end_not_before(app: Flask, session: Session) -> None:
    app.config["NEXTCHECK_MODE"] = "from_end"
    node = make_node(make_olt(), interval="10m")
    execution = make_execution(node, NOW, status=ExecutionStatus.RUNNING)
    node.next_run_at = None
    session.commit()
    workflows.update_node(node.id, {"name": "ONUs"}, ACTOR, NOW)
    assert node.next_run_at is None
    execution.status = ExecutionStatus.SUCCESS
    session.commit()
    clock.settle(session, WorkflowNode.id == node.id, NOW)
    session.commit()
    assert node.next_run_at == NOW + timedelta(minutes=10)


def test_a_master_becomes_chained_and_free_again(session: Session) -> None:
    olt = make_olt()
    master, other = make_node(olt), make_node(olt, "other", interval="1h")
    workflows.update_node(other.id, {"master_id": master.id}, ACTOR, NOW)
    assert (other.master_id, other.next_run_at, other.interval_seconds) == (master.id, None, None)
    assert errors_of(workflows.update_node, other.id, {"master_id": None}, ACTOR, NOW).keys() == {"interval"}
    later = NOW + timedelta(hours=1)
    workflows.update_node(other.id, {"master_id": None, "interval": "1h"}, ACTOR, later)
    assert (other.master_id, other.next_run_at) == (None, later + timedelta(seconds=60))


def test_chains_have_one_level(session: Session) -> None:
    olt = make_olt()
    master, other = make_node(olt), make_node(olt, "other")
    chained, stranger = make_chained(master), make_node(make_olt("OLT-TACNA"))
    for node, wanted in ((master, other), (other, chained), (other, stranger), (master, master)):
        assert errors_of(workflows.update_node, node.id, {"master_id": wanted.id}, ACTOR, NOW).keys() == {"master_id"}


def test_deleting_a_master_deletes_its_chain_and_says_so(session: Session) -> None:
    master = make_node(make_olt())
    make_chained(master)
    waiting = make_execution(master, NOW).id
    workflows.delete_node(master.id, ACTOR, NOW)
    assert session.scalars(select(WorkflowNode)).all() == []
    kept = session.get_one(Execution, waiting)
    assert (kept.node_id, kept.status, kept.node_name) == (None, ExecutionStatus.INTERRUPTED, "discovery")
    row = session.scalars(select(AuditLog).where(AuditLog.action == "node.delete")).one()
    assert row.changes["chain"] == ["description"]
    with pytest.raises(NotFound):
        workflows.delete_node(1, ACTOR, NOW)


def test_a_chained_node_moves_inside_its_chain(session: Session) -> None:
    master = make_node(make_olt())
    for key in ("a", "b", "c"):
        make_chained(master, key)
    by_key = {node.key: node for node in master.chained}
    placing.move_node(by_key["c"].id, "up", ACTOR, NOW)
    assert [node.key for node in master.chained] == ["a", "c", "b"]
    placing.move_node(by_key["a"].id, "up", ACTOR, NOW)
    assert [node.key for node in master.chained] == ["a", "c", "b"]


def test_a_master_moves_among_those_of_its_priority(session: Session) -> None:
    olt = make_olt()
    a, _low, c = (make_node(olt, key, priority=p) for key, p in (("a", 90), ("low", 10), ("c", 90)))
    placing.move_node(c.id, "up", ACTOR, NOW)
    assert c.position < a.position
    with pytest.raises(Invalid):
        placing.move_node(c.id, "left", ACTOR, NOW)
