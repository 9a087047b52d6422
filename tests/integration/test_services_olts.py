"""OLTs: what can be made and changed, what is refused, and what it does to clocks and waiting work."""

import base64
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from portal.domain.statuses import ExecutionStatus, OltState
from portal.queries import keyset
from portal.queries import olts as queries
from portal.services.dispatch import executions
from portal.services.errors import Invalid, NotFound
from portal.services.network import olts, workflows
from portal.tables import AuditLog, Execution, Olt
from testing.builders import (
    make_catalogue,
    make_chained,
    make_credential,
    make_execution,
    make_node,
    make_olt,
    make_zte,
)  # fmt: skip
from testing.cast import ACTOR

GIVEN: dict[str, Any] = {"name": "OLT-LIMA", "address": "10.0.0.5", "brand": "huawei", "credential": "lab"}


def refused(given: dict[str, Any], now: datetime) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        olts.create(given, ACTOR, now)
    return caught.value.errors


def test_an_olt_gets_defaults_and_one_audit_row(session: Session, now: datetime) -> None:
    make_catalogue()
    make_credential()
    olt = session.get_one(Olt, olts.create(GIVEN | {"port": "1161"}, ACTOR, now))
    assert (olt.port, olt.timeout, olt.retries, olt.max_inflight, olt.enabled) == (1161, 2.0, 1, 2, True)
    assert (olt.brand.key, olt.model, olt.credential.name) == ("huawei", None, "lab")
    row = session.scalars(select(AuditLog).where(AuditLog.action == "olt.create")).one()
    assert (row.actor, row.subject_type, row.subject_id, row.subject_name) == (ACTOR, "olt", olt.id, "OLT-LIMA")


def test_of_an_address_that_is_none_it_is_not_told_who_has_the_one_before(session: Session, now: datetime) -> None:
    make_catalogue()
    make_credential()
    changed = olts.create(GIVEN, ACTOR, now)
    olts.create(GIVEN | {"name": "OLT-CUSCO", "port": "1161"}, ACTOR, now)
    with pytest.raises(Invalid) as caught:
        olts.update(changed, {"address": "no address", "port": "1161", "credential_confirmed": "true"}, ACTOR, now)
    assert caught.value.errors.keys() == {"address"}
    assert caught.value.errors["address"] != olts.ADDRESS_TAKEN


def test_every_wrong_field_is_told_at_once(session: Session, now: datetime) -> None:
    make_catalogue()
    make_credential()
    errors = refused(
        {"name": "", "address": "10.0.0.999", "port": 0, "brand": "huawey", "credential": "nobody", "timeout": "x"}, now
    )
    assert errors.keys() == {"name", "address", "port", "brand", "credential", "timeout"}
    assert "did you mean huawei?" in errors["brand"]
    assert "model" in refused(GIVEN | {"model": "C320"}, now)
    assert "unknown" in refused(GIVEN | {"speed": 1}, now)["speed"]
    assert session.scalars(select(Olt)).all() == []


def test_a_name_or_an_address_and_port_belongs_to_one_olt(session: Session, now: datetime) -> None:
    make_olt("OLT-LIMA", address="10.0.0.5")
    assert refused(GIVEN | {"address": "10.0.0.6"}, now) == {"name": olts.NAME_TAKEN}
    assert refused(GIVEN | {"name": "OTHER"}, now) == {"address": olts.ADDRESS_TAKEN}
    assert olts.create(GIVEN | {"name": "OTHER", "port": 162}, ACTOR, now)


@pytest.mark.parametrize(("other", "field"), [({"address": "10.0.0.6"}, "name"), ({"name": "OTHER"}, "address")])
def test_when_two_create_the_same_at_once_the_second_is_told_the_same(
    session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], field: str
) -> None:
    make_olt("OLT-LIMA", address="10.0.0.5")
    monkeypatch.setattr(olts, "taken", lambda *_: {})  # the check came before the other one's commit
    assert refused(GIVEN | other, now).keys() == {field}
    assert len(session.scalars(select(Olt)).all()) == 1


def test_an_address_must_lie_in_the_networks(app: Flask, session: Session, now: datetime) -> None:
    app.config["OLT_NETWORKS"] = ("10.0.0.0/8",)
    make_catalogue()
    make_credential()
    assert "OLT_NETWORKS" in refused(GIVEN | {"address": "192.168.0.1"}, now)["address"]
    assert olts.create(GIVEN, ACTOR, now)


def test_a_request_that_could_outlive_the_lease_is_refused(session: Session, now: datetime) -> None:
    make_catalogue()
    make_credential()
    assert "20 s" in refused(GIVEN | {"timeout": 5, "retries": 3}, now)["timeout"]


def test_a_new_address_needs_the_credential_confirmed_or_changed(session: Session, now: datetime) -> None:
    olt = make_olt(address="10.0.0.5")
    make_credential("other")
    for change in ({"address": "10.0.0.6"}, {"port": 1161}):
        with pytest.raises(Invalid) as caught:
            olts.update(olt.id, change, ACTOR, now)
        assert caught.value.errors.keys() == {"credential_confirmed"}
    olts.update(olt.id, {"address": "10.0.0.6", "credential_confirmed": True}, ACTOR, now)
    olts.update(olt.id, {"address": "10.0.0.7", "credential": "other"}, ACTOR, now)
    assert (olt.address, olt.credential.name) == ("10.0.0.7", "other")


def test_an_update_without_a_change_leaves_no_trace(session: Session, now: datetime) -> None:
    olt = make_olt()
    before = len(session.scalars(select(AuditLog)).all())
    olts.update(olt.id, {"name": olt.name, "timeout": 2, "model": "MA5800"}, ACTOR, now)
    assert len(session.scalars(select(AuditLog)).all()) == before


def test_an_update_is_audited_with_old_and_new_values(session: Session, now: datetime) -> None:
    olt = make_olt()
    olts.update(olt.id, {"timeout": 3, "model": ""}, ACTOR, now)
    row = session.scalars(select(AuditLog).where(AuditLog.action == "olt.update")).one()
    assert row.changes == {"timeout": [2.0, 3.0], "model": ["MA5800", ""]}


def test_a_brand_whose_catalogue_lacks_a_nodes_oid_is_refused(session: Session, now: datetime) -> None:
    olt = make_olt()
    make_node(olt)
    with pytest.raises(Invalid) as caught:
        olts.update(olt.id, {"brand": "zte"}, ACTOR, now)
    assert "node discovery" in caught.value.errors["brand"]
    empty = make_zte()
    olts.update(empty.id, {"brand": "huawei"}, ACTOR, now)
    assert (empty.brand.key, empty.model) == ("huawei", None)


def test_disabling_aborts_what_waits_and_stops_the_clocks(session: Session, now: datetime) -> None:
    node = make_node(make_olt())
    waiting = make_execution(node, now).id
    olts.set_enabled(node.workflow.olt_id, False, ACTOR, now)
    aborted = session.get_one(Execution, waiting)
    assert aborted.status is ExecutionStatus.INTERRUPTED
    assert (node.next_run_at, node.workflow.olt.enabled) == (None, False)


def test_enabling_again_restarts_every_master_a_full_interval_later(session: Session, now: datetime) -> None:
    olt = make_olt()
    master = make_node(olt, interval="10m")
    chained = make_chained(master)
    olts.set_enabled(olt.id, False, ACTOR, now)
    later = now + timedelta(minutes=50)
    olts.set_enabled(olt.id, True, ACTOR, later)
    assert master.next_run_at == master.anchor_at == later + timedelta(minutes=10)
    assert chained.next_run_at is None
    actions = session.scalars(select(AuditLog.action).where(AuditLog.subject_type == "olt").order_by(AuditLog.id)).all()
    assert actions == ["olt.create", "olt.disable", "olt.enable"]


def test_enabling_an_olt_restarts_only_the_nodes_that_then_really_run(session: Session, now: datetime) -> None:
    olt = make_olt()
    runs, off = make_node(olt), make_node(olt, "off")
    workflows.set_node_enabled(off.id, False, ACTOR, now)
    olts.set_enabled(olt.id, False, ACTOR, now)
    olts.set_enabled(olt.id, True, ACTOR, now)
    assert (runs.next_run_at, off.next_run_at) == (now + timedelta(minutes=15), None)
    workflows.set_workflow_enabled(olt.id, False, ACTOR, now)
    olts.set_enabled(olt.id, False, ACTOR, now)
    olts.set_enabled(olt.id, True, ACTOR, now)
    assert runs.next_run_at is None


def test_several_are_disabled_together_or_not_at_all(session: Session, now: datetime) -> None:
    first, second, third = (make_olt(name) for name in ("A", "B", "C"))
    waiting = [make_execution(make_node(olt), now).id for olt in (first, second)]
    olts.set_enabled(third.id, False, ACTOR, now)
    with pytest.raises(NotFound, match="77, 99"):
        olts.set_enabled_many([first.id, 99, second.id, 77], False, ACTOR, now)
    session.rollback()
    assert (first.enabled, second.enabled) == (True, True)
    assert olts.set_enabled_many([first.id, second.id, third.id], False, ACTOR, now) == 2
    assert {session.get(Execution, one).status for one in waiting} == {ExecutionStatus.INTERRUPTED}  # type: ignore[union-attr]
    rows = session.scalars(select(AuditLog.subject_name).where(AuditLog.action == "olt.disable")).all()
    assert sorted(rows) == ["A", "B", "C"]


def test_what_runs_on_disabled_olts_is_asked_to_stop_after_the_commit(
    session: Session, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[int], bool]] = []
    monkeypatch.setattr(
        executions, "stop_running", lambda ids: asked.append((sorted(ids), session.info.get("writing", False)))
    )
    ids = [make_olt(name).id for name in ("A", "B")]
    olts.set_enabled_many(ids, False, ACTOR, now)
    assert asked == [(sorted(ids), False)]
    olts.set_enabled_many(ids, True, ACTOR, now)
    assert len(asked) == 1


def test_an_olt_that_comes_back_into_service_starts_with_a_clean_slate(session: Session, now: datetime) -> None:
    olt, held = make_olt(), make_olt("HELD")
    olts.pause([held.id], "fibre work", None, ACTOR, now)
    olts.set_enabled_many([olt.id, held.id], False, ACTOR, now)
    olt.state, olt.consecutive_failures, olt.probe_at, olt.probes_sent = OltState.UNREACHABLE, 5, now, 7
    session.commit()
    olts.set_enabled_many([olt.id, held.id], True, ACTOR, now)
    assert (olt.state, olt.consecutive_failures, olt.probe_at, olt.probes_sent) == (OltState.UNKNOWN, 0, None, 0)
    assert (held.state, held.paused_reason) == (OltState.PAUSED, "fibre work")


def test_enabling_what_is_enabled_does_not_move_its_clock(session: Session, now: datetime) -> None:
    master = make_node(make_olt())
    was = master.next_run_at
    olts.set_enabled(master.workflow.olt_id, True, ACTOR, now + timedelta(hours=1))
    assert master.next_run_at == was


def test_an_unreachable_olt_is_asked_at_once_when_how_to_reach_it_was_changed(session: Session, now: datetime) -> None:
    olt = make_olt()
    later = now + timedelta(minutes=15)
    olt.state, olt.probe_at = OltState.UNREACHABLE, later
    session.commit()
    olts.update(olt.id, {"site": "lima"}, ACTOR, now)
    assert olt.probe_at == later
    olts.update(olt.id, {"timeout": 4}, ACTOR, now)
    assert olt.probe_at == now


def test_a_deleted_olt_frees_its_name_and_can_come_back(session: Session, now: datetime) -> None:
    olt = make_olt(address="10.0.0.5")
    node = make_node(olt)
    waiting = make_execution(node, now).id
    with pytest.raises(Invalid):
        olts.delete(olt.id, " ", ACTOR, now)
    olts.delete(olt.id, "replaced", ACTOR, now)
    assert session.get(Execution, waiting).status is ExecutionStatus.INTERRUPTED  # type: ignore[union-attr]
    with pytest.raises(NotFound):
        olts.update(olt.id, {"site": "x"}, ACTOR, now)
    second = make_olt(address="10.0.0.5")
    with pytest.raises(Invalid) as caught:
        olts.restore(olt.id, ACTOR, now)
    assert caught.value.errors.keys() == {"name", "address"}
    olts.delete(second.id, "wrong one", ACTOR, now)
    olts.restore(olt.id, ACTOR, now)
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
