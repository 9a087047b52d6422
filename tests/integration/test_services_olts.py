"""OLTs: what can be made and changed, what that does to clocks and waiting work, and how deleted ones come back."""

import base64
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.statuses import ExecutionStatus, OltState
from portal.queries import deleted_olts, keyset
from portal.queries import olts as queries
from portal.services.dispatch import clock, executions
from portal.services.errors import Invalid, NotFound
from portal.services.network import olts, workflows
from portal.tables import AuditLog, Execution, Olt, WorkflowNode
from testing.builders import (
    make_catalogue,
    make_chained,
    make_credential,
    make_execution,
    make_node,
    make_olt,
    make_zte,
)
from testing.cast import ACTOR, NOW
from testing.refusals import errors_of

GIVEN: dict[str, Any] = {"name": "OLT-LIMA", "address": "10.0.0.5", "brand": "huawei", "credential": "lab"}


@pytest.fixture(autouse=True)
def stocked(session: Session) -> None:
    """The catalogue, and credential lab."""
    make_catalogue()
    make_credential()


def refused(given: dict[str, Any]) -> dict[str, str]:
    return errors_of(olts.create, given, ACTOR, NOW)


def test_an_olt_gets_defaults_and_one_audit_row(session: Session) -> None:
    olt = session.get_one(Olt, olts.create(GIVEN | {"port": "1161"}, ACTOR, NOW))
    assert (olt.port, olt.timeout, olt.retries, olt.max_inflight, olt.enabled) == (1161, 2.0, 1, 2, True)
    assert (olt.brand.key, olt.model, olt.credential.name) == ("huawei", None, "lab")
    row = session.scalars(select(AuditLog).where(AuditLog.action == "olt.create")).one()
    assert (row.actor, row.subject_type, row.subject_id, row.subject_name) == (ACTOR, "olt", olt.id, "OLT-LIMA")


def test_of_an_address_that_is_none_it_is_not_told_who_has_the_one_before(session: Session) -> None:
    changed = olts.create(GIVEN, ACTOR, NOW)
    olts.create(GIVEN | {"name": "OLT-CUSCO", "port": "1161"}, ACTOR, NOW)
    with pytest.raises(Invalid) as caught:
        olts.update(changed, {"address": "no address", "port": "1161"}, ACTOR, NOW)
    assert caught.value.errors.keys() == {"address"}
    assert caught.value.errors["address"] != olts.ADDRESS_TAKEN


def test_every_wrong_field_is_told_at_once(session: Session) -> None:
    wrong = {"name": "", "address": "10.0.0.999", "port": 0, "brand": "huawey", "credential": "nobody"}
    errors = refused(wrong | {"timeout": "x"})
    assert errors.keys() == {"name", "address", "port", "brand", "credential", "timeout"}
    assert "did you mean huawei?" in errors["brand"]
    assert "model" in refused(GIVEN | {"model": "C320"})
    assert "unknown" in refused(GIVEN | {"speed": 1})["speed"]
    assert session.scalars(select(Olt)).all() == []


def test_a_name_or_an_address_and_port_belongs_to_one_olt(session: Session) -> None:
    make_olt("OLT-LIMA", address="10.0.0.5")
    assert refused(GIVEN | {"address": "10.0.0.6"}) == {"name": olts.NAME_TAKEN}
    assert refused(GIVEN | {"name": "OTHER"}) == {"address": olts.ADDRESS_TAKEN}
    assert olts.create(GIVEN | {"name": "OTHER", "port": 162}, ACTOR, NOW)


@pytest.mark.parametrize(("other", "field"), [({"address": "10.0.0.6"}, "name"), ({"name": "OTHER"}, "address")])
def test_when_two_create_the_same_at_once_the_second_is_told_the_same(
    session: Session, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], field: str
) -> None:
    make_olt("OLT-LIMA", address="10.0.0.5")
    monkeypatch.setattr(olts, "taken", lambda *_: {})  # the check came before the other one's commit
    assert refused(GIVEN | other).keys() == {field}
    assert len(session.scalars(select(Olt)).all()) == 1


def test_an_address_must_lie_in_the_networks(app: Flask, session: Session) -> None:
    app.config["OLT_NETWORKS"] = ("10.0.0.0/8",)
    assert "OLT_NETWORKS" in refused(GIVEN | {"address": "192.168.0.1"})["address"]
    assert olts.create(GIVEN, ACTOR, NOW)


def test_a_request_that_could_outlive_the_lease_is_refused(session: Session) -> None:
    assert "20 s" in refused(GIVEN | {"timeout": 5, "retries": 3})["timeout"]


def test_a_new_address_or_credential_needs_networks_that_hold_it(session: Session) -> None:
    make_credential("near", networks="10.0.0.4/30")
    make_credential("other", networks="")
    olt = make_olt(address="10.0.0.5", credential="near")
    for change in ({"address": "10.0.0.8"}, {"credential": "other"}):
        assert errors_of(olts.update, olt.id, change, ACTOR, NOW).keys() == {"address"}
    olts.update(olt.id, {"address": "10.0.0.6", "port": 1161}, ACTOR, NOW)
    assert (olt.address, olt.port, olt.credential_approved) == ("10.0.0.6", 1161, False)


def test_an_update_without_a_change_leaves_no_trace(session: Session) -> None:
    olt, before = make_olt(), len(session.scalars(select(AuditLog)).all())
    olts.update(olt.id, {"name": olt.name, "timeout": 2, "model": "MA5800"}, ACTOR, NOW)
    assert len(session.scalars(select(AuditLog)).all()) == before


def test_an_update_is_audited_with_old_and_new_values(session: Session) -> None:
    olts.update(make_olt().id, {"timeout": 3, "model": ""}, ACTOR, NOW)
    row = session.scalars(select(AuditLog).where(AuditLog.action == "olt.update")).one()
    assert row.changes == {"timeout": [2.0, 3.0], "model": ["MA5800", ""]}


def test_a_brand_whose_catalogue_lacks_a_nodes_oid_is_refused(session: Session) -> None:
    olt = make_olt()
    make_node(olt)
    assert "node discovery" in errors_of(olts.update, olt.id, {"brand": "zte"}, ACTOR, NOW)["brand"]
    empty = make_zte()
    olts.update(empty.id, {"brand": "huawei"}, ACTOR, NOW)
    assert (empty.brand.key, empty.model) == ("huawei", None)


def test_disabling_aborts_what_waits_and_stops_the_clocks(session: Session) -> None:
    node = make_node(make_olt())
    waiting = make_execution(node, NOW).id
    olts.set_enabled(node.workflow.olt_id, False, ACTOR, NOW)
    assert session.get_one(Execution, waiting).status is ExecutionStatus.INTERRUPTED
    assert (node.next_run_at, node.workflow.olt.enabled) == (None, False)


def test_enabling_again_restarts_every_master_a_full_interval_later(session: Session) -> None:
    olt = make_olt()
    master = make_node(olt, interval="10m")
    chained = make_chained(master)
    olts.set_enabled(olt.id, False, ACTOR, NOW)
    later = NOW + timedelta(minutes=50)
    olts.set_enabled(olt.id, True, ACTOR, later)
    assert master.next_run_at == master.anchor_at == later + timedelta(minutes=10)
    assert chained.next_run_at is None
    actions = session.scalars(select(AuditLog.action).where(AuditLog.subject_type == "olt").order_by(AuditLog.id)).all()
    assert actions == ["olt.create", "olt.disable", "olt.enable"]


def test_enabling_an_olt_restarts_only_the_nodes_that_then_really_run(session: Session) -> None:
    olt = make_olt()
    runs, off = make_node(olt), make_node(olt, "off")
    workflows.set_node_enabled(off.id, False, ACTOR, NOW)
    olts.set_enabled(olt.id, False, ACTOR, NOW)
    olts.set_enabled(olt.id, True, ACTOR, NOW)
    assert (runs.next_run_at, off.next_run_at) == (NOW + timedelta(minutes=15), None)
    workflows.set_workflow_enabled(olt.id, False, ACTOR, NOW)
    olts.set_enabled(olt.id, False, ACTOR, NOW)
    olts.set_enabled(olt.id, True, ACTOR, NOW)
    assert runs.next_run_at is None


def test_several_are_disabled_together_or_not_at_all(session: Session) -> None:
    first, second, third = (make_olt(name) for name in ("A", "B", "C"))
    waiting = [make_execution(make_node(olt), NOW).id for olt in (first, second)]
    olts.set_enabled(third.id, False, ACTOR, NOW)
    with pytest.raises(NotFound, match="77, 99"):
        olts.set_enabled_many([first.id, 99, second.id, 77], False, ACTOR, NOW)
    session.rollback()
    assert (first.enabled, second.enabled) == (True, True)
    assert olts.set_enabled_many([first.id, second.id, third.id], False, ACTOR, NOW) == 2
    assert {session.get(Execution, one).status for one in waiting} == {ExecutionStatus.INTERRUPTED}  # type: ignore[union-attr]
    rows = session.scalars(select(AuditLog.subject_name).where(AuditLog.action == "olt.disable")).all()
    assert sorted(rows) == ["A", "B", "C"]


def test_what_runs_on_disabled_olts_is_stopped_after_commit(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[int], bool]] = []
    monkeypatch.setattr(
        executions, "stop_running", lambda ids: asked.append((sorted(ids), session.info.get("writing", False)))
    )
    ids = [make_olt(name).id for name in ("A", "B")]
    olts.set_enabled_many(ids, False, ACTOR, NOW)
    assert asked == [(sorted(ids), False)]
    olts.set_enabled_many(ids, True, ACTOR, NOW)
    assert len(asked) == 1


def test_an_olt_that_comes_back_into_service_starts_with_a_clean_slate(session: Session) -> None:
    olt, held = make_olt(), make_olt("HELD")
    olts.pause([held.id], "fibre work", None, ACTOR, NOW)
    olts.set_enabled_many([olt.id, held.id], False, ACTOR, NOW)
    olt.state, olt.consecutive_failures, olt.probe_at, olt.probes_sent = OltState.UNREACHABLE, 5, NOW, 7
    session.commit()
    olts.set_enabled_many([olt.id, held.id], True, ACTOR, NOW)
    assert (olt.state, olt.consecutive_failures, olt.probe_at, olt.probes_sent) == (OltState.UNKNOWN, 0, None, 0)
    assert (held.state, held.paused_reason) == (OltState.PAUSED, "fibre work")


def test_enabling_what_is_enabled_does_not_move_its_clock(session: Session) -> None:
    master = make_node(make_olt())
    was = master.next_run_at
    olts.set_enabled(master.workflow.olt_id, True, ACTOR, NOW + timedelta(hours=1))
    assert master.next_run_at == was


def test_an_unreachable_olt_is_asked_at_once_when_how_to_reach_it_was_changed(session: Session) -> None:
    olt, later = make_olt(), NOW + timedelta(minutes=15)
    olt.state, olt.probe_at = OltState.UNREACHABLE, later
    session.commit()
    olts.update(olt.id, {"site": "lima"}, ACTOR, NOW)
    assert olt.probe_at == later
    olts.update(olt.id, {"timeout": 4}, ACTOR, NOW)
    assert olt.probe_at == NOW


def test_a_deleted_olt_frees_its_name_and_can_come_back(session: Session) -> None:
    olt = make_olt(address="10.0.0.5")
    waiting = make_execution(make_node(olt), NOW).id
    with pytest.raises(Invalid):
        olts.delete(olt.id, " ", ACTOR, NOW)
    olts.delete(olt.id, "replaced", ACTOR, NOW)
    assert session.get(Execution, waiting).status is ExecutionStatus.INTERRUPTED  # type: ignore[union-attr]
    with pytest.raises(NotFound):
        olts.update(olt.id, {"site": "x"}, ACTOR, NOW)
    second = make_olt(address="10.0.0.5")
    assert errors_of(olts.restore, olt.id, ACTOR, NOW).keys() == {"name", "address"}
    olts.delete(second.id, "wrong one", ACTOR, NOW)
    olts.restore(olt.id, ACTOR, NOW)
    assert (olt.deleted_at, olt.enabled) == (None, False)


BY_NAME = queries._order("name").name


@pytest.mark.parametrize("values", [["a\x00b", 1], ["\ud800", 1]])
@pytest.mark.usefixtures("session")
def test_a_cursor_with_what_no_name_can_hold_is_the_first_page(values: list[object]) -> None:
    make_olt()
    cursor = base64.urlsafe_b64encode(json.dumps([0, BY_NAME, *values]).encode()).decode()
    assert [row.name for row in queries.page(queries.OltFilter(), cursor).rows] == ["OLT-LIMA"]


@pytest.mark.usefixtures("session")
def test_a_cursor_with_a_time_without_zone_is_the_first_page() -> None:
    order = keyset.Order((Olt.created_at, Olt.id))
    make_olt()
    for time, found in (("2026-01-01T00:00:00", 1), ("2126-01-01T00:00:00+00:00", 0)):
        cursor = base64.urlsafe_b64encode(json.dumps([0, order.name, "\x00t" + time, 1]).encode()).decode()
        assert len(keyset.fetch(select(Olt), order, cursor).rows) == found


def deleted(name: str, now: datetime, reason: str = "replaced", **fields: Any) -> Olt:
    olt = make_olt(name, **fields)
    olts.delete(olt.id, reason, ACTOR, now)
    return olt


def test_the_list_says_why_when_by_whom_and_who_has_name_and_address_now(session: Session) -> None:
    deleted("OLT-OLD", NOW, "burnt", address="10.0.0.1")
    deleted("OLT-FREE", NOW + timedelta(hours=1), address="10.0.0.2")
    make_olt("OLT-OLD", address="10.0.0.3")
    make_olt("OLT-NEW", address="10.0.0.1")
    free, old = deleted_olts.page().rows
    assert (free.name, free.name_taken, free.address_taken) == ("OLT-FREE", False, "")
    assert (old.reason, old.deleted_at, old.by) == ("burnt", NOW, ACTOR)
    assert (old.name_taken, old.address_taken) == (True, "OLT-NEW")
    assert [row.name for row in deleted_olts.page("burnt").rows] == ["OLT-OLD"]
    assert deleted_olts.count() == 2


def test_every_deleted_olt_is_listed_once_page_after_page(session: Session) -> None:
    for number in range(5):
        deleted(f"OLT-{number}", NOW, address=f"10.0.0.{number + 1}")
    first = deleted_olts.page(size=2)
    second = deleted_olts.page(cursor=first.next, size=2)
    assert [row.name for row in (*first.rows, *second.rows)] == ["OLT-4", "OLT-3", "OLT-2", "OLT-1"]
    assert len(deleted_olts.everything()) == 5


def test_it_comes_back_under_another_name_and_address(session: Session) -> None:
    make_credential("near", networks="10.0.0.1/32")
    old = deleted("OLT-OLD", NOW, address="10.0.0.1", credential="near")
    make_olt("OLT-OLD", address="10.0.0.1")
    errors = errors_of(olts.restore, old.id, ACTOR, NOW, {"name": "OLT-BACK", "address": "10.0.0.9"})
    assert errors.keys() == {"address"}
    olts.restore(old.id, ACTOR, NOW, {"name": "OLT-BACK", "address": "10.0.0.9"}, by_admin=True)
    session.expire_all()
    assert (old.name, old.address, old.enabled, old.deleted_at) == ("OLT-BACK", "10.0.0.9", False, None)
    told = session.query(AuditLog).filter_by(action="olt.restore").one()
    assert told.changes == {"name": ["OLT-OLD", "OLT-BACK"], "address": ["10.0.0.1", "10.0.0.9"]}


def test_an_address_that_is_none_brings_nothing_back(session: Session) -> None:
    old = deleted("OLT-OLD", NOW)
    assert "address" in errors_of(olts.restore, old.id, ACTOR, NOW, {"address": "not an address"})
    session.expire_all()
    assert old.deleted_at == NOW


def test_an_olt_in_service_is_not_restored(session: Session) -> None:
    with pytest.raises(NotFound):
        olts.restore(make_olt().id, ACTOR, NOW)


def test_commands_list_and_restore(app: Flask, session: Session) -> None:
    runner = app.test_cli_runner()
    assert "no OLT was deleted" in runner.invoke(args=["olt", "deleted"]).output
    old = deleted("OLT-OLD", NOW, "burnt", address="10.0.0.1")
    other = make_olt("OLT-OLD", address="10.0.0.2")
    assert "burnt" in runner.invoke(args=["olt", "deleted"]).output
    (told,) = json.loads(runner.invoke(args=["olt", "deleted", "--json"]).output)
    assert (told["name"], told["by"], told["name_taken"]) == ("OLT-OLD", ACTOR, True)
    refused = runner.invoke(args=["olt", "restore", "OLT-OLD"])
    assert (refused.exit_code, "another OLT has this name" in refused.output) == (1, True)
    assert runner.invoke(args=["olt", "restore", "OLT-OLD", "--name", "OLT-BACK"]).exit_code == 0
    session.expire_all()
    assert (old.name, old.deleted_at) == ("OLT-BACK", None)
    assert runner.invoke(args=["olt", "restore", "nobody"]).exit_code == 1
    for one in (old, other):
        olts.update(one.id, {"name": f"X{one.id}"}, ACTOR, NOW)
        olts.delete(one.id, "x", ACTOR, NOW)
    assert runner.invoke(args=["olt", "restore", str(other.id)]).exit_code == 0


def test_a_name_that_several_have_is_told_with_their_numbers(app: Flask, session: Session) -> None:
    first = deleted("TWICE", NOW, address="10.0.0.1")
    second = deleted("TWICE", NOW, address="10.0.0.2")
    answer = app.test_cli_runner().invoke(args=["olt", "restore", "TWICE"])
    assert answer.exit_code == 1
    assert f"numbers {second.id}, {first.id}" in answer.output


def test_a_node_of_a_deleted_olt_has_no_clock_whatever_else_is_switched_on(session: Session) -> None:
    node = make_node(make_olt())
    node.workflow.olt.deleted_at = NOW
    clock.settle(session, WorkflowNode.id == node.id, NOW)
    session.commit()
    assert (node.runs, node.next_run_at) == (False, None)
